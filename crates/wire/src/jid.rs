//! Job ids: the time of the job in 20 digits.

use std::borrow::Borrow;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use value::{DateTime, Value};

/// A valid job id: 20 digits `YYYYmmddHHMMSSffffff` in UTC, perhaps followed by `_` and more.
///
/// Validity is Salt's: exactly 20 characters, or more than 21 with `_` at place 20, and the first 20 read as an
/// integer. Stricter than Salt in one thing: only digits count as an integer (Python also takes signs, blanks and
/// underscores), and what follows may not contain `/`, NUL or other control characters.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Jid(Box<str>);

/// An error: the text is not a job id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a job id")]
pub struct InvalidJid(pub String);

impl Jid {
    /// Checks a text and returns it as a job id.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidJid> {
        let text = text.into();
        if Self::is_valid(&text) { Ok(Jid(text.into_boxed_str())) } else { Err(InvalidJid(clip(text))) }
    }

    /// Returns whether a text is a job id.
    pub fn is_valid(text: &str) -> bool {
        let bytes = text.as_bytes();
        // Salt sets no upper limit. 200 bytes leave room for a suffix and still fit a file name.
        let length = bytes.len() == 20 || (bytes.len() > 21 && bytes.len() <= 200 && bytes[20] == b'_');
        length
            // The first 20 bytes are digits, so the slice at 20 below falls between characters.
            && bytes[..20].iter().all(u8::is_ascii_digit)
            && !text[20..].chars().any(|character| character == '/' || character.is_control())
    }

    /// Returns the job id of a point in time. Two points in the same microsecond give the same id; see [`JidSource`].
    pub fn at(time: SystemTime) -> Self {
        Jid(digits(micros_since_epoch(time)).into_boxed_str())
    }

    /// Returns the job id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the time the digits express, if they are a date and a time.
    pub fn date_time(&self) -> Option<DateTime> {
        let part = |from: usize, to: usize| self.0[from..to].parse::<u32>().ok();
        let time = DateTime {
            // At most four digits, so the casts lose nothing.
            year: part(0, 4)? as u16,
            month: part(4, 6)? as u8,
            day: part(6, 8)? as u8,
            hour: part(8, 10)? as u8,
            minute: part(10, 12)? as u8,
            second: part(12, 14)? as u8,
            micros: part(14, 20)?,
        };
        let valid = time.year > 0
            && (1..=12).contains(&time.month)
            // The day is not checked against the month: the time is only displayed and compared.
            && (1..=31).contains(&time.day)
            && time.hour < 24
            && time.minute < 60
            && time.second < 60;
        valid.then_some(time)
    }

    /// Returns the moment of the job.
    pub fn time(&self) -> Option<SystemTime> {
        let time = self.date_time()?;
        let days = days_from_civil(i64::from(time.year), time.month, time.day);
        let seconds =
            days * 86_400 + i64::from(time.hour) * 3600 + i64::from(time.minute) * 60 + i64::from(time.second);
        let since = Duration::from_secs(u64::try_from(seconds).ok()?) + Duration::from_micros(time.micros.into());
        UNIX_EPOCH.checked_add(since)
    }

    /// Returns the time as Salt shows it to users: `2024, Feb 29 13:14:15.678901`; empty when there is none.
    pub fn display_time(&self) -> String {
        display_time(self.as_str())
    }
}

/// Returns the time of a job id as Salt shows it; empty for texts that are not job ids (`req`, `nocache`).
pub fn display_time(jid: &str) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    // Salt shows nothing for such ids instead of failing.
    let Some(time) = Jid::new(jid).ok().and_then(|jid| jid.date_time()) else { return String::new() };
    let DateTime { year, month, day, hour, minute, second, micros } = time;
    let month = MONTHS[usize::from(month) - 1];
    format!("{year:04}, {month} {day:02} {hour:02}:{minute:02}:{second:02}.{micros:06}")
}

/// Creates job ids that never repeat within a process: an already used time becomes the next microsecond.
#[derive(Debug, Default)]
pub struct JidSource {
    last: u64,
}

impl JidSource {
    /// Returns a new source.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the job id of a point in time, or of the microsecond after the last id.
    pub fn next(&mut self, time: SystemTime) -> Jid {
        // If the clock is set back, ids continue to grow: lists of jobs are sorted by them.
        self.last = micros_since_epoch(time).max(self.last + 1);
        Jid(digits(self.last).into_boxed_str())
    }

    /// Returns the same with `_<pid>` at the end, for the option `unique_jid`.
    pub fn next_unique(&mut self, time: SystemTime, pid: u32) -> Jid {
        Jid(format!("{}_{pid}", self.next(time)).into_boxed_str())
    }
}

fn micros_since_epoch(time: SystemTime) -> u64 {
    // A clock before 1970 yields the first id instead of a panic; `JidSource` still counts on from there.
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

fn digits(micros: u64) -> String {
    let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil_from_days(days as i64);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}{micros:06}")
}

/// Days since 1970 to year, month and day, for dates after 1970 (Howard Hinnant's public-domain algorithm).
fn civil_from_days(days: i64) -> (i64, u8, u8) {
    // There are 719468 days between 0000-03-01 and 1970-01-01. Years begin in March here, so that a leap day is the
    // last day of its year.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month as u8, day as u8)
}

/// The reverse of [`civil_from_days`].
fn days_from_civil(year: i64, month: u8, day: u8) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted_month = (i64::from(month) + 9) % 12;
    let day_of_year = (153 * shifted_month + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn clip(mut text: String) -> String {
    // The text may come from a stranger, and the error ends up in logs.
    if let Some((end, _)) = text.char_indices().nth(64) {
        text.truncate(end);
    }
    text
}

impl fmt::Display for Jid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Jid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Jid({})", self.0)
    }
}

impl std::str::FromStr for Jid {
    type Err = InvalidJid;

    fn from_str(text: &str) -> Result<Self, InvalidJid> {
        Jid::new(text)
    }
}

impl AsRef<str> for Jid {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Jid {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<Jid> for Value {
    fn from(jid: Jid) -> Self {
        Value::Str(jid.0.into_string())
    }
}

impl From<&Jid> for Value {
    fn from(jid: &Jid) -> Self {
        Value::from(jid.as_str())
    }
}

impl From<Jid> for String {
    fn from(jid: Jid) -> Self {
        jid.0.into_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors() {
        for case in crate::testing::vectors("jid")["jids"].as_array().unwrap() {
            let text = case["jid"].as_str().unwrap();
            assert_eq!(Jid::is_valid(text), case["is_jid"].as_bool().unwrap(), "{text}");
            assert_eq!(display_time(text), case["time"].as_str().unwrap(), "{text}");
        }
    }

    #[test]
    fn a_moment_becomes_digits_and_comes_back() {
        for (micros, text) in [
            (1_709_212_455_678_901, "20240229131415678901"),
            (0, "19700101000000000000"),
            (951_782_399_999_999, "20000228235959999999"),
            // 2100 is not a leap year.
            (4_102_444_800_000_001, "21000101000000000001"),
        ] {
            let time = UNIX_EPOCH + Duration::from_micros(micros);
            assert_eq!(Jid::at(time).as_str(), text);
            assert_eq!(Jid::at(time).time(), Some(time));
        }
    }

    #[test]
    fn ids_of_one_source_never_repeat() {
        let mut source = JidSource::new();
        let time = UNIX_EPOCH + Duration::from_micros(1_709_212_455_999_999);
        assert_eq!(source.next(time).as_str(), "20240229131415999999");
        assert_eq!(source.next(time).as_str(), "20240229131416000000");
        assert_eq!(source.next_unique(time, 42).as_str(), "20240229131416000001_42");
    }

    #[test]
    fn hostile_texts_are_refused() {
        for text in
            ["", "../../../../../etc/aa", "20240229131415678901_/../x", "+0240229131415678901", "2024022913141567890é"]
        {
            assert!(Jid::new(text).is_err(), "{text}");
        }
    }
}
