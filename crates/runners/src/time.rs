//! Points in time in common notations.
//!
//! A reading of the forms Python's `dateutil` understands that occur in practice: the one Salt prints itself
//! (`2015, Mar 16 19:00`), ISO 8601, American dates with slashes, names of months, a bare time of today.

use value::DateTime;

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// A text that is no point in time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Unknown string format: {0}")]
pub struct Unknown(pub String);

/// Reads a point in time. Missing parts of the date are those of `today`; a missing time is midnight.
pub fn parse(text: &str, today: DateTime) -> Result<DateTime, Unknown> {
    read(text, today).filter(is_real).ok_or_else(|| Unknown(text.to_owned()))
}

#[derive(Default)]
struct Parts {
    year: Option<u32>,
    month: Option<u32>,
    day: Option<u32>,
    time: Option<(u32, u32, u32, u32)>,
    afternoon: Option<bool>,
    /// Numbers whose meaning is not known yet, with their count of digits.
    open: Vec<(u32, usize)>,
}

fn read(text: &str, today: DateTime) -> Option<DateTime> {
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    let mut parts = Parts::default();
    // `2015-03-16T19:00Z`; the zone of both sides is the same one.
    let spaced = match text.find('T') {
        Some(at) if at > 0 && text.as_bytes()[at - 1].is_ascii_digit() => {
            format!("{} {}", &text[..at], &text[at + 1..])
        }
        _ => text.to_owned(),
    };
    for word in spaced.split([' ', ',']).filter(|word| !word.is_empty()) {
        parts.word(word.strip_suffix('Z').unwrap_or(word))?;
    }
    parts.resolve()?;
    let (mut hour, minute, second, micros) = parts.time.unwrap_or_default();
    match parts.afternoon {
        // `13:05 pm` is a contradiction, not five past one.
        Some(_) if !(1..=12).contains(&hour) => return None,
        Some(true) if hour < 12 => hour += 12,
        Some(false) if hour == 12 => hour = 0,
        _ => {}
    }
    Some(DateTime {
        year: parts.year.map_or(Some(today.year), |year| u16::try_from(year).ok())?,
        month: parts.month.map_or(Some(today.month), |month| u8::try_from(month).ok())?,
        day: parts.day.map_or(Some(today.day), |day| u8::try_from(day).ok())?,
        hour: u8::try_from(hour).ok()?,
        minute: u8::try_from(minute).ok()?,
        second: u8::try_from(second).ok()?,
        micros,
    })
}

impl Parts {
    fn word(&mut self, word: &str) -> Option<()> {
        let lower = word.trim_end_matches('.').to_ascii_lowercase();
        if word.contains(':') {
            return self.clock(&lower);
        }
        if lower == "am" || lower == "pm" {
            self.afternoon = Some(lower == "pm");
            return Some(());
        }
        if let Some(month) = named(&MONTHS, &lower) {
            self.month = Some(month as u32 + 1);
            return Some(());
        }
        // Words that add nothing to a full date. As in `dateutil`, a weekday that contradicts the date is not an
        // error.
        if named(&WEEKDAYS, &lower).is_some() || matches!(lower.as_str(), "utc" | "gmt" | "at" | "of") {
            return Some(());
        }
        let numbers: Vec<&str> = lower.split(['-', '/', '.']).collect();
        match numbers.as_slice() {
            [one] => self.number(one),
            [_, _, _] | [_, _] => self.date(&numbers),
            _ => None,
        }
    }

    fn clock(&mut self, word: &str) -> Option<()> {
        let (word, afternoon) = match (word.strip_suffix("am"), word.strip_suffix("pm")) {
            (Some(word), _) => (word, Some(false)),
            (_, Some(word)) => (word, Some(true)),
            _ => (word, self.afternoon),
        };
        self.afternoon = afternoon;
        let (whole, fraction) = word.split_once('.').unwrap_or((word, ""));
        let mut numbers = whole.split(':').map(|part| part.parse::<u32>().ok());
        let (hour, minute) = (numbers.next()??, numbers.next()??);
        let second = numbers.next().unwrap_or(Some(0))?;
        // A fraction is padded on the right: `.25` are 250,000 microseconds. More than six digits are cut off.
        let micros = if fraction.is_empty() { 0 } else { format!("{fraction:0<6}").get(..6)?.parse().ok()? };
        self.time = Some((hour, minute, second, micros));
        numbers.next().is_none().then_some(())
    }

    fn number(&mut self, word: &str) -> Option<()> {
        let digits = word.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let ending = &word[digits.len()..];
        if !matches!(ending, "" | "st" | "nd" | "rd" | "th") {
            return None;
        }
        let part = |from: usize, to: usize| digits.get(from..to)?.parse::<u32>().ok();
        match digits.len() {
            // `20150316`, and with the time `20150316190005`: the beginning of a job id.
            8 => (self.year, self.month, self.day) = (part(0, 4), part(4, 6), part(6, 8)),
            14 => {
                (self.year, self.month, self.day) = (part(0, 4), part(4, 6), part(6, 8));
                self.time = Some((part(8, 10)?, part(10, 12)?, part(12, 14)?, 0));
            }
            1..=4 => self.open.push((digits.parse().ok()?, digits.len())),
            _ => return None,
        }
        Some(())
    }

    /// Reads numbers with a separator between them, in any order that [`Parts::resolve`] can make sense of.
    fn date(&mut self, numbers: &[&str]) -> Option<()> {
        for number in numbers {
            match named(&MONTHS, number) {
                Some(month) => self.month = Some(month as u32 + 1),
                None => self.open.push((number.parse().ok()?, number.len())),
            }
        }
        Some(())
    }

    /// Decides what the open numbers are: a large one is the year, then month before day unless that is impossible.
    fn resolve(&mut self) -> Option<()> {
        let mut open = std::mem::take(&mut self.open);
        if self.year.is_none()
            && let Some(at) = open.iter().position(|(number, digits)| *digits > 2 || *number > 31)
        {
            let (number, digits) = open.remove(at);
            self.year = Some(if digits <= 2 { century(number) } else { number });
        }
        let mut open: Vec<u32> = open.into_iter().map(|(number, _)| number).collect();
        if self.month.is_none() && !open.is_empty() && (self.day.is_some() || open.len() > 1) {
            // Thirteen or more cannot be a month, so the day came first.
            let at = if open[0] > 12 && open.len() > 1 { 1 } else { 0 };
            self.month = Some(open.remove(at));
        }
        let mut rest = open.into_iter();
        if self.day.is_none() {
            self.day = rest.next();
        }
        if self.year.is_none() {
            self.year = rest.next().map(century);
        }
        rest.next().is_none().then_some(())
    }
}

fn named(names: &[&str], word: &str) -> Option<usize> {
    // Three letters at least, so that `m` or `ju` is not taken for a month.
    let letters = word.len() >= 3 && word.chars().all(|letter| letter.is_ascii_alphabetic());
    names.iter().position(|name| letters && word.starts_with(name))
}

fn century(number: u32) -> u32 {
    // A fixed pivot. `dateutil` takes the century nearest to today, which is the same for dates that have jobs.
    if number < 70 { 2000 + number } else { 1900 + number }
}

fn is_real(time: &DateTime) -> bool {
    let leap = time.year.is_multiple_of(4) && (!time.year.is_multiple_of(100) || time.year.is_multiple_of(400));
    let days = match time.month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    time.year > 0
        && (1..=12).contains(&time.month)
        && (1..=days).contains(&time.day)
        && time.hour < 24
        && time.minute < 60
        && time.second < 60
}

#[cfg(test)]
mod tests {
    use super::*;

    const TODAY: DateTime = DateTime { year: 2026, month: 11, day: 20, hour: 11, minute: 40, second: 3, micros: 7 };

    /// The right column is what `dateutil.parser.parse` returned on that day.
    #[test]
    fn times_are_read_as_dateutil_reads_them() {
        for (text, expected) in [
            ("2015, Mar 16 19:00", "2015-03-16 19:00:00"),
            ("2024, Feb 29 13:14:15.678901", "2024-02-29 13:14:15.678901"),
            ("2015-03-16", "2015-03-16 00:00:00"),
            ("2015-03-16 19:00:05", "2015-03-16 19:00:05"),
            ("2015-03-16T19:00:05.25", "2015-03-16 19:00:05.250000"),
            ("2015/3/6", "2015-03-06 00:00:00"),
            ("20150316", "2015-03-16 00:00:00"),
            ("20150316190005", "2015-03-16 19:00:05"),
            ("03/16/2015", "2015-03-16 00:00:00"),
            ("16/03/2015", "2015-03-16 00:00:00"),
            ("16 March 2015 7:05pm", "2015-03-16 19:05:00"),
            ("March 16th, 2015 12:05 AM", "2015-03-16 00:05:00"),
            ("Mon Mar 16 19:00:00 2015", "2015-03-16 19:00:00"),
            ("19:00", "2026-11-20 19:00:00"),
            ("Mar 16", "2026-03-16 00:00:00"),
            ("12", "2026-11-12 00:00:00"),
            ("16-Mar-15", "2015-03-16 00:00:00"),
        ] {
            assert_eq!(parse(text, TODAY).map(|time| time.to_string()).as_deref(), Ok(expected), "{text}");
        }
        for text in ["", "yesterday", "2015-02-30", "25:00", "1-2-3-4", "noon"] {
            assert_eq!(parse(text, TODAY), Err(Unknown(text.to_owned())));
        }
    }
}
