//! Times as people read and write them: local, to the second. Programs get them as RFC 3339.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use schedule::jiff::Timestamp;
use schedule::jiff::civil::DateTime;
use schedule::jiff::tz::TimeZone;
use value::Value;

/// For whom times are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Local time without its zone, as `salt-run` shows it.
    Person,
    /// RFC 3339 in UTC.
    Program,
}

impl Reader {
    /// Writes milliseconds since 1970.
    pub fn time(self, milliseconds: u64) -> String {
        match (self, timestamp(milliseconds)) {
            (Reader::Program, Some(time)) => time.to_string(),
            _ => local_time(milliseconds),
        }
    }
}

fn timestamp(milliseconds: u64) -> Option<Timestamp> {
    i64::try_from(milliseconds).ok().and_then(|time| Timestamp::from_millisecond(time).ok())
}

/// Writes milliseconds since 1970 as local time.
pub fn local_time(milliseconds: u64) -> String {
    let time = timestamp(milliseconds);
    let local = time.map(|time| time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string());
    local.unwrap_or_else(|| format!("{milliseconds} ms after 1970"))
}

/// Writes a time as local time.
pub fn local_time_of(time: SystemTime) -> String {
    local_time(milliseconds(time))
}

/// Returns a time in milliseconds since 1970.
pub fn milliseconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Reads from when on something is wanted, in milliseconds since 1970: a time ago such as `90s`, `10m`, `1h`, `2d` or `1w`, with or
/// without a minus sign, a date with or without a time, or seconds since 1970. A time that has not come yet would list nothing, and
/// is refused.
pub fn since(value: &Value, now: SystemTime) -> Result<u64, String> {
    let text = match value {
        Value::DateTime(time) => time.to_string(),
        value => value.to_string().trim().to_owned(),
    };
    let now_ms = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    if let Some(ago) = ago(&text) {
        return Ok(now_ms.saturating_sub(ago.as_millis() as u64));
    }
    // Eight digits are a date, and fourteen a date with a time, as in a job id.
    let wrong =
        || format!("since={text} is not a time: 1h, 2d, 2026-11-26, '2026-11-26 03:10' or seconds since 1970 are");
    let is_day = matches!(text.len(), 8 | 14) && text.bytes().all(|byte| byte.is_ascii_digit());
    let milliseconds = match text.parse::<f64>() {
        Ok(seconds) if !is_day => match seconds >= 0.0 && seconds.is_finite() {
            true => (seconds * 1_000.0) as u64,
            false => return Err(wrong()),
        },
        // Of these the date would be read and the sign ignored.
        _ if text.starts_with(['-', '+']) => return Err(wrong()),
        _ => {
            let today = schedule::Zone::Machine.wall(now).date();
            let time: DateTime = python::dateutil::parse(&text, today).map_err(|_| wrong())?;
            let time = time.to_zoned(TimeZone::system()).map_err(|_| wrong())?;
            u64::try_from(time.timestamp().as_millisecond()).map_err(|_| wrong())?
        }
    };
    match milliseconds > now_ms {
        true => Err(format!("since={text} has not come yet: it is {} now", local_time(now_ms))),
        false => Ok(milliseconds),
    }
}

/// Reads a number with a unit. `-1h` and `1h` are the same: nothing is decided in the future.
fn ago(text: &str) -> Option<Duration> {
    let text = text.strip_prefix('-').unwrap_or(text);
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => return None,
    };
    // `parse` takes a plus sign.
    let number = number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse::<u32>().ok())??;
    Some(Duration::from_secs(number.into()) * seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        let now = UNIX_EPOCH + Duration::from_secs(1_795_662_622);
        let read = |value: &str| since(&Value::from(value), now);
        let text = local_time_of(now);
        assert_eq!(text.len(), "2026-11-26 03:10:22".len());
        assert_eq!(Reader::Person.time(1_795_662_622_000), text);
        assert_eq!(Reader::Program.time(1_795_662_622_250), "2026-11-26T03:10:22.25Z");
        assert_eq!(read(&text), Ok(1_795_662_622_000));
        assert_eq!(read("2h"), Ok(1_795_662_622_000 - 7_200_000));
        assert_eq!(read("-2h"), read("2h"));
        assert_eq!(read("1d"), read(&local_time_of(now - Duration::from_secs(86_400))));
        assert_eq!(read("1795662622"), Ok(1_795_662_622_000));
        assert_eq!(since(&Value::from(1_795_662_621.5), now), Ok(1_795_662_621_500));
        assert_eq!(read("20261126"), read("2026-11-26"));
        for wrong in ["", "soon", "1y", "2026-13-40", "h", "-", "--1h", "+1h", "-3600", "-2026-11-26", "nan", "inf"] {
            assert!(read(wrong).is_err_and(|reason| reason.contains("is not a time")), "{wrong}");
        }
        assert!(
            read(&local_time_of(now + Duration::from_secs(60)))
                .is_err_and(|reason| reason.contains("has not come yet"))
        );
        assert!(read("1795662700").is_err_and(|reason| reason.contains("has not come yet")));
    }
}
