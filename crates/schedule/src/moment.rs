//! A moment on two clocks.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use value::Value;

/// A moment, as the machine's clock shows it and on a monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The time of day in the machine's zone.
    pub wall: DateTime,
    /// The time since some fixed moment, which must be the same for a whole schedule.
    pub mono: Duration,
}

/// Returns the microseconds from one time of day to another; negative if the second is earlier.
pub(crate) fn micros(from: DateTime, to: DateTime) -> i128 {
    to.duration_since(from).as_micros()
}

/// Adds a duration to a time of day; saturates at the latest time.
pub(crate) fn plus(time: DateTime, by: Duration) -> DateTime {
    time.saturating_add(by)
}

/// Subtracts a duration from a time of day.
pub(crate) fn minus(time: DateTime, by: Duration) -> DateTime {
    time.saturating_sub(by)
}

/// Converts a time of day to a value.
pub fn to_value(time: DateTime) -> Value {
    Value::DateTime(value::DateTime {
        year: time.year().unsigned_abs(),
        month: time.month().unsigned_abs(),
        day: time.day().unsigned_abs(),
        hour: time.hour().unsigned_abs(),
        minute: time.minute().unsigned_abs(),
        second: time.second().unsigned_abs(),
        micros: time.subsec_nanosecond().unsigned_abs() / 1000,
    })
}

/// Converts a value to a time of day.
pub(crate) fn from_value(time: &value::DateTime) -> Option<DateTime> {
    let small = |number: u8| i8::try_from(number).ok();
    DateTime::new(
        i16::try_from(time.year).ok()?,
        small(time.month)?,
        small(time.day)?,
        small(time.hour)?,
        small(time.minute)?,
        small(time.second)?,
        i32::try_from(time.micros).ok()? * 1000,
    )
    .ok()
}

/// A time zone.
#[derive(Clone, Debug)]
pub enum Zone {
    /// The machine's current zone.
    Machine,
    /// UTC.
    Utc,
}

impl Zone {
    fn rules(&self) -> TimeZone {
        match self {
            Zone::Machine => TimeZone::system(),
            Zone::Utc => TimeZone::UTC,
        }
    }

    /// Returns the local date and time of a point in time.
    pub fn wall(&self, time: SystemTime) -> DateTime {
        // A clock far beyond the calendar must not panic.
        let stamp = Timestamp::try_from(time).unwrap_or(Timestamp::MAX);
        self.rules().to_datetime(stamp).round(jiff::Unit::Microsecond).unwrap_or(DateTime::MAX)
    }

    /// Returns the offset from UTC at a point in time, in the form of `strftime("%z")`.
    pub fn offset(&self, time: SystemTime) -> String {
        let stamp = Timestamp::try_from(time).unwrap_or(Timestamp::MAX);
        let seconds = self.rules().to_offset(stamp).seconds();
        let minutes = seconds.abs() / 60;
        format!("{}{:02}{:02}", if seconds < 0 { '-' } else { '+' }, minutes / 60, minutes % 60)
    }
}
