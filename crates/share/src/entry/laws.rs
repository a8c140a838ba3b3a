//! The laws of merging, on random histories of members that decide, meet, fail and are restored from backups.
//!
//! A failure prints the seed of its history; `history(seed)` runs it alone. `SALTERN_HISTORIES` sets how many there are.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::{HybridClock, Node};

/// How many histories a run has without `SALTERN_HISTORIES`.
const HISTORIES: u64 = 10_000;

#[derive(Clone)]
struct Member {
    clock: HybridClock,
    /// How far the clock of its host is off, in milliseconds.
    skew: u64,
    entry: Entry,
}

struct History {
    random: StdRng,
    now: u64,
    members: Vec<Member>,
    backups: Vec<Option<Member>>,
    restored: bool,
    /// Every entry that some member had.
    past: Vec<Entry>,
}

impl History {
    fn new(seed: u64) -> History {
        let mut random = StdRng::seed_from_u64(seed);
        let count = random.random_range(2..=5);
        let member =
            |node: u8, skew| Member { clock: HybridClock::new(Node([node; 8]), 0), skew, entry: Entry::default() };
        let members: Vec<Member> = (0..count).map(|node| member(node, random.random_range(0..20))).collect();
        let backups = vec![None; members.len()];
        History { random, now: 1_000, members, backups, restored: false, past: vec![Entry::default()] }
    }

    fn step(&mut self) {
        self.now += self.random.random_range(0..10);
        let who = self.random.random_range(0..self.members.len());
        match self.random.random_range(0..20) {
            0..9 => self.decide(who),
            9..17 => self.meet(who),
            17 | 18 => self.backups[who] = Some(self.members[who].clone()),
            _ => self.restore(who),
        }
        self.past.push(self.members[who].entry.clone());
    }

    fn decide(&mut self, who: usize) {
        let state = State::ALL[self.random.random_range(0..4)];
        let by = [By::User("root".into()), By::Files, By::Auto][self.random.random_range(0..3)].clone();
        let content = Bytes::from_static([&b"k1"[..], b"k2", b"k3"][self.random.random_range(0..3)]);
        let wish = Wish { class: Class::Keys, key: Key::new("web1").unwrap(), state, content, by };
        let member = &mut self.members[who];
        let stamp = member.clock.next(self.now + member.skew);
        if let Some(decision) = member.entry.decide(wish, stamp) {
            let made = Entry::new(vec![SignedDecision::unsigned(decision)]);
            member.entry = member.entry.merge(&made);
        }
    }

    /// One member hears the entry of another one.
    fn meet(&mut self, who: usize) {
        let from = self.random.random_range(0..self.members.len());
        let heard = self.members[from].entry.clone();
        self.hear(who, &heard);
    }

    fn hear(&mut self, who: usize, heard: &Entry) {
        let member = &mut self.members[who];
        member.clock.observe(heard.latest());
        member.entry = member.entry.merge(heard);
    }

    fn restore(&mut self, who: usize) {
        if let Some(backup) = self.backups[who].clone() {
            self.members[who] = backup;
            self.restored = true;
        }
    }

    fn any(&mut self) -> Entry {
        let which = self.random.random_range(0..self.past.len());
        self.past[which].clone()
    }

    fn check_laws(&mut self, seed: u64) {
        let (a, b, c) = (self.any(), self.any(), self.any());
        let both = a.merge(&b);
        assert_eq!(both, b.merge(&a), "commutative, seed {seed}");
        assert_eq!(a.merge(&a), a, "idempotent, seed {seed}");
        assert_eq!(both.digest() == a.digest(), both == a, "digests, seed {seed}");
        // A member that was restored from a backup decides again at times that others have seen already, without what it knew then.
        // What replaces what is then no longer transitive; copies still become equal, by merging more than once.
        if !self.restored {
            assert_eq!(both.merge(&a), both, "a part adds nothing, seed {seed}");
            assert_eq!(both.merge(&c), a.merge(&b.merge(&c)), "associative, seed {seed}");
        }
    }

    /// Everybody hears from everybody, in random order, until all are equal.
    fn converge(&mut self, seed: u64) {
        for _ in 0..40 {
            if self.members.iter().all(|member| member.entry == self.members[0].entry) {
                return;
            }
            for _ in 0..self.members.len() * 3 {
                let who = self.random.random_range(0..self.members.len());
                self.meet(who);
            }
        }
        panic!("the copies do not become equal, seed {seed}");
    }

    /// What one person decides in full knowledge is what everybody obeys.
    fn settle(&mut self, seed: u64) {
        self.now += 100;
        let settled = self.members[0].entry.clone();
        let now = self.now + self.members[0].skew;
        let stamp = self.members[0].clock.next(now);
        let by = By::User("root".into());
        let content = Bytes::from_static(b"settled");
        let wish = Wish { class: Class::Keys, key: Key::new("web1").unwrap(), state: State::Accepted, content, by };
        let decision = SignedDecision::unsigned(settled.decide(wish, stamp).expect("a new key"));
        let entry = settled.merge(&Entry::new(vec![decision.clone()]));
        assert_eq!(entry.decisions(), [decision], "one decision settles all, seed {seed}");
    }
}

fn history(seed: u64) {
    let mut history = History::new(seed);
    for _ in 0..history.random.random_range(5..40) {
        history.step();
        history.check_laws(seed);
    }
    history.converge(seed);
    history.settle(seed);
}

#[test]
fn copies_of_entries_merge_into_the_same() {
    let count = std::env::var("SALTERN_HISTORIES").map_or(HISTORIES, |count| count.parse().expect("SALTERN_HISTORIES"));
    (0..count).for_each(history);
}
