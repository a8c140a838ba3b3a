//! Times read with a pattern as Python's `strptime` does.

use crate::calendar::{MONTHS, WEEKDAYS, days_in, days_of};

/// A point in time without a zone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Time {
    /// Year.
    pub year: i64,
    /// Month, from 1.
    pub month: i64,
    /// Day, from 1.
    pub day: i64,
    /// Hour.
    pub hour: i64,
    /// Minute.
    pub minute: i64,
    /// Second.
    pub second: i64,
    /// Microsecond.
    pub micro: i64,
}

impl Time {
    /// Days since 1970.
    pub fn days(&self) -> i64 {
        days_of(self.year, self.month, self.day)
    }

    /// Seconds since 1970.
    pub fn seconds(&self) -> f64 {
        let whole = self.days() * 86_400 + self.hour * 3_600 + self.minute * 60 + self.second;
        whole as f64 + self.micro as f64 / 1e6
    }

    /// The day of the week, Monday as 0.
    pub fn weekday(&self) -> i64 {
        // 1 January 1970 was a Thursday.
        (self.days() + 3).rem_euclid(7)
    }

    /// The number of the week in its ISO year.
    pub fn week(&self) -> i64 {
        let days = self.days();
        // An ISO week belongs to the year of its Thursday.
        let thursday = days - self.weekday() + 3;
        let mut first = Time { month: 1, day: 1, ..*self };
        for year in [self.year + 1, self.year, self.year - 1] {
            first.year = year;
            if first.days() <= thursday {
                break;
            }
        }
        (thursday - first.days()) / 7 + 1
    }

    fn is_real(&self) -> bool {
        (1..=9999).contains(&self.year) && self.day <= days_in(self.year, self.month)
    }
}

struct Reader<'a> {
    rest: &'a str,
    time: Time,
    afternoon: Option<bool>,
    year_day: Option<i64>,
}

impl Reader<'_> {
    /// Reads at most that many digits; the number must be in the range.
    fn number(&mut self, most: usize, low: i64, high: i64) -> Option<i64> {
        let digits = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        // As many digits as make a number in the range.
        for length in (1..=digits).rev() {
            let number: i64 = self.rest[..length].parse().ok()?;
            if (low..=high).contains(&number) {
                self.rest = &self.rest[length..];
                return Some(number);
            }
        }
        None
    }

    fn word(&mut self, words: &[&str], short: bool) -> Option<i64> {
        let lower = self.rest.to_lowercase();
        for (place, word) in words.iter().enumerate() {
            // The table holds lower-case ASCII names only, so three bytes are three letters.
            let word = if short { &word[..3] } else { word };
            if lower.starts_with(word) {
                // `get`, because lower-casing can change the length of the input and the index may
                // fall inside a character.
                self.rest = self.rest.get(word.len()..)?;
                return i64::try_from(place).ok();
            }
        }
        None
    }

    fn directive(&mut self, letter: char) -> Option<()> {
        match letter {
            'Y' => {
                let digits = self.rest.get(..4).filter(|digits| digits.bytes().all(|c| c.is_ascii_digit()))?;
                self.time.year = digits.parse().ok()?;
                self.rest = &self.rest[4..];
            }
            'y' => {
                let year = self.number(2, 0, 99)?;
                // POSIX's pivot: 69 to 99 are in the 20th century.
                self.time.year = if year < 69 { 2000 + year } else { 1900 + year };
            }
            'm' => self.time.month = self.number(2, 1, 12)?,
            'd' => self.time.day = self.number(2, 1, 31)?,
            'H' => self.time.hour = self.number(2, 0, 23)?,
            'I' => self.time.hour = self.number(2, 1, 12)?,
            'M' => self.time.minute = self.number(2, 0, 59)?,
            // Python accepts up to 61, for leap seconds.
            'S' => self.time.second = self.number(2, 0, 61)?,
            'j' => self.year_day = Some(self.number(3, 1, 366)?),
            'f' => {
                let digits = self.rest.bytes().take(6).take_while(u8::is_ascii_digit).count();
                let text = self.rest.get(..digits).filter(|text| !text.is_empty())?;
                // `5` means 500,000 microseconds: the digits are those behind the decimal point.
                self.time.micro = format!("{text:0<6}").parse().ok()?;
                self.rest = &self.rest[digits..];
            }
            'p' => self.afternoon = Some(self.word(&["am_", "pm_"].map(|word| &word[..2]), false)? == 1),
            'b' | 'h' => self.time.month = self.word(&MONTHS, true)? + 1,
            'B' => self.time.month = self.word(&MONTHS, false)? + 1,
            'a' => drop(self.word(&WEEKDAYS, true)?),
            'A' => drop(self.word(&WEEKDAYS, false)?),
            '%' => self.rest = self.rest.strip_prefix('%')?,
            _ => return None,
        }
        Some(())
    }
}

/// Returns whether all directives of a pattern are known.
pub fn is_known(pattern: &str) -> bool {
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c == '%' && !chars.next().is_some_and(|letter| "YymdHIMSjfpbhBaA%".contains(letter)) {
            return false;
        }
    }
    true
}

/// Reads a time. Returns None if the text does not match the pattern.
pub fn parse(text: &str, pattern: &str) -> Option<Time> {
    let time = Time { year: 1900, month: 1, day: 1, hour: 0, minute: 0, second: 0, micro: 0 };
    let mut reader = Reader { rest: text, time, afternoon: None, year_day: None };
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '%' => reader.directive(chars.next()?)?,
            c if c.is_whitespace() => {
                let trimmed = reader.rest.trim_start();
                if trimmed.len() == reader.rest.len() {
                    return None;
                }
                reader.rest = trimmed;
            }
            c => {
                let next = reader.rest.chars().next().filter(|next| next.to_lowercase().eq(c.to_lowercase()))?;
                reader.rest = &reader.rest[next.len_utf8()..];
            }
        }
    }
    let mut time = reader.time;
    if let Some(afternoon) = reader.afternoon {
        // 12 AM is midnight and 12 PM is noon.
        time.hour = time.hour % 12 + if afternoon { 12 } else { 0 };
    }
    if let Some(day) = reader.year_day {
        let first_of = |month: i64| {
            let first = Time { month, day: 1, ..time };
            first.days()
        };
        let before = |month: i64| first_of(month) - first_of(1);
        let month = (1..=12).rev().find(|month| before(*month) < day).unwrap_or(1);
        let day = day - before(month);
        (time.month, time.day) = (month, day);
    }
    // Text left over means that the name does not match, as with Python's "unconverted data
    // remains".
    (reader.rest.is_empty() && time.is_real()).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_times() {
        let time = parse("backup-2024-02-29_13.05.tgz", "backup-%Y-%m-%d_%H.%M.tgz").unwrap();
        assert_eq!((time.year, time.month, time.day, time.hour, time.minute), (2024, 2, 29, 13, 5));
        assert_eq!((time.week(), time.weekday()), (9, 3));
        assert_eq!(time.seconds(), 1_709_211_900.0);
        assert_eq!(parse("2023-02-29", "%Y-%m-%d"), None);
        assert_eq!(parse("20240101x", "%Y%m%d"), None);
        assert_eq!(parse("2024060", "%Y%j").map(|time| (time.month, time.day)), Some((2, 29)));
        assert_eq!(parse("1 Jan 2021 11 PM", "%d %b %Y %I %p").map(|time| (time.week(), time.hour)), Some((53, 23)));
        assert!(!is_known("%Y %Q") && is_known("%Y%%"));
    }
}
