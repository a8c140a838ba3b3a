//! Random decisions as a function of the seed: the same seed gives each minion the same fate.

use std::time::Duration;

/// The purpose of a random number. Different purposes of one minion are independent.
#[derive(Clone, Copy, Debug)]
#[repr(u64)]
pub(crate) enum Purpose {
    /// The choice of slow minions.
    Slow = 1,
    /// How long a minion stays connected.
    Stay,
    /// How long it stays away.
    Away,
    /// The phase of a minion's periodic actions.
    Phase,
    /// The loss of a publication.
    LostPublication,
    /// The loss of the answer to a return.
    LostReturn,
    /// How long a job runs.
    Delay,
    /// How long a minion waits before a retry.
    Backoff,
}

/// The random decisions of one minion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chance {
    seed: u64,
    minion: u64,
}

impl Chance {
    pub(crate) fn new(seed: u64, minion: usize) -> Self {
        Chance { seed, minion: minion as u64 }
    }

    /// Returns a number from 0 to below 1 for the `turn`-th decision of a purpose.
    pub(crate) fn draw(self, purpose: Purpose, turn: u64) -> f64 {
        let mixed =
            // A hash of all three, instead of one shared generator: minions and purposes are independent, so the
        // order in which tasks run cannot change the fate of other minions.
            [purpose as u64, self.minion, turn].iter().fold(mix(self.seed), |state, part| mix(state ^ mix(*part)));
        // A float of this size has 53 significant bits.
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns whether an event with this probability in percent happens.
    pub(crate) fn happens(self, purpose: Purpose, turn: u64, percent: f64) -> bool {
        percent > 0.0 && self.draw(purpose, turn) * 100.0 < percent
    }

    /// Returns a duration between two, inclusive.
    pub(crate) fn between(self, purpose: Purpose, turn: u64, least: Duration, most: Duration) -> Duration {
        // Saturating, so that reversed ends yield the first one instead of a panic.
        least + most.saturating_sub(least).mul_f64(self.draw(purpose, turn))
    }

    /// Returns how long a minion stays the `turn`-th time, if `per_second` of all minions leave each second.
    ///
    /// The distribution is exponential, so the rate is constant from the first second on.
    pub(crate) fn stay(self, turn: u64, per_second: f64, minions: usize) -> Option<Duration> {
        if per_second <= 0.0 {
            return None;
        }
        let mean = minions as f64 / per_second;
        // The inverse of the exponential distribution. `1 - draw` lies above 0 up to 1, so the logarithm is finite; a
        // stay longer than a `Duration` can hold means that the minion never leaves.
        Duration::try_from_secs_f64(-mean * (1.0 - self.draw(Purpose::Stay, turn)).ln()).ok()
    }
}

/// One step of SplitMix64: every bit of the input changes half of the output bits.
fn mix(input: u64) -> u64 {
    let mut state = input.wrapping_add(0x9e37_79b9_7f4a_7c15);
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_follow_from_the_seed() {
        let fate = |seed| (0..50).map(|turn| Chance::new(seed, 7).stay(turn, 2.0, 100).unwrap()).collect::<Vec<_>>();
        assert_eq!(fate(1), fate(1));
        assert_ne!(fate(1), fate(2));
        let slow = |minion| Chance::new(1, minion).draw(Purpose::Slow, 0);
        assert_ne!(slow(1), slow(2));
        assert_ne!(slow(1), Chance::new(1, 1).draw(Purpose::Delay, 0));
    }

    #[test]
    fn percentages_are_met() {
        let hit =
            |percent| (0..10_000).filter(|minion| Chance::new(3, *minion).happens(Purpose::Slow, 0, percent)).count();
        assert_eq!((hit(0.0), hit(100.0)), (0, 10_000));
        assert!((900..1100).contains(&hit(10.0)), "{}", hit(10.0));
    }

    #[test]
    fn the_rate_of_leaving_is_met() {
        let minions = 2000;
        let leaves = |minion: usize| {
            let mut now = Duration::ZERO;
            let stays = (0..).map_while(move |turn| Chance::new(9, minion).stay(turn, 20.0, minions));
            stays
                .map(move |stay| {
                    now += stay;
                    now
                })
                .take_while(|at| *at < Duration::from_secs(60))
                .collect::<Vec<_>>()
        };
        let all: Vec<Duration> = (0..minions).flat_map(leaves).collect();
        let within = |from: u64, to: u64| all.iter().filter(|at| (from..to).contains(&at.as_secs())).count();
        // 400 are expected in each window; four standard deviations (80) to either side. A fixed stay would leave the
        // first window empty.
        for (from, to) in [(0, 20), (20, 40), (40, 60)] {
            assert!((320..480).contains(&within(from, to)), "{from}: {}", within(from, to));
        }
        assert_eq!(Chance::new(9, 1).stay(0, 0.0, minions), None);
    }

    #[test]
    fn a_time_lies_between_its_ends() {
        let (least, most) = (Duration::from_millis(10), Duration::from_millis(20));
        for turn in 0..100 {
            let time = Chance::new(1, 1).between(Purpose::Delay, turn, least, most);
            assert!((least..=most).contains(&time));
        }
        assert_eq!(Chance::new(1, 1).between(Purpose::Delay, 0, most, least), most);
    }
}
