//! Events of one member on the buses of the others: which ones travel, and how many wait for a member that is slow.

use std::collections::VecDeque;

use crate::message::Event;
use crate::{Node, owner};

/// The maximum length of the tag of an event that travels, in bytes: each reader of a bus compares it.
const MAX_TAG: usize = 1_024;

/// The maximum number of bytes of an event that travels.
pub const MAX_EVENT: usize = 4 << 20;

/// How many bytes of events are sent together.
const TOGETHER: usize = 64 << 10;

/// How many events wait for a member, and their bytes.
const MOST_WAITING: usize = 20_000;
const MOST_WAITING_BYTES: usize = 32 << 20;

/// How many events a member sends another one in a second, and their bytes.
const EVENTS_A_SECOND: u64 = 5_000;
const BYTES_A_SECOND: u64 = 8 << 20;

/// How much faster than that events of another member may come: the time between two of them is not the same everywhere.
const SLACK: u64 = 2;

/// Roughly what an event takes besides its tag and its data, in bytes.
const AROUND: usize = 64;

/// Returns whether events with this tag stay on the member on which they were born. They are neither sent nor taken.
///
/// Each master makes them itself of the shared records, or they are about this one master: what it does with connections, keys of
/// publications and its own files.
pub fn stays_here(tag: &str) -> bool {
    let parts: Vec<&str> = tag.splitn(6, '/').collect();
    match parts.as_slice() {
        // `state` and a bare job id are Salt's old tags for what jobs do.
        ["key" | "state"] | ["saltern" | "cluster", ..] | ["minion", "refresh", ..] => true,
        ["salt", "key" | "auth" | "presence" | "cluster" | "fileserver", ..] => true,
        // What minions say of a job while it runs is in no record.
        ["salt", "job", _, "prog" | "start", minion, ..] => minion.is_empty(),
        ["salt", "job", ..] => true,
        [first, ..] => is_job_id(first),
        [] => true,
    }
}

fn is_job_id(text: &str) -> bool {
    text.len() >= 20 && text.bytes().take(20).all(|byte| byte.is_ascii_digit())
}

/// Returns why an event of another member is refused.
pub fn refusal(event: &Event) -> Option<&'static str> {
    let tag = event.tag.as_str();
    match () {
        () if tag.is_empty() || tag.len() > MAX_TAG || tag.chars().any(char::is_control) => Some("its tag is no tag"),
        () if stays_here(tag) => Some("only this master makes events with its tag"),
        () if size(event) > MAX_EVENT => Some("it is too large"),
        () => None,
    }
}

/// Returns which linked members get an event that was born on this one, or that the daemon of a minion sent it. `connected` are the
/// members that the minion is connected to.
///
/// A minion sends each master that it is connected to a copy. One of these masters sends the event to the others. What a program on a
/// minion sends counts as born here: others may have a copy, too, which [`EventCopies`](crate::event_copies::EventCopies) tells.
pub fn receivers(me: Node, tag: &str, minion: Option<(&str, &[Node])>, linked: &[Node]) -> Vec<Node> {
    let Some((minion, connected)) = minion else { return linked.to_vec() };
    if connected.contains(&me) && owner(minion, tag, connected.iter().copied()) != Some(me) {
        return Vec::new();
    }
    linked.iter().copied().filter(|node| !connected.contains(node)).collect()
}

fn size(event: &Event) -> usize {
    event.tag.len() + event.data.len() + event.minion.as_ref().map_or(0, String::len) + AROUND
}

/// Returns about how many bytes events take.
pub fn size_of(events: &[Event]) -> usize {
    events.iter().map(size).sum()
}

/// So much in a second, and a second's worth at once.
#[derive(Clone, Copy, Debug)]
struct Budget {
    a_second: u64,
    /// In thousandths. What is larger than a second's worth makes it negative.
    left: i64,
    at: u64,
}

impl Budget {
    fn new(a_second: u64, now: u64) -> Budget {
        Budget { a_second, left: (a_second * 1_000) as i64, at: now }
    }

    fn refill(&mut self, now: u64) {
        let (most, elapsed) = (self.a_second * 1_000, now.saturating_sub(self.at).min(3_600_000));
        self.at = self.at.max(now);
        self.left = self.left.saturating_add((elapsed * self.a_second) as i64).min(most as i64);
    }

    fn spend(&mut self, amount: u64) {
        // It may go below zero: an event of 4 MiB is sent in one piece and paid for afterwards.
        self.left -= amount.min(u64::MAX >> 12) as i64 * 1_000;
    }

    /// Returns when there is something left.
    fn ready_at(&self) -> u64 {
        self.at + (1_000 - self.left).max(0).unsigned_abs().div_ceil(self.a_second)
    }

    fn is_spent(&self) -> bool {
        self.left < 1_000
    }
}

/// The rate of the events between two members.
#[derive(Clone, Copy, Debug)]
pub struct EventRate {
    events: Budget,
    bytes: Budget,
}

impl EventRate {
    fn new(slack: u64, now: u64) -> EventRate {
        let (events, bytes) = (EVENTS_A_SECOND * slack, BYTES_A_SECOND * slack);
        EventRate { events: Budget::new(events, now), bytes: Budget::new(bytes, now) }
    }

    /// The rate at which events of another member are taken, from `now` on.
    pub fn of_sender(now: u64) -> EventRate {
        EventRate::new(SLACK, now)
    }

    /// Returns whether an event is within the rate, and counts it.
    pub fn take(&mut self, event: &Event, now: u64) -> bool {
        self.events.refill(now);
        self.bytes.refill(now);
        if self.events.is_spent() || self.bytes.is_spent() {
            return false;
        }
        self.events.spend(1);
        self.bytes.spend(size(event) as u64);
        true
    }

    fn ready_at(&self) -> u64 {
        self.events.ready_at().max(self.bytes.ready_at())
    }
}

/// Events that wait to be sent to a member. When too many wait, the oldest are dropped.
#[derive(Debug)]
pub struct EventQueue {
    waiting: VecDeque<Event>,
    bytes: usize,
    rate: EventRate,
    dropped: u64,
}

impl EventQueue {
    /// Creates an empty queue.
    pub fn new(now: u64) -> EventQueue {
        EventQueue { waiting: VecDeque::new(), bytes: 0, rate: EventRate::new(1, now), dropped: 0 }
    }

    /// Adds an event. Returns whether it is the first for which others were dropped since [`EventQueue::recovered`].
    pub fn push(&mut self, event: Event) -> bool {
        let before = self.dropped;
        self.bytes += size(&event);
        self.waiting.push_back(event);
        // The oldest go, for people wait for what happens now.
        while self.waiting.len() > MOST_WAITING || self.bytes > MOST_WAITING_BYTES {
            let Some(oldest) = self.waiting.pop_front() else { break };
            self.bytes -= size(&oldest);
            self.dropped += 1;
        }
        before == 0 && self.dropped > 0
    }

    /// Returns the events to send now, together; none when nothing waits or the rate is used up.
    pub fn take(&mut self, now: u64) -> Vec<Event> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let Some(next) = self.waiting.front() {
            let size = size(next);
            // The rate is asked last: asking counts the event as sent.
            if !taken.is_empty() && bytes + size > TOGETHER || !self.rate.take(next, now) {
                break;
            }
            bytes += size;
            self.bytes -= size;
            taken.extend(self.waiting.pop_front());
        }
        taken
    }

    /// Returns when [`EventQueue::take`] may return something, if anything waits.
    pub fn next(&self) -> Option<u64> {
        (!self.waiting.is_empty()).then(|| self.rate.ready_at())
    }

    /// Returns how many events were dropped, once nothing waits any more.
    pub fn recovered(&mut self) -> Option<u64> {
        (self.waiting.is_empty() && self.dropped > 0).then(|| std::mem::take(&mut self.dropped))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use rand::rngs::StdRng;
    use rand::seq::IndexedRandom as _;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::Stamp;

    const JOB: &str = "salt/job/20240229131415678901";

    fn event(tag: &str, bytes: usize) -> Event {
        let stamp = Stamp { time: 1, node: Node([1; 8]) };
        Event { tag: tag.into(), data: Bytes::from(vec![0x80; bytes]), minion: None, stamp }
    }

    #[test]
    fn what_each_master_makes_itself_stays_and_what_is_born_on_one_travels() {
        for tag in [
            "key",
            "state",
            "salt/key",
            "salt/key/web1",
            "salt/auth",
            "salt/auth/creds",
            "salt/presence/present",
            "salt/cluster/x",
            "salt/fileserver/gitfs/update",
            "saltern/member/m2/linked",
            "cluster/peer",
            "minion/refresh/web1",
            "20240229131415678901",
            "20240229131415678901/new",
            JOB,
            "salt/job/",
        ] {
            assert!(stays_here(tag), "{tag}");
        }
        for what in
            ["new", "publish", "ret/web1", "ret/prog/web1", "error", "held", "sub/web1/error/state", "prog", "start/"]
        {
            assert!(stays_here(&format!("{JOB}/{what}")), "{what}");
        }
        for tag in [
            "my/own",
            "minion_start",
            "salt/minion/web1/start",
            "salt/beacon/web1/load/",
            "salt/run/20240229131415678901/ret",
            "salt/netapi/hook/x",
            "keyboard",
            "states",
            "minion/refreshed",
            "salt/authority",
            "2024",
        ] {
            assert!(!stays_here(tag), "{tag}");
        }
        assert!(!stays_here(&format!("{JOB}/prog/web1/3")) && !stays_here(&format!("{JOB}/start/web1")));
    }

    /// No member can speak as the master that gets its event, however it writes the tag.
    #[test]
    fn no_tag_that_a_reader_takes_for_one_of_this_master_is_taken() {
        let words =
            ["salt", "job", "key", "ret", "auth", "new", "web1", "prog", "", "saltern", "20240229131415678901", "a"];
        for seed in 0..20_000 {
            let mut random = StdRng::seed_from_u64(seed);
            let parts: Vec<&str> =
                (0..random.random_range(1..8)).filter_map(|_| words.choose(&mut random).copied()).collect();
            let event = event(&parts.join("/"), 1);
            if refusal(&event).is_some() {
                continue;
            }
            let tag = event.tag.as_str();
            assert!(!["salt/key", "salt/auth", "saltern/"].iter().any(|prefix| tag.starts_with(prefix)), "{tag}");
            if tag.starts_with("salt/job/") {
                assert!(["prog", "start"].contains(&parts[3]), "{tag}");
            }
        }
    }

    /// Members that know where minions are connected get each event once.
    #[test]
    fn each_member_gets_each_event_once() {
        for seed in 0..2_000 {
            let mut random = StdRng::seed_from_u64(seed);
            let members: Vec<Node> = (0..random.random_range(1..6)).map(|number| Node([number; 8])).collect();
            let connected: Vec<Node> = members.iter().copied().filter(|_| random.random()).collect();
            let tag = format!("a/{}", random.random_range(0..10));
            let minion = random.random::<bool>().then_some(("web1", connected.as_slice()));
            // A minion sends its event to all masters that it is connected to; during a change of masters, to another one.
            let born = match minion {
                Some(_) if !connected.is_empty() => connected.clone(),
                _ => members.choose(&mut random).copied().into_iter().collect(),
            };
            let mut copies: Vec<Node> = born.clone();
            for me in born {
                let linked: Vec<Node> = members.iter().copied().filter(|node| *node != me).collect();
                copies.extend(receivers(me, &tag, minion, &linked));
            }
            copies.sort_unstable();
            assert_eq!(copies, members, "seed {seed}");
        }
    }

    #[test]
    fn what_is_no_event_is_refused() {
        assert_eq!(refusal(&event("a/b", 10)), None);
        for tag in ["", "a\nb", "a\u{7f}", &"x".repeat(MAX_TAG + 1)] {
            assert!(refusal(&event(tag, 10)).is_some_and(|reason| reason.contains("tag")), "{tag}");
        }
        assert!(refusal(&event("a", MAX_EVENT)).is_some_and(|reason| reason.contains("large")));
        assert!(refusal(&event(&format!("{JOB}/ret/web1"), 10)).is_some());
    }

    /// Whatever is pushed and taken: bounds hold, order stays, and each event is sent or counted as dropped.
    #[test]
    fn a_queue_keeps_the_newest_within_its_bounds_and_its_rate() {
        for seed in 0..10 {
            let mut random = StdRng::seed_from_u64(seed);
            let mut queue = EventQueue::new(0);
            let (mut now, mut pushed, mut sent, mut bytes, mut last) = (0, 0_u64, 0_u64, 0, None);
            for round in 0..1_000 {
                for _ in 0..random.random_range(0..60) {
                    let size =
                        if random.random_ratio(1, 500) { MAX_EVENT - 200 } else { random.random_range(0..3_000) };
                    let mut event = event("a", size);
                    pushed += 1;
                    event.stamp.time = pushed;
                    queue.push(event);
                    assert!(queue.waiting.len() <= MOST_WAITING && queue.bytes <= MOST_WAITING_BYTES);
                }
                if round % 100 == 0 {
                    assert_eq!(queue.bytes, queue.waiting.iter().map(size).sum::<usize>());
                }
                now += random.random_range(0..20);
                let taken = queue.take(now);
                assert!(taken.len() <= 1 || size_of(&taken) <= TOGETHER);
                for event in &taken {
                    assert!(last < Some(event.stamp.time), "order");
                    last = Some(event.stamp.time);
                    (sent, bytes) = (sent + 1, bytes + size(event) as u64);
                }
            }
            // A second's worth at once, and the last one may be large.
            assert!(sent <= EVENTS_A_SECOND * (now + 1_000) / 1_000 + 1);
            assert!(bytes <= BYTES_A_SECOND * (now + 1_000) / 1_000 + MAX_EVENT as u64);
            assert_eq!(pushed, sent + queue.waiting.len() as u64 + queue.dropped);
            while let Some(at) = queue.next() {
                now = now.max(at);
                assert!(!queue.take(now).is_empty(), "it was ready at {at}");
            }
            let dropped = queue.dropped;
            assert_eq!((queue.recovered(), queue.recovered()), ((dropped > 0).then_some(dropped), None));
        }
    }

    #[test]
    fn that_events_are_dropped_is_said_once_until_the_queue_is_empty() {
        let mut queue = EventQueue::new(0);
        let said = (0..MOST_WAITING + 10).filter(|_| queue.push(event("a", 1))).count();
        assert_eq!((said, queue.dropped), (1, 10));
        while let Some(at) = queue.next() {
            queue.take(at);
        }
        assert_eq!(queue.recovered(), Some(10));
        assert!((0..=MOST_WAITING).any(|_| queue.push(event("a", 1))), "it is said again");
    }

    #[test]
    fn a_sender_that_is_too_fast_is_cut_and_one_that_keeps_its_rate_is_not() {
        let mut rate = EventRate::of_sender(0);
        let taken = (0..100_000).filter(|_| rate.take(&event("a", 1), 5)).count() as u64;
        assert_eq!(taken, EVENTS_A_SECOND * SLACK);
        let mut rate = EventRate::of_sender(0);
        assert!((0..100_000_u64).all(|number| rate.take(&event("a", 1), number * 1_000 / EVENTS_A_SECOND)));
    }
}
