//! Chooses the master to follow if only one is followed at a time: `failover` and `distributed`.
//!
//! [`FailoverPolicy`] is pure: events and the time go in, actions come out. Its rules are those of Salt's tutorials,
//! with three differences: it never gives up, a master that holds its key as pending does not keep it from the others,
//! and it returns to the preferred master only when that master has been healthy for a while and has accepted the minion,
//! and the jobs of the current master are done.

use std::time::Duration;

use crate::masters::AcceptanceWait;

/// A master, by its position in the configured list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub usize);

/// The options for the choice.
#[derive(Clone, Debug)]
pub struct Rules {
    /// How the minion returns to the first master, if it does.
    pub failback: Option<Failback>,
    /// The wait after a round in which no master accepted us (`acceptance_wait_time`), and its bound.
    pub wait: (Duration, Duration),
    /// Rounds after which the log reports that no master could be reached (`master_tries`); none for never.
    pub tries: Option<u32>,
}

/// How the minion returns to the preferred master.
#[derive(Clone, Copy, Debug)]
pub struct Failback {
    /// Time between checks of it (`master_failback_interval`).
    pub every: Duration,
    /// How long it must have answered (`master_failback_healthy`).
    pub healthy: Duration,
    /// An additional wait, drawn once, so that not all minions move at once.
    pub jitter: Duration,
}

/// How long running jobs of the current master may delay the move to the preferred one.
const DRAIN: Duration = Duration::from_secs(600);

/// How long the preferred master may take to accept the minion, before the minion stays with the current one.
const MOVE: Duration = Duration::from_secs(30);

/// The minimum number of checks during the time for which the preferred master must be healthy.
const LOOKS: u32 = 4;

/// The shortest time between two checks.
const QUICKEST: Duration = Duration::from_millis(250);

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The minion starts.
    Start,
    /// A master accepted the minion.
    Connected(Place),
    /// A master holds the minion's key as pending.
    Pending(Place),
    /// A session with a master ended: it could not be reached, refused the minion, or was lost.
    Ended(Place),
    /// The preferred master was checked; true if it answered.
    Looked(bool),
    /// Time has passed, or a job has ended.
    Tick,
}

/// An action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start to follow a master. The number is that of the round, from 0: later rounds may take longer.
    Follow(Place, u32),
    /// Stop following a master.
    Leave(Place),
    /// Check whether the preferred master answers, and report with [`Event::Looked`].
    Look(Place),
    /// Log that no master could be reached.
    Complain,
}

/// The state machine that chooses the master to follow.
#[derive(Clone, Debug)]
pub struct FailoverPolicy {
    rules: Rules,
    /// The masters as configured. The first is the preferred one.
    listed: Vec<Place>,
    /// The order in which they are tried now.
    order: Vec<Place>,
    stage: Stage,
    /// The first master of this round that holds the minion's key as pending.
    pending: Option<Place>,
    rounds: u32,
    wait: AcceptanceWait,
}

#[derive(Clone, Debug, PartialEq)]
enum Stage {
    /// The master at this place of the order is being tried.
    Trying(usize),
    /// No master accepted the minion; the next round starts at this time.
    Resting(Duration),
    /// No master accepted the minion, but this one may accept its key at any moment: it is asked until this time, when
    /// the next round starts.
    Awaiting(Place, Duration),
    /// This master is followed.
    Following(Place, Option<Watch>),
    /// This master is followed, while the preferred one is tried until this time.
    Moving(Place, Duration),
}

/// The watch for the preferred master.
#[derive(Clone, Debug, PartialEq)]
struct Watch {
    /// When to check next; `None` during a check.
    look: Option<Duration>,
    /// The time since which it has answered each check.
    healthy: Option<Duration>,
}

impl FailoverPolicy {
    /// Creates a policy for masters in the order in which they are tried. The first is the preferred one.
    pub fn new(rules: Rules, listed: Vec<Place>) -> Self {
        let wait = AcceptanceWait::new(rules.wait.0, rules.wait.1);
        let order = listed.clone();
        FailoverPolicy { rules, listed, order, stage: Stage::Resting(Duration::ZERO), pending: None, rounds: 0, wait }
    }

    /// Handles an event, and returns the actions in order. `now` is the time since the start; `busy` is true if jobs of
    /// the current master are running.
    pub fn on(&mut self, now: Duration, busy: bool, event: Event) -> Vec<Action> {
        let mut todo = match event {
            Event::Start | Event::Tick => Vec::new(),
            Event::Connected(place) => self.connected(now, place),
            Event::Pending(place) => self.pending(now, place),
            Event::Ended(place) => self.ended(now, place),
            Event::Looked(answered) => self.looked(now, answered),
        };
        todo.extend(self.go_on(now, busy));
        todo
    }

    /// Returns when [`Event::Tick`] is due; `None` if there is nothing to wait for except events.
    pub fn due(&self, busy: bool) -> Option<Duration> {
        match &self.stage {
            Stage::Trying(_) => None,
            Stage::Resting(until) | Stage::Awaiting(_, until) | Stage::Moving(_, until) => Some(*until),
            Stage::Following(_, None) => None,
            Stage::Following(_, Some(watch)) => {
                let moving = self.move_at(watch, busy);
                [watch.look, moving].into_iter().flatten().min()
            }
        }
    }

    /// Returns the master that is followed.
    pub fn current(&self) -> Option<Place> {
        match self.stage {
            Stage::Following(place, _) | Stage::Moving(place, _) => Some(place),
            Stage::Trying(_) | Stage::Resting(_) | Stage::Awaiting(..) => None,
        }
    }

    /// Returns the preferred master, if the minion returns to it.
    pub fn preferred(&self) -> Option<Place> {
        self.rules.failback.and(self.listed.first().copied())
    }

    fn connected(&mut self, now: Duration, place: Place) -> Vec<Action> {
        match self.stage {
            Stage::Trying(at) if self.order[at] == place => {
                self.forget_failures();
                self.stage = Stage::Following(place, self.watch(now, place));
                Vec::new()
            }
            Stage::Awaiting(awaited, _) if awaited == place => {
                self.forget_failures();
                self.stage = Stage::Following(place, self.watch(now, place));
                Vec::new()
            }
            Stage::Moving(from, _) if place == self.listed[0] => {
                self.order.clone_from(&self.listed);
                self.stage = Stage::Following(place, None);
                vec![Action::Leave(from)]
            }
            // An event about a master that was left meanwhile changes nothing.
            _ => Vec::new(),
        }
    }

    fn pending(&mut self, now: Duration, place: Place) -> Vec<Action> {
        match self.stage {
            // With a single master there is nothing else to try: the session waits.
            Stage::Trying(at) if self.order[at] == place && self.order.len() > 1 => {
                self.pending.get_or_insert(place);
                let mut todo = self.try_next(now, at + 1);
                if self.stage_awaits(place) {
                    // The session goes on: no new sign-in is needed.
                    todo.retain(|action| !matches!(action, Action::Follow(..)));
                } else {
                    todo.insert(0, Action::Leave(place));
                }
                todo
            }
            Stage::Moving(from, _) if place == self.listed[0] => {
                self.stage = Stage::Following(from, self.watch(now, from));
                vec![Action::Leave(place)]
            }
            _ => Vec::new(),
        }
    }

    fn stage_awaits(&self, place: Place) -> bool {
        matches!(self.stage, Stage::Awaiting(awaited, _) if awaited == place)
    }

    fn ended(&mut self, now: Duration, place: Place) -> Vec<Action> {
        match self.stage {
            Stage::Trying(at) if self.order[at] == place => self.try_next(now, at + 1),
            Stage::Awaiting(awaited, until) if awaited == place => {
                self.stage = Stage::Resting(until);
                Vec::new()
            }
            Stage::Following(current, _) if current == place => {
                // A master that failed is tried last, as in Salt.
                self.put_last(place);
                self.try_next(now, 0)
            }
            Stage::Moving(from, _) if from == place => {
                // The preferred master is being tried already, and is the first of the list.
                self.order.clone_from(&self.listed);
                self.put_last(from);
                self.stage = Stage::Trying(0);
                Vec::new()
            }
            Stage::Moving(from, _) if place == self.listed[0] => {
                self.stage = Stage::Following(from, self.watch(now, from));
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn looked(&mut self, now: Duration, answered: bool) -> Vec<Action> {
        let (Stage::Following(_, Some(watch)), Some(failback)) = (&mut self.stage, self.rules.failback) else {
            return Vec::new();
        };
        // One missed answer starts the healthy time again.
        watch.healthy = if answered { watch.healthy.or(Some(now)) } else { None };
        let often = (failback.healthy / LOOKS).clamp(QUICKEST, failback.every.max(QUICKEST));
        // More often while it answers, so that its health is known soon after it is back.
        watch.look = Some(now + if answered { often } else { failback.every });
        Vec::new()
    }

    /// Returns the actions that are due because time has passed.
    fn go_on(&mut self, now: Duration, busy: bool) -> Vec<Action> {
        match &mut self.stage {
            Stage::Resting(until) if *until <= now => self.try_next(now, 0),
            Stage::Awaiting(place, until) if *until <= now => {
                let mut todo = vec![Action::Leave(*place)];
                todo.extend(self.try_next(now, 0));
                todo
            }
            Stage::Moving(from, until) if *until <= now => {
                let from = *from;
                self.stage = Stage::Following(from, self.watch(now, from));
                // The preferred master answers, but does not accept us. We stay, and try again later.
                vec![Action::Leave(self.listed[0])]
            }
            Stage::Following(from, Some(watch)) => {
                let (from, watch) = (*from, watch.clone());
                self.look_or_move(now, busy, from, &watch)
            }
            _ => Vec::new(),
        }
    }

    fn look_or_move(&mut self, now: Duration, busy: bool, from: Place, watch: &Watch) -> Vec<Action> {
        let preferred = self.listed[0];
        if self.move_at(watch, busy).is_some_and(|at| at <= now) {
            self.stage = Stage::Moving(from, now + MOVE);
            return vec![Action::Follow(preferred, 0)];
        }
        if watch.look.is_some_and(|at| at <= now) {
            self.stage = Stage::Following(from, Some(Watch { look: None, ..watch.clone() }));
            return vec![Action::Look(preferred)];
        }
        Vec::new()
    }

    /// Returns when to move to the preferred master, as things are now: when it has been healthy for long enough, and
    /// the jobs of the current one are done or have delayed the move for too long.
    fn move_at(&self, watch: &Watch, busy: bool) -> Option<Duration> {
        let failback = self.rules.failback?;
        let ready = watch.healthy? + failback.healthy + failback.jitter;
        // A job without an end must not keep a minion away from its preferred master for ever.
        Some(if busy { ready + DRAIN } else { ready })
    }

    fn watch(&self, now: Duration, current: Place) -> Option<Watch> {
        let failback = self.rules.failback.filter(|_| self.listed.first() != Some(&current))?;
        Some(Watch { look: Some(now + failback.every), healthy: None })
    }

    /// Tries the master at a position of the order. After the last one the round ends, and the first master where the key
    /// is pending is asked until the next one.
    fn try_next(&mut self, now: Duration, at: usize) -> Vec<Action> {
        if let Some(place) = self.order.get(at) {
            self.stage = Stage::Trying(at);
            return vec![Action::Follow(*place, self.rounds)];
        }
        self.rounds = self.rounds.saturating_add(1);
        let until = now + self.wait.next();
        let enough = self.rules.tries.is_some_and(|tries| self.rounds.is_multiple_of(tries.max(1)));
        let mut todo = if enough { vec![Action::Complain] } else { Vec::new() };
        self.stage = match self.pending.take() {
            Some(place) => {
                todo.push(Action::Follow(place, self.rounds));
                Stage::Awaiting(place, until)
            }
            None => Stage::Resting(until),
        };
        todo
    }

    fn put_last(&mut self, place: Place) {
        self.order.retain(|other| *other != place);
        self.order.push(place);
    }

    fn forget_failures(&mut self) {
        self.rounds = 0;
        self.pending = None;
        self.wait = AcceptanceWait::new(self.rules.wait.0, self.rules.wait.1);
    }
}

/// Returns the list in the order of `master_type: distributed`: the entry whose index is the checksum of the id first,
/// then the others in their order.
pub fn distribute<T>(id: &str, mut list: Vec<T>) -> Vec<T> {
    if list.len() > 1 {
        let first = list.remove(crc32(id.as_bytes()) as usize % (list.len()));
        list.insert(0, first);
    }
    list
}

/// Shuffles a list (`random_master`), all of it or all but the first. `below` returns a random number below its
/// argument.
pub fn shuffle<T>(list: &mut [T], keep_first: bool, mut below: impl FnMut(u64) -> u64) {
    let from = usize::from(keep_first).min(list.len());
    let rest = &mut list[from..];
    for last in (1..rest.len()).rev() {
        rest.swap(last, below(last as u64 + 1) as usize);
    }
}

/// The checksum of ISO 3309, as in zip files.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| (0..8).fold(crc, |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 });
    !bytes.iter().fold(!0, |crc, byte| step(crc ^ u32::from(*byte)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use Action::{Complain, Follow, Leave, Look};
    use Event::{Connected, Ended, Looked, Pending, Start, Tick};

    const A: Place = Place(0);
    const B: Place = Place(1);
    const C: Place = Place(2);

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    fn rules(failback: bool) -> Rules {
        let failback = failback.then_some(Failback { every: seconds(30), healthy: seconds(10), jitter: seconds(5) });
        Rules { failback, wait: (seconds(10), seconds(10)), tries: Some(2) }
    }

    /// Plays events at their seconds and compares what each leads to.
    fn play(failback: bool, steps: &[(u64, Event, &[Action])]) -> FailoverPolicy {
        play_busy(failback, &steps.iter().map(|(at, event, todo)| (*at, false, *event, *todo)).collect::<Vec<_>>())
    }

    fn play_busy(failback: bool, steps: &[(u64, bool, Event, &[Action])]) -> FailoverPolicy {
        let mut choice = FailoverPolicy::new(rules(failback), vec![A, B, C]);
        for (at, busy, event, todo) in steps {
            assert_eq!(choice.on(seconds(*at), *busy, *event), *todo, "{event:?} at {at}");
        }
        choice
    }

    #[test]
    fn the_first_that_takes_us_is_followed() {
        let choice =
            play(false, &[(0, Start, &[Follow(A, 0)]), (5, Ended(A), &[Follow(B, 0)]), (6, Connected(B), &[])]);
        assert_eq!((choice.current(), choice.due(false)), (Some(B), None));
    }

    #[test]
    fn a_lost_one_goes_to_the_end() {
        play(
            false,
            &[
                (0, Start, &[Follow(A, 0)]),
                (1, Ended(A), &[Follow(B, 0)]),
                (2, Connected(B), &[]),
                (9, Ended(B), &[Follow(A, 0)]),
                (10, Ended(A), &[Follow(C, 0)]),
                (11, Connected(C), &[]),
                (20, Ended(C), &[Follow(A, 0)]),
                (21, Ended(A), &[Follow(B, 0)]),
            ],
        );
    }

    #[test]
    fn a_pending_key_leads_to_the_next_master() {
        let choice = play(
            false,
            &[
                (0, Start, &[Follow(A, 0)]),
                (1, Connected(A), &[]),
                (9, Ended(A), &[Follow(B, 0)]),
                (10, Pending(B), &[Leave(B), Follow(C, 0)]),
                (11, Connected(C), &[]),
                (12, Pending(B), &[]),
            ],
        );
        assert_eq!((choice.current(), choice.due(false)), (Some(C), None));
    }

    #[test]
    fn with_no_master_that_accepts_the_first_pending_one_is_asked_until_the_next_round() {
        let until_wait: [(u64, Event, &[Action]); 4] = [
            (0, Start, &[Follow(A, 0)]),
            (1, Ended(A), &[Follow(B, 0)]),
            (2, Pending(B), &[Leave(B), Follow(C, 0)]),
            (3, Pending(C), &[Leave(C), Follow(B, 1)]),
        ];
        let mut accepted = play(false, &until_wait);
        assert_eq!(accepted.on(seconds(4), false, Pending(B)), [], "it stays there");
        assert_eq!(accepted.on(seconds(5), false, Connected(B)), []);
        assert_eq!(accepted.current(), Some(B));
        let mut forgotten = play(false, &until_wait);
        assert_eq!(forgotten.due(false), Some(seconds(13)));
        assert_eq!(forgotten.on(seconds(13), false, Tick), [Leave(B), Follow(A, 1)], "the first may be back");
        let mut lost = play(false, &until_wait);
        assert_eq!(lost.on(seconds(4), false, Ended(B)), []);
        assert_eq!(lost.on(seconds(13), false, Tick), [Follow(A, 1)]);
    }

    #[test]
    fn a_last_master_that_is_pending_alone_is_not_signed_in_to_twice() {
        play(
            false,
            &[
                (0, Start, &[Follow(A, 0)]),
                (1, Ended(A), &[Follow(B, 0)]),
                (2, Ended(B), &[Follow(C, 0)]),
                (3, Pending(C), &[]),
                (4, Connected(C), &[]),
            ],
        );
    }

    #[test]
    fn a_single_master_is_waited_for() {
        let mut choice = FailoverPolicy::new(rules(true), vec![A]);
        assert_eq!(choice.on(seconds(0), false, Start), [Follow(A, 0)]);
        assert_eq!(choice.on(seconds(1), false, Pending(A)), []);
        assert_eq!((choice.on(seconds(90), false, Tick), choice.due(false)), (vec![], None));
        assert_eq!(choice.on(seconds(91), false, Connected(A)), []);
        assert_eq!(choice.current(), Some(A));
    }

    #[test]
    fn a_round_without_success_is_repeated_after_a_wait() {
        let choice = play(
            false,
            &[
                (0, Start, &[Follow(A, 0)]),
                (1, Ended(A), &[Follow(B, 0)]),
                (2, Ended(B), &[Follow(C, 0)]),
                (3, Ended(C), &[]),
                (12, Tick, &[]),
                (13, Tick, &[Follow(A, 1)]),
                (14, Ended(A), &[Follow(B, 1)]),
                (15, Ended(B), &[Follow(C, 1)]),
                (16, Ended(C), &[Complain]),
                (26, Tick, &[Follow(A, 2)]),
                (27, Connected(A), &[]),
            ],
        );
        assert_eq!(choice.current(), Some(A));
    }

    #[test]
    fn the_preferred_one_is_gone_back_to_when_it_was_healthy_for_long_enough() {
        play(
            true,
            &[
                (0, Start, &[Follow(A, 0)]),
                (1, Ended(A), &[Follow(B, 0)]),
                (2, Connected(B), &[]),
                (32, Tick, &[Look(A)]),
                (33, Looked(true), &[]),
                (36, Tick, &[Look(A)]),
                (37, Looked(false), &[]),
                (67, Tick, &[Look(A)]),
                (68, Looked(true), &[]),
                (71, Tick, &[Look(A)]),
                (72, Looked(true), &[]),
                (82, Tick, &[Look(A)]),
                // Ten seconds of health and five of jitter.
                (83, Tick, &[Follow(A, 0)]),
                (84, Connected(A), &[Leave(B)]),
                (300, Tick, &[]),
            ],
        );
    }

    #[test]
    fn a_preferred_one_that_does_not_take_us_changes_nothing() {
        let until_move: [(u64, Event, &[Action]); 6] = [
            (0, Start, &[Follow(A, 0)]),
            (1, Ended(A), &[Follow(B, 0)]),
            (2, Connected(B), &[]),
            (32, Tick, &[Look(A)]),
            (33, Looked(true), &[]),
            (48, Tick, &[Follow(A, 0)]),
        ];
        let mut refused = play(true, &until_move);
        assert_eq!(refused.on(seconds(49), false, Ended(A)), []);
        assert_eq!((refused.current(), refused.due(false)), (Some(B), Some(seconds(79))));
        let mut pending = play(true, &until_move);
        assert_eq!(pending.on(seconds(49), false, Pending(A)), [Leave(A)]);
        assert_eq!((pending.current(), pending.due(false)), (Some(B), Some(seconds(79))));
        let mut silent = play(true, &until_move);
        assert_eq!(silent.on(seconds(78), false, Tick), [Leave(A)]);
        assert_eq!(silent.current(), Some(B));
        let mut lost = play(true, &until_move);
        assert_eq!(lost.on(seconds(49), false, Ended(B)), []);
        assert_eq!(lost.on(seconds(50), false, Connected(A)), []);
        assert_eq!(lost.current(), Some(A));
    }

    #[test]
    fn running_jobs_are_finished_first_within_a_bound() {
        let steps: [(u64, bool, Event, &[Action]); 6] = [
            (0, false, Start, &[Follow(A, 0)]),
            (1, false, Ended(A), &[Follow(B, 0)]),
            (2, false, Connected(B), &[]),
            (32, true, Tick, &[Look(A)]),
            (33, true, Looked(true), &[]),
            (48, true, Tick, &[Look(A)]),
        ];
        let mut patient = play_busy(true, &steps);
        assert_eq!(patient.on(seconds(500), true, Looked(true)), []);
        assert_eq!(patient.on(seconds(501), false, Tick), [Follow(A, 0)]);
        let mut bounded = play_busy(true, &steps);
        assert_eq!(bounded.on(seconds(648), true, Tick), [Follow(A, 0)]);
    }

    /// Carries out the actions, sends random events, and checks the invariants after each step.
    struct Walk {
        choice: FailoverPolicy,
        followed: BTreeSet<Place>,
        looking: bool,
        now: Duration,
    }

    impl Walk {
        fn event(&mut self, busy: bool, event: Event) {
            let before = self.choice.current();
            for action in self.choice.on(self.now, busy, event) {
                match action {
                    Follow(place, _) => assert!(self.followed.insert(place), "{place:?} is followed already"),
                    Leave(place) => assert!(self.followed.remove(&place), "{place:?} is not followed"),
                    Look(place) => {
                        assert_eq!(self.choice.preferred(), Some(place));
                        self.looking = true;
                    }
                    Complain => assert!(self.choice.rules.tries.is_some()),
                }
            }
            if let Ended(place) = event
                && before == Some(place)
            {
                assert_eq!(self.choice.order.last(), Some(&place), "the lost one is tried last");
            }
            self.check();
        }

        fn check(&self) {
            let expected = match &self.choice.stage {
                Stage::Trying(at) => vec![self.choice.order[*at]],
                Stage::Resting(_) => vec![],
                Stage::Awaiting(place, _) => vec![*place],
                Stage::Following(place, _) => vec![*place],
                Stage::Moving(from, _) => vec![*from, self.choice.listed[0]],
            };
            assert_eq!(self.followed, expected.iter().copied().collect());
            assert_eq!(expected.len(), self.followed.len(), "nobody moves to where he is");
            let mut all = self.choice.order.clone();
            all.sort();
            assert_eq!(all, [A, B, C], "nobody is forgotten");
            let idle = self.followed.is_empty();
            assert!(!idle || self.choice.due(false).is_some(), "there is always something to wait for");
        }
    }

    #[test]
    fn whatever_happens_one_master_is_followed_or_waited_for() {
        for seed in 0..300u64 {
            let random = rt::Rt::new(rt::TokioNet, rt::WallClock, rt::SeededRandom::new(seed));
            let choice = FailoverPolicy::new(rules(seed % 2 == 0), vec![A, B, C]);
            let mut walk = Walk { choice, followed: BTreeSet::new(), looking: false, now: Duration::ZERO };
            walk.event(false, Start);
            for _ in 0..400 {
                walk.now += Duration::from_millis(random.below(20_000));
                let busy = random.below(3) == 0;
                let any: Vec<Place> = walk.followed.iter().copied().collect();
                let pick = any.get(random.below(any.len() as u64) as usize).copied();
                match (random.below(7), pick) {
                    (0, Some(place)) => {
                        walk.followed.remove(&place);
                        walk.event(busy, Ended(place));
                    }
                    (1 | 2, Some(place)) => walk.event(busy, Connected(place)),
                    (6, Some(place)) => walk.event(busy, Pending(place)),
                    (3, _) if walk.looking => {
                        walk.looking = false;
                        walk.event(busy, Looked(random.below(4) > 0));
                    }
                    // Late or made-up news must not harm either.
                    (4, _) => {
                        let place = Place(random.below(3) as usize);
                        if !walk.followed.contains(&place) {
                            walk.event(busy, Ended(place));
                        }
                    }
                    _ => walk.event(busy, Tick),
                }
            }
        }
    }

    #[test]
    fn the_id_chooses_the_first_of_distributed_masters() {
        // From the recorded vectors of Salt's rule.
        for (id, crc, at) in [
            ("vecminion", 3_007_124_550, 0),
            ("web1", 2_678_409_197, 2),
            ("db-02.example.com", 3_819_343_465, 1),
            ("élément", 1_599_780_337, 1),
        ] {
            assert_eq!((crc32(id.as_bytes()), distribute(id, vec![0, 1, 2])[0]), (crc, at), "{id}");
        }
        assert_eq!(distribute("web1", vec!["a", "b", "c"]), ["c", "a", "b"]);
        assert_eq!(distribute("web1", vec!["a"]), ["a"]);
    }

    #[test]
    fn a_shuffle_may_keep_the_first() {
        let random = rt::Rt::new(rt::TokioNet, rt::WallClock, rt::SeededRandom::new(7));
        let mut seen = BTreeSet::new();
        for _ in 0..200 {
            let mut list = [0, 1, 2];
            shuffle(&mut list, true, |bound| random.below(bound));
            assert_eq!(list[0], 0);
            shuffle(&mut list, false, |bound| random.below(bound));
            seen.insert(list);
        }
        assert_eq!(seen.len(), 6);
        shuffle(&mut [0; 0], true, |bound| bound);
    }
}
