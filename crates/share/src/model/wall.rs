//! The time by which a member goes: its wall clock, as far as it is believed.
//!
//! A clock that is days off must lead neither stamps nor job ids astray. Others refuse what is stamped far ahead, and all later
//! stamps of this member would be above it. Job ids that are days behind seem to be too old to be kept, and what others publish
//! seems to be of the future. So a member goes on from the time that it knew, until another member confirms the clock of its host.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Moment;
use crate::Node;

/// By how many milliseconds the wall clock may differ from what was known, and be followed at once. Stamps of others are believed
/// up to a day ahead.
const MOST_JUMP: u128 = 43_200_000;

/// For how long a clock must have stayed where it is, in milliseconds, before it is followed although no member goes by its time. For
/// as long counts what another member has said.
const SETTLED_AFTER: u64 = 600_000;

/// The time by which a member goes. The model reads it, and so does whoever makes job ids or links.
///
/// It is always the time of the host or the time that this member knew before. What other members say only decides between the two,
/// so none of them can lead the clock to a third time.
#[derive(Debug)]
pub struct SetClock(Mutex<State>);

/// What a [`SetClock`] says, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetTime {
    /// The time for stamps: that of the host only if it fits what was known before.
    pub certain: u64,
    /// The present, for job ids and for other members. Unlike `certain`, it follows a clock that was ahead at the start, as after a
    /// long time without power, unless a member says otherwise. A member alone goes by the clock of its host.
    pub present: u64,
}

#[derive(Debug)]
struct State {
    /// The latest time that this member wrote down, in milliseconds since 1970; 0 if there is none.
    last: u64,
    /// How far the wall clock is ahead of the steady clock, as it was last believed.
    ahead: Option<i128>,
    /// Since when the clock of the host differs from what was known, by the steady clock.
    differs_since: Option<u64>,
    /// The clock of the host jumped while this program ran, or was behind what the disk says when it started.
    jumped: bool,
    /// This member wrote nothing down before it started, and no other one goes by the same time yet.
    knows_nothing: bool,
    /// What other members said last.
    heard: BTreeMap<Node, Heard>,
    /// This is the only member.
    alone: bool,
}

/// What another member said of the time.
#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    /// The time by which it goes.
    present: Option<Reading>,
    /// The wall clock of its host.
    wall: Option<Reading>,
}

/// A clock of another member.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// How far it is ahead of the steady clock of this member.
    ahead: i128,
    /// When it was heard, by the steady clock.
    at: u64,
}

/// How many members confirm the clock of the host, and how many contradict it.
#[derive(Clone, Copy)]
struct Votes {
    confirm: usize,
    contradict: usize,
}

fn near(one: i128, other: i128) -> bool {
    one.abs_diff(other) <= MOST_JUMP
}

impl Reading {
    fn new(time: u64, now: Moment) -> Reading {
        Reading { ahead: i128::from(time) - i128::from(now.steady), at: now.steady }
    }

    fn counts(&self, now: Moment) -> bool {
        now.steady < self.at.saturating_add(SETTLED_AFTER)
    }

    fn is_near(&self, time: i128, now: Moment) -> bool {
        self.counts(now) && near(i128::from(now.steady) + self.ahead, time)
    }
}

impl Heard {
    fn counts(&self, now: Moment) -> bool {
        [self.present, self.wall].into_iter().flatten().any(|reading| reading.counts(now))
    }
}

impl State {
    /// Returns the time that was known before, as it is now. The clock of the host has been followed if it can be.
    fn read(&mut self, now: Moment) -> i128 {
        let (wall, known) = (i128::from(now.wall), self.time_by_steady_clock(now));
        // Small jumps, as by NTP or after a suspended host, are followed without asking anybody: stamps only grow anyway.
        if near(wall, known) || self.may_follow(known, now) {
            self.ahead = Some(wall - i128::from(now.steady));
            (self.differs_since, self.jumped) = (None, false);
            return wall;
        }
        known
    }

    fn time_by_steady_clock(&mut self, now: Moment) -> i128 {
        let (wall, steady, last) = (i128::from(now.wall), i128::from(now.steady), i128::from(self.last));
        let ahead = *self.ahead.get_or_insert_with(|| {
            // A first start knows nothing better than the clock of the host.
            if last == 0 || near(last, wall) {
                return wall - steady;
            }
            // Forward may be a long time without power. Backward cannot be: this member wrote that time down itself.
            (self.differs_since, self.jumped) = (Some(now.steady), wall < last);
            last - steady
        });
        steady + ahead
    }

    fn may_follow(&mut self, known: i128, now: Moment) -> bool {
        if self.differs_since.is_none() {
            (self.differs_since, self.jumped) = (Some(now.steady), true);
        }
        // Backwards only if others say so, or if there are no others: a clock that falls back to 1970 must not be followed because nobody
        // objects.
        let (votes, forwards) = (self.votes(known, now), i128::from(now.wall) > known);
        let unopposed = self.alone || (forwards && votes.contradict == 0);
        votes.confirm > votes.contradict || (self.is_settled(now) && unopposed)
    }

    /// Returns whether the clock of the host has differed from what was known for a while.
    fn is_settled(&self, now: Moment) -> bool {
        self.differs_since.is_some_and(|since| now.steady >= since.saturating_add(SETTLED_AFTER))
    }

    /// Counts the members. The wall clock of another host may be wrong like that of this one, so it confirms only a clock that has
    /// stayed as it is for a while.
    fn votes(&self, known: i128, now: Moment) -> Votes {
        let (settled, mut votes) = (self.is_settled(now), Votes { confirm: 0, contradict: 0 });
        for heard in self.heard.values() {
            let says = |reading: Option<Reading>, time| reading.is_some_and(|one| one.is_near(time, now));
            let wall = i128::from(now.wall);
            if says(heard.present, wall) || (settled && says(heard.wall, wall)) {
                // One vote for each member, although it tells two clocks: they are of one host.
                votes.confirm += 1;
            } else if says(heard.present, known) || says(heard.wall, known) {
                votes.contradict += 1;
            }
        }
        votes
    }

    fn is_doubted(&self, known: i128, now: Moment) -> bool {
        let votes = self.votes(known, now);
        self.differs_since.is_some() && (self.jumped || votes.contradict > votes.confirm)
    }

    fn heard(&mut self, node: Node, now: Moment) -> &mut Heard {
        // What is too old to count needs no place, so there are no more than members.
        self.heard.retain(|_, heard| heard.counts(now));
        self.heard.entry(node).or_default()
    }
}

impl SetClock {
    /// Creates the clock of a member that wrote down this time, in milliseconds since 1970, before it stopped; 0 if there is none.
    pub fn new(last: u64) -> SetClock {
        SetClock(Mutex::new(State {
            last,
            ahead: None,
            differs_since: None,
            jumped: false,
            knows_nothing: last == 0,
            heard: BTreeMap::new(),
            alone: false,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether this is the only member, so that nobody can confirm its clock.
    pub fn set_alone(&self, alone: bool) {
        self.state().alone = alone;
    }

    /// Takes note of the clocks of the host, and returns the time by which the member goes.
    pub fn read(&self, now: Moment) -> SetTime {
        let mut state = self.state();
        let known = state.read(now);
        let certain = u64::try_from(known).unwrap_or(now.wall);
        let doubted = state.is_doubted(known, now) && !state.alone;
        SetTime { certain, present: if doubted { certain } else { now.wall } }
    }

    /// Takes note of the time by which another member goes.
    pub fn hear(&self, node: Node, theirs: u64, now: Moment) {
        let mut state = self.state();
        state.heard(node, now).present = Some(Reading::new(theirs, now));
        let known = state.read(now);
        state.knows_nothing &= !near(theirs.into(), known);
    }

    /// Takes note of the wall clock of the host of another member.
    pub fn hear_wall(&self, node: Node, theirs: u64, now: Moment) {
        self.state().heard(node, now).wall = Some(Reading::new(theirs, now));
    }

    /// Returns whether another member goes by another time and this one knows nothing by which it could tell which of the two is right.
    pub fn is_disputed(&self, now: Moment) -> bool {
        let mut state = self.state();
        let known = state.read(now);
        let present = |heard: &Heard| heard.present.is_some_and(|one| one.counts(now) && !one.is_near(known, now));
        state.knows_nothing && state.heard.values().any(present)
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    const DAY: u64 = 86_400_000;
    const START: u64 = 20_000 * DAY;
    const MINUTE: u64 = 60_000;
    const HONEST: Node = Node([1; 8]);
    const LIAR: Node = Node([2; 8]);

    fn at(wall: u64, steady: u64) -> Moment {
        Moment { wall, steady }
    }

    fn same(time: u64) -> SetTime {
        SetTime { certain: time, present: time }
    }

    #[test]
    fn a_small_step_is_followed_and_a_large_one_is_not() {
        let clock = SetClock::new(0);
        assert_eq!(clock.read(at(START, 0)), same(START), "nothing is known before");
        assert_eq!(clock.read(at(START - DAY / 24, 1)), same(START - DAY / 24));
        assert_eq!(clock.read(at(START + DAY / 24, 2)), same(START + DAY / 24));
        for wrong in [START - 2 * DAY, START + 2 * DAY] {
            assert_eq!(clock.read(at(wrong, 9 * MINUTE)), same(START + DAY / 24 + 9 * MINUTE - 2));
        }
    }

    #[test]
    fn a_clock_that_is_behind_is_believed_when_a_member_confirms_it() {
        for last in [0, START] {
            let clock = SetClock::new(last);
            if last == 0 {
                clock.read(at(START, 0));
            }
            let wrong = |steady| at(START - 2 * DAY + steady, steady);
            assert_eq!(clock.read(wrong(0)), same(START), "its own disk knows better");
            clock.hear(HONEST, START + MINUTE, wrong(MINUTE));
            clock.hear_wall(HONEST, START + MINUTE, wrong(MINUTE));
            assert_eq!(clock.read(wrong(60 * MINUTE)), same(START + 60 * MINUTE), "however long it takes");
            clock.hear(HONEST, START - 2 * DAY, wrong(61 * MINUTE));
            assert_eq!(clock.read(wrong(61 * MINUTE)), same(START - 2 * DAY + 61 * MINUTE));
        }
    }

    #[test]
    fn a_clock_that_is_ahead_at_the_start_is_believed_unless_a_member_says_otherwise() {
        let ahead = |steady| at(START + 2 * DAY + steady, steady);
        let clock = SetClock::new(START);
        let unconfirmed = SetTime { certain: START, present: START + 2 * DAY };
        assert_eq!(clock.read(ahead(0)), unconfirmed, "the host may have been off for two days");
        for minute in 1..60 {
            clock.hear(HONEST, START + minute * MINUTE, ahead(minute * MINUTE));
            assert_eq!(clock.read(ahead(minute * MINUTE)), same(START + minute * MINUTE));
        }
        assert!(!clock.is_disputed(ahead(60 * MINUTE)), "the clock of the host is wrong");
        let confirmed = SetClock::new(START);
        confirmed.read(ahead(0));
        confirmed.hear(HONEST, START + 2 * DAY, ahead(1));
        assert_eq!(confirmed.read(ahead(2)), same(START + 2 * DAY + 2));
        let unheard = SetClock::new(START);
        unheard.read(ahead(0));
        assert_eq!(unheard.read(ahead(10 * MINUTE)), same(START + 2 * DAY + 10 * MINUTE));
    }

    #[test]
    fn all_clocks_of_a_set_that_are_set_together_are_followed() {
        let clocks = [SetClock::new(0), SetClock::new(0)];
        for clock in &clocks {
            clock.read(at(START, 0));
        }
        let set = |steady| at(START - 9 * DAY + steady, steady);
        for minute in 1..12 {
            let now = set(minute * MINUTE);
            let theirs = clocks[1].read(now).present;
            clocks[0].hear(HONEST, theirs, now);
            clocks.iter().for_each(|clock| clock.hear_wall(HONEST, now.wall, now));
        }
        assert_eq!(clocks[0].read(set(12 * MINUTE)), same(START - 9 * DAY + 12 * MINUTE));
    }

    #[test]
    fn a_member_alone_follows_after_a_while_and_one_that_knows_nothing_is_disputed() {
        let clock = SetClock::new(START);
        clock.set_alone(true);
        let behind = |steady| at(START - 2 * DAY + steady, steady);
        let host = SetTime { certain: START, present: START - 2 * DAY };
        assert_eq!(clock.read(behind(0)), host, "nobody else makes job ids, and whoever joins must have the same time");
        assert_eq!(clock.read(behind(10 * MINUTE)), same(START - 2 * DAY + 10 * MINUTE));
        let new = SetClock::new(0);
        new.read(behind(0));
        new.hear(HONEST, START, behind(1));
        assert!(new.is_disputed(behind(1)));
        new.hear(HONEST, START + 2, at(START + 2, 2));
        assert!(!new.is_disputed(at(START + 2, 2)));
    }

    /// A member that lies, and says the opposite of what an honest one says.
    #[test]
    fn one_member_decides_nothing_against_an_honest_one() {
        let clock = SetClock::new(0);
        clock.read(at(START, 0));
        let behind = |steady| at(START - 2 * DAY + steady, steady);
        for minute in 1..60 {
            let now = behind(minute * MINUTE);
            clock.hear_wall(HONEST, START + minute * MINUTE, now);
            clock.hear_wall(LIAR, now.wall, now);
            clock.hear(LIAR, now.wall, now);
            assert_eq!(clock.read(now), same(START + minute * MINUTE), "the clock of the host is wrong");
        }
        let clock = SetClock::new(START);
        let off = |steady| at(START + 2 * DAY + steady, steady);
        clock.hear(LIAR, START, off(0));
        assert_eq!(clock.read(off(0)).present, START, "nobody knows better yet");
        clock.hear(HONEST, START + 2 * DAY, off(1));
        assert_eq!(clock.read(off(2)).present, START + 2 * DAY + 2, "the host was off for two days");
    }

    #[test]
    fn others_only_choose_between_the_clock_of_the_host_and_what_was_known() {
        let mut random = StdRng::seed_from_u64(6);
        for history in 0..2_000 {
            let clock = SetClock::new([0, START][history % 2]);
            let (mut wall, mut steady) = (START, 0);
            let mut before = clock.read(at(wall, steady));
            for _ in 0..40 {
                let passed = random.random_range(0..5 * MINUTE);
                steady += passed;
                wall = match random.random_range(0..10) {
                    0 => random.random_range(0..2 * START),
                    _ => wall + passed,
                };
                let (node, now) = (Node([random.random_range(0..3); 8]), at(wall, steady));
                let theirs = [random.random(), wall, before.certain][random.random_range(0..3)];
                match random.random() {
                    true => clock.hear(node, theirs, now),
                    false => clock.hear_wall(node, theirs, now),
                }
                let after = clock.read(now);
                assert!([wall, before.certain + passed].contains(&after.certain), "history {history}");
                assert!([wall, after.certain].contains(&after.present), "history {history}");
                before = after;
            }
        }
    }
}
