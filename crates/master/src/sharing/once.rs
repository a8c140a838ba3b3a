//! What the set does once: the leases of this member, and the claims of its runs.
//!
//! A run asks whether its turn is here. While nobody holds the lease, it waits for as long as a member takes that comes after one
//! that has failed.

use share::duties::{LastRuns, Occasion};
use share::member::{Member, Right};
use share::votes::{LeaseAction, LeaseTimes, Leases, Mode, OncePolicy, VoteMessage, Voters, finish_claim};
use share::{Change, Class, Content, Index as _, Message, Moment, Node, Records as _, Stamp, State};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::oneshot;
use tracing::{debug, info};
use value::{Map, Value, map};

use super::SetLinks;
use super::worker::{Work, Worker};
use crate::other_masters::Turn;

/// For how long a run waits for the lease, in milliseconds. A member that fails is followed by the next one after ten seconds.
const PATIENCE: u64 = 30_000;

/// How many runs may wait.
const MOST_WAITING: usize = 1_000;

/// The longest lease, in milliseconds. Nothing follows from it before members vote.
const LEASE: u64 = 6_000;

/// A run that has begun. The worker hears of its end when this is dropped.
struct Begun {
    links: SetLinks,
    occasion: Option<Occasion>,
}

impl Turn for Begun {}

impl Drop for Begun {
    fn drop(&mut self) {
        let Some(occasion) = self.occasion.take() else { return };
        if let Err(TrySendError::Full(work)) = self.links.worker.try_send(Work::Ended(occasion)) {
            let worker = self.links.worker.clone();
            // A worker that has ended has given its leases back.
            self.links.rt.spawn(async move { drop(worker.send(work).await) });
        }
    }
}

/// Asks whether this member does at an occasion what the set does once.
pub async fn turn(links: SetLinks, occasion: Occasion) -> Option<Box<dyn Turn>> {
    let (answer, answered) = oneshot::channel();
    links.worker.send(Work::Begin(occasion.clone(), answer)).await.ok()?;
    // No answer means no.
    let begins = answered.await.unwrap_or(false);
    begins.then(|| Box::new(Begun { links, occasion: Some(occasion) }) as Box<dyn Turn>)
}

/// The leases and runs of this member.
pub struct Once {
    leases: Leases,
    runs: LastRuns,
    waiting: Vec<Waiting>,
    /// The duties of this member. Each has a lease of its own, so that members with different schedules do not skip anything.
    duties: Vec<String>,
}

struct Waiting {
    occasion: Occasion,
    until: u64,
    answer: oneshot::Sender<bool>,
}

impl Once {
    /// Creates what a member knows that starts at `now` of the steady clock. `round` is the highest time of its stamps.
    pub fn new(me: Node, duties: Vec<String>, round: u64, now: u64) -> Once {
        // The seed is for candidates of a majority.
        let leases = Leases::new(me, OncePolicy::Available, LeaseTimes::new(LEASE), round, 0, now);
        Once { leases, runs: LastRuns::default(), waiting: Vec::new(), duties }
    }

    /// Returns when something is due.
    pub fn next(&self) -> Option<u64> {
        let waiting = self.waiting.iter().map(|waiting| waiting.until);
        waiting.chain(self.leases.next_tick()).min()
    }
}

impl Worker {
    /// Takes over which runs the claims name, and begins to take leases.
    pub(super) fn start_duties(&mut self) {
        for (key, _) in self.model.records().items(Class::Claim, 0..=u32::MAX) {
            if let Some(record) = self.model.records().get(Class::Claim, &key) {
                self.once.runs.note(&record);
            }
        }
        for duty in self.once.duties.clone() {
            let actions = self.once.leases.want(&duty, self.now().steady);
            self.follow_leases(actions);
        }
    }

    /// Begins again without what was known of leases. Runs that wait are not begun, and those that have begun go on.
    pub(super) fn restart_duties(&mut self) {
        let (duties, now) = (std::mem::take(&mut self.once.duties), self.now().steady);
        self.once = Once::new(self.model.node(), duties, self.model.last_time(), now);
        self.renew_voters(self.members.all().iter().map(|(node, member)| (*node, member)));
        for node in self.fleet.linked() {
            self.lease_link(node, true);
        }
        self.start_duties();
    }

    /// Takes over who votes.
    pub(super) fn renew_voters<'a>(&mut self, members: impl Iterator<Item = (Node, &'a (Member, State))>) {
        let accepted = members.filter(|(_, (_, state))| *state == State::Accepted);
        let voters = Voters::among(accepted.map(|(node, (member, _))| (node, member)));
        if voters != *self.once.leases.voters() {
            let actions = self.once.leases.set_voters(voters, self.now().steady);
            self.follow_leases(actions);
        }
    }

    /// Takes note that a member is linked or away.
    pub(super) fn lease_link(&mut self, node: Node, up: bool) {
        let actions = self.once.leases.link(node, up, self.now().steady);
        self.follow_leases(actions);
    }

    /// Takes a message about leases.
    pub(super) fn take_vote(&mut self, from: Node, packed: &bytes::Bytes) {
        if !self.members.may(from, Right::Lease) {
            return;
        }
        match VoteMessage::unpack(packed) {
            Ok(Some(message)) => {
                let actions = self.once.leases.receive(from, &message, self.now().steady);
                self.follow_leases(actions);
            }
            // Of a later version.
            Ok(None) => {}
            Err(error) => {
                let called = self.members.called(from);
                self.warn_of_member(&format!("a message about leases of the master {called} cannot be read: {error}"));
            }
        }
    }

    /// Takes a claim of another member.
    pub(super) fn note_claim(&mut self, record: &share::Record) {
        self.once.runs.note(record);
    }

    /// Does what is due.
    pub(super) fn leases_due(&mut self) {
        let now = self.now().steady;
        if self.once.leases.next_tick().is_some_and(|at| at <= now) {
            let actions = self.once.leases.tick(now);
            self.follow_leases(actions);
        }
        for gone in self.once.waiting.extract_if(.., |waiting| waiting.until <= now) {
            debug!("another master runs {}", gone.occasion.duty);
            // Who asked may have gone.
            let _ = gone.answer.send(false);
        }
    }

    /// Carries out what the leases want.
    fn follow_leases(&mut self, actions: Vec<LeaseAction>) {
        for action in actions {
            match action {
                LeaseAction::Send { to, message } => self.tell(to, &Message::Vote(message.pack())),
                LeaseAction::Taken { lease, .. } => {
                    info!("from now on this master runs {lease}, which the set does once");
                    self.fire_lease(&lease, "taken");
                    let waiting: Vec<Waiting> =
                        self.once.waiting.extract_if(.., |waiting| *waiting.occasion.duty == *lease).collect();
                    waiting.into_iter().for_each(|waiting| self.begin(waiting.occasion, waiting.answer));
                }
                LeaseAction::Lost { lease } => {
                    info!("this master does not run {lease} any more: another one of the set does");
                    self.fire_lease(&lease, "lost");
                }
            }
        }
    }

    fn fire_lease(&self, lease: &str, word: &str) {
        let data = map! { "duty" => lease, "name" => self.settings.name.as_str() };
        self.shared.fire(format!("saltern/once/{lease}/{word}"), data);
    }

    /// Answers a run that asks whether it may begin.
    pub(super) fn begin(&mut self, occasion: Occasion, answer: oneshot::Sender<bool>) {
        let now = self.now();
        if self.once.leases.begin(&occasion.duty, now.steady).is_none() {
            // The latest run of a duty is enough. An answer that is dropped means no.
            self.once.waiting.retain(|waiting| waiting.occasion.duty != occasion.duty);
            if self.once.waiting.len() < MOST_WAITING {
                self.once.waiting.push(Waiting { occasion, until: now.steady + PATIENCE, answer });
            }
            return;
        }
        let begun = self.claim(&occasion, now);
        let begins = begun.is_ok();
        if let Err(reason) = begun {
            debug!("{} is not run: {reason}", occasion.duty);
        }
        // Who asked may have gone, when the master stops.
        let taken = answer.send(begins).is_ok();
        if !begins || !taken {
            self.finish_lease(&occasion.duty);
        }
    }

    /// Claims an occasion, unless it must not begin.
    fn claim(&mut self, occasion: &Occasion, now: Moment) -> Result<(), share::duties::Skipped> {
        let known = occasion.key()?.and_then(|key| self.model.records().get(Class::Claim, &key));
        let begun = Stamp { time: now.wall << 16, node: self.model.node() };
        if let Some(claim) = occasion.begin(known.as_ref(), &self.once.runs, begun)? {
            self.once.runs.note(&claim);
            let actions = self.model.local(Change::Write(claim.key, claim.content), now);
            self.carry_out(actions);
        }
        Ok(())
    }

    /// Takes note that a run has ended.
    pub(super) fn ended(&mut self, occasion: &Occasion) {
        let now = self.now();
        if let Ok(Some(key)) = occasion.key()
            && let Some(record) = self.model.records().get(Class::Claim, &key)
            && let Content::Claim(claim) = &record.content
            && claim.node == self.model.node()
        {
            let done = finish_claim(&record, now.wall);
            let actions = self.model.local(Change::Write(done.key, done.content), now);
            self.carry_out(actions);
        }
        self.finish_lease(&occasion.duty);
    }

    fn finish_lease(&mut self, duty: &str) {
        let actions = self.once.leases.finish(duty, self.now().steady);
        self.follow_leases(actions);
    }

    /// Returns which master runs what this one does not: the first of those that are linked. While it takes over, nobody does.
    fn usual_holder(&self, voters: &[(String, Node)]) -> Option<String> {
        if self.once.leases.mode() != Mode::Available {
            return None;
        }
        let linked = self.fleet.linked();
        let own = self.model.node();
        let first = voters.iter().find(|(_, node)| *node == own || linked.contains(node));
        first.filter(|(_, node)| *node != own).map(|(name, _)| name.clone())
    }

    /// Returns what `saltern.leases` shows.
    pub(super) fn leases(&self) -> Map {
        let now = self.now().steady;
        // By name, which is the order in which masters take over.
        let mut voters: Vec<(String, Node)> =
            self.once.leases.voters().nodes().map(|node| (self.members.called(node), node)).collect();
        voters.sort_unstable();
        let holder = self.usual_holder(&voters);
        let shown = |duty: &String| {
            let held = self.once.leases.held(duty, now).is_some();
            let holder = if held { Some(self.members.called(self.model.node())) } else { holder.clone() };
            let mut shown = map! { "held" => held, "holder" => holder.map_or(Value::Null, Value::from) };
            if let Some((node, at)) = self.once.runs.of_duty(duty) {
                let at = crate::set_requests::times::shown(at);
                shown.insert("last", map! { "master" => self.members.called(node), "begun" => at });
            }
            (duty.clone(), shown)
        };
        let mode = match self.once.leases.mode() {
            Mode::Majority => "majority",
            Mode::Available => "available",
            Mode::Off => "off",
        };
        let voters: Vec<Value> = voters.into_iter().map(|(name, _)| name.into()).collect();
        let mut all = Map::new();
        self.once.duties.iter().map(shown).for_each(|(duty, shown)| drop(all.insert(duty, shown)));
        let is_member = |name: &str| !self.members.accepted(name).is_empty();
        let placed = crate::schedule::placed(&self.shared.stores.config, is_member);
        let mut shown = map! { "mode" => mode, "masters" => voters, "duties" => all };
        if !placed.is_empty() {
            shown.insert("not shared", placed);
        }
        shown
    }
}
