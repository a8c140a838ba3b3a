//! When to retry.

use std::time::Duration;

use rt::Rt;

/// The wait between sign-ins while the key is pending: `acceptance_wait_time`, doubled after each round while it is
/// below `acceptance_wait_time_max`.
#[derive(Clone, Debug)]
pub struct AcceptanceWait {
    most: Duration,
    next: Duration,
}

impl AcceptanceWait {
    /// Creates a wait with a maximum; with a maximum of zero the wait is constant.
    pub fn new(first: Duration, most: Duration) -> Self {
        AcceptanceWait { most, next: first }
    }

    /// Returns how long to wait now.
    pub fn next(&mut self) -> Duration {
        let wait = self.next;
        if self.next < self.most {
            self.next += self.next;
        }
        wait
    }
}

/// The wait before a lost connection is tried again: about `recon_default` for the first half minute, then, with
/// `recon_randomize`, random between `recon_default` and `recon_default` + `recon_max`, so that not all minions
/// reconnect at once.
#[derive(Clone, Debug)]
pub struct Backoff {
    /// The shortest wait.
    pub least: Duration,
    /// The random part of the wait.
    pub spread: Duration,
}

/// The first wait after a good connection: long enough for a restarting master to listen again.
const QUICK: Duration = Duration::from_millis(100);

/// The number of consecutive failures during which the master is assumed to be restarting.
const RESTARTING: u32 = 30;

impl Backoff {
    /// Returns how long to wait after a number of failures in a row: after the first one a very short time, then about
    /// the shortest wait while the master may be restarting, then a random time within the limits. A refused connection
    /// costs a master nothing, and sign-ins are queued there.
    pub fn wait(&self, failures: u32, rt: &Rt) -> Duration {
        match failures {
            // A connection that was lost may be back at once; the little randomness spreads a fleet.
            0..=1 => rt.between(QUICK, (QUICK * 5).min(self.least.max(QUICK))),
            2..=RESTARTING if !self.spread.is_zero() => rt.between(self.least / 2, self.least * 3 / 2),
            _ => rt.between(self.least, self.least + self.spread),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rt::{OsRandom, SeededRandom, TokioNet, WallClock};

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_acceptance_wait_grows_up_to_its_bound() {
        let mut wait = AcceptanceWait::new(10 * SECOND, 60 * SECOND);
        let seconds: Vec<u64> = (0..5).map(|_| wait.next().as_secs()).collect();
        // As in Salt, the last doubling may exceed the bound.
        assert_eq!(seconds, [10, 20, 40, 80, 80]);
        let mut fixed = AcceptanceWait::new(10 * SECOND, Duration::ZERO);
        assert_eq!((fixed.next(), fixed.next()), (10 * SECOND, 10 * SECOND));
    }

    #[test]
    fn a_lost_connection_is_tried_at_once_and_then_within_bounds() {
        let rt = Rt::new(TokioNet, WallClock, SeededRandom::new(1));
        let backoff = Backoff { least: SECOND, spread: 10 * SECOND };
        assert!(backoff.wait(1, &rt) <= SECOND / 2);
        for failures in 2..=RESTARTING {
            let wait = backoff.wait(failures, &rt);
            assert!((SECOND / 2..=SECOND * 3 / 2).contains(&wait), "{failures}: {wait:?}");
        }
        for failures in RESTARTING + 1..60 {
            let wait = backoff.wait(failures, &rt);
            assert!((SECOND..=11 * SECOND).contains(&wait), "{failures}: {wait:?}");
        }
        let fixed = Backoff { least: SECOND, spread: Duration::ZERO };
        assert_eq!(fixed.wait(3, &Rt::new(TokioNet, WallClock, OsRandom)), SECOND);
    }
}
