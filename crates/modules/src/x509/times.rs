//! Points in time, always UTC.

use exec::{Error, Result};
use jiff::civil::DateTime;
use jiff::{Span, Timestamp};
use value::python;

use super::der::{self, Item, tag};

/// The format of times in arguments and results.
pub const FORMAT: &str = "%Y-%m-%d %H:%M:%S";

/// This moment.
pub fn now() -> DateTime {
    let now = Timestamp::now();
    let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
    whole.to_zoned(jiff::tz::TimeZone::UTC).datetime()
}

/// Returns the time some days from now.
///
/// # Errors
/// The time is out of range.
pub fn in_days(days: f64) -> Result<DateTime> {
    let seconds = (days * 86400.0).clamp(-1e12, 1e12) as i64;
    now().checked_add(Span::new().try_seconds(seconds).map_err(out_of_range)?).map_err(out_of_range)
}

fn out_of_range(_: jiff::Error) -> Error {
    Error::Other("date value out of range".into())
}

/// Reads a time from an argument.
///
/// # Errors
/// The text is not a time.
pub fn parse(text: &str) -> Result<DateTime> {
    DateTime::strptime(FORMAT, text)
        .map_err(|_| Error::Other(format!("time data {} does not match format '{FORMAT}'", python::repr_str(text))))
}

/// Reads a time of either form.
pub fn read(item: Item) -> Option<DateTime> {
    let text = std::str::from_utf8(item.body).ok()?.strip_suffix('Z')?;
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match (item.tag, text.len()) {
        (tag::UTC_TIME, 12) => {
            let year: i16 = text[..2].parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, &text[2..])
        }
        (tag::GENERALIZED_TIME, 14) => (text[..4].parse().ok()?, &text[4..]),
        _ => return None,
    };
    let part = |place: usize| rest[place * 2..place * 2 + 2].parse::<i8>().ok();
    DateTime::new(year, part(0)?, part(1)?, part(2)?, part(3)?, part(4)?, 0).ok()
}

/// A time as DER, with two digits for years as long as they are enough.
pub fn to_der(time: DateTime) -> Vec<u8> {
    let (tag, format) = if (1950..2050).contains(&time.year()) {
        (tag::UTC_TIME, "%y%m%d%H%M%SZ")
    } else {
        (tag::GENERALIZED_TIME, "%Y%m%d%H%M%SZ")
    };
    der::tlv(tag, time.strftime(format).to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_there_and_back() {
        for text in ["1999-12-31 23:59:59", "2049-01-01 00:00:00", "2050-06-07 08:09:10"] {
            let time = parse(text).unwrap();
            let der = to_der(time);
            assert_eq!(read(der::Reader::new(&der).next().unwrap()), Some(time));
            assert_eq!(time.strftime(FORMAT).to_string(), text);
        }
        assert!(parse("x").is_err());
        let broken = der::tlv(tag::UTC_TIME, "99ü1231235959Z".as_bytes());
        assert_eq!(read(der::Reader::new(&broken).next().unwrap()), None);
    }
}
