//! Members that come and go, over a network that may lose everything.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::super::list::{Memory, NextList};
use super::*;
use crate::member::{Member, Role};
use crate::votes::testing;

const LEASE: &str = "schedule";

fn node(number: u8) -> Node {
    Node([number; 8])
}

fn eligible(numbers: &BTreeSet<u8>) -> Voters {
    let member = |number: &u8| (node(*number), testing::member(format!("m{number}"), Role::Master));
    let members: Vec<(Node, Member)> = numbers.iter().map(member).collect();
    Voters::among(members.iter().map(|(node, member)| (*node, member)))
}

/// A set whose members all want one lease.
struct Set {
    policy: OncePolicy,
    running: BTreeMap<u8, SetLeases>,
    saved: BTreeMap<u8, Bytes>,
    /// What each member knows of who belongs to the set.
    known: BTreeMap<u8, BTreeSet<u8>>,
    /// Pairs that are not linked.
    cut: BTreeSet<(u8, u8)>,
    linked: BTreeSet<(u8, u8)>,
    now: u64,
    boots: u64,
    /// Which list each number was given to.
    numbers: BTreeMap<(Ballot, u64), BTreeSet<Node>>,
    storm: Option<Storm>,
}

/// What may go wrong with messages, disks and processes.
struct Storm {
    random: StdRng,
    flying: BTreeMap<(u64, u64), (u8, u8, Bytes)>,
    sent: u64,
}

impl Set {
    fn new(policy: OncePolicy, members: &[u8]) -> Set {
        let mut set = Set {
            policy,
            running: BTreeMap::new(),
            saved: BTreeMap::new(),
            known: BTreeMap::new(),
            cut: BTreeSet::new(),
            linked: BTreeSet::new(),
            now: 1_000,
            boots: 0,
            numbers: BTreeMap::new(),
            storm: None,
        };
        members.iter().for_each(|member| set.join(*member, members));
        set
    }

    fn join(&mut self, member: u8, known: &[u8]) {
        self.known.insert(member, known.iter().copied().collect());
        self.start(member);
    }

    fn start(&mut self, member: u8) {
        self.boots += 1;
        let saved = self.saved.get(&member).map(|saved| SavedVoters::unpack(saved).expect("as it was written"));
        let (me, policy, round) = (node(member), self.policy, self.now << 16);
        let start = LeaseStart { me, policy, lease_time: 6_000, saved, is_newcomer: false, round, seed: self.boots };
        let mut leases = SetLeases::new(start, self.now);
        let first = leases.set_eligible(eligible(&self.known[&member]), self.now);
        self.running.insert(member, leases);
        self.carry_out(member, first);
        self.one(member, |leases, now| leases.want(LEASE, now));
        self.link();
    }

    fn stop(&mut self, member: u8) {
        self.running.remove(&member);
        self.link();
    }

    /// All members hear who belongs to the set.
    fn know(&mut self, members: &[u8]) {
        for member in self.running.keys().copied().collect::<Vec<_>>() {
            self.hear_of(member, members);
        }
    }

    fn hear_of(&mut self, member: u8, members: &[u8]) {
        let members: BTreeSet<u8> = members.iter().copied().collect();
        self.known.insert(member, members.clone());
        self.one(member, |leases, now| leases.set_eligible(eligible(&members), now));
    }

    /// Links those that run and are not cut off from each other, and ends other links.
    fn link(&mut self) {
        let running: Vec<u8> = self.running.keys().copied().collect();
        let pairs = running.iter().flat_map(|one| running.iter().map(move |other| (*one, *other)));
        let wanted: BTreeSet<(u8, u8)> = pairs
            .filter(|(one, other)| one != other)
            .filter(|(one, other)| !self.cut.contains(&(*one.min(other), *one.max(other))))
            .collect();
        let (down, up): (Vec<_>, Vec<_>) =
            (self.linked.difference(&wanted).copied().collect(), wanted.difference(&self.linked).copied().collect());
        self.linked = wanted;
        if let Some(storm) = &mut self.storm {
            // Nothing of one link arrives over the next.
            storm.flying.retain(|_, (from, to, _)| !down.contains(&(*from, *to)));
        }
        for (one, other) in down {
            if self.running.contains_key(&one) {
                self.one(one, |leases, now| leases.link(node(other), false, now));
            }
        }
        for (one, other) in up {
            self.one(one, |leases, now| leases.link(node(other), true, now));
        }
    }

    fn part(&mut self, one: &[u8], other: &[u8]) {
        let pairs = one.iter().flat_map(|one| other.iter().map(move |other| (*one.min(other), *one.max(other))));
        self.cut.extend(pairs);
        self.link();
    }

    fn heal(&mut self) {
        self.cut.clear();
        self.link();
    }

    fn one(&mut self, member: u8, act: impl FnOnce(&mut SetLeases, u64) -> Vec<SetAction>) {
        let now = self.now;
        let actions = self.running.get_mut(&member).map(|leases| act(leases, now)).unwrap_or_default();
        self.carry_out(member, actions);
    }

    fn carry_out(&mut self, member: u8, actions: Vec<SetAction>) {
        for action in actions {
            if self.fails(100) {
                return self.stop(member);
            }
            match action {
                SetAction::Save(_) if self.fails(10) => {
                    return self.running.get_mut(&member).into_iter().for_each(SetLeases::not_saved);
                }
                SetAction::Save(packed) => {
                    let list = SavedVoters::unpack(&packed).expect("as it was packed").list;
                    let known = self.numbers.entry((list.epoch, list.number)).or_insert_with(|| list.nodes.clone());
                    assert_eq!(known, &list.nodes, "two lists have the number {}", list.number);
                    self.saved.insert(member, packed);
                }
                SetAction::Send { to, packed } => self.send(member, to.0[0], packed),
                SetAction::NewVoters | SetAction::Taken { .. } | SetAction::Lost { .. } => {}
            }
        }
    }

    /// Returns whether an operation fails in this storm: one in 20 times `often` does.
    fn fails(&mut self, often: u32) -> bool {
        self.storm.as_mut().is_some_and(|storm| storm.random.random_ratio(1, 20 * often))
    }

    fn send(&mut self, from: u8, to: u8, packed: Bytes) {
        if !self.linked.contains(&(from, to)) {
            return;
        }
        let Some(storm) = &mut self.storm else { return self.deliver(from, to, &packed) };
        if storm.random.random_ratio(19, 20) {
            let delay = if storm.random.random_ratio(1, 10) { 2_000 } else { 100 };
            storm.sent += 1;
            let at = self.now + storm.random.random_range(0..=delay);
            storm.flying.insert((at, storm.sent), (from, to, packed));
        }
    }

    fn deliver(&mut self, from: u8, to: u8, packed: &Bytes) {
        if self.known.get(&to).is_some_and(|known| known.contains(&from)) {
            self.one(to, |leases, now| leases.receive(node(from), packed, now).expect("well formed"));
        }
    }

    fn arrive(&mut self) {
        while let Some(storm) = &mut self.storm
            && let Some(first) = storm.flying.first_entry().filter(|first| first.key().0 <= self.now)
        {
            let (from, to, packed) = first.remove();
            self.deliver(from, to, &packed);
        }
    }

    fn pass(&mut self, time: u64) {
        let end = self.now + time;
        while self.now < end {
            self.now += 20;
            self.arrive();
            for member in self.running.keys().copied().collect::<Vec<_>>() {
                if self.running.get(&member).is_some_and(|leases| leases.next_tick() <= self.now) {
                    self.one(member, SetLeases::tick);
                }
            }
            // By rank two may hold it. By votes never.
            let by_votes = self.holders().into_iter().filter(|holder| self.running[holder].mode() == Mode::Majority);
            assert!(by_votes.count() <= 1, "at {}: {:?} hold the lease", self.now, self.holders());
        }
    }

    /// Starts a member again whose file is lost.
    fn lose(&mut self, member: u8) {
        self.stop(member);
        self.saved.remove(&member);
        self.start(member);
    }

    /// Returns how many voters run that may choose the next list.
    fn remembering(&self) -> usize {
        let remembers = |member: &&u8| {
            let saved = self.saved.get(*member).and_then(|saved| SavedVoters::unpack(saved).ok());
            saved.is_some_and(|saved| saved.memory == Memory::Whole && saved.list.nodes.contains(&node(**member)))
        };
        self.running.keys().filter(remembers).count()
    }

    /// Returns whether all have their files and keep nothing back.
    fn all_remember(&self) -> bool {
        let remembers = |saved: &Bytes| SavedVoters::unpack(saved).is_ok_and(|saved| saved.memory == Memory::Whole);
        self.running.keys().all(|member| self.saved.contains_key(member)) && self.saved.values().all(remembers)
    }

    fn holders(&self) -> Vec<u8> {
        let holds = |(_, leases): &(&u8, &SetLeases)| leases.held(LEASE, self.now).is_some();
        self.running.iter().filter(holds).map(|(member, _)| *member).collect()
    }

    fn lists(&self) -> BTreeSet<Vec<u8>> {
        let nodes = |leases: &SetLeases| leases.roster.list().nodes.iter().map(|node| node.0[0]).collect();
        self.running.values().map(nodes).collect()
    }

    fn modes(&self) -> Vec<Mode> {
        self.running.values().map(SetLeases::mode).collect()
    }
}

#[test]
fn two_masters_take_leases_by_rank_and_three_by_votes() {
    let mut set = Set::new(OncePolicy::Auto, &[1, 2]);
    set.pass(12_000);
    assert_eq!((set.holders(), set.modes()), (vec![1], vec![Mode::Available; 2]));
    set.join(3, &[1, 2, 3]);
    set.pass(100);
    assert_eq!(set.lists(), [vec![]].into(), "the others have not heard of the third one");
    set.know(&[1, 2, 3]);
    set.pass(1_100);
    assert_eq!((set.lists(), set.holders()), ([vec![1, 2, 3]].into(), vec![]));
    set.pass(8_000);
    assert_eq!((set.holders().len(), set.modes()), (1, vec![Mode::Majority; 3]));
    let holder = set.holders()[0];
    let other = [1, 2, 3].into_iter().find(|member| *member != holder).expect("three");
    let (shown, left) = set.running[&other].holder(LEASE, set.now).expect("it has granted it");
    assert!(shown == node(holder) && left.is_some_and(|left| left <= 6_000));
}

#[test]
fn a_member_with_a_new_disk_waits_for_the_others_before_it_takes_a_lease() {
    for (is_newcomer, from) in [(true, 11_000), (false, 1_000)] {
        let (policy, round, saved) = (OncePolicy::Auto, 1_000 << 16, None);
        let start = LeaseStart { me: node(1), policy, lease_time: 6_000, saved, is_newcomer, round, seed: 1 };
        let mut leases = SetLeases::new(start, 1_000);
        leases.set_eligible(eligible(&BTreeSet::from([1])), 1_000);
        leases.want(LEASE, 1_000);
        leases.tick(from - 1);
        assert_eq!(leases.held(LEASE, from - 1).is_some(), !is_newcomer);
        leases.tick(from);
        assert!(leases.held(LEASE, from).is_some());
    }
}

#[test]
fn a_member_that_the_set_has_refused_gives_its_leases_back_until_it_is_let_in() {
    for policy in [OncePolicy::Auto, OncePolicy::Available] {
        let mut set = Set::new(policy, &[1]);
        set.pass(12_000);
        assert_eq!(set.holders(), [1]);
        set.one(1, |leases, now| leases.set_outside(true, now));
        assert_eq!(set.holders(), Vec::<u8>::new());
        set.pass(60_000);
        assert_eq!(set.holders(), Vec::<u8>::new());
        set.one(1, |leases, now| leases.set_outside(false, now));
        set.pass(30_000);
        assert_eq!(set.holders(), [1]);
    }
}

#[test]
fn a_lease_moves_from_a_dead_holder_and_a_minority_holds_nothing() {
    let mut set = Set::new(OncePolicy::Majority, &[1, 2, 3]);
    set.pass(8_000);
    let dead = set.holders()[0];
    set.stop(dead);
    set.pass(8_000);
    let (holder, alive) = (set.holders()[0], set.running.keys().copied().collect::<Vec<_>>());
    assert_ne!(holder, dead);
    set.part(&alive[..1], &alive[1..]);
    set.pass(6_000);
    assert_eq!(set.holders(), Vec::<u8>::new());
    set.pass(60_000);
    assert_eq!(set.holders(), Vec::<u8>::new());
    set.start(dead);
    set.pass(10_000);
    assert_eq!(set.holders().len(), 1, "with the third one there is a majority");
}

#[test]
fn a_member_that_was_cut_off_at_the_founding_keeps_leases_by_rank_and_nobody_else_takes_them() {
    let mut set = Set::new(OncePolicy::Auto, &[1, 2]);
    set.pass(12_000);
    set.join(3, &[1, 2, 3]);
    set.part(&[2], &[1, 3]);
    // A founding needs all.
    set.know(&[1, 2, 3]);
    set.pass(30_000);
    assert_eq!(set.lists(), [vec![]].into());
    set.heal();
    set.pass(30_000);
    assert_eq!((set.lists(), set.holders().len()), ([vec![1, 2, 3]].into(), 1));
}

#[test]
fn a_removed_voter_stops_and_another_one_takes_over() {
    let mut set = Set::new(OncePolicy::Auto, &[1, 2, 3, 4]);
    set.pass(10_000);
    let holder = set.holders()[0];
    let left: Vec<u8> = (1..=4).filter(|member| *member != holder).collect();
    // The removed one hears nothing any more, not even that.
    set.part(&[holder], &left);
    left.iter().for_each(|member| set.hear_of(*member, &left));
    set.pass(20_000);
    assert_eq!(set.holders().len(), 1);
    assert_ne!(set.holders()[0], holder);
    set.stop(holder);
    assert_eq!(set.lists(), [left].into());
}

#[test]
fn voters_come_and_go_one_at_a_time_and_below_three_leases_go_by_rank() {
    let mut set = Set::new(OncePolicy::Auto, &[1, 2, 3]);
    set.pass(10_000);
    set.join(4, &[1, 2, 3, 4, 5]);
    set.join(5, &[1, 2, 3, 4, 5]);
    set.know(&[1, 2, 3, 4, 5]);
    set.pass(4_000);
    let (lists, four) = (set.lists(), [[1, 2, 3, 4], [1, 2, 3, 5]]);
    assert!(lists.len() == 1 && four.iter().any(|four| lists.contains(&four[..])), "one at a time: {lists:?}");
    set.pass(12_000);
    assert_eq!(set.lists(), [vec![1, 2, 3, 4, 5]].into());
    // A dead one is replaced by another before it goes.
    set.stop(1);
    set.know(&[2, 3, 4, 5]);
    set.pass(20_000);
    assert_eq!((set.lists(), set.holders().len()), ([vec![2, 3, 4, 5]].into(), 1));
    for gone in [5, 4] {
        set.stop(gone);
        let left: Vec<u8> = set.running.keys().copied().collect();
        set.know(&left);
        set.pass(30_000);
    }
    assert_eq!((set.lists(), set.modes()), ([vec![]].into(), vec![Mode::Available; 2]));
    assert_eq!(set.holders(), [2], "the first of two");
}

#[test]
fn a_restart_of_all_keeps_the_list() {
    let mut set = Set::new(OncePolicy::Auto, &[1, 2, 3]);
    set.pass(10_000);
    [1, 2, 3].into_iter().for_each(|member| set.stop(member));
    set.start(1);
    set.start(2);
    // The third one stays away: a new founding would wait for it.
    set.pass(10_000);
    assert_eq!((set.holders().len(), set.modes()), (1, vec![Mode::Majority; 2]));
}

#[test]
fn without_three_voters_nobody_holds_a_lease_that_needs_a_majority() {
    let mut set = Set::new(OncePolicy::Majority, &[1, 2]);
    set.pass(30_000);
    assert_eq!((set.holders(), set.modes()), (vec![], vec![Mode::Majority; 2]));
}

#[test]
fn a_list_whose_majority_is_gone_for_good_is_forgotten_when_somebody_says_so() {
    let mut set = Set::new(OncePolicy::Auto, &[1, 2, 3]);
    set.pass(10_000);
    set.stop(2);
    set.stop(3);
    set.know(&[1]);
    set.pass(60_000);
    assert_eq!(set.holders(), Vec::<u8>::new());
    set.one(1, SetLeases::forget_voters);
    set.pass(10_000);
    assert_eq!((set.holders(), set.modes()), (vec![1], vec![Mode::Available]));
}

#[test]
fn a_voter_that_lost_its_file_votes_when_the_others_have_told_it_and_chooses_from_the_next_list_on() {
    let mut set = Set::new(OncePolicy::Auto, &[1, 2, 3]);
    set.pass(10_000);
    let lost = [1, 2, 3].into_iter().find(|member| !set.holders().contains(member)).expect("one does not hold it");
    let others: Vec<u8> = [1, 2, 3].into_iter().filter(|member| *member != lost).collect();
    set.part(&[lost], &others);
    set.lose(lost);
    set.pass(30_000);
    assert_eq!(set.holders().len(), 1, "alone it may not even go by rank");
    assert!(others.contains(&set.holders()[0]));
    // It hears from one that it is a voter. That is not enough.
    set.cut.remove(&(lost.min(others[0]), lost.max(others[0])));
    set.part(&[others[0]], &[others[1]]);
    set.pass(30_000);
    assert_eq!((set.holders(), set.running[&lost].has_lost_voters()), (vec![], true));
    set.heal();
    set.pass(30_000);
    assert_eq!((set.holders().len(), set.all_remember()), (1, true));
}

#[test]
fn voters_that_lost_their_files_together_wait_for_a_person() {
    let mut set = Set::new(OncePolicy::Majority, &[1, 2, 3]);
    set.pass(10_000);
    set.lose(1);
    set.lose(2);
    set.pass(60_000);
    assert_eq!(set.holders(), Vec::<u8>::new());
    set.one(3, SetLeases::forget_voters);
    set.pass(20_000);
    assert_eq!((set.lists(), set.holders().len()), ([vec![1, 2, 3]].into(), 1));
}

#[test]
fn what_was_accepted_when_the_first_list_was_made_is_finished_by_those_who_are_left() {
    let mut set = Set::new(OncePolicy::Auto, &[1, 2, 3]);
    // The third one has accepted the list, and nobody knows that it was chosen.
    let accepted = (Ballot { round: 1, node: node(3) }, [1, 2, 3].map(node).into());
    let next = NextList { promised: accepted.0, accepted: Some(accepted) };
    let mut set = {
        set.running.clear();
        set.saved = [(3, SavedVoters { next, lease_time: 6_000, ..SavedVoters::default() }.pack())].into();
        set.numbers.clear();
        set.linked.clear();
        set
    };
    set.know(&[2, 3]);
    set.join(2, &[2, 3]);
    set.join(3, &[2, 3]);
    set.pass(60_000);
    assert_eq!((set.lists(), set.holders()), ([vec![]].into(), vec![2]));
    assert_eq!(set.numbers.keys().map(|(_, number)| *number).max(), Some(2));
}

/// Members join, leave, crash, restart with their files or without, and are cut off from each other, over a network and on disks
/// that fail.
#[test]
fn by_votes_no_two_members_hold_a_lease_however_the_set_changes() {
    for seed in 0..STORMS {
        storm(seed);
    }
}

const STORMS: u64 = 40;

fn storm(seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut set = Set::new(OncePolicy::Majority, &[1, 2, 3]);
    set.storm = Some(Storm { random: StdRng::seed_from_u64(!seed), flying: BTreeMap::new(), sent: 0 });
    let mut members = BTreeSet::from([1, 2, 3]);
    for _ in 0..40 {
        change(&mut set, &mut members, &mut random);
        for member in set.running.keys().copied().collect::<Vec<_>>() {
            if random.random_ratio(2, 3) {
                set.hear_of(member, &members.iter().copied().collect::<Vec<_>>());
            }
        }
        let time = if random.random() { 9_000 } else { 1_500 };
        set.pass(random.random_range(20..time));
    }
    set.storm = None;
    set.heal();
    let gone: Vec<u8> = set.running.keys().copied().filter(|member| !members.contains(member)).collect();
    gone.into_iter().for_each(|gone| set.stop(gone));
    for member in members.clone() {
        if !set.running.contains_key(&member) {
            set.start(member);
        }
    }
    let all: Vec<u8> = members.iter().copied().collect();
    set.know(&all);
    set.pass(120_000);
    if set.remembering() < set.running[&all[0]].voters().majority() {
        // With those that are gone, too few are left that know what they have promised.
        set.one(all[0], SetLeases::forget_voters);
        set.pass(60_000);
    }
    assert_eq!((set.lists(), set.holders().len()), ([all].into(), 1), "seed {seed}");
}

fn change(set: &mut Set, members: &mut BTreeSet<u8>, random: &mut StdRng) {
    let some = random.random_range(1..=6);
    match random.random_range(0..9) {
        0 if !members.contains(&some) && !set.known.contains_key(&some) => {
            members.insert(some);
            set.join(some, &members.iter().copied().collect::<Vec<_>>());
        }
        1 if members.len() > 3 && set.lists() == [members.iter().copied().collect()].into() => {
            members.remove(&some);
        }
        2 => set.stop(some),
        3 if members.contains(&some) => {
            set.stop(some);
            set.start(some);
        }
        4 if members.contains(&some) && set.all_remember() => set.lose(some),
        5 | 6 => {
            let (one, other): (Vec<u8>, Vec<u8>) = (1..=6).partition(|_| random.random());
            set.part(&one, &other);
        }
        _ => set.heal(),
    }
}
