//! Storms: three minutes of faults over members that take leases, from a seed.
//!
//! A failure names the seed of its storm; `Storm::new(seed, policy, true)` keeps the trace of one. `SALTERN_LEASE_STORMS` sets
//! how many there are.

mod checks;
mod faults;
mod network;

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{LeaseAction, LeaseTimes, Leases, OncePolicy, Voters, testing};
use crate::Node;
use crate::member::{Member, Role};
use checks::Checks;
use faults::{Fault, Kind};
use network::{Event, Network, Packet, SECOND};

const LEASE: &str = "schedule";
const TIMES: LeaseTimes = LeaseTimes { lease: 6_000, earlier: 6_000 };
/// How long faults happen, and how long it is calm after them.
const LENGTH: u64 = 180 * SECOND;
const CALM: u64 = 40 * SECOND;

/// What a storm showed.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    /// Microseconds of the three minutes in which somebody held the lease.
    held: u64,
    /// How often the lease was taken.
    taken: usize,
    messages: usize,
    trace: Vec<String>,
}

/// A simulated member.
struct Peer {
    node: Node,
    leases: Option<Leases>,
    voters: Voters,
    lists: u64,
    /// Its monotonic clock: origin in milliseconds, and how many millionths it is fast.
    origin: u64,
    fast: i64,
    boot: u32,
    paused_until: u64,
    /// The local time of the next tick that is posted.
    tick_at: Option<u64>,
    heard: Vec<Option<u64>>,
    runs_end: Vec<u64>,
}

struct Storm {
    network: Network,
    peers: Vec<Peer>,
    policy: OncePolicy,
    checks: Checks,
    trace: Option<Vec<String>>,
    messages: usize,
    changes_voters: bool,
    /// Since when the first member knows that others have its list of voters.
    agreeing: BTreeMap<Node, u64>,
}

impl Peer {
    fn local(&self, now: u64) -> u64 {
        let elapsed = (i128::from(now) * i128::from(1_000_000 + self.fast) / 1_000_000_000) as u64;
        self.origin + elapsed
    }

    /// Returns the first true time at which the local clock shows this.
    fn true_time(&self, local: u64) -> u64 {
        let elapsed = u128::from(local.saturating_sub(self.origin)) * 1_000_000_000;
        let rate = (1_000_000 + self.fast) as u128;
        elapsed.div_ceil(rate) as u64
    }
}

fn node(number: usize) -> Node {
    Node([number as u8 + 1; 8])
}

fn voters_of(numbers: impl IntoIterator<Item = usize>, witness: Option<usize>) -> Voters {
    let role = |number| if witness == Some(number) { Role::Witness } else { Role::Master };
    let named = |number| (node(number), testing::member(format!("m{number}"), role(number)));
    let members: Vec<(Node, Member)> = numbers.into_iter().map(named).collect();
    Voters::among(members.iter().map(|(node, member)| (*node, member)))
}

impl Storm {
    fn new(seed: u64, policy: OncePolicy, traced: bool) -> Storm {
        let mut random = StdRng::seed_from_u64(seed);
        let members = if policy == OncePolicy::Available { 2 } else { random.random_range(3..=5) };
        let changes_voters = policy == OncePolicy::Majority && random.random_ratio(1, 4);
        let first = if changes_voters { random.random_range(2..=members) } else { members };
        let witness = (policy == OncePolicy::Majority && random.random_ratio(1, 4)).then_some(1);
        let voters = voters_of(0..first, witness);
        let mut peers = Vec::new();
        for number in 0..members {
            peers.push(Peer {
                node: node(number),
                leases: None,
                voters: voters.clone(),
                lists: 0,
                origin: 0,
                fast: random.random_range(-20_000..=20_000),
                boot: 0,
                paused_until: 0,
                tick_at: None,
                heard: vec![None; members],
                runs_end: Vec::new(),
            });
        }
        let faults = faults::faults(&mut random, members, LENGTH);
        let mut network = Network::new(members, random);
        for fault in faults {
            network.post(fault.begins, Event::Fault(fault.clone()));
            network.post(fault.ends, Event::FaultEnds(fault));
        }
        network.post(0, Event::Second);
        let trace = traced.then(Vec::new);
        let (checks, agreeing) = (Checks::new(seed), BTreeMap::new());
        Storm { network, peers, policy, checks, trace, messages: 0, changes_voters, agreeing }
    }

    fn run(mut self) -> Outcome {
        (0..self.peers.len()).for_each(|number| self.boot(number));
        while let Some(event) = self.network.next(LENGTH + CALM) {
            if let Some(trace) = &mut self.trace {
                trace.push(format!("{} {event:?}", self.network.now));
            }
            self.happens(event);
            self.check();
        }
        self.checks.end(&self.holders());
        let (held, taken) = (self.checks.held, self.checks.taken);
        Outcome { held, taken, messages: self.messages, trace: self.trace.unwrap_or_default() }
    }

    fn happens(&mut self, event: Event) {
        let now = self.network.now;
        match event {
            Event::Arrives { from, to, packet } if self.peers[to].paused_until > now => {
                // It waits in a buffer of the host.
                let until = self.peers[to].paused_until;
                self.network.post(until, Event::Arrives { from, to, packet });
            }
            Event::Arrives { from, to, packet } => self.arrives(from, to, packet),
            Event::Tick { member, boot, due } => self.tick(member, boot, due),
            Event::Fault(fault) => self.fault(&fault),
            Event::FaultEnds(fault) => self.fault_ends(&fault),
            Event::Second => {
                self.network.post(now + SECOND / 2, Event::Second);
                (0..self.peers.len()).for_each(|number| self.second(number));
                if self.changes_voters && now < LENGTH {
                    self.change_voters();
                }
            }
        }
    }

    fn boot(&mut self, number: usize) {
        let now = self.network.now;
        if number == 0 {
            self.agreeing.clear();
        }
        let origin = self.network.random.random_range(0..1_000_000_000);
        let seed = self.network.random.random();
        let peer = &mut self.peers[number];
        peer.boot += 1;
        peer.origin = origin;
        peer.tick_at = None;
        peer.heard.fill(None);
        peer.runs_end.clear();
        let local = peer.local(now);
        let round = (now / 1_000 + 1_000) << 16;
        let mut leases = Leases::new(peer.node, self.policy, TIMES, round, seed, local);
        let mut acts = leases.set_voters(peer.voters.clone(), local);
        acts.extend(leases.want(LEASE, local));
        peer.leases = Some(leases);
        self.carry_out(number, acts);
    }

    fn tick(&mut self, number: usize, boot: u32, due: u64) {
        let now = self.network.now;
        let peer = &mut self.peers[number];
        // Another call may have postponed it.
        if peer.boot != boot || peer.tick_at != Some(due) {
            return;
        }
        if peer.paused_until > now {
            return self.network.post(peer.paused_until, Event::Tick { member: number, boot, due });
        }
        let local = peer.local(now);
        let Some(leases) = &mut peer.leases else { return };
        peer.tick_at = None;
        let acts = leases.tick(local);
        self.carry_out(number, acts);
    }

    fn arrives(&mut self, from: usize, to: usize, packet: Packet) {
        let now = self.network.now;
        let from_node = self.peers[from].node;
        let peer = &mut self.peers[to];
        let local = peer.local(now);
        let Some(leases) = &mut peer.leases else { return };
        let acts = match packet {
            Packet::Vote(message) => leases.receive(from_node, &message, local),
            Packet::Voters(lists, voters) if lists > peer.lists => {
                peer.lists = lists;
                peer.voters = voters.clone();
                leases.set_voters(voters, local)
            }
            Packet::Voters(..) => Vec::new(),
            Packet::Beat => match peer.heard[from].replace(now) {
                None => leases.link(from_node, true, local),
                Some(_) => Vec::new(),
            },
        };
        self.carry_out(to, acts);
    }

    fn carry_out(&mut self, number: usize, acts: Vec<LeaseAction>) {
        for act in acts {
            match act {
                LeaseAction::Send { to, message } => {
                    self.messages += 1;
                    let to = self.peers.iter().position(|peer| peer.node == to).expect("only members get messages");
                    assert_ne!(to, number, "a member sends itself nothing");
                    self.network.send(number, to, Packet::Vote(message));
                }
                LeaseAction::Taken { fence, .. } => self.checks.taken(number, fence),
                LeaseAction::Lost { .. } => {}
            }
        }
        let peer = &mut self.peers[number];
        let due = peer.leases.as_ref().and_then(Leases::next_tick);
        if let Some(due) = due.filter(|due| peer.tick_at != Some(*due)) {
            peer.tick_at = Some(due);
            self.network.post(peer.true_time(due), Event::Tick { member: number, boot: peer.boot, due });
        }
    }

    fn fault(&mut self, fault: &Fault) {
        self.network.fault(fault, true);
        match fault.kind {
            Kind::Pause(number) => self.peers[number].paused_until = self.peers[number].paused_until.max(fault.ends),
            Kind::Restart(number) => {
                self.peers[number].leases = None;
                self.peers[number].boot += 1;
            }
            Kind::Cut(_) | Kind::Loss(_) | Kind::Slow => {}
        }
    }

    fn fault_ends(&mut self, fault: &Fault) {
        self.network.fault(fault, false);
        if let Kind::Restart(number) = fault.kind
            && self.peers[number].leases.is_none()
        {
            self.boot(number);
        }
    }

    /// What a member does twice a second: beats, notices silence, begins and ends runs.
    fn second(&mut self, number: usize) {
        let now = self.network.now;
        let peer = &self.peers[number];
        if peer.leases.is_none() || peer.paused_until > now {
            return;
        }
        if self.policy == OncePolicy::Available {
            self.beat(number);
            self.work(number);
        } else if self.changes_voters {
            let list = Packet::Voters(peer.lists, peer.voters.clone());
            (0..self.peers.len()).filter(|to| *to != number).for_each(|to| self.network.send(number, to, list.clone()));
        }
    }

    fn beat(&mut self, number: usize) {
        let now = self.network.now;
        for other in (0..self.peers.len()).filter(|other| *other != number) {
            self.network.send(number, other, Packet::Beat);
            let node = self.peers[other].node;
            let peer = &mut self.peers[number];
            let local = peer.local(now);
            let silent = peer.heard[other].is_some_and(|heard| heard + 2 * SECOND < now);
            let Some(leases) = peer.leases.as_mut().filter(|_| silent) else { continue };
            peer.heard[other] = None;
            let acts = leases.link(node, false, local);
            self.carry_out(number, acts);
        }
    }

    fn work(&mut self, number: usize) {
        let now = self.network.now;
        let begins = self.network.random.random_ratio(1, 10);
        let length = self.network.random.random_range(0..8 * SECOND);
        let peer = &mut self.peers[number];
        let local = peer.local(now);
        let Some(leases) = &mut peer.leases else { return };
        let before = peer.runs_end.len();
        peer.runs_end.retain(|end| *end > now);
        let mut acts = Vec::new();
        (peer.runs_end.len()..before).for_each(|_| acts.extend(leases.finish(LEASE, local)));
        if begins && leases.begin(LEASE, local).is_some() {
            peer.runs_end.push(now + length);
        }
        self.carry_out(number, acts);
    }

    /// An operator at the first member adds or removes a voter.
    fn change_voters(&mut self) {
        let now = self.network.now;
        let peer = &self.peers[0];
        let local = peer.local(now);
        let agrees = |number: &usize| {
            let other = &self.peers[*number];
            self.network.open(0, *number) && other.leases.is_some() && other.voters.digest() == peer.voters.digest()
        };
        let agree: BTreeSet<Node> = (0..self.peers.len()).filter(agrees).map(node).collect();
        if peer.leases.is_none() || peer.paused_until > now {
            return self.agreeing.clear();
        }
        self.agreeing.retain(|node, _| agree.contains(node));
        agree.into_iter().for_each(|node| _ = self.agreeing.entry(node).or_insert(local));
        if self.network.random.random_ratio(9, 10) {
            return;
        }
        let chosen = self.network.random.random_range(0..self.peers.len());
        let votes = |number: &usize| peer.voters.contains(node(*number)) != (*number == chosen);
        let next = voters_of((0..self.peers.len()).filter(votes), None);
        let known_for = self.agreeing.iter().map(|(node, since)| (*node, local - since)).collect();
        if next.is_empty() || peer.voters.check_change(&next, &known_for, TIMES).is_err() {
            return;
        }
        self.agreeing.clear();
        let peer = &mut self.peers[0];
        let local = peer.local(now);
        peer.lists += 1;
        peer.voters = next.clone();
        let acts = peer.leases.as_mut().map(|leases| leases.set_voters(next, local)).unwrap_or_default();
        self.carry_out(0, acts);
    }

    /// Returns the members that may begin a run now, each with the true time at which that ends.
    fn holders(&self) -> Vec<(usize, u64)> {
        let now = self.network.now;
        let holds = |(number, peer): (usize, &Peer)| {
            let until = peer.leases.as_ref()?.may_begin_until(LEASE, peer.local(now))?;
            Some((number, peer.true_time(until)))
        };
        self.peers.iter().enumerate().filter_map(holds).collect()
    }

    fn check(&mut self) {
        let now = self.network.now;
        let up = |peer: &Peer| peer.leases.is_some() && peer.paused_until <= now;
        let calm = self.network.is_calm() && self.peers.iter().all(up);
        let holders = self.holders();
        match self.policy {
            OncePolicy::Available => self.checks.available(now, calm, &holders),
            _ => self.checks.majority(now, &holders),
        }
        self.checks.count(now, LENGTH, &holders);
    }
}

/// How many storms of each mode a run has without `SALTERN_LEASE_STORMS`.
const STORMS: u64 = 60;

/// Runs storms from consecutive seeds on all processors, and returns the part of the time for which the lease was held.
fn storms(policy: OncePolicy) -> f64 {
    let count =
        std::env::var("SALTERN_LEASE_STORMS").map_or(STORMS, |count| count.parse().expect("SALTERN_LEASE_STORMS"));
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let run =
            |first: u64| (first..count).step_by(threads as usize).map(|seed| Storm::new(seed, policy, false).run());
        let running: Vec<_> = (0..threads).map(|first| scope.spawn(move || run(first).collect::<Vec<_>>())).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("no storm fails")).collect()
    });
    let average = |of: fn(&Outcome) -> f64| outcomes.iter().map(of).sum::<f64>() / count as f64;
    let held = average(|outcome| outcome.held as f64 / LENGTH as f64);
    let (taken, messages) = (average(|outcome| outcome.taken as f64), average(|outcome| outcome.messages as f64));
    println!(
        "{policy:?}: {count} storms, held {:.1} % of the time, taken {taken:.1} times, {messages:.0} messages",
        held * 100.0
    );
    held
}

#[test]
fn no_lease_has_two_holders_in_storms_of_votes() {
    let held = storms(OncePolicy::Majority);
    assert!(held > 0.8, "the lease was held {held} of the time");
}

#[test]
fn two_members_hold_a_lease_only_while_cut_in_storms_of_ranks() {
    let held = storms(OncePolicy::Available);
    assert!(held > 0.9, "the lease was held {held} of the time");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for policy in [OncePolicy::Majority, OncePolicy::Available] {
        let outcome = Storm::new(7, policy, true).run();
        assert!(outcome.trace.len() > 1_000, "little happens");
        assert_eq!(outcome, Storm::new(7, policy, true).run());
    }
}
