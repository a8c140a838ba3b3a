//! A network in memory that loses, repeats, delays and reorders packets, and can be cut in one direction.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::Rng;
use rand::rngs::StdRng;

use super::faults::{Fault, Kind};
use crate::votes::{VoteMessage, Voters};

/// A second in microseconds, the unit of true time.
pub const SECOND: u64 = 1_000_000;

/// What travels between members.
#[derive(Clone, Debug)]
pub enum Packet {
    Vote(VoteMessage),
    /// The list of voters, and how many lists there were before.
    Voters(u64, Voters),
    Beat,
}

/// What happens at a moment.
#[derive(Clone, Debug)]
pub enum Event {
    Arrives {
        from: usize,
        to: usize,
        packet: Packet,
    },
    Tick {
        member: usize,
        boot: u32,
        due: u64,
    },
    Fault(Fault),
    FaultEnds(Fault),
    /// Members beat and look for silent ones, begin and end runs.
    Second,
}

/// True time, and what is to happen.
pub struct Network {
    pub now: u64,
    pub random: StdRng,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: std::collections::BTreeMap<u64, Event>,
    posted: u64,
    /// How many cuts lie on each way.
    cuts: Vec<Vec<u32>>,
    loss: u32,
    slow: u32,
}

impl Network {
    pub fn new(members: usize, random: StdRng) -> Network {
        let cuts = vec![vec![0; members]; members];
        let (queue, events) = (BinaryHeap::new(), std::collections::BTreeMap::new());
        Network { now: 0, random, queue, events, posted: 0, cuts, loss: 0, slow: 0 }
    }

    pub fn post(&mut self, at: u64, event: Event) {
        self.posted += 1;
        self.queue.push(Reverse((at.max(self.now), self.posted)));
        self.events.insert(self.posted, event);
    }

    /// Moves time to the next event.
    pub fn next(&mut self, end: u64) -> Option<Event> {
        let Reverse((at, number)) = *self.queue.peek()?;
        if at >= end {
            return None;
        }
        self.queue.pop();
        self.now = at;
        self.events.remove(&number)
    }

    pub fn send(&mut self, from: usize, to: usize, packet: Packet) {
        if self.random.random_ratio(self.loss.min(99), 100) {
            return;
        }
        // Data sent into a partition arrives after it, unless an end is gone.
        if self.cuts[from][to] > 0 {
            if self.random.random_ratio(1, 4) {
                let late = self.random.random_range(0..20 * SECOND);
                self.arrive(late, from, to, packet);
            }
            return;
        }
        if self.random.random_ratio(1, 100) {
            let late = self.random.random_range(0..3 * SECOND);
            self.arrive(late, from, to, packet.clone());
        }
        let delay = match self.slow {
            0 => self.random.random_range(100..5_000),
            _ => self.random.random_range(1_000..2 * SECOND),
        };
        self.arrive(delay, from, to, packet);
    }

    fn arrive(&mut self, delay: u64, from: usize, to: usize, packet: Packet) {
        self.post(self.now + delay, Event::Arrives { from, to, packet });
    }

    /// Returns whether both ways between two members are open.
    pub fn open(&self, one: usize, other: usize) -> bool {
        self.cuts[one][other] == 0 && self.cuts[other][one] == 0
    }

    /// Returns whether nothing is wrong anywhere.
    pub fn is_calm(&self) -> bool {
        self.loss == 0 && self.slow == 0 && self.cuts.iter().flatten().all(|cuts| *cuts == 0)
    }

    /// Lets a fault of the network begin or end.
    pub fn fault(&mut self, fault: &Fault, begins: bool) {
        let step = |count: &mut u32, by: u32| *count = if begins { *count + by } else { *count - by };
        match &fault.kind {
            Kind::Cut(ways) => ways.iter().for_each(|(from, to)| step(&mut self.cuts[*from][*to], 1)),
            Kind::Loss(percent) => step(&mut self.loss, *percent),
            Kind::Slow => step(&mut self.slow, 1),
            Kind::Pause(_) | Kind::Restart(_) => {}
        }
    }
}
