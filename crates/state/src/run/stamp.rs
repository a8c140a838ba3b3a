//! The start time and duration of a state, as results show them.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use value::Map;

/// A start time.
#[derive(Clone, Copy)]
pub struct Stamp {
    at: SystemTime,
    since: Instant,
    utc_offset: i64,
}

impl Stamp {
    /// Returns the current time. `utc_offset` is how many seconds local time is ahead of UTC.
    pub fn now(utc_offset: i64) -> Self {
        Stamp { at: SystemTime::now(), since: Instant::now(), utc_offset }
    }

    /// Returns the local time of day of the start.
    pub fn clock(self) -> String {
        time_of_day(self.at.duration_since(UNIX_EPOCH).unwrap_or_default(), self.utc_offset)
    }

    /// Returns the current local time of day by the same clock.
    pub fn clock_now(self) -> String {
        Stamp::now(self.utc_offset).clock()
    }

    /// Adds `start_time` and `duration` (milliseconds) to a result.
    pub fn write(self, ret: &mut Map) {
        let begun = self.at.duration_since(UNIX_EPOCH).unwrap_or_default();
        ret.insert("start_time", time_of_day(begun, self.utc_offset));
        // By the monotonic clock, so that a state that sets the system's time does not falsify it.
        ret.insert("duration", milliseconds(self.since.elapsed()));
    }
}

/// Returns the milliseconds with three decimal places.
pub fn milliseconds(span: Duration) -> f64 {
    span.as_micros() as f64 / 1000.0
}

/// Formats a local time of day as Python's `isoformat` does.
fn time_of_day(since_epoch: Duration, utc_offset: i64) -> String {
    let seconds = (since_epoch.as_secs() as i64 + utc_offset).rem_euclid(86_400);
    let clock = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    match since_epoch.subsec_micros() {
        // `isoformat` leaves out a fraction of zero.
        0 => clock,
        micros => format!("{clock}.{micros:06}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_day_is_local_and_without_zeros() {
        assert_eq!(time_of_day(Duration::from_micros(1_000_005), 3600), "01:00:01.000005");
        assert_eq!(time_of_day(Duration::from_secs(86_399), -1), "23:59:58");
        assert_eq!(milliseconds(Duration::from_micros(1234)), 1.234);
    }
}
