//! Decides where each return goes, and when. It is pure: events and the time go in, actions come out.
//!
//! Each return belongs to the master that published its job and is sent there until that master has taken it. If that
//! takes too long and the publisher has peers that keep returns for it, one of them gets a copy; the return still goes
//! to its publisher later. New returns overtake those that had to wait, so that a backlog does not delay the next
//! command.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use std::time::Duration;
use tokio::time::Instant;

/// The number of a return, in the order of arrival.
pub type Seq = u64;

/// The largest number of old returns in transit to one master, and of copies.
const MANY: usize = 8;

/// The largest number of new returns in transit to one master.
const MOST_NEW: usize = 64;

/// How long a return is still tried that was already too old when the minion started.
const LAST_CHANCE: Duration = Duration::from_secs(60);

/// The pause after all peers have refused a return.
const REFUSED: Duration = Duration::from_secs(60);

/// The longest random pause of a backlog after its master came back, so that not all minions send at once.
pub const SPREAD: Duration = Duration::from_millis(500);

/// The options.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How long a return is kept (`return_keep`).
    pub keep: Duration,
    /// The largest size of all returns, in bytes (`return_keep_size`). The newest return is kept whatever its size.
    pub keep_size: u64,
    /// How long a return waits before a peer gets a copy (`return_peer_after`).
    pub peer_after: Duration,
}

/// The properties of a return.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    /// The job id.
    pub jid: String,
    /// The address of the master that published it.
    pub publisher: String,
    /// True if it has peers that may take the return.
    pub has_peers: bool,
    /// Its size in bytes.
    pub size: u64,
}

/// How a master can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Connected and signed in.
    Live,
    /// Followed, but not connected.
    Away,
    /// Not followed now: a return needs a connection of its own.
    Idle,
}

/// The properties of a master.
#[derive(Clone, Debug)]
pub struct Seen {
    /// How it can be reached.
    pub reach: Reach,
    /// True if it takes returns of its peers.
    pub takes_copies: bool,
    /// The identifier of its process.
    pub boot: Option<String>,
}

/// The configured masters by address.
pub type View = BTreeMap<String, Seen>;

/// Something to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Send a return to its publisher, and report the outcome.
    Deliver(Seq),
    /// A new return has to wait.
    Hold(Seq),
    /// Send a copy to a master, and report the outcome.
    Copy(Seq, String),
    /// Sign in at a master that is not followed, and report the outcome.
    Visit(String),
    /// Close the connection of a visit.
    Leave(String),
    /// Forget a return: it was not taken in time, or there is no room.
    Drop(Seq, Waiting, Why),
}

/// Why a return is forgotten.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// It is older than `return_keep`. The value is the peer that has a copy, if there is one.
    Age(Option<String>),
    /// Newer returns need its room. The value is the peer that has a copy, if there is one.
    Room(Option<String>),
}

#[derive(Clone, Debug, PartialEq)]
enum Stage {
    Fresh,
    Waiting(Instant),
    Sending { fresh: bool },
}

#[derive(Clone, Debug, PartialEq)]
enum Copying {
    /// No peer can take a copy.
    Never,
    Due(Instant),
    Sending,
    At(String),
}

#[derive(Debug)]
struct Entry {
    about: Waiting,
    stage: Stage,
    copy: Copying,
    expires: Instant,
    /// Peers that have refused it.
    refused: Vec<String>,
}

/// The state of a connection to a master that is not followed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Visit {
    #[default]
    None,
    Knocking,
    Open,
    Later(Instant),
}

/// The returns of one publisher.
#[derive(Debug, Default)]
struct Queue {
    all: usize,
    fresh: BTreeSet<Seq>,
    waiting: BTreeSet<(Instant, Seq)>,
    sending: usize,
    sending_fresh: usize,
    copies: BTreeSet<(Instant, Seq)>,
    copying: HashSet<Seq>,
    visit: Visit,
    was_live: bool,
}

/// All unacknowledged returns.
#[derive(Debug)]
pub struct Plan {
    rules: Rules,
    next: Seq,
    /// A counter that spreads copies over the peers. It starts at a random number.
    turn: usize,
    size: u64,
    entries: BTreeMap<Seq, Entry>,
    queues: BTreeMap<String, Queue>,
    expiry: BTreeSet<(Instant, Seq)>,
    /// The returns of which a peer has a copy.
    copied: BTreeSet<Seq>,
}

impl Plan {
    /// Creates a plan without returns.
    pub fn new(rules: Rules, turn: usize) -> Self {
        Plan {
            rules,
            next: 0,
            turn,
            size: 0,
            entries: BTreeMap::new(),
            queues: BTreeMap::new(),
            expiry: BTreeSet::new(),
            copied: BTreeSet::new(),
        }
    }

    /// Adds a new return.
    pub fn add(&mut self, about: Waiting, now: Instant) -> Seq {
        self.enter(about, Stage::Fresh, now + self.rules.keep, now + self.rules.peer_after)
    }

    /// Adds a return of this age, from before the start.
    pub fn add_old(&mut self, about: Waiting, age: Duration, now: Instant) -> Seq {
        let left = |time: Duration| time.saturating_sub(age);
        let expires = now + left(self.rules.keep).max(LAST_CHANCE);
        self.enter(about, Stage::Waiting(now), expires, now + left(self.rules.peer_after))
    }

    fn enter(&mut self, about: Waiting, stage: Stage, expires: Instant, copy_at: Instant) -> Seq {
        let seq = self.next;
        self.next += 1;
        self.size += about.size;
        let queue = self.queues.entry(about.publisher.clone()).or_default();
        queue.all += 1;
        match stage {
            Stage::Waiting(due) => drop(queue.waiting.insert((due, seq))),
            _ => drop(queue.fresh.insert(seq)),
        }
        let copy = if about.has_peers { Copying::Due(copy_at) } else { Copying::Never };
        if about.has_peers {
            queue.copies.insert((copy_at, seq));
        }
        self.expiry.insert((expires, seq));
        self.entries.insert(seq, Entry { about, stage, copy, expires, refused: Vec::new() });
        seq
    }

    /// Returns how many returns wait for each publisher.
    pub fn counts(&self) -> impl Iterator<Item = (&str, usize)> {
        self.queues.iter().map(|(address, queue)| (address.as_str(), queue.all))
    }

    /// Returns the properties of a return that still waits.
    pub fn get(&self, seq: Seq) -> Option<&Waiting> {
        self.entries.get(&seq).map(|entry| &entry.about)
    }

    /// Notes that the publisher has taken a return, or that it can never be sent.
    pub fn done(&mut self, seq: Seq) {
        self.stop_sending(seq);
        self.remove(seq);
    }

    /// Notes that the publisher has not taken a return, and when to retry.
    pub fn failed(&mut self, seq: Seq, again: Instant) {
        self.stop_sending(seq);
        let Some(entry) = self.entries.get_mut(&seq) else { return };
        entry.stage = Stage::Waiting(again);
        if let Some(queue) = self.queues.get_mut(&entry.about.publisher) {
            queue.waiting.insert((again, seq));
        }
    }

    fn stop_sending(&mut self, seq: Seq) {
        let Some(entry) = self.entries.get_mut(&seq) else { return };
        let Stage::Sending { fresh } = entry.stage else { return };
        // Only until the caller sets what follows: the entry is removed, or waits.
        entry.stage = Stage::Fresh;
        if let Some(queue) = self.queues.get_mut(&entry.about.publisher) {
            if fresh { queue.sending_fresh -= 1 } else { queue.sending -= 1 }
        }
    }

    /// Notes that a peer has a copy of a return of this publisher.
    pub fn copied(&mut self, seq: Seq, publisher: &str, peer: &str) {
        self.stop_copying(seq, publisher);
        if let Some(entry) = self.entries.get_mut(&seq) {
            entry.copy = Copying::At(peer.to_owned());
            self.copied.insert(seq);
        }
    }

    /// Notes that a peer has not taken a copy. `refused` is a peer that never will.
    pub fn copy_failed(&mut self, seq: Seq, publisher: &str, refused: Option<&str>, again: Instant) {
        self.stop_copying(seq, publisher);
        let Some(entry) = self.entries.get_mut(&seq) else { return };
        entry.refused.extend(refused.map(str::to_owned));
        entry.copy = Copying::Due(again);
        if let Some(queue) = self.queues.get_mut(publisher) {
            queue.copies.insert((again, seq));
        }
    }

    fn stop_copying(&mut self, seq: Seq, publisher: &str) {
        if let Some(queue) = self.queues.get_mut(publisher) {
            queue.copying.remove(&seq);
        }
    }

    /// Notes that a visit has begun.
    pub fn visiting(&mut self, publisher: &str) {
        self.set_visit(publisher, Visit::Open);
    }

    /// Notes that a visit could not begin, or that its connection was lost, and when to retry.
    pub fn visit_failed(&mut self, publisher: &str, again: Instant) {
        self.set_visit(publisher, Visit::Later(again));
    }

    fn set_visit(&mut self, publisher: &str, visit: Visit) {
        if let Some(queue) = self.queues.get_mut(publisher) {
            queue.visit = visit;
        }
    }

    fn remove(&mut self, seq: Seq) -> Option<Entry> {
        let entry = self.entries.remove(&seq)?;
        self.size -= entry.about.size;
        self.expiry.remove(&(entry.expires, seq));
        self.copied.remove(&seq);
        if let Some(queue) = self.queues.get_mut(&entry.about.publisher) {
            queue.all -= 1;
            queue.fresh.remove(&seq);
            if let Stage::Waiting(due) = entry.stage {
                queue.waiting.remove(&(due, seq));
            }
            if let Copying::Due(due) = entry.copy {
                queue.copies.remove(&(due, seq));
            }
        }
        Some(entry)
    }

    /// Returns what to do now. `jitter` is the pause of backlogs whose masters came back.
    pub fn act(&mut self, now: Instant, view: &View, jitter: Duration) -> Vec<Action> {
        let mut actions = self.make_room();
        self.expire(now, &mut actions);
        for (address, queue) in &mut self.queues {
            let reach = view.get(address).map(|seen| seen.reach);
            queue.notice_return(reach, now + jitter, &mut self.entries);
            queue.visit(address, reach, now, &mut actions);
            queue.deliver(reach, now, &mut self.entries, &mut actions);
            let peers = peers(view, address);
            queue.copy(&peers, now, (&mut self.turn, &mut self.entries), &mut actions);
        }
        // A task may still report about a queue without returns.
        self.queues.retain(|_, queue| queue.all > 0 || !queue.copying.is_empty() || queue.visit != Visit::None);
        actions
    }

    /// Returns when [`Plan::act`] has something to do if nothing else happens before.
    pub fn due(&self, view: &View) -> Option<Instant> {
        let queues = self.queues.iter().filter_map(|(address, queue)| {
            queue.due(view.get(address).map(|seen| seen.reach), !peers(view, address).is_empty())
        });
        queues.chain(self.expiry.first().map(|(at, _)| *at)).min()
    }

    fn expire(&mut self, now: Instant, actions: &mut Vec<Action>) {
        while let Some((at, seq)) = self.expiry.first().copied().filter(|(at, _)| *at <= now) {
            self.expiry.remove(&(at, seq));
            let Some(entry) = self.entries.get_mut(&seq) else { continue };
            // It is being sent, or will be in this step, and its file must last until then.
            if entry.is_on_its_way() || entry.stage == Stage::Fresh {
                entry.expires = now + LAST_CHANCE;
                self.expiry.insert((entry.expires, seq));
            } else if let Some(entry) = self.remove(seq) {
                let holder = entry.holder();
                actions.push(Action::Drop(seq, entry.about, Why::Age(holder)));
            }
        }
    }

    /// Forgets returns while they take too much room: first those that a peer has, then the oldest.
    fn make_room(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        while self.size > self.rules.keep_size && self.entries.len() > 1 {
            let newest = self.next.saturating_sub(1);
            let free =
                |seq: &&Seq| **seq != newest && self.entries.get(seq).is_some_and(|entry| !entry.is_on_its_way());
            let victim = self.copied.iter().find(free).or_else(|| self.entries.keys().find(free)).copied();
            let Some((seq, entry)) = victim.and_then(|seq| Some((seq, self.remove(seq)?))) else { break };
            let holder = entry.holder();
            actions.push(Action::Drop(seq, entry.about, Why::Room(holder)));
        }
        actions
    }
}

impl Entry {
    fn is_on_its_way(&self) -> bool {
        matches!(self.stage, Stage::Sending { .. }) || self.copy == Copying::Sending
    }

    fn holder(&self) -> Option<String> {
        match &self.copy {
            Copying::At(peer) => Some(peer.clone()),
            _ => None,
        }
    }
}

/// Returns the masters that may get copies of a publisher's returns: connected, able, and another process.
fn peers<'a>(view: &'a View, publisher: &str) -> Vec<&'a str> {
    // One process can have several addresses; a copy there would be no copy.
    let boot = view.get(publisher).and_then(|seen| seen.boot.as_ref());
    let fits = |(address, seen): &(&'a String, &'a Seen)| {
        let other = address.as_str() != publisher && (boot.is_none() || seen.boot.as_ref() != boot);
        other && seen.reach == Reach::Live && seen.takes_copies
    };
    view.iter().filter(fits).map(|(address, _)| address.as_str()).collect()
}

impl Queue {
    fn is_open(&self, reach: Option<Reach>) -> bool {
        reach == Some(Reach::Live) || reach == Some(Reach::Idle) && self.visit == Visit::Open
    }

    /// Makes the returns due that waited for a master that has reconnected.
    fn notice_return(&mut self, reach: Option<Reach>, due: Instant, entries: &mut BTreeMap<Seq, Entry>) {
        let live = reach == Some(Reach::Live);
        if live && !std::mem::replace(&mut self.was_live, live) {
            // This includes failed tries with long pauses: their reason was probably the connection.
            for (_, seq) in std::mem::take(&mut self.waiting) {
                if let Some(entry) = entries.get_mut(&seq) {
                    entry.stage = Stage::Waiting(due);
                }
                self.waiting.insert((due, seq));
            }
        }
        self.was_live = live;
    }

    fn visit(&mut self, address: &str, reach: Option<Reach>, now: Instant, actions: &mut Vec<Action>) {
        if self.visit == Visit::Open && (reach != Some(Reach::Idle) || self.all == 0) {
            self.visit = Visit::None;
            actions.push(Action::Leave(address.to_owned()));
        }
        if reach != Some(Reach::Idle) || self.all == 0 {
            // A visit that is being tried reports its end itself.
            if self.visit != Visit::Knocking {
                self.visit = Visit::None;
            }
            return;
        }
        let ready = match self.visit {
            Visit::None => true,
            Visit::Later(at) => at <= now,
            Visit::Knocking | Visit::Open => false,
        };
        if ready {
            self.visit = Visit::Knocking;
            actions.push(Action::Visit(address.to_owned()));
        }
    }

    fn deliver(
        &mut self,
        reach: Option<Reach>,
        now: Instant,
        entries: &mut BTreeMap<Seq, Entry>,
        actions: &mut Vec<Action>,
    ) {
        if !self.is_open(reach) {
            // The job of a new return waits until the return is sent or held.
            return self.hold(now, entries, actions);
        }
        while self.sending_fresh < MOST_NEW
            && let Some(seq) = self.fresh.pop_first()
        {
            self.sending_fresh += 1;
            send(seq, true, entries, actions);
        }
        while self.sending < MANY
            && let Some((due, seq)) = self.waiting.first().copied().filter(|(due, _)| *due <= now)
        {
            self.waiting.remove(&(due, seq));
            self.sending += 1;
            send(seq, false, entries, actions);
        }
    }

    fn hold(&mut self, now: Instant, entries: &mut BTreeMap<Seq, Entry>, actions: &mut Vec<Action>) {
        for seq in std::mem::take(&mut self.fresh) {
            let Some(entry) = entries.get_mut(&seq) else { continue };
            entry.stage = Stage::Waiting(now);
            self.waiting.insert((now, seq));
            actions.push(Action::Hold(seq));
        }
    }

    fn copy(
        &mut self,
        peers: &[&str],
        now: Instant,
        (turn, entries): (&mut usize, &mut BTreeMap<Seq, Entry>),
        actions: &mut Vec<Action>,
    ) {
        while !peers.is_empty()
            && self.copying.len() < MANY
            && let Some((due, seq)) = self.copies.first().copied().filter(|(due, _)| *due <= now)
        {
            self.copies.remove(&(due, seq));
            let Some(entry) = entries.get_mut(&seq) else { continue };
            let willing: Vec<_> = peers.iter().filter(|peer| !entry.refused.iter().any(|no| no == *peer)).collect();
            if willing.is_empty() {
                // A peer may have changed its mind, or its version, until then.
                entry.refused.clear();
                entry.copy = Copying::Due(now + REFUSED);
                self.copies.insert((now + REFUSED, seq));
                continue;
            }
            *turn = turn.wrapping_add(1);
            let peer = (*willing[*turn % willing.len()]).to_owned();
            entry.copy = Copying::Sending;
            self.copying.insert(seq);
            actions.push(Action::Copy(seq, peer));
        }
    }

    fn due(&self, reach: Option<Reach>, has_peers: bool) -> Option<Instant> {
        let waiting = self.waiting.first().filter(|_| self.is_open(reach) && self.sending < MANY).map(|(at, _)| *at);
        let copies = self.copies.first().filter(|_| has_peers && self.copying.len() < MANY).map(|(at, _)| *at);
        let visit = match self.visit {
            Visit::Later(at) if reach == Some(Reach::Idle) && self.all > 0 => Some(at),
            _ => None,
        };
        [waiting, copies, visit].into_iter().flatten().min()
    }
}

fn send(seq: Seq, fresh: bool, entries: &mut BTreeMap<Seq, Entry>, actions: &mut Vec<Action>) {
    if let Some(entry) = entries.get_mut(&seq) {
        entry.stage = Stage::Sending { fresh };
        actions.push(Action::Deliver(seq));
    }
}

#[cfg(test)]
mod tests;
