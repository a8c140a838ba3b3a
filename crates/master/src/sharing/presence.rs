//! Which minions are connected to which master of the set: told to the other members, and heard from them.
//!
//! A change is sent once. The digest of all that was told follows it, and again now and then: whoever has a wrong copy asks for all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use share::member::Right;
use share::message::{Ask, Here, HereChange, NamedDigest};
use share::{Digest, Message, Node, Presence, PresenceError, Routes};
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};
use wire::MinionId;

use super::worker::{Work, Worker};
use crate::Shared;

/// The kind of the digest, and the question for all minions.
const PRESENCE: &str = "presence";

/// How long changes are gathered.
const GATHER: Duration = Duration::from_millis(100);

/// How often the digest is sent after a change and otherwise, and what counts as after, in milliseconds. Messages are seldom lost, and
/// each one wakes up two masters that have nothing else to do.
const BEAT: u64 = 2_000;
const IDLE_BEAT: u64 = 10_000;
const RECENT: u64 = 20_000;

/// For how long the minions of a member may be connected to it or on their way to another one although its link broke.
const UNSURE: Duration = Duration::from_secs(10);

/// The minimum time between two questions of one member, and between two answers to it, in milliseconds.
const PATIENCE: u64 = 1_000;

/// When the digest is sent, by the steady clock.
#[derive(Default)]
pub struct DigestBeat {
    due: u64,
    quick_until: u64,
}

impl DigestBeat {
    /// Returns when the digest is to be sent next.
    pub fn due(&self) -> u64 {
        self.due
    }

    /// Takes note that others were told something, or that another one listens.
    fn changed(&mut self, now: u64) {
        self.quick_until = now + RECENT;
        self.due = self.due.min(now + BEAT);
    }

    /// Returns whether the digest is due, and takes note that it is sent.
    fn take(&mut self, now: u64) -> bool {
        let is_due = self.due <= now;
        if is_due {
            self.due = now + if now < self.quick_until { BEAT } else { IDLE_BEAT };
        }
        is_due
    }
}

/// What this master knows of the minions of all members. All its threads use it.
pub struct Fleet(Mutex<State>);

struct State {
    presence: Presence,
    /// The minions that are connected here, as they were last looked at, sorted.
    own: Vec<MinionId>,
    linked: BTreeMap<Node, Peer>,
    /// The minions of members whose links broke a moment ago, and until when they count.
    lost: BTreeMap<Node, (Instant, BTreeSet<String>)>,
}

#[derive(Default)]
struct Peer {
    /// When it was last asked for all, and last told all.
    asked: Option<u64>,
    told: Option<u64>,
    /// It sent what no member can have, and is not listened to until it links again.
    refused: bool,
}

impl Fleet {
    /// Creates what a member without minions and links knows.
    pub fn new(me: Node) -> Fleet {
        let (linked, lost) = (BTreeMap::new(), BTreeMap::new());
        Fleet(Mutex::new(State { presence: Presence::new(me), own: Vec::new(), linked, lost }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What a panic leaves half changed is put right by the next comparison.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of which minions are connected here now. Returns those that were and are not any more.
    pub fn set_own(&self, connected: Vec<MinionId>) -> Vec<MinionId> {
        let mut state = self.state();
        let State { presence, own, .. } = &mut *state;
        let new = connected.iter().filter(|id| own.binary_search(id).is_err());
        new.for_each(|id| presence.came(id.as_str()));
        let before = std::mem::replace(own, connected);
        let gone: Vec<MinionId> = before.into_iter().filter(|id| own.binary_search(id).is_err()).collect();
        gone.iter().for_each(|id| presence.went(id.as_str()));
        gone
    }

    /// Takes note that a member is linked.
    pub fn up(&self, node: Node) {
        self.state().linked.insert(node, Peer::default());
    }

    /// Takes note that a member is no longer linked: it has nobody.
    pub fn down(&self, node: Node, now: Instant) {
        let mut state = self.state();
        state.linked.remove(&node);
        let minions = state.presence.down(node);
        state.lost.insert(node, (now + UNSURE, minions));
    }

    /// Forgets where minions were before links broke, once that is long ago.
    fn forget_lost(&self, now: Instant) {
        self.state().lost.retain(|_, (until, _)| *until > now);
    }

    /// Forgets what a member has said about its minions, until it is asked for all again.
    fn forget(&self, node: Node) {
        self.state().presence.down(node);
    }

    /// Returns the linked members.
    pub fn linked(&self) -> Vec<Node> {
        self.state().linked.keys().copied().collect()
    }

    /// Returns what has changed here, for all linked members.
    fn changes(&self) -> Vec<Message> {
        let mut state = self.state();
        let mut all: Vec<Message> = state.presence.take_changes().into_iter().map(Message::Here).collect();
        if !all.is_empty() {
            all.push(digest(&state.presence));
        }
        all
    }

    fn digest(&self) -> Message {
        digest(&self.state().presence)
    }

    /// Returns all that a member must be told which asks for it; `None` if it asks too often.
    fn all_for(&self, node: Node, now: u64) -> Option<Message> {
        let mut state = self.state();
        let peer = state.linked.get_mut(&node)?;
        if peer.told.replace(now).is_some_and(|at| now < at + PATIENCE) {
            return None;
        }
        Some(Message::Here(state.presence.all()))
    }

    /// Takes what a member says about its minions.
    fn hear(&self, from: Node, here: Here) -> Result<(), PresenceError> {
        let mut state = self.state();
        if state.linked.get(&from).is_none_or(|peer| peer.refused) {
            return Ok(());
        }
        let heard = state.presence.hear(from, here);
        if heard.is_err() {
            state.presence.down(from);
            state.linked.entry(from).or_default().refused = true;
        }
        heard
    }

    /// Returns whether the copy of a member's minions is wrong, so that it must be asked for all now.
    fn must_ask(&self, from: Node, digest: Digest, now: u64) -> bool {
        let mut state = self.state();
        if state.presence.agrees(from, digest) {
            return false;
        }
        let Some(peer) = state.linked.get_mut(&from).filter(|peer| !peer.refused) else { return false };
        if peer.asked.is_some_and(|at| now < at + PATIENCE) {
            return false;
        }
        peer.asked = Some(now);
        true
    }

    /// Returns the members that a minion is connected to.
    pub fn members_of(&self, id: &str) -> Vec<Node> {
        self.state().presence.members_of(id)
    }

    /// Returns how many minions are connected to each member.
    pub fn counts(&self) -> BTreeMap<Node, u64> {
        let state = self.state();
        let own = (state.presence.me(), state.own.len() as u64);
        state.presence.counts().chain([own]).collect()
    }

    /// Adds the minions that are connected to other members to those that are connected here. Both lists are sorted.
    pub fn with_those_elsewhere(&self, own: Vec<MinionId>) -> Vec<MinionId> {
        let mut all = own;
        {
            let state = self.state();
            let told = state.presence.union().into_iter();
            all.extend(told.filter(|id| state.presence.is_elsewhere(id)).filter_map(|id| MinionId::new(id).ok()));
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns whether a minion is connected to another member, or may be: a link that broke says nothing about the minions.
    pub fn may_be_elsewhere(&self, id: &str, now: Instant) -> bool {
        let state = self.state();
        let was_lost = |(until, minions): &(Instant, BTreeSet<String>)| *until > now && minions.contains(id);
        state.presence.is_elsewhere(id) || state.lost.values().any(was_lost)
    }

    /// Returns whether a minion is connected here.
    pub fn is_here(&self, id: &str) -> bool {
        self.state().presence.is_here(id)
    }

    /// Returns whether a minion is connected to a certain other member.
    pub fn is_at(&self, member: Node, id: &str) -> bool {
        self.state().presence.is_at(member, id)
    }

    /// Returns those of these minions that are connected to a certain other member.
    pub fn at<'a>(&self, member: Node, ids: impl Iterator<Item = &'a MinionId>) -> std::collections::HashSet<MinionId> {
        let state = self.state();
        ids.filter(|id| state.presence.is_at(member, id.as_str())).cloned().collect()
    }

    /// Returns who delivers a job to which of its targets.
    pub fn routes<'a>(&self, jid: &str, targets: &'a [String]) -> Routes<&'a str> {
        Routes::of(jid, targets.iter().map(String::as_str), &self.state().presence)
    }
}

fn digest(presence: &Presence) -> Message {
    let digest = presence.sum().digest();
    Message::Digests(vec![NamedDigest { kind: PRESENCE.to_owned(), name: String::new(), digest }])
}

/// Reports which minions are connected whenever that changes, until told to stop.
pub async fn watch(shared: Arc<Shared>, worker: Sender<Work>, stop: CancellationToken) {
    let looking = async {
        loop {
            let looked = shared.clone();
            match shared.stores.rt.blocking(move || looked.connected()).await {
                Ok(connected) => {
                    if worker.send(Work::Present(connected)).await.is_err() {
                        // The worker has ended.
                        return;
                    }
                }
                Err(failure) => error!("other masters are not told which minions are connected: {failure}"),
            }
            shared.presence.changed().await;
            tokio::time::sleep(GATHER).await;
        }
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = looking => {}
    }
}

impl Worker {
    /// Tells the other members which minions have come and gone here.
    pub(super) fn present(&mut self, connected: Vec<MinionId>) {
        let gone = self.fleet.set_own(connected);
        let changes = self.fleet.changes();
        if !changes.is_empty() {
            self.digest_beat.changed(self.now().steady);
        }
        changes.iter().for_each(|message| self.tell_all(message));
        self.note_moved(gone.iter().map(MinionId::as_str));
    }

    /// Takes note that a member is linked or away.
    pub(super) fn presence_link(&mut self, node: Node, up: bool) {
        if !up {
            return self.lose_presence(node);
        }
        self.fleet.up(node);
        self.digest_beat.changed(self.now().steady);
        self.tell_presence(node);
    }

    /// Forgets the minions of a member that is away. What it was told to deliver to them may be lost.
    fn lose_presence(&mut self, node: Node) {
        let left = self.shared.open_jobs.awaited(|id| self.fleet.is_at(node, id));
        self.fleet.down(node, Instant::now());
        self.shared.open_jobs.lose_member(node);
        self.note_moved(left.iter().map(String::as_str));
    }

    /// Notes that minions have left a member. Those that are connected to others may have missed jobs there.
    fn note_moved<'a>(&mut self, left: impl Iterator<Item = &'a str>) {
        for id in left {
            for member in self.fleet.members_of(id).into_iter().filter(|member| *member != self.model.node()) {
                self.came.entry(member).or_default().entry(id.to_owned()).or_insert(false);
            }
        }
    }

    fn tell_presence(&mut self, node: Node) {
        if !self.members.serves_minions(node) {
            return;
        }
        if let Some(message) = self.fleet.all_for(node, self.now().steady) {
            self.tell(node, &message);
        }
    }

    /// Sends the digest to all, if it is due.
    pub(super) fn beat(&mut self) {
        if !self.digest_beat.take(self.now().steady) {
            return;
        }
        self.fleet.forget_lost(Instant::now());
        self.clock.report();
        let digest = self.fleet.digest();
        self.tell_all(&digest);
    }

    /// Takes which minions are connected to another member.
    pub(super) fn hear_presence(&mut self, from: Node, here: Here) {
        // Jobs are sent to whoever says that it has a minion, so only those may say so that may have jobs.
        if !self.members.may(from, Right::Jobs) {
            return;
        }
        let (ids, change) = (here.ids.clone(), here.change);
        match self.fleet.hear(from, here) {
            // Jobs for them are looked for once for all that happens together.
            Ok(()) if change == HereChange::Went => self.note_moved(ids.iter().map(String::as_str)),
            Ok(()) => {
                if change == HereChange::Came {
                    self.moved_away(&ids);
                }
                let came = self.came.entry(from).or_default();
                ids.into_iter().for_each(|id| *came.entry(id).or_default() |= change == HereChange::Came);
            }
            Err(error) => {
                let name = self.members.called(from);
                warn!(
                    "what the master {name} says about its minions is ignored until it links again: it named {error}"
                );
            }
        }
    }

    /// Takes note that another member has heard from minions that may be connected here, as far as can be told.
    fn moved_away(&self, ids: &[String]) {
        let here = ids.iter().filter(|id| self.fleet.is_here(id));
        let here: Vec<MinionId> = here.filter_map(|id| MinionId::new(id.as_str()).ok()).collect();
        if !here.is_empty() {
            self.shared.presence.moved_away(here.iter(), &self.shared.publisher.subscribers());
        }
    }

    /// Forgets the minions of members that may not have jobs any more: nobody would deliver them.
    pub(super) fn forget_without_right(&self) {
        let linked = self.fleet.linked();
        let without = linked.into_iter().filter(|node| !self.members.may(*node, Right::Jobs));
        without.for_each(|node| self.fleet.forget(node));
    }

    /// Asks a member for all its minions, if the copy of them here is wrong.
    pub(super) fn compare_presence(&mut self, from: Node, digests: &[NamedDigest]) {
        let Some(told) = digests.iter().find(|one| one.kind == PRESENCE) else { return };
        if self.members.may(from, Right::Jobs) && self.fleet.must_ask(from, told.digest, self.now().steady) {
            let ask = Ask { number: 0, question: PRESENCE.to_owned(), arguments: bytes::Bytes::new() };
            self.tell(from, &Message::Ask(ask));
        }
    }

    /// Answers the question of another member.
    pub(super) fn answer_presence_question(&mut self, from: Node, ask: &Ask) {
        // Later versions may ask more.
        if ask.question == PRESENCE {
            self.tell_presence(from);
        }
    }

    fn tell_all(&mut self, message: &Message) {
        let linked = self.fleet.linked().into_iter();
        for node in linked.filter(|node| self.members.serves_minions(*node)).collect::<Vec<_>>() {
            self.tell(node, message);
        }
    }

    /// Sends a member a message. What is lost is asked for again.
    pub(super) fn tell(&mut self, node: Node, message: &Message) {
        let actions = self.model.tell(node, message);
        self.carry_out(actions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Node = Node([1; 8]);
    const OTHER: Node = Node([2; 8]);

    fn ids(names: &[&str]) -> Vec<MinionId> {
        names.iter().map(|name| MinionId::new(*name).unwrap()).collect()
    }

    fn here(change: HereChange, names: &[&str]) -> Here {
        Here { change, ids: names.iter().map(|name| (*name).to_owned()).collect() }
    }

    #[test]
    fn the_digest_is_sent_more_often_after_a_change() {
        let mut beat = DigestBeat::default();
        let sent = |beat: &mut DigestBeat, times: std::ops::Range<u64>| {
            times.filter(|second| beat.take(second * 1_000)).collect::<Vec<u64>>()
        };
        assert_eq!(sent(&mut beat, 0..25), [0, 10, 20]);
        beat.changed(25_000);
        assert_eq!(sent(&mut beat, 25..34), [27, 29, 31, 33]);
        assert_eq!(sent(&mut beat, 34..75), [35, 37, 39, 41, 43, 45, 55, 65]);
    }

    #[test]
    fn changes_are_told_with_the_digest_of_all() {
        let fleet = Fleet::new(ME);
        fleet.set_own(ids(&["a", "b"]));
        fleet.set_own(ids(&["b", "c"]));
        let told = fleet.changes();
        assert_eq!(told[..1], [Message::Here(here(HereChange::Came, &["b", "c"]))]);
        assert_eq!(told[1..], [fleet.digest()]);
        assert_eq!(fleet.changes(), []);
        fleet.set_own(ids(&["c"]));
        assert_eq!(fleet.changes()[..1], [Message::Here(here(HereChange::Went, &["b"]))]);
    }

    #[test]
    fn a_wrong_copy_is_asked_for_once_in_a_while() {
        let (fleet, other) = (Fleet::new(ME), Fleet::new(OTHER));
        other.set_own(ids(&["a"]));
        other.changes();
        let digest = other.state().presence.sum().digest();
        assert!(!fleet.must_ask(OTHER, digest, 5_000), "it is not linked");
        fleet.up(OTHER);
        other.up(ME);
        assert!(fleet.must_ask(OTHER, digest, 5_000));
        assert!(!fleet.must_ask(OTHER, digest, 5_500), "the answer is under way");
        assert!(fleet.must_ask(OTHER, digest, 6_000), "it was lost");
        let Some(Message::Here(all)) = other.all_for(ME, 6_000) else { panic!("nothing is told") };
        assert_eq!(other.all_for(ME, 6_500), None, "it was just told");
        fleet.hear(OTHER, all).unwrap();
        assert!(!fleet.must_ask(OTHER, digest, 9_000));
        assert_eq!(fleet.counts(), [(ME, 0), (OTHER, 1)].into());
    }

    #[test]
    fn a_member_that_may_have_no_jobs_any_more_has_nobody() {
        let fleet = Fleet::new(ME);
        fleet.up(OTHER);
        fleet.hear(OTHER, here(HereChange::All, &["a"])).unwrap();
        let (targets, digest) = (["a".to_owned()], fleet.digest());
        assert!(fleet.routes("1", &targets).yours.contains_key(&OTHER));
        fleet.forget(OTHER);
        assert_eq!(fleet.routes("1", &targets).rest, ["a"], "the master that it connects to delivers its jobs");
        assert_eq!((fleet.linked(), fleet.digest()), (vec![OTHER], digest), "it stays linked");
        fleet.hear(OTHER, here(HereChange::Came, &["b"])).unwrap();
        assert_eq!(fleet.members_of("b"), [], "it has not named all");
        assert!(fleet.must_ask(OTHER, Digest([7; 16]), 5_000));
    }

    #[test]
    fn minions_of_all_members_are_counted_once() {
        let fleet = Fleet::new(ME);
        fleet.set_own(ids(&["a", "b"]));
        fleet.up(OTHER);
        fleet.hear(OTHER, here(HereChange::All, &["b", "c"])).unwrap();
        assert_eq!(fleet.with_those_elsewhere(ids(&["a", "b"])), ids(&["a", "b", "c"]));
        assert_eq!(fleet.with_those_elsewhere(ids(&["z"])), ids(&["b", "c", "z"]), "what is connected now counts");
        assert_eq!(fleet.members_of("b"), [ME, OTHER]);
        let now = Instant::now();
        fleet.down(OTHER, now);
        assert_eq!(fleet.members_of("c"), []);
        let may_be = |after: u64| fleet.may_be_elsewhere("b", now + Duration::from_secs(after));
        assert_eq!([may_be(0), may_be(9), may_be(10)], [true, true, false]);
        fleet.forget_lost(now + UNSURE);
        assert!(!may_be(0), "its memory is given back");
    }

    #[test]
    fn a_member_with_impossible_minions_is_not_asked_again_and_again() {
        let fleet = Fleet::new(ME);
        fleet.up(OTHER);
        assert_eq!(fleet.hear(OTHER, here(HereChange::All, &["../x"])), Err(PresenceError::InvalidId));
        assert!(!fleet.must_ask(OTHER, Digest([7; 16]), 5_000));
        assert_eq!(fleet.hear(OTHER, here(HereChange::All, &["a"])), Ok(()));
        assert_eq!(fleet.members_of("a"), []);
    }
}
