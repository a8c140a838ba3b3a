//! The two extension types Salt defines.

use value::DateTime;

use super::Error;

/// Extension code of a date-time: ASCII `YYYYmmddTHH:MM:SS.ffffff`.
pub const DATE_TIME: i8 = 78;

/// Extension code of a named constant: the packed pair of name and value.
pub const CONSTANT: i8 = 79;

/// Returns the content of extension 78.
pub fn date_time_text(time: &DateTime) -> String {
    let DateTime { year, month, day, hour, minute, second, micros } = time;
    format!("{year:04}{month:02}{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}")
}

/// Reads the content of extension 78; the fraction may have one to six digits.
pub fn date_time(content: &[u8]) -> Result<DateTime, Error> {
    parse(content).ok_or(Error::Extension(DATE_TIME))
}

fn parse(content: &[u8]) -> Option<DateTime> {
    // ASCII, so that every byte offset below is a character boundary.
    let text = std::str::from_utf8(content).ok().filter(|text| text.is_ascii() && (19..=24).contains(&text.len()))?;
    let punctuation = [(8, b'T'), (11, b':'), (14, b':'), (17, b'.')];
    if punctuation.iter().any(|&(place, byte)| content[place] != byte) {
        return None;
    }
    let fraction = &text[18..];
    let time = DateTime {
        year: number(&text[..4])? as u16,
        month: number(&text[4..6])? as u8,
        day: number(&text[6..8])? as u8,
        hour: number(&text[9..11])? as u8,
        minute: number(&text[12..14])? as u8,
        second: number(&text[15..17])? as u8,
        // Python's `%f` reads `.5` as half a second. The length check above keeps the exponent from going below zero.
        micros: number(fraction)? * 10_u32.pow(6 - fraction.len() as u32),
    };
    let days = days_in_month(time.year, time.month)?;
    let valid =
        // Python's `datetime` refuses year 0, leap seconds and 30 February.
        time.year > 0 && (1..=days).contains(&time.day) && time.hour < 24 && time.minute < 60 && time.second < 60;
    valid.then_some(time)
}

fn number(digits: &str) -> Option<u32> {
    // `parse` alone would also take a leading `+`.
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

fn days_in_month(year: u16, month: u8) -> Option<u8> {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => Some(31),
        4 | 6 | 9 | 11 => Some(30),
        2 => Some(if leap { 29 } else { 28 }),
        _ => None,
    }
}
