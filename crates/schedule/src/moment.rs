//! A point in time on two clocks.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use value::Value;

/// A point in time, as the machine's clock shows it and on a clock that only runs forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The time of day in the zone of the machine.
    pub wall: DateTime,
    /// The time since some moment in the past, which the same moment must be for all of a schedule.
    pub mono: Duration,
}

/// The microseconds from one time of day to another; negative when the second is earlier.
pub(crate) fn micros(from: DateTime, to: DateTime) -> i128 {
    to.duration_since(from).as_micros()
}

/// A time of day moved by a duration; the latest there is when it would be later.
pub(crate) fn plus(time: DateTime, by: Duration) -> DateTime {
    time.saturating_add(by)
}

/// A time of day moved back by a duration.
pub(crate) fn minus(time: DateTime, by: Duration) -> DateTime {
    time.saturating_sub(by)
}

/// A time of day as a value.
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

/// A time of day out of a value.
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

/// A time zone, for the time of day.
#[derive(Clone, Debug)]
pub enum Zone {
    /// That of the machine, as it is set at the moment.
    Machine,
    /// Universal time.
    Utc,
}

impl Zone {
    fn rules(&self) -> TimeZone {
        match self {
            Zone::Machine => TimeZone::system(),
            Zone::Utc => TimeZone::UTC,
        }
    }

    /// The time of day at a moment.
    pub fn wall(&self, time: SystemTime) -> DateTime {
        let stamp = Timestamp::try_from(time).unwrap_or(Timestamp::MAX);
        self.rules().to_datetime(stamp).round(jiff::Unit::Microsecond).unwrap_or(DateTime::MAX)
    }

    /// What the time of day is ahead of universal time at a moment, as `strftime("%z")` writes it.
    pub fn offset(&self, time: SystemTime) -> String {
        let stamp = Timestamp::try_from(time).unwrap_or(Timestamp::MAX);
        let seconds = self.rules().to_offset(stamp).seconds();
        let minutes = seconds.abs() / 60;
        format!("{}{:02}{:02}", if seconds < 0 { '-' } else { '+' }, minutes / 60, minutes % 60)
    }
}
