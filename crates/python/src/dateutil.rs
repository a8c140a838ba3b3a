//! Dates and times as people write them: the formats of `python-dateutil` that schedules and searches for jobs use.
//!
//! What a text omits is taken from the current day, at midnight. A weekday means the next such day, today included. If a numeric
//! date is ambiguous, American order (month, day, year) wins.

use jiff::ToSpan;
use jiff::civil::{Date, DateTime};

use crate::calendar::{MONTHS, WEEKDAYS};

/// An invalid date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidDate;

/// The maximum length of a text.
const MAX_LENGTH: usize = 200;

/// Words without a meaning.
const FILLERS: [&str; 10] = ["at", "on", "and", "ad", "m", "t", "of", "st", "nd", "rd"];

/// Parses a date, a time, or both. `today` supplies omitted parts.
///
/// # Errors
/// If the text is invalid, or names a zone other than the one of the machine.
pub fn parse(text: &str, today: Date) -> Result<DateTime, InvalidDate> {
    // Texts come from pillar and from commands.
    if text.len() > MAX_LENGTH {
        return Err(InvalidDate);
    }
    let mut reader = Reader { tokens: split(text), at: 0, said: ParsedDate::default() };
    while reader.at < reader.tokens.len() {
        reader.step()?;
    }
    reader.said.finish(today)
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(String),
    Word(String),
    Mark(char),
    Space,
}

/// Splits a text where letters, digits and other characters meet. A single dot between digits belongs to the number.
fn split(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        // The library splits at the same places, so the same texts are read.
        let length = |is: fn(char) -> bool| rest.find(|c| !is(c)).unwrap_or(rest.len());
        if first.is_ascii_digit() {
            let end = length(|c| c.is_ascii_digit() || c == '.' || c == ',');
            let number = rest[..end].trim_end_matches(['.', ',']);
            let marks = number.matches(['.', ',']).count();
            let figures = number.find(['.', ',']).unwrap_or(number.len());
            // A comma after two digits is a decimal point, as in "12:30:05,5".
            let one = marks == 1 && (number.as_bytes()[figures] == b'.' || figures >= 2);
            if one || marks == 0 {
                tokens.push(Token::Number(number.replace(',', ".")));
            } else {
                // `10.02.2024` has dots between its numbers, `10.5` is one number.
                split_dotted(number, &mut tokens);
            }
            rest = &rest[number.len()..];
        } else if first.is_alphabetic() {
            let end = length(char::is_alphabetic);
            tokens.push(Token::Word(rest[..end].to_lowercase()));
            rest = &rest[end..];
        } else {
            tokens.push(if first.is_whitespace() { Token::Space } else { Token::Mark(first) });
            rest = &rest[first.len_utf8()..];
        }
    }
    tokens
}

/// Numbers with several dots or commas between them.
fn split_dotted(number: &str, tokens: &mut Vec<Token>) {
    for (place, part) in number.split(['.', ',']).enumerate() {
        if place > 0 {
            tokens.push(Token::Mark('.'));
        }
        if !part.is_empty() {
            tokens.push(Token::Number(part.to_owned()));
        }
    }
}

/// A part of a date, and its meaning if that is certain.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Unsure(i64),
    Year(i64),
    Month(i64),
}

impl Part {
    fn number(self) -> i64 {
        match self {
            Part::Unsure(number) | Part::Year(number) | Part::Month(number) => number,
        }
    }
}

#[derive(Debug, Default)]
struct ParsedDate {
    parts: Vec<Part>,
    /// The year has four digits.
    century: bool,
    weekday: Option<i64>,
    hour: Option<i64>,
    minute: Option<i64>,
    second: Option<i64>,
    micros: Option<i64>,
    half: bool,
}

struct Reader {
    tokens: Vec<Token>,
    at: usize,
    said: ParsedDate,
}

/// Returns the index of the word in a list of names, of which three letters suffice.
fn place(word: &str, names: &[&str]) -> Option<i64> {
    // Three letters, not two or four: `dateutil` knows "sep" and "september", and "sept" as an exception.
    let is = |name: &&str| *name == word || (word.len() == 3 && name.starts_with(word));
    names.iter().position(is).map(|place| place as i64)
}

fn month(word: &str) -> Option<i64> {
    if word == "sept" { Some(9) } else { place(word, &MONTHS).map(|place| place + 1) }
}

/// Returns the unit of a word or letter: 0 hours, 1 minutes, 2 seconds.
fn unit(word: &str) -> Option<usize> {
    [["h", "hour", "hours"], ["m", "minute", "minutes"], ["s", "second", "seconds"]]
        .iter()
        .position(|names| names.contains(&word))
}

/// Returns whether a word means a.m. or p.m.
fn half(word: &str) -> Option<bool> {
    match word {
        "am" | "a" => Some(false),
        "pm" | "p" => Some(true),
        _ => None,
    }
}

impl Reader {
    fn token(&self, ahead: usize) -> Option<&Token> {
        self.tokens.get(self.at + ahead)
    }

    fn word(&self, ahead: usize) -> Option<&str> {
        match self.token(ahead)? {
            Token::Word(word) => Some(word),
            _ => None,
        }
    }

    fn number(&self, ahead: usize) -> Option<&str> {
        match self.token(ahead)? {
            Token::Number(number) => Some(number),
            _ => None,
        }
    }

    fn is_mark(&self, ahead: usize, mark: char) -> bool {
        self.token(ahead) == Some(&Token::Mark(mark))
    }

    /// A token without a meaning, or the end.
    fn is_filler(&self, ahead: usize) -> bool {
        match self.token(ahead) {
            None | Some(Token::Space) => true,
            Some(Token::Mark(mark)) => ['.', ',', ';', '-', '/', '\''].contains(mark),
            Some(Token::Word(word)) => word == "th" || FILLERS.contains(&word.as_str()),
            Some(Token::Number(_)) => false,
        }
    }

    fn step(&mut self) -> Result<(), InvalidDate> {
        let taken = match self.token(0).cloned() {
            Some(Token::Number(number)) => self.take_number(&number)?,
            Some(Token::Word(word)) => self.take_word(&word)?,
            Some(_) if self.is_filler(0) => 1,
            _ => return Err(InvalidDate),
        };
        self.at += taken;
        Ok(())
    }

    fn take_word(&mut self, word: &str) -> Result<usize, InvalidDate> {
        if let Some(day) = place(word, &WEEKDAYS) {
            self.said.weekday = Some(day);
            return Ok(1);
        }
        if let Some(month) = month(word) {
            self.said.put_month(month)?;
            return self.after_month();
        }
        if let Some(late) = half(word) {
            self.said.put_half(late)?;
            // "p.m." is split into its letters.
            return Ok(1);
        }
        if self.is_filler(0) { Ok(1) } else { Err(InvalidDate) }
    }

    /// Parses what follows the name of a month directly: `Jan-01`, `Jan-01-99`.
    fn after_month(&mut self) -> Result<usize, InvalidDate> {
        for mark in ['-', '/'] {
            if !self.is_mark(1, mark) {
                continue;
            }
            let number = self.number(2).ok_or(InvalidDate)?.to_owned();
            self.said.put(&number)?;
            if self.is_mark(3, mark) {
                let number = self.number(4).ok_or(InvalidDate)?.to_owned();
                self.said.put(&number)?;
                return Ok(5);
            }
            return Ok(3);
        }
        Ok(1)
    }

    /// Parses a number with what belongs to it, and returns the number of tokens.
    fn take_number(&mut self, number: &str) -> Result<usize, InvalidDate> {
        let figures = number.len();
        let clock_follows = self.is_mark(1, ':') || self.word(1).and_then(unit).is_some();
        // After a complete date a bare number is the time: `20240229 1314`.
        if self.said.parts.len() == 3 && [2, 4].contains(&figures) && self.said.hour.is_none() && !clock_follows {
            self.said.hour = Some(int(&number[..2])?);
            if figures == 4 {
                self.said.minute = Some(int(&number[2..])?);
            }
            return Ok(1);
        }
        // Before the other lengths: a date or a time, depending on what was read already.
        if figures == 6 || number.find('.') == Some(6) {
            return self.take_six(number);
        }
        if [8, 12, 14].contains(&figures) && !number.contains('.') {
            return self.take_stamp(number);
        }
        if let Some(taken) = self.take_with_unit(number)? {
            return Ok(taken);
        }
        if self.is_mark(1, ':') {
            return self.take_clock(number);
        }
        for mark in ['-', '/', '.'] {
            if self.is_mark(1, mark) {
                return self.take_date(number, mark);
            }
        }
        self.take_alone(number)
    }

    /// `YYMMDD` or `HHMMSS`.
    fn take_six(&mut self, number: &str) -> Result<usize, InvalidDate> {
        if self.said.parts.is_empty() && !number.contains('.') {
            for part in [&number[..2], &number[2..4], &number[4..]] {
                self.said.put(part)?;
            }
        } else {
            self.said.hour = Some(int(&number[..2])?);
            self.said.minute = Some(int(&number[2..4])?);
            self.said.put_seconds(&number[4..])?;
        }
        Ok(1)
    }

    /// `YYYYMMDD[hhmm[ss]]`.
    fn take_stamp(&mut self, number: &str) -> Result<usize, InvalidDate> {
        self.said.put_year(int(&number[..4])?)?;
        self.said.put(&number[4..6])?;
        self.said.put(&number[6..8])?;
        if number.len() > 8 {
            self.said.hour = Some(int(&number[8..10])?);
            self.said.minute = Some(int(&number[10..12])?);
        }
        if number.len() > 12 {
            self.said.second = Some(int(&number[12..])?);
        }
        Ok(1)
    }

    /// `12h`, `30 minutes`; a number right after such a unit has the next smaller unit: `12h30`.
    fn take_with_unit(&mut self, number: &str) -> Result<Option<usize>, InvalidDate> {
        let following = match self.word(1).and_then(unit) {
            Some(unit) => Some((unit, 2)),
            None if self.token(1) == Some(&Token::Space) => self.word(2).and_then(unit).map(|unit| (unit, 3)),
            None => None,
        };
        // The number may lack a unit: `12h30`.
        let before = match self.at.checked_sub(1).and_then(|at| self.tokens.get(at)) {
            Some(Token::Word(word)) => unit(word).map(|unit| (unit + 1, 1)),
            _ => None,
        };
        let Some((unit, taken)) = following.or(before) else { return Ok(None) };
        match unit {
            0 => self.said.put_hours(number)?,
            1 => self.said.put_minutes(number)?,
            2 => self.said.put_seconds(number)?,
            _ => return Err(InvalidDate),
        }
        Ok(Some(taken))
    }

    /// `HH:MM[:SS[.ss]]`.
    fn take_clock(&mut self, number: &str) -> Result<usize, InvalidDate> {
        // Python's `int()` of the first part; a fraction of an hour is ignored there.
        self.said.hour = Some(int(number.split('.').next().unwrap_or_default())?);
        let minutes = self.number(2).ok_or(InvalidDate)?.to_owned();
        self.said.put_minutes(&minutes)?;
        if self.is_mark(3, ':') {
            let seconds = self.number(4).ok_or(InvalidDate)?.to_owned();
            self.said.put_seconds(&seconds)?;
            return Ok(5);
        }
        Ok(3)
    }

    /// `01-02[-03]`, `01-Feb[-03]`, with dashes, slashes or dots.
    fn take_date(&mut self, number: &str, mark: char) -> Result<usize, InvalidDate> {
        self.said.put(number)?;
        if self.is_filler(2) {
            return Ok(2);
        }
        self.put_any(2)?;
        if self.is_mark(3, mark) {
            self.put_any(4)?;
            return Ok(5);
        }
        Ok(3)
    }

    fn put_any(&mut self, ahead: usize) -> Result<(), InvalidDate> {
        match self.token(ahead).cloned() {
            Some(Token::Number(number)) => self.said.put(&number),
            Some(Token::Word(word)) => self.said.put_month(month(&word).ok_or(InvalidDate)?),
            _ => Err(InvalidDate),
        }
    }

    fn take_alone(&mut self, number: &str) -> Result<usize, InvalidDate> {
        if self.is_filler(1) {
            if let Some(late) = self.word(2).and_then(half) {
                self.said.hour = Some(int(number)?);
                self.said.put_half(late)?;
                return Ok(3);
            }
            self.said.put(number.split('.').next().unwrap_or_default())?;
            return Ok(2);
        }
        if let Some(late) = self.word(1).and_then(half) {
            self.said.hour = Some(int(number)?);
            self.said.put_half(late)?;
            return Ok(2);
        }
        // "19June2000"
        if self.word(1).and_then(month).is_some() && (1..=31).contains(&int(number)?) {
            self.said.put(number)?;
            return Ok(1);
        }
        Err(InvalidDate)
    }
}

fn int(text: &str) -> Result<i64, InvalidDate> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(InvalidDate);
    }
    text.parse().map_err(|_| InvalidDate)
}

/// Returns the whole part of a decimal number, and its fraction in units of `parts`.
fn parts(text: &str, of: f64) -> Result<(i64, Option<i64>), InvalidDate> {
    let Some((whole, rest)) = text.split_once('.') else { return Ok((int(text)?, None)) };
    let fraction: f64 = format!("0.{rest}").parse().map_err(|_| InvalidDate)?;
    Ok((int(whole)?, Some((fraction * of) as i64)))
}

impl ParsedDate {
    /// A number of a date whose meaning follows from the others.
    fn put(&mut self, text: &str) -> Result<(), InvalidDate> {
        let number = int(text)?;
        // `dateutil` takes a number above 100 or with more than two digits for a year.
        if text.len() > 2 || number > 100 {
            return self.put_year(number);
        }
        self.parts.push(Part::Unsure(number));
        Ok(())
    }

    fn put_year(&mut self, year: i64) -> Result<(), InvalidDate> {
        if self.parts.iter().any(|part| matches!(part, Part::Year(_))) {
            return Err(InvalidDate);
        }
        self.century = true;
        self.parts.push(Part::Year(year));
        Ok(())
    }

    fn put_month(&mut self, month: i64) -> Result<(), InvalidDate> {
        if self.parts.iter().any(|part| matches!(part, Part::Month(_))) {
            return Err(InvalidDate);
        }
        self.parts.push(Part::Month(month));
        Ok(())
    }

    fn put_half(&mut self, late: bool) -> Result<(), InvalidDate> {
        // "13 pm" is refused, as by `dateutil`.
        let hour = self.hour.filter(|hour| *hour <= 12).ok_or(InvalidDate)?;
        // 12 am is midnight, 12 pm noon.
        self.hour = Some(match (hour, late) {
            (12, false) => 0,
            (0..12, true) => hour + 12,
            _ => hour,
        });
        self.half = true;
        Ok(())
    }

    fn put_hours(&mut self, text: &str) -> Result<(), InvalidDate> {
        let (hours, minutes) = parts(text, 60.0)?;
        (self.hour, self.minute) = (Some(hours), minutes.or(self.minute));
        Ok(())
    }

    fn put_minutes(&mut self, text: &str) -> Result<(), InvalidDate> {
        let (minutes, seconds) = parts(text, 60.0)?;
        (self.minute, self.second) = (Some(minutes), seconds.or(self.second));
        Ok(())
    }

    fn put_seconds(&mut self, text: &str) -> Result<(), InvalidDate> {
        let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
        let six: String = rest.chars().chain("000000".chars()).take(6).collect();
        (self.second, self.micros) = (Some(int(whole)?), Some(int(&six)?));
        Ok(())
    }

    fn finish(self, today: Date) -> Result<DateTime, InvalidDate> {
        let clock = [self.hour, self.minute, self.second, self.micros];
        // A text with nothing but fillers is not a date.
        if self.parts.is_empty() && self.weekday.is_none() && clock.iter().all(Option::is_none) {
            return Err(InvalidDate);
        }
        let (year, month, day) = self.order()?;
        let year = year.map_or(i64::from(today.year()), |year| self.full_year(year, today));
        let month = month.unwrap_or_else(|| i64::from(today.month()));
        let year = i16::try_from(year).map_err(|_| InvalidDate)?;
        let month = i8::try_from(month).map_err(|_| InvalidDate)?;
        let first = Date::new(year, month, 1).map_err(|_| InvalidDate)?;
        let day = match day {
            Some(day) => i8::try_from(day).map_err(|_| InvalidDate)?,
            // "February" on the 31st of January means its last day.
            None => today.day().min(first.days_in_month()),
        };
        let mut date = Date::new(year, month, day).map_err(|_| InvalidDate)?;
        // A weekday beside a complete date is not checked.
        if let (Some(weekday), None) = (self.weekday, self.order()?.2) {
            let ahead = (weekday - i64::from(date.weekday().to_monday_zero_offset())).rem_euclid(7);
            date = date.checked_add(ahead.days()).map_err(|_| InvalidDate)?;
        }
        let small = |number: Option<i64>| i8::try_from(number.unwrap_or(0)).map_err(|_| InvalidDate);
        let nanos = i32::try_from(self.micros.unwrap_or(0)).map_err(|_| InvalidDate)? * 1000;
        let time = jiff::civil::Time::new(small(self.hour)?, small(self.minute)?, small(self.second)?, nanos);
        Ok(date.to_datetime(time.map_err(|_| InvalidDate)?))
    }

    /// A two-digit year is the one nearest to today.
    fn full_year(&self, year: i64, today: Date) -> i64 {
        if year >= 100 || self.century {
            return year;
        }
        let now = i64::from(today.year());
        let full = now / 100 * 100 + year;
        if full >= now + 50 {
            full - 100
        } else if full < now - 50 {
            full + 100
        } else {
            full
        }
    }

    /// Decides which part is the year, the month and the day.
    #[expect(clippy::type_complexity, reason = "year, month and day in this order")]
    fn order(&self) -> Result<(Option<i64>, Option<i64>, Option<i64>), InvalidDate> {
        let numbers: Vec<i64> = self.parts.iter().map(|part| part.number()).collect();
        let named = self.parts.iter().position(|part| matches!(part, Part::Month(_)));
        let year = self.parts.iter().position(|part| matches!(part, Part::Year(_)));
        let other =
            |known: &[usize]| (0..numbers.len()).find(|place| !known.contains(place)).map(|place| numbers[place]);
        Ok(match (numbers.as_slice(), named, year) {
            ([], ..) => (None, None, None),
            // Which part is what follows from names and sizes; only what stays open goes by the American order.
            (_, Some(month), Some(year)) if numbers.len() <= 3 => {
                (Some(numbers[year]), Some(numbers[month]), other(&[month, year]))
            }
            ([_], Some(_), None) => (None, Some(numbers[0]), None),
            ([number], None, _) => {
                if year.is_some() || *number > 31 {
                    (Some(*number), None, None)
                } else {
                    (None, None, Some(*number))
                }
            }
            ([_, _], Some(month), None) => match other(&[month]) {
                Some(number) if number > 31 => (Some(number), Some(numbers[month]), None),
                number => (None, Some(numbers[month]), number),
            },
            ([a, b], None, _) => {
                if *a > 31 || year == Some(0) {
                    (Some(*a), Some(*b), None)
                } else if *b > 31 || year == Some(1) {
                    (Some(*b), Some(*a), None)
                } else {
                    (None, Some(*a), Some(*b))
                }
            }
            ([a, b, c], named, None) | ([a, b, c], named @ None, Some(_)) => match named {
                Some(0) => {
                    if *b > 31 {
                        (Some(*b), Some(*a), Some(*c))
                    } else {
                        (Some(*c), Some(*a), Some(*b))
                    }
                }
                Some(1) => {
                    if *a > 31 {
                        (Some(*a), Some(*b), Some(*c))
                    } else {
                        (Some(*c), Some(*b), Some(*a))
                    }
                }
                Some(_) => {
                    if *b > 31 {
                        (Some(*b), Some(*c), Some(*a))
                    } else {
                        (Some(*a), Some(*c), Some(*b))
                    }
                }
                None if *a > 31 || year == Some(0) => (Some(*a), Some(*b), Some(*c)),
                // Thirteen or more cannot be a month.
                None if *a > 12 => (Some(*c), Some(*b), Some(*a)),
                None => (Some(*c), Some(*a), Some(*b)),
            },
            _ => return Err(InvalidDate),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The right column is what `dateutil.parser.parse` returned on that day.
    #[test]
    fn times_are_read_as_dateutil_reads_them() {
        let today = Date::constant(2026, 11, 20);
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
            assert_eq!(parse(text, today), Ok(expected.parse().unwrap()), "{text}");
        }
        for text in ["", "yesterday", "2015-02-30", "25:00", "1-2-3-4", "noon"] {
            assert_eq!(parse(text, today), Err(InvalidDate), "{text}");
        }
    }
}
