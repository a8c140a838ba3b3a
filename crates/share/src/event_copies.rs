//! Tells the copies of one event from events that only look the same.
//!
//! The daemon of a minion sends an event to all masters that it is connected to, so they know who has it. A program beside it, such
//! as `salt-call`, sends an event to one master or to some, and nobody knows to which. Each master that gets such an event from the
//! minion sends it to all others, and each fires it once: a copy counts if no other way has brought it yet.

use std::collections::{HashMap, VecDeque};

use value::{Map, Value};
use wire::msgpack::{Packing, pack};

use crate::{Digest, Node};

/// How long after its first copy an event is known, in milliseconds. Salt's `salt-call` tries a master that is away for three minutes
/// before it sends the event to the next one.
const WINDOW: u64 = 300_000;

/// How many events are known of one minion; the oldest are forgotten.
const MOST_OF_MINION: usize = 256;

/// How many events are known of all minions. Of further ones each copy is fired.
const MOST: usize = 100_000;

/// How often those that are too old are forgotten, in milliseconds.
const SWEEP: u64 = 10_000;

/// What differs between copies of one event: the times at which they were sent and fired, and what each request proves.
const OF_EACH_COPY: [&str; 5] = ["_stamp", "__peer_id", "ts", "tok", "nonce"];

/// Returns whether a minion's event with these data was fired by a program and not by its daemon, which names a prefix for the tag,
/// even if it is none.
pub fn is_of_program(data: &Map) -> bool {
    data.get_str("cmd") == Some("_minion_event") && !data.contains_key("pretag")
}

/// Returns what all copies of an event have in common.
pub fn content(tag: &str, data: &Map) -> Digest {
    let mut data = data.clone();
    for key in OF_EACH_COPY {
        data.remove(key);
    }
    // No tag contains a zero byte.
    Digest::of(&[tag.as_bytes(), b"\0", &pack(&Value::Map(data), Packing::Bin)])
}

/// The way by which a copy came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CameFrom {
    /// From the minion itself.
    Minion,
    /// From another member.
    Member(Node),
}

/// An event that was fired.
#[derive(Debug)]
struct Fired {
    content: Digest,
    at: u64,
    /// Which ways have brought a copy.
    copies: Vec<CameFrom>,
}

/// The events of programs on minions that were fired on this member lately.
#[derive(Debug, Default)]
pub struct EventCopies {
    of: HashMap<String, VecDeque<Fired>>,
    count: usize,
    swept: u64,
}

impl EventCopies {
    /// Takes note of a copy that came at `now`, in milliseconds. Returns whether it is the first of its event, which is to be fired.
    ///
    /// The second one that comes the same way is a second event: no way brings a copy twice.
    pub fn is_first(&mut self, minion: &str, content: Digest, from: CameFrom, now: u64) -> bool {
        self.sweep(now);
        if let Some(fired) = self.of.get_mut(minion) {
            let other =
                |fired: &&mut Fired| is_known(fired, now) && fired.content == content && !fired.copies.contains(&from);
            if let Some(fired) = fired.iter_mut().find(other) {
                fired.copies.push(from);
                return false;
            }
            if fired.len() == MOST_OF_MINION {
                fired.pop_front();
                self.count -= 1;
            }
        }
        if self.count < MOST {
            let fired = self.of.entry(minion.to_owned()).or_default();
            fired.push_back(Fired { content, at: now, copies: vec![from] });
            self.count += 1;
        }
        true
    }

    fn sweep(&mut self, now: u64) {
        if now < self.swept + SWEEP {
            return;
        }
        self.swept = now;
        self.of.retain(|_, fired| {
            fired.retain(|fired| is_known(fired, now));
            !fired.is_empty()
        });
        self.count = self.of.values().map(VecDeque::len).sum();
    }
}

fn is_known(fired: &Fired, now: u64) -> bool {
    now < fired.at + WINDOW
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::seq::SliceRandom as _;
    use rand::{Rng, SeedableRng};
    use value::map;

    use super::*;

    const ONE: CameFrom = CameFrom::Member(Node([1; 8]));
    const TWO: CameFrom = CameFrom::Member(Node([2; 8]));

    fn of(tag: &str) -> Digest {
        content(tag, &map! { "id" => "web1", "tag" => tag, "data" => map! { "b" => 2 }, "cmd" => "_minion_event" })
    }

    #[test]
    fn events_of_programs_name_no_prefix() {
        assert!(is_of_program(&map! { "cmd" => "_minion_event", "tag" => "a", "data" => map! {} }));
        assert!(!is_of_program(&map! { "cmd" => "_minion_event", "tag" => "a", "pretag" => Value::Null }));
        assert!(!is_of_program(&map! { "a" => 1 }), "one of several, which only daemons send");
    }

    #[test]
    fn copies_have_the_same_content_whenever_they_are_sent() {
        let data = map! { "id" => "web1", "tag" => "a", "data" => map! { "b" => 2 } };
        let mut copy = data.clone();
        copy.update(map! { "ts" => 7, "_stamp" => "then", "__peer_id" => "m1" });
        assert_eq!(content("a", &data), content("a", &copy));
        copy.insert("data", map! { "b" => 3 });
        assert_ne!(content("a", &data), content("a", &copy));
        assert_ne!(content("a", &data), content("b", &data));
    }

    /// Whichever ways bring copies of each of several events that look the same, and in whatever order: each is fired once.
    #[test]
    fn each_event_is_fired_once() {
        for seed in 0..2_000 {
            let mut random = StdRng::seed_from_u64(seed);
            let (mut copies, events) = (EventCopies::default(), random.random_range(1..5));
            // One way brings all, so that it is known how many there are.
            let mut came = vec![ONE; events];
            for way in [CameFrom::Minion, TWO] {
                came.extend(vec![way; random.random_range(0..=events)]);
            }
            came.shuffle(&mut random);
            let mut now = random.random_range(0..1_000_000);
            let mut fired = 0;
            for from in came {
                now += random.random_range(0..10_000);
                fired += usize::from(copies.is_first("web1", of("a"), from, now));
            }
            assert_eq!(fired, events, "seed {seed}");
        }
    }

    #[test]
    fn others_with_another_tag_or_of_another_minion_or_time_are_no_copies() {
        let mut copies = EventCopies::default();
        assert!(copies.is_first("web1", of("a"), ONE, 0));
        assert!(copies.is_first("web2", of("a"), TWO, 1));
        assert!(copies.is_first("web1", of("b"), TWO, 1));
        assert!(!copies.is_first("web1", of("a"), TWO, WINDOW - 1));
        assert!(copies.is_first("web1", of("a"), CameFrom::Minion, WINDOW));
    }

    #[test]
    fn what_is_known_is_bounded_and_one_minion_does_not_push_out_others() {
        let mut copies = EventCopies::default();
        assert!(copies.is_first("db1", of("a"), ONE, 0));
        for number in 0..2 * MOST_OF_MINION {
            assert!(copies.is_first("web1", of(&number.to_string()), ONE, 1));
        }
        assert_eq!((copies.count, copies.of["web1"].len()), (MOST_OF_MINION + 1, MOST_OF_MINION));
        assert!(!copies.is_first("db1", of("a"), TWO, 2));
        for number in 0..MOST {
            copies.is_first(&format!("m{number}"), of("a"), ONE, 3);
        }
        assert_eq!(copies.count, MOST);
        assert!(!copies.is_first("m1", of("a"), TWO, 4), "what is known stays known");
        assert!(copies.is_first("web2", of("a"), ONE, WINDOW + SWEEP));
        assert_eq!((copies.count, copies.of.len()), (1, 1), "what is too old is forgotten");
    }
}
