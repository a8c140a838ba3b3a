//! A carrier in memory: members in one process, with a time of their own and faults from a seed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::message::MAX_MESSAGE;
use crate::{Carrier, Incoming, Lane, Node, SendResult, To};

/// Milliseconds of silence after which a member is down.
const SILENCE: u64 = 2_000;

/// Messages that wait for one member in one lane, in bytes.
const QUEUE: usize = 64 << 20;

/// What goes wrong on all links that are not cut.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disorder {
    /// How many percent of all messages are lost.
    pub loss: u32,
    /// By how many milliseconds a message may be late. Messages of one lane stay in order.
    pub delay: u64,
}

/// Members that are all linked, and the time between them. Clones are the same network.
#[derive(Clone)]
pub struct MemoryNet(Arc<Mutex<Net>>);

/// The carrier of one member of a [`MemoryNet`].
pub struct MemoryCarrier {
    net: MemoryNet,
    member: usize,
}

struct Net {
    now: u64,
    random: StdRng,
    nodes: Vec<Node>,
    disorder: Disorder,
    /// Row: from, column: to.
    ways: Vec<Vec<Way>>,
    /// What is reported to each member besides messages.
    reports: Vec<VecDeque<Incoming>>,
}

/// One direction of a link.
#[derive(Default)]
struct Way {
    cut: bool,
    /// When something got through, beats included.
    heard: u64,
    linked: bool,
    lanes: [Queue; 2],
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(u64, Bytes)>,
    bytes: usize,
    overflowed: bool,
}

impl MemoryNet {
    /// Creates linked members. What goes wrong follows from the seed.
    pub fn new(members: usize, seed: u64) -> MemoryNet {
        let nodes = (1..=members).map(|number| Node((number as u64).to_be_bytes())).collect();
        let ways = (0..members).map(|_| (0..members).map(|_| Way::default()).collect()).collect();
        let reports = vec![VecDeque::new(); members];
        let random = StdRng::seed_from_u64(seed);
        let mut net = Net { now: 0, random, nodes, disorder: Disorder::default(), ways, reports };
        net.beat();
        MemoryNet(Arc::new(Mutex::new(net)))
    }

    fn net(&self) -> MutexGuard<'_, Net> {
        self.0.lock().expect("no test panics while it holds the network")
    }

    /// Returns the carrier of a member.
    pub fn carrier(&self, member: usize) -> MemoryCarrier {
        MemoryCarrier { net: self.clone(), member }
    }

    /// Returns the node of a member.
    pub fn node(&self, member: usize) -> Node {
        self.net().nodes[member]
    }

    /// Sets what goes wrong from now on.
    pub fn set_disorder(&self, disorder: Disorder) {
        self.net().disorder = disorder;
    }

    /// Cuts one direction between two members, or opens it.
    pub fn cut(&self, from: usize, to: usize, cut: bool) {
        self.net().ways[from][to].cut = cut;
    }

    /// Lets milliseconds pass.
    pub fn advance(&self, time: u64) {
        let mut net = self.net();
        net.now += time;
        net.beat();
    }

    /// Returns the next report to a member, if there is one already. Messages that nobody takes stay in their queue.
    pub fn next(&self, member: usize) -> Option<Incoming> {
        self.net().next(member)
    }
}

impl Carrier for MemoryCarrier {
    fn send(&self, to: To, lane: Lane, message: Bytes) -> SendResult {
        let mut net = self.net.net();
        let members = 0..net.nodes.len();
        match to {
            To::Member(node) => match net.nodes.iter().position(|known| *known == node) {
                Some(to) if to != self.member => net.send(self.member, to, lane, message),
                _ => SendResult::Away,
            },
            To::All => {
                let others = members.filter(|to| *to != self.member);
                let results: Vec<_> = others.map(|to| net.send(self.member, to, lane, message.clone())).collect();
                let worst = [SendResult::Full, SendResult::Queued].into_iter().find(|result| results.contains(result));
                worst.unwrap_or(SendResult::Away)
            }
        }
    }
}

impl Net {
    fn send(&mut self, from: usize, to: usize, lane: Lane, message: Bytes) -> SendResult {
        let Disorder { loss, delay } = self.disorder;
        let lost = self.random.random_ratio(loss.min(100), 100);
        let arrives = self.now + self.random.random_range(0..=delay);
        let node = self.nodes[to];
        let way = &mut self.ways[from][to];
        if !way.linked {
            return SendResult::Away;
        }
        let queue = &mut way.lanes[lane as usize];
        if message.len() > MAX_MESSAGE || queue.bytes + message.len() > QUEUE {
            if !std::mem::replace(&mut queue.overflowed, true) {
                self.reports[from].push_back(Incoming::Overflowed(node));
            }
            return SendResult::Full;
        }
        if !lost {
            queue.bytes += message.len();
            let last = queue.waiting.back().map_or(0, |(at, _)| *at);
            queue.waiting.push_back((arrives.max(last), message));
        }
        SendResult::Queued
    }

    fn next(&mut self, member: usize) -> Option<Incoming> {
        if let Some(report) = self.reports[member].pop_front() {
            return Some(report);
        }
        for lane in [Lane::Talk, Lane::Bulk] {
            for from in 0..self.nodes.len() {
                let way = &mut self.ways[from][member];
                let queue = &mut way.lanes[lane as usize];
                let due = !way.cut && queue.waiting.front().is_some_and(|(at, _)| *at <= self.now);
                if let Some((_, message)) = due.then(|| queue.waiting.pop_front()).flatten() {
                    queue.bytes -= message.len();
                    queue.overflowed &= !queue.waiting.is_empty();
                    return Some(Incoming::Message { from: self.nodes[from], lane, message });
                }
            }
        }
        None
    }

    /// Notices who is heard again, and who has been silent for too long. A link needs both directions.
    fn beat(&mut self) {
        let now = self.now;
        for way in self.ways.iter_mut().flatten().filter(|way| !way.cut) {
            way.heard = now;
        }
        for one in 0..self.nodes.len() {
            for other in one + 1..self.nodes.len() {
                let (there, back) = (&self.ways[one][other], &self.ways[other][one]);
                let silent = there.heard.min(back.heard) + SILENCE <= now;
                match there.linked {
                    true if silent => self.link(one, other, false),
                    false if !there.cut && !back.cut => self.link(one, other, true),
                    _ => {}
                }
            }
        }
    }

    fn link(&mut self, one: usize, other: usize, up: bool) {
        for (from, to) in [(one, other), (other, one)] {
            // What was on its way is gone: it must not arrive over the next link.
            self.ways[from][to].lanes = Default::default();
            self.ways[from][to].linked = up;
            let node = self.nodes[from];
            self.reports[to].push_back(match up {
                true => Incoming::Up(node),
                false => Incoming::Down(node, "no answer".to_owned()),
            });
        }
    }
}
