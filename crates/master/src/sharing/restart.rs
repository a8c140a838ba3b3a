//! What happens after a bug: the worker drops what it was doing, waits for a moment, and begins again from its records.
//!
//! Ending the master would be worse. What made the worker fail may be a message that each member gets, and then no master of the
//! set would serve minions. A worker that has ended in silence would be worse still: keys would be deleted on one master and stay
//! accepted on another.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use keys::ChangedKeys;
use tokio::time::Instant;
use tracing::error;

use super::worker::{Work, Worker};

/// The first pause, and the longest one.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// After this time without a failure the next one is the first again.
const FORGIVEN: Duration = Duration::from_secs(600);

/// How long the worker waits after failures.
#[derive(Debug, Default)]
pub struct Pauses {
    last: Option<(Instant, Duration)>,
}

impl Pauses {
    /// Returns how long to wait after a failure now: longer each time, so that a message that comes again and again does not
    /// occupy the master.
    pub fn after_failure(&mut self, now: Instant) -> Duration {
        let before = self.last.filter(|(at, _)| now.saturating_duration_since(*at) < FORGIVEN);
        let pause = before.map_or(FIRST, |(_, pause)| (pause * 2).min(LONGEST));
        self.last = Some((now, pause));
        pause
    }
}

/// Does something with the worker. Returns it, and whether it is as it should be.
pub fn contained<T>(mut worker: T, work: impl FnOnce(&mut T)) -> (T, bool) {
    // The panic itself is in the log already, with its place.
    let done = catch_unwind(AssertUnwindSafe(|| work(&mut worker)));
    (worker, done.is_ok())
}

/// Says that the worker has failed.
pub fn report(pause: Duration) {
    error!(
        "sharing with other masters failed because of a bug, and starts again in {} s. What this master got meanwhile is found by \
         comparing",
        pause.as_secs()
    );
}

impl Worker {
    /// Begins again with what is on disk.
    pub fn restart(&mut self) {
        self.forget_unfinished();
        let actions = self.model.restart(self.now());
        self.carry_out(actions);
        self.restart_duties();
        // Changes of key files may have been among what was dropped.
        self.work(vec![Work::Keys(ChangedKeys::Any)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_leaves_the_worker_and_is_reported() {
        let (all, fine) = contained(vec![1], |all| {
            all.push(2);
            assert!(all.len() > 5, "a bug");
        });
        assert_eq!((all, fine), (vec![1, 2], false));
        assert_eq!(contained(1, |one| *one += 1), (2, true));
    }

    #[test]
    fn pauses_grow_until_nothing_fails_for_a_while() {
        let (mut pauses, start) = (Pauses::default(), Instant::now());
        let mut at = |seconds| pauses.after_failure(start + Duration::from_secs(seconds)).as_secs();
        assert_eq!([at(0), at(1), at(10)], [1, 2, 4]);
        assert_eq!((0..9).map(|number| at(20 + number)).last(), Some(60));
        assert_eq!(at(1_000), 1);
    }
}
