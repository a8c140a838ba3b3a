//! The rules of leases, one by one, over a network that delivers at once.

use std::collections::{BTreeMap, BTreeSet};

use super::voter::Voter;
use super::*;
use crate::member::{Member, Right, Rights, Role};

const TIMES: LeaseTimes = LeaseTimes { lease: 6_000, earlier: 6_000 };
const LEASE: &str = "schedule";

fn node(number: u8) -> Node {
    Node([number; 8])
}

fn ballot(round: u64, number: u8) -> Ballot {
    Ballot { round, node: node(number) }
}

fn members(roles: &[Role]) -> Vec<(Node, Member)> {
    let member = |(number, role): (usize, &Role)| {
        let number = number as u8 + 1;
        (node(number), testing::member(format!("m{number}"), *role))
    };
    roles.iter().enumerate().map(member).collect()
}

fn voters(roles: &[Role]) -> Voters {
    Voters::among(members(roles).iter().map(|(node, member)| (*node, member)))
}

/// Members that are all linked, but for those that are away.
struct Set {
    members: BTreeMap<Node, Leases>,
    away: BTreeSet<Node>,
    now: u64,
}

impl Set {
    fn new(policy: OncePolicy, roles: &[Role]) -> Set {
        let voters = voters(roles);
        let start = |node: Node| {
            let mut leases = Leases::new(node, policy, TIMES, 0, u64::from(node.0[0]), 0);
            let nothing = leases.set_voters(voters.clone(), 0);
            assert_eq!(nothing, []);
            (node, leases)
        };
        let members = members(roles).into_iter().map(|(node, _)| start(node)).collect();
        Set { members, away: BTreeSet::new(), now: 0 }
    }

    /// All members want the lease.
    fn want(&mut self) {
        self.all(|leases, now| leases.want(LEASE, now));
    }

    fn link_all(&mut self) {
        let nodes: Vec<Node> = self.members.keys().copied().collect();
        for other in nodes {
            self.all(|leases, now| if leases.me == other { Vec::new() } else { leases.link(other, true, now) });
        }
    }

    fn all(&mut self, act: impl Fn(&mut Leases, u64) -> Vec<LeaseAction>) {
        let nodes: Vec<Node> = self.members.keys().copied().filter(|node| !self.away.contains(node)).collect();
        nodes.into_iter().for_each(|node| self.one(node, &act));
    }

    fn one(&mut self, from: Node, act: impl FnOnce(&mut Leases, u64) -> Vec<LeaseAction>) {
        let acts = act(self.members.get_mut(&from).expect("a member"), self.now);
        let mut queue: std::collections::VecDeque<(Node, LeaseAction)> =
            acts.into_iter().map(|act| (from, act)).collect();
        while let Some((from, act)) = queue.pop_front() {
            let LeaseAction::Send { to, message } = act else { continue };
            if !self.away.contains(&from) && !self.away.contains(&to) {
                let answers = self.members.get_mut(&to).expect("a member").receive(from, &message, self.now);
                queue.extend(answers.into_iter().map(|act| (to, act)));
            }
        }
    }

    /// Lets time pass until the condition holds, and returns how much it was.
    fn until(&mut self, longest: u64, condition: impl Fn(&Set) -> bool) -> u64 {
        let began = self.now;
        while !condition(self) {
            assert!(self.now - began < longest, "not within {longest} ms; holders: {:?}", self.holders());
            self.now += 1;
            self.all(
                |leases, now| if leases.next_tick().is_some_and(|due| due <= now) { leases.tick(now) } else { vec![] },
            );
        }
        self.now - began
    }

    fn holders(&self) -> Vec<Node> {
        let holds = |(node, leases): (&Node, &Leases)| leases.held(LEASE, self.now).map(|_| *node);
        self.members.iter().filter(|(node, _)| !self.away.contains(node)).filter_map(holds).collect()
    }

    fn fence(&self) -> Option<Ballot> {
        self.members.get(self.holders().first()?)?.held(LEASE, self.now)
    }
}

const MASTERS: [Role; 3] = [Role::Master; 3];

#[test]
fn one_of_three_takes_the_lease_when_their_silence_ends() {
    let mut set = Set::new(OncePolicy::Auto, &MASTERS);
    set.want();
    let took = set.until(8_000, |set| !set.holders().is_empty());
    assert!(took >= TIMES.silence(), "voters spoke after {took} ms");
    let fence = set.fence();
    set.until(60_001, |set| set.now > 60_000 || set.holders().len() != 1);
    assert!(set.now > 60_000, "the lease is renewed in time");
    assert_eq!(set.fence(), fence, "the fence stays");
}

#[test]
fn a_dead_holder_is_replaced_within_seven_seconds() {
    let mut set = Set::new(OncePolicy::Auto, &MASTERS);
    set.want();
    set.until(8_000, |set| !set.holders().is_empty());
    let (dead, fence) = (set.holders()[0], set.fence());
    set.away.insert(dead);
    let took = set.until(7_000, |set| !set.holders().is_empty());
    assert!(took > 3_900, "taken {took} ms after the holder died, which may have renewed 2,000 ms before");
    assert!(set.fence() > fence);
}

#[test]
fn a_released_lease_is_taken_by_another_at_once() {
    let mut set = Set::new(OncePolicy::Auto, &MASTERS);
    set.want();
    set.until(8_000, |set| !set.holders().is_empty());
    let holder = set.holders()[0];
    set.one(holder, |leases, _| leases.release(LEASE));
    assert_eq!(set.holders(), []);
    let took = set.until(1_000, |set| !set.holders().is_empty());
    assert!(took <= 300, "{took} ms");
    assert_ne!(set.holders()[0], holder);
}

#[test]
fn without_a_majority_nobody_holds() {
    let mut set = Set::new(OncePolicy::Auto, &MASTERS);
    set.away = [node(2), node(3)].into();
    set.want();
    set.until(30_001, |set| set.now > 30_000 || !set.holders().is_empty());
    assert_eq!(set.holders(), []);
}

#[test]
fn a_witness_makes_a_majority_with_one_master_and_never_holds() {
    let mut set = Set::new(OncePolicy::Auto, &[Role::Master, Role::Witness, Role::Master]);
    assert_eq!(set.members[&node(1)].mode(), Mode::Majority);
    set.away.insert(node(1));
    set.want();
    set.until(8_000, |set| !set.holders().is_empty());
    assert_eq!(set.holders(), [node(3)]);
}

#[test]
fn readers_and_members_without_the_right_do_not_vote() {
    let mut members = members(&[Role::Master, Role::Reader, Role::Master, Role::Witness]);
    members[2].1.may = Rights::only(&[Right::Keys]);
    let voters = Voters::among(members.iter().map(|(node, member)| (*node, member)));
    assert_eq!(voters.nodes().collect::<Vec<_>>(), [node(1), node(4)]);
    assert!(voters.may_hold(node(1)) && !voters.may_hold(node(4)) && !voters.may_hold(node(3)));
}

/// The member 1 with a lease that it is about to get: it waits for the voters 2 and 3.
fn candidate() -> (Leases, Ballot, u64) {
    let mut leases = Leases::new(node(1), OncePolicy::Auto, TIMES, 0, 1, 0);
    assert_eq!(leases.set_voters(voters(&MASTERS), 0), []);
    let asked = leases.want(LEASE, 10_000);
    let LeaseAction::Send { message: VoteMessage { vote: Vote::Prepare(ballot), .. }, .. } = asked[0] else {
        panic!("{asked:?}")
    };
    assert_eq!(hear(&mut leases, Vote::Promise(ballot), 10_100).len(), 2, "accept to 2 and 3");
    (leases, ballot, 10_100)
}

/// Lets the member hear this from voter 2.
fn hear(leases: &mut Leases, vote: Vote, now: u64) -> Vec<LeaseAction> {
    let voters = leases.voters().digest();
    leases.receive(node(2), &VoteMessage { lease: LEASE.into(), voters, vote }, now)
}

#[test]
fn a_hold_counts_from_before_accept_was_sent_and_ends_at_nine_tenths() {
    let (mut leases, ballot, sent) = candidate();
    let taken = hear(&mut leases, Vote::Accepted(ballot, 6_000), sent + 500);
    assert_eq!(taken, [LeaseAction::Taken { lease: LEASE.into(), fence: ballot }]);
    assert_eq!(leases.held(LEASE, sent + 5_399), Some(ballot));
    assert_eq!(leases.held(LEASE, sent + 5_400), None);
    assert!(leases.tick(sent + 5_400).contains(&LeaseAction::Lost { lease: LEASE.into() }));
}

#[test]
fn an_acceptance_that_comes_too_late_counts_nothing() {
    let (mut leases, ballot, sent) = candidate();
    hear(&mut leases, Vote::Accepted(ballot, 6_000), sent + 5_400);
    assert_eq!(leases.held(LEASE, sent + 5_400), None);
}

#[test]
fn a_shorter_grant_makes_a_shorter_hold() {
    let (mut leases, ballot, sent) = candidate();
    hear(&mut leases, Vote::Accepted(ballot, 2_000), sent + 10);
    assert_eq!(leases.held(LEASE, sent + 1_799), Some(ballot));
    assert_eq!(leases.held(LEASE, sent + 1_800), None);
}

#[test]
fn a_lease_is_renewed_after_a_third_of_its_time_with_a_new_ballot() {
    let (mut leases, ballot, sent) = candidate();
    hear(&mut leases, Vote::Accepted(ballot, 6_000), sent + 10);
    assert_eq!(leases.next_tick(), Some(sent + 2_000));
    let asked = leases.tick(sent + 2_000);
    let LeaseAction::Send { message: VoteMessage { vote: Vote::Prepare(newer), .. }, .. } = asked[0] else {
        panic!("{asked:?}")
    };
    assert!(newer > ballot);
}

#[test]
fn a_refused_candidate_gives_its_grants_back_and_asks_again_after_a_second() {
    for seed in 0..50 {
        let (mut leases, ballot, now) = candidate();
        leases.taking = match leases.taking {
            Taking::Majority(majority) => Taking::Majority(majority.with_seed(seed)),
            other => other,
        };
        let voters = leases.voters().digest();
        assert_eq!(hear(&mut leases, Vote::Refused(ballot, Refusal::Held(9)), now), []);
        let vote = Vote::Refused(ballot, Refusal::Outdated(70));
        let released = leases.receive(node(3), &VoteMessage { lease: LEASE.into(), voters, vote }, now);
        let release = |act: &LeaseAction| matches!(act, LeaseAction::Send { message, .. } if message.vote == Vote::Release(ballot));
        assert!(released.len() == 2 && released.iter().all(release), "{released:?}");
        let again = leases.next_tick().expect("it asks again");
        assert!((700..=1_300).contains(&(again - now)), "after {} ms", again - now);
        let asked = leases.tick(again);
        let LeaseAction::Send { message, .. } = &asked[0] else { panic!("{asked:?}") };
        assert_eq!(message.vote, Vote::Prepare(super::tests::ballot(71, 1)), "above what it was told");
    }
}

#[test]
fn a_voter_grants_a_lease_to_nobody_else_before_its_time_is_up() {
    let mut voter = Voter::new(TIMES, 0, 0);
    let now = TIMES.silence();
    assert_eq!(voter.accept(LEASE, ballot(5, 1), 6_000, now), Some(Vote::Accepted(ballot(5, 1), 6_000)));
    for (later, left) in [(0, 6_000), (5_999, 1)] {
        let held = |ballot| Some(Vote::Refused(ballot, Refusal::Held(left)));
        assert_eq!(voter.prepare(LEASE, ballot(9, 2), now + later), held(ballot(9, 2)));
        assert_eq!(
            voter.accept(LEASE, ballot(9, 2), 6_000, now + later),
            held(ballot(9, 2)),
            "not even without promise"
        );
    }
    assert_eq!(voter.prepare(LEASE, ballot(9, 2), now + 6_000), Some(Vote::Promise(ballot(9, 2))));
    let outdated = Some(Vote::Refused(ballot(8, 1), Refusal::Outdated(9)));
    assert_eq!(voter.accept(LEASE, ballot(8, 1), 6_000, now + 6_000), outdated);
}

#[test]
fn a_voter_is_silent_after_its_start_and_listens() {
    let mut voter = Voter::new(TIMES, 0, 1_000);
    assert_eq!(voter.prepare(LEASE, ballot(41, 2), 1_000 + 6_299), None);
    assert_eq!(voter.next_round(), 42);
    assert_eq!(voter.prepare(LEASE, ballot(41, 2), 1_000 + 6_300), Some(Vote::Promise(ballot(41, 2))));
}

#[test]
fn a_voter_keeps_count_of_a_bounded_number_of_leases() {
    let mut voter = Voter::new(TIMES, 0, 0);
    let mut now = TIMES.silence();
    let refused = |ballot| Some(Vote::Refused(ballot, Refusal::TooManyLeases));
    for number in 0..1_000 {
        assert_eq!(voter.prepare(&format!("l{number}"), ballot(77, 2), now), Some(Vote::Promise(ballot(77, 2))));
    }
    assert_eq!(voter.prepare("another", ballot(78, 2), now), refused(ballot(78, 2)));
    now += 6_000;
    let outdated = Some(Vote::Refused(ballot(5, 2), Refusal::Outdated(77)));
    assert_eq!(voter.prepare("another", ballot(5, 2), now), outdated, "rounds outlive what is forgotten");
    assert_eq!(voter.prepare(&"x".repeat(257), ballot(78, 2), now), refused(ballot(78, 2)));
    assert_eq!(voter.prepare(LEASE, ballot(1 << 63, 2), now), None);
    assert_eq!(voter.prepare(LEASE, ballot(u64::MAX, 2), now), None);
}

#[test]
fn no_member_speaks_for_another_and_no_voter_grants_under_other_voters() {
    let (mut leases, taken, now) = candidate();
    hear(&mut leases, Vote::Accepted(taken, 6_000), now);
    assert_eq!(hear(&mut leases, Vote::Release(taken), now), []);
    assert_eq!(hear(&mut leases, Vote::Accept(ballot(99, 3), 6_000), now), []);
    let answers = hear(&mut leases, Vote::Prepare(ballot(99, 2)), now);
    let [LeaseAction::Send { message, .. }] = &answers[..] else { panic!("{answers:?}") };
    assert!(matches!(message.vote, Vote::Refused(_, Refusal::Held(_))), "the own grant still stands: {message:?}");

    let message = VoteMessage { lease: "other".into(), voters: 1, vote: Vote::Prepare(ballot(99, 2)) };
    let answers = leases.receive(node(2), &message, now);
    let [LeaseAction::Send { message, .. }] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(message.vote, Vote::Refused(ballot(99, 2), Refusal::OtherVoters));
}

#[test]
fn voters_change_one_by_one_while_a_majority_has_known_them_for_longer_than_leases_last() {
    let of = |numbers: &[u8]| {
        let all = members(&[Role::Master; 5]);
        let chosen = all.iter().filter(|(node, _)| numbers.contains(&node.0[0]));
        Voters::among(chosen.map(|(node, member)| (*node, member)))
    };
    let known_for = |numbers: &[u8], time: u64| numbers.iter().map(|number| (node(*number), time)).collect();
    let three = of(&[1, 2, 3]);
    let long = TIMES.silence();
    for next in [of(&[1, 2, 3, 4]), of(&[1, 2])] {
        assert_eq!(three.check_change(&next, &known_for(&[1, 2], long), TIMES), Ok(()));
        let none = Err(VotersError::NoMajority { agreeing: 1, needed: 2 });
        assert_eq!(three.check_change(&next, &known_for(&[1, 4, 5], long), TIMES), none);
        let none = Err(VotersError::NoMajority { agreeing: 0, needed: 2 });
        assert_eq!(three.check_change(&next, &known_for(&[1, 2], long - 1), TIMES), none);
    }
    for next in [of(&[1, 2, 3, 4, 5]), of(&[1, 2, 4])] {
        let two = Err(VotersError::MoreThanOne(2));
        assert_eq!(three.check_change(&next, &known_for(&[1, 2, 3], long), TIMES), two);
    }
    assert_eq!(of(&[]).check_change(&of(&[1]), &BTreeMap::new(), TIMES), Ok(()), "the first voter");
    assert_ne!(three.digest(), of(&[1, 2, 4]).digest());
}

#[test]
fn the_mode_follows_the_number_of_voters() {
    let mut leases = Leases::new(node(1), OncePolicy::Auto, TIMES, 0, 1, 0);
    let voters = |count| voters(&[Role::Master; 3][..count]);
    leases.set_voters(voters(1), 0);
    let taken = leases.want(LEASE, 0);
    assert!(matches!(taken[..], [LeaseAction::Taken { .. }]), "the only member holds at once: {taken:?}");
    leases.set_voters(voters(2), 0);
    assert_eq!(leases.mode(), Mode::Available);
    let acts = leases.set_voters(voters(3), 100);
    assert_eq!((leases.mode(), leases.held(LEASE, 100)), (Mode::Majority, None));
    assert!(acts.contains(&LeaseAction::Lost { lease: LEASE.into() }), "{acts:?}");
    leases.set_voters(voters(1), 200);
    let end = 200 + TIMES.silence();
    assert_eq!(leases.next_tick(), Some(end));
    leases.tick(end - 1);
    assert_eq!(leases.held(LEASE, end - 1), None, "a majority may have granted it to a member that is removed");
    leases.tick(end);
    let fence = leases.held(LEASE, end).expect("the only member again");
    let LeaseAction::Taken { fence: first, .. } = taken[0] else { panic!("{taken:?}") };
    assert!(fence > first, "fences grow over changes of the mode");
}

#[test]
fn a_holder_that_is_removed_stops_at_once() {
    let mut set = Set::new(OncePolicy::Majority, &MASTERS);
    set.want();
    set.until(8_000, |set| !set.holders().is_empty());
    let holder = set.holders()[0];
    let others = members(&MASTERS).into_iter().filter(|(node, _)| *node != holder).collect::<Vec<_>>();
    let others = Voters::among(others.iter().map(|(node, member)| (*node, member)));
    let now = set.now;
    let leases = set.members.get_mut(&holder).expect("a member");
    assert_eq!(leases.set_voters(others, now), [LeaseAction::Lost { lease: LEASE.into() }]);
    assert_eq!(leases.held(LEASE, now), None);
    // A holder that becomes a witness stays a voter, and stops as well.
    let mut set = Set::new(OncePolicy::Majority, &MASTERS);
    set.want();
    set.until(8_000, |set| !set.holders().is_empty());
    let holder = set.holders()[0];
    let mut all = members(&MASTERS);
    all.iter_mut().filter(|(node, _)| *node == holder).for_each(|(_, member)| member.role = Role::Witness);
    let now = set.now;
    let leases = set.members.get_mut(&holder).expect("a member");
    leases.set_voters(Voters::among(all.iter().map(|(node, member)| (*node, member))), now);
    assert_eq!(leases.held(LEASE, now), None);
}

#[test]
fn rounds_far_ahead_are_ignored() {
    let start = 1_771_977_600_000_u64 << 16;
    let mut voter = Voter::new(TIMES, start, 1_000);
    let now = 1_000 + TIMES.silence();
    let day = 86_400_000_u64 << 16;
    assert_eq!(voter.prepare(LEASE, ballot(start + 2 * day, 2), now), None);
    assert_eq!(voter.next_round(), start + 1, "nor does it lead this member's own rounds away");
    let near = ballot(start + day, 2);
    assert_eq!(voter.prepare(LEASE, near, now), Some(Vote::Promise(near)));
    let later = ballot(start + 2 * day, 2);
    assert_eq!(voter.prepare(LEASE, later, now + 86_400_000), Some(Vote::Promise(later)), "a day later they are due");
}

#[test]
fn silence_lasts_as_long_as_the_longest_lease_that_may_have_been_granted() {
    let times = LeaseTimes::new(6_000).after(60_000);
    let mut voter = Voter::new(times, 0, 0);
    assert_eq!(voter.prepare(LEASE, ballot(5, 2), 62_999), None);
    assert_eq!(voter.prepare(LEASE, ballot(5, 2), 63_000), Some(Vote::Promise(ballot(5, 2))));
    assert_eq!(voter.accept(LEASE, ballot(5, 2), 60_000, 63_000), Some(Vote::Accepted(ballot(5, 2), 6_000)));
    assert_eq!(LeaseTimes::new(6_000).after(1_000), LeaseTimes::new(6_000));
}

#[test]
fn without_a_mode_each_member_holds_each_lease_that_it_wants() {
    let mut set = Set::new(OncePolicy::Off, &MASTERS);
    assert_eq!(set.holders(), []);
    set.want();
    assert_eq!(set.holders(), [node(1), node(2), node(3)]);
    set.one(node(1), |leases, _| leases.release(LEASE));
    assert_eq!(set.holders(), [node(2), node(3)]);
}

const TWO: [Role; 2] = [Role::Master; 2];

#[test]
fn of_two_the_first_by_name_holds_as_soon_as_the_other_says_that_the_lease_is_free() {
    let mut set = Set::new(OncePolicy::Auto, &TWO);
    set.want();
    assert_eq!(set.holders(), []);
    set.link_all();
    assert_eq!(set.holders(), [node(1)]);
}

#[test]
fn alone_each_of_two_holds_after_ten_seconds() {
    let mut set = Set::new(OncePolicy::Auto, &TWO);
    set.want();
    let took = set.until(10_001, |set| set.holders().len() == 2);
    assert_eq!(took, 10_000);
}

#[test]
fn the_second_takes_over_after_ten_seconds_and_gives_back_between_runs() {
    let mut set = Set::new(OncePolicy::Auto, &TWO);
    set.want();
    set.link_all();
    set.away.insert(node(1));
    set.one(node(2), |leases, now| leases.link(node(1), false, now));
    assert_eq!(set.until(10_001, |set| set.holders() == [node(2)]), 10_000);
    set.one(node(2), |leases, now| leases.begin(LEASE, now).map(|_| Vec::new()).expect("a run begins"));

    // The first comes back without memory.
    set.away.clear();
    let mut first = Leases::new(node(1), OncePolicy::Auto, TIMES, 0, 9, set.now);
    first.set_voters(set.members[&node(2)].voters().clone(), set.now);
    set.members.insert(node(1), first);
    set.one(node(1), |leases, now| leases.want(LEASE, now));
    set.link_all();
    let end = set.now + 60_000;
    set.until(60_001, |set| set.now > end || set.holders() != [node(2)]);
    assert_eq!(set.holders(), [node(2)], "its run is not over");
    set.one(node(2), |leases, now| leases.finish(LEASE, now));
    assert_eq!(set.holders(), [node(1)]);
}

#[test]
fn after_a_partition_the_second_begins_nothing_more_and_finishes_its_run() {
    let mut set = Set::new(OncePolicy::Auto, &TWO);
    set.want();
    set.until(10_001, |set| set.holders().len() == 2);
    let fence = set.members.get_mut(&node(2)).and_then(|leases| leases.begin(LEASE, 10_000));
    set.link_all();
    let second = set.members.get_mut(&node(2)).expect("a member");
    assert_eq!(second.begin(LEASE, set.now), None);
    assert_eq!(second.held(LEASE, set.now), fence, "the run goes on");
    set.one(node(2), |leases, now| leases.finish(LEASE, now));
    assert_eq!(set.holders(), [node(1)]);
}
