//! What the set does once: the leases of this member, and the claims of its runs.
//!
//! A run asks whether its turn is here. While nobody holds the lease, it waits for as long as a member takes that comes after one
//! that has failed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use runners::Guard;
use share::duties::{LastRuns, Occasion};
use share::member::{Member, Right, Role};
use share::votes::{Ballot, LeaseStart, OncePolicy, SetAction, SetLeases, Voters, finish_claim};
use share::{Change, Class, Content, Index as _, Key, Message, Moment, Node, Records as _, Stamp, State};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::oneshot;
use tracing::{debug, error, info};
use value::{Value, map};

use super::SetLinks;
use super::granted::{DutyLeases, Granted};
use super::held::{Held, HeldLease};
use super::named::Named;
use super::voters::VotersFile;
use super::worker::{Work, Worker};
use crate::other_masters::Turn;
use crate::set_clock::STARTED;

/// For how long a run waits for the lease, in milliseconds. A member that fails is followed by the next one after ten seconds.
const PATIENCE: u64 = 30_000;

/// How many runs may wait.
const MOST_WAITING: usize = 1_000;

/// How many seconds in a row may have claims of earlier intervals.
const MOST_TAKEN: usize = 1_000;

/// A run that has begun. The worker hears of its end when this is dropped.
struct Begun {
    links: SetLinks,
    occasion: Option<Occasion>,
    guard: Arc<HeldLease>,
}

impl Turn for Begun {
    fn guard(&self) -> Arc<dyn Guard> {
        self.guard.clone()
    }
}

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
    links.worker.send(Work::Begin(occasion, answer)).await.ok()?;
    // No answer means no.
    let (fence, occasion) = answered.await.ok().flatten()?;
    let guard = Arc::new(HeldLease { held: links.held.clone(), lease: occasion.duty.clone(), fence });
    Some(Box::new(Begun { links, occasion: Some(occasion), guard }))
}

/// The leases and runs of this member.
pub struct Once {
    pub(super) leases: DutyLeases,
    pub(super) runs: LastRuns,
    pub(super) waiting: Vec<Waiting>,
    /// What programs run under leases.
    pub(super) named: Named,
    /// What this member holds, for its runs to look at.
    pub held: Arc<Held>,
    /// The duties of this member. Each has a lease of its own, so that members with different schedules do not skip anything.
    pub(super) duties: Vec<String>,
    file: VotersFile,
    /// The file could not be written.
    unsaved: bool,
}

/// A run that waits for its lease.
pub struct Waiting {
    pub occasion: Occasion,
    pub until: u64,
    pub answer: Asker,
}

/// Who wants to run something.
pub enum Asker {
    /// The schedule of this master, which needs the fence, and the occasion as it was claimed.
    Run(oneshot::Sender<Option<(Ballot, Occasion)>>),
    /// A program on this host.
    Program(oneshot::Sender<Result<Value, String>>),
}

impl Asker {
    /// Says that it may begin. Returns whether it is still there: a master that stops asks no more.
    fn begins(self, fence: Ballot, occasion: &Occasion) -> bool {
        match self {
            Asker::Run(answer) => answer.send(Some((fence, occasion.clone()))).is_ok(),
            Asker::Program(answer) => answer.send(Ok(map! { "runs" => true, "fence" => fence.round }.into())).is_ok(),
        }
    }

    /// Says why it does not begin, to whoever is still there.
    pub fn refused(self, reason: &str) {
        match self {
            Asker::Run(answer) => drop(answer.send(None)),
            Asker::Program(answer) => drop(answer.send(Ok(map! { "runs" => false, "reason" => reason }.into()))),
        }
    }

    /// Says that nothing came of it, as far as this master knows on no master: an error, so that cron tells somebody.
    pub fn failed(self, reason: String) {
        match self {
            Asker::Run(answer) => drop(answer.send(None)),
            Asker::Program(answer) => drop(answer.send(Err(reason))),
        }
    }
}

impl Once {
    /// Creates what a member knows that starts at `now` of the steady clock. Its list of voters is in the file.
    pub fn new(
        mut start: LeaseStart,
        granted: Option<Granted>,
        duties: Vec<String>,
        file: VotersFile,
        now: u64,
    ) -> Once {
        start.saved = file.read().unwrap_or_else(|error| {
            error!("this master does not know which masters vote until another one tells: {}", crate::chain(&error));
            None
        });
        Once {
            leases: DutyLeases::new(SetLeases::new(start, now), granted),
            runs: LastRuns::default(),
            waiting: Vec::new(),
            named: Named::default(),
            held: Arc::default(),
            duties,
            file,
            unsaved: false,
        }
    }

    /// Returns when something is due.
    pub fn next(&self) -> u64 {
        let waiting = self.waiting.iter().map(|waiting| waiting.until);
        waiting.chain(self.named.next()).fold(self.leases.votes().next_tick(), u64::min)
    }
}

/// Returns what the options say about what the set does once.
pub fn policy(once: config::Once) -> OncePolicy {
    match once {
        config::Once::Auto => OncePolicy::Auto,
        config::Once::Majority => OncePolicy::Majority,
        config::Once::Available => OncePolicy::Available,
        // The servers of the bus decide, and no member.
        config::Once::JetStream | config::Once::Off => OncePolicy::Off,
    }
}

impl Worker {
    fn lease_start(&self) -> LeaseStart {
        let members = self.model.records().root(Class::Members, 0).count;
        self.settings.lease_start(
            self.model.node(),
            self.model.last_time(),
            members,
            self.clock.read().certain,
            &self.shared.stores.rt,
        )
    }

    /// Takes over which runs the claims name, and begins to take leases.
    pub(super) fn start_duties(&mut self) {
        for (key, _) in self.model.records().items(Class::Claim, 0..=u32::MAX) {
            if let Some(record) = self.model.records().get(Class::Claim, &key) {
                self.note_run(&record);
            }
        }
        for duty in self.once.duties.clone() {
            let actions = self.once.leases.want(&duty, self.now().steady);
            self.follow_leases(actions);
        }
    }

    /// Begins again without what was known of leases. Runs that wait are not begun, and those that have begun go on.
    pub(super) fn restart_duties(&mut self) {
        let (duties, file, now) = (self.once.duties.clone(), self.once.file.clone(), self.now().steady);
        let (held, granted) = (self.once.held.clone(), self.once.leases.granted.take());
        held.renew(BTreeMap::new());
        self.once = Once { held, ..Once::new(self.lease_start(), granted, duties, file, now) };
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
        if voters != *self.once.leases.votes().eligible() {
            let actions = self.once.leases.set_eligible(voters, self.now().steady);
            self.follow_leases(actions);
        }
        self.renew_right();
    }

    /// Takes over whether this member may hold what servers grant.
    pub(super) fn renew_right(&mut self) {
        let own = self.model.node();
        let votes = self.settings.role == Role::Master && self.once.leases.votes().eligible().contains(own);
        let may = votes && self.belonging.may_take(self.members.knows_others(own));
        if let Some(granted) = &mut self.once.leases.granted {
            granted.set_right(may);
        }
    }

    /// Takes note that a member is linked or away.
    pub(super) fn lease_link(&mut self, node: Node, up: bool) {
        let now = self.now().steady;
        let actions = self.once.leases.votes_mut().link(node, up, now);
        self.follow_leases(actions);
    }

    /// Takes a message about leases.
    pub(super) fn take_vote(&mut self, from: Node, packed: &bytes::Bytes) {
        if !self.members.may(from, Right::Lease) {
            return;
        }
        let now = self.now().steady;
        match self.once.leases.votes_mut().receive(from, packed, now) {
            Ok(actions) => self.follow_leases(actions),
            Err(error) => {
                let called = self.members.called(from);
                self.warn_of_member(&format!("a message about leases of the master {called} cannot be read: {error}"));
            }
        }
    }

    /// Takes a claim of another member.
    pub(super) fn note_claim(&mut self, record: &share::Record) {
        self.note_run(record);
        self.claimed_elsewhere(record);
    }

    fn note_run(&mut self, record: &share::Record) {
        let age = self.age_of_claim(&record.key).unwrap_or_default();
        self.once.runs.note(record, (self.now().steady as i64).saturating_sub_unsigned(age));
    }

    /// Does what is due.
    pub(super) fn leases_due(&mut self) {
        let now = self.now().steady;
        self.belonging_due(now);
        if self.once.leases.votes().next_tick() <= now {
            let actions = self.once.leases.votes_mut().tick(now);
            self.follow_leases(actions);
        }
        let late: Vec<Waiting> = self.once.waiting.extract_if(.., |waiting| waiting.until <= now).collect();
        for late in late {
            debug!("another master runs {}", late.occasion.duty);
            self.not_named(late);
        }
        self.end_abandoned(now);
        self.renew_held();
    }

    fn renew_held(&self) {
        let now = self.now().steady;
        let at = |until: u64| self.clock.started + Duration::from_millis(until.saturating_sub(STARTED));
        let held = |duty: &String| {
            let (fence, until) = self.once.leases.hold(duty, now)?;
            Some((duty.clone(), (fence, until.map(at))))
        };
        let all: BTreeMap<String, _> = self.once.duties.iter().filter_map(held).collect();
        for duty in &self.once.duties {
            self.shared.metrics.leases.set(duty, all.contains_key(duty));
        }
        self.once.held.renew(all);
    }

    /// Carries out what the leases want.
    pub(super) fn follow_leases(&mut self, actions: Vec<SetAction>) {
        let mut unsaved = false;
        for action in actions {
            match action {
                // A promise that the disk has not kept.
                SetAction::Send { .. } if unsaved => {}
                SetAction::Send { to, packed } => self.tell(to, &Message::Vote(packed)),
                SetAction::Save(packed) => {
                    unsaved = !self.save_voters(&packed);
                }
                SetAction::NewVoters => {
                    let voters = self.voter_names();
                    match voters.is_empty() {
                        true => info!("the set does by rank what it does once: fewer than three masters vote"),
                        false => info!("what the set does once is decided by votes of {}", voters.join(", ")),
                    }
                }
                SetAction::Taken { lease, .. } => {
                    info!("from now on this master runs {lease}, which the set does once");
                    self.fire_lease(&lease, "taken");
                    let waiting: Vec<Waiting> =
                        self.once.waiting.extract_if(.., |waiting| *waiting.occasion.duty == *lease).collect();
                    waiting.into_iter().for_each(|waiting| self.begin(waiting.occasion, waiting.answer));
                }
                SetAction::Lost { lease } => {
                    info!("this master does not run {lease} any more: another one of the set may");
                    self.fire_lease(&lease, "lost");
                }
            }
        }
    }

    /// Writes down what this member promises about the voters. Returns whether it could.
    fn save_voters(&mut self, packed: &[u8]) -> bool {
        let written = self.once.file.write(packed);
        if let Err(error) = &written {
            self.once.leases.votes_mut().not_saved();
            if !self.once.unsaved {
                error!("this master does not vote until it can write down what it promises: {}", crate::chain(error));
            }
        }
        self.once.unsaved = written.is_err();
        written.is_ok()
    }

    fn fire_lease(&self, lease: &str, word: &str) {
        let data = map! { "duty" => lease, "name" => self.settings.name.as_str() };
        self.shared.fire(format!("saltern/once/{lease}/{word}"), data);
    }

    /// Answers a run that asks whether it may begin.
    pub(super) fn begin(&mut self, occasion: Occasion, answer: Asker) {
        let now = self.now();
        let Some(fence) = self.once.leases.begin(&occasion.duty, now.steady) else {
            // The latest run of a duty is enough. An answer that is dropped means no.
            self.once.waiting.retain(|waiting| waiting.occasion.duty != occasion.duty);
            if self.once.waiting.len() < MOST_WAITING {
                self.once.waiting.push(Waiting { occasion, until: now.steady + PATIENCE, answer });
            }
            return;
        };
        // Looked up when the run checks it, which may be at once.
        self.renew_held();
        let occasion = self.untaken(occasion);
        match self.claim(&occasion, now) {
            Ok(()) => match answer.begins(fence, &occasion) {
                true => self.once.named.begun(&occasion, fence, now.steady),
                false => self.ended(&occasion),
            },
            Err(reason) => {
                debug!("{} is not run: {reason}", occasion.duty);
                let reason = self.skipped_in_words(&reason);
                answer.refused(&reason);
                self.finish_lease(&occasion.duty);
            }
        }
        self.release_unused(&occasion.duty);
    }

    /// Moves an occasion with an interval to a second that has no claim from an earlier interval. There the second only tells
    /// occasions apart, and a member whose clock was ahead may have used it before.
    fn untaken(&self, mut occasion: Occasion) -> Occasion {
        let Some(interval) = occasion.interval else { return occasion };
        let is_old = |occasion: &Occasion| {
            let claimed = occasion.key().ok().flatten().and_then(|key| self.age_of_claim(&key));
            claimed.is_some_and(|age| age >= interval)
        };
        for _ in 0..MOST_TAKEN {
            if !is_old(&occasion) {
                break;
            }
            occasion.due += 1;
        }
        occasion
    }

    /// Returns for how long the members have known a claim, in milliseconds.
    fn age_of_claim(&self, key: &Key) -> Option<u64> {
        let arrived = self.model.records().arrived(Class::Claim, key)?;
        Some(self.clock.read().certain.saturating_sub(arrived))
    }

    /// Claims an occasion, unless it must not begin.
    pub(super) fn claim(&mut self, occasion: &Occasion, now: Moment) -> Result<(), share::duties::Skipped> {
        let known = occasion.key()?.and_then(|key| self.model.records().get(Class::Claim, &key));
        let begun = Stamp { time: self.clock.read().present << 16, node: self.model.node() };
        if let Some(claim) = occasion.begin(known.as_ref(), &self.once.runs, begun, now.steady)? {
            debug!("begins {}, which no other master may begin", claim.key);
            self.once.runs.note(&claim, now.steady as i64);
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
            debug!("has done {key}, which no master may begin again");
            let done = finish_claim(&record, self.clock.read().present);
            let actions = self.model.local(Change::Write(done.key, done.content), now);
            self.carry_out(actions);
        }
        self.finish_lease(&occasion.duty);
    }

    pub(super) fn finish_lease(&mut self, duty: &str) {
        let actions = self.once.leases.finish(duty, self.now().steady);
        self.follow_leases(actions);
    }

    pub(super) fn voter_names(&self) -> Vec<String> {
        self.once.leases.votes().voters().nodes().map(|node| self.members.called(node)).collect()
    }
}
