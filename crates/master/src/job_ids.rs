//! Job ids: each is made once, by this master and by all masters that it shares with.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use share::JobTimes;
use wire::Jid;
use wire::jid::JidSource;

/// How far ids may be ahead of the clock, in microseconds. A clock that is set back by less lets them grow, since lists of jobs are
/// sorted by them. After a larger step they begin again: other members do not take jobs of the future.
const MOST_AHEAD: u64 = 3_600_000_000;

/// The source of job ids.
#[derive(Debug, Default)]
pub struct JobIds {
    alone: JidSource,
    /// The moment of the newest id, in microseconds since 1970.
    last: u64,
    /// The source in a set of masters, where the last two digits of an id are the slot of its master.
    shared: Option<JobTimes>,
    slot: u8,
}

impl JobIds {
    /// Returns a new job id, which grows with each call as long as the clock is not set back by more than an hour. `process` is the process id, for the option `unique_jid`.
    pub fn next(&mut self, now: SystemTime, process: Option<u32>) -> Jid {
        if self.last > micros(now).saturating_add(MOST_AHEAD) {
            self.alone = JidSource::default();
            self.shared = self.shared.take().map(|_| JobTimes::new(self.slot, 0));
        }
        let now = match &mut self.shared {
            Some(times) => UNIX_EPOCH + Duration::from_micros(times.next(micros(now))),
            None => now,
        };
        let id = match process {
            Some(process) => self.alone.next_unique(now, process),
            None => self.alone.next(now),
        };
        self.last = id.time().map_or(self.last, micros);
        id
    }

    /// Ends all further job ids in these two digits.
    pub fn set_slot(&mut self, slot: u8) {
        self.slot = slot;
        match &mut self.shared {
            Some(times) => times.set_slot(slot),
            // Above all earlier ids: otherwise the other source would move the next one out of the slot.
            None => self.shared = Some(JobTimes::new(slot, self.last)),
        }
    }
}

fn micros(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_grow_and_end_in_the_slot_once_there_is_one() {
        let (mut ids, now) = (JobIds::default(), UNIX_EPOCH + Duration::from_micros(1_700_000_000_123_456));
        let alone = ids.next(now, None);
        assert_eq!(alone.as_str(), "20231114221320123456");
        ids.set_slot(7);
        assert_eq!(ids.next(now, None).as_str(), "20231114221320123507", "later than the one before");
        assert_eq!(ids.next(now, None).as_str(), "20231114221320123607");
        ids.set_slot(12);
        assert_eq!(ids.next(now, Some(42)).as_str(), "20231114221320123712_42");
    }

    #[test]
    fn ids_begin_again_when_a_clock_that_was_days_ahead_is_set_right() {
        for slot in [None, Some(7)] {
            let (mut ids, now) = (JobIds::default(), UNIX_EPOCH + Duration::from_secs(1_700_000_000));
            slot.inspect(|slot| ids.set_slot(*slot));
            let first = ids.next(now + Duration::from_secs(172_800), None);
            assert!(first.as_str() > "20231116", "{first:?}");
            let back = ids.next(now, None);
            assert!(back.as_str().starts_with("20231114221320"), "{back:?}");
            let (later, grown) = (ids.next(now + Duration::from_secs(60), None), ids.next(now, None));
            assert!(later.as_str() < grown.as_str(), "after a small step back they grow");
        }
    }
}
