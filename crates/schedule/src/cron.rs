//! Cron expressions as in `croniter`: five fields, six with seconds at the end, or seven with years after those.
//!
//! `L` is the last day of the month, `L5` the last Friday, `5#2` the second Friday, `15W` the weekday nearest to the 15th. If both
//! day fields are restricted, a day that matches either one matches.

use jiff::ToSpan;
use jiff::civil::{Date, DateTime};

/// A cron expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Cron {
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
    seconds: Option<Field>,
    years: Option<Field>,
    /// The last day of the month matches.
    last_day: bool,
    /// Weekdays of which only one in the month matches; 0 is the last one.
    nth: Vec<(u16, u8)>,
    /// The weekday (Monday to Friday) nearest to this day.
    nearest: Option<i8>,
}

/// The values that match; `None` means all.
type Field = Option<Vec<u16>>;

/// An invalid cron expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadCron;

/// How far ahead to search for a date.
const YEARS: i16 = 50;

/// The maximum length of an expression.
const MAX_LENGTH: usize = 1000;

struct Kind {
    least: u16,
    most: u16,
    names: &'static [&'static str],
    first: u16,
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const KINDS: [Kind; 7] = [
    Kind { least: 0, most: 59, names: &[], first: 0 },
    Kind { least: 0, most: 23, names: &[], first: 0 },
    Kind { least: 1, most: 31, names: &[], first: 0 },
    Kind { least: 1, most: 12, names: &MONTHS, first: 1 },
    Kind { least: 0, most: 6, names: &WEEKDAYS, first: 0 },
    Kind { least: 0, most: 59, names: &[], first: 0 },
    Kind { least: 1970, most: 2099, names: &[], first: 0 },
];
const DAY: usize = 2;
const WEEKDAY: usize = 4;

impl Cron {
    /// Parses an expression.
    ///
    /// # Errors
    /// If it is invalid.
    pub fn parse(text: &str) -> Result<Cron, BadCron> {
        // croniter takes names and letters in any case.
        let lower = text.to_ascii_lowercase();
        let lower = match lower.as_str() {
            "@midnight" | "@daily" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            "@yearly" | "@annually" => "0 0 1 1 *",
            other => other,
        };
        let fields: Vec<&str> = lower.split_ascii_whitespace().collect();
        // Expressions come from pillar and from commands; a list of thousands of numbers would be searched for each
        // day.
        if !(5..=7).contains(&fields.len()) || lower.len() > MAX_LENGTH {
            return Err(BadCron);
        }
        let mut special = Special::default();
        let mut read = Vec::new();
        for (index, field) in fields.iter().enumerate() {
            read.push(read_field(index, field, &mut special)?);
        }
        let is_nth = |day: &u16| special.nth.iter().any(|(nth, _)| nth == day);
        // As croniter: `5#2` next to a plain weekday has no clear meaning.
        let plain = read[WEEKDAY].iter().flatten().any(|day| !is_nth(day));
        if !special.nth.is_empty() && plain && read[WEEKDAY].iter().flatten().count() < 7 {
            return Err(BadCron);
        }
        // As in croniter, a day field that lists all days is still a restriction, unless the other one has a star.
        let star = |index: usize| fields[index].contains('*');
        for (index, other, all) in [(DAY, WEEKDAY, 31), (WEEKDAY, DAY, 7)] {
            if star(other) && read[index].as_ref().is_some_and(|values| values.len() == all) {
                read[index] = None;
            }
        }
        let mut read = read.into_iter();
        let mut next = || read.next().flatten();
        Ok(Cron {
            minutes: next(),
            hours: next(),
            days: next(),
            months: next(),
            weekdays: next(),
            // In croniter's order: seconds are the sixth field, years the seventh.
            seconds: (fields.len() > 5).then(&mut next),
            years: (fields.len() > 6).then(&mut next),
            last_day: special.last_day,
            nth: special.nth,
            nearest: special.nearest,
        })
    }

    /// Returns the first match after a time; `None` if there is none within fifty years.
    pub fn next(&self, after: DateTime) -> Option<DateTime> {
        let step = if self.seconds.is_some() { 1.second() } else { 1.minute() };
        // The next match is after the time, never at it.
        let from = after.checked_add(step).ok()?;
        let start = from.date();
        let mut clock = Some((from.hour(), from.minute(), from.second()));
        let last = start.year().saturating_add(YEARS + 1);
        let mut date = start;
        while date.year() <= last {
            if !fits(self.years.as_ref().unwrap_or(&None), date.year()) || !fits(&self.months, date.month()) {
                // Skipping whole months: `0 0 29 2 *` would look at a thousand days otherwise.
                date = date.first_of_month().checked_add(1.month()).ok()?;
                clock = None;
                continue;
            }
            // Only the first day is searched from a time on; later days from midnight.
            if self.fits_day(date)
                && let Some((hour, minute, second)) = self.time_from(clock.take().unwrap_or_default())
            {
                return Some(date.at(hour, minute, second, 0));
            }
            date = date.tomorrow().ok()?;
            clock = None;
        }
        None
    }

    fn fits_day(&self, date: Date) -> bool {
        let weekday = date.weekday().to_sunday_zero_offset();
        let nearest = |day| nearest_working_day(date, day) == date.day();
        let nth = || self.nth.iter().any(|(weekday, nth)| is_nth(date, *weekday, *nth));
        // As in croniter, `15W` and `5#2` replace the plain fields.
        match (self.nearest, self.nth.is_empty()) {
            (Some(day), true) => nearest(day),
            (Some(day), false) => nearest(day) && nth(),
            (None, false) => nth(),
            (None, true) => {
                let by_weekday = fits(&self.weekdays, weekday);
                let by_day = fits(&self.days, date.day()) || (self.last_day && date.day() == date.days_in_month());
                let both = self.days.is_some() && self.weekdays.is_some();
                // Cron's own rule for two restricted day fields: one of them suffices. With a star in one, both must
                // match.
                if both { by_day || by_weekday } else { by_day && by_weekday }
            }
        }
    }

    /// Returns the first matching time of a day, from a time on.
    fn time_from(&self, (hour, minute, second): (i8, i8, i8)) -> Option<(i8, i8, i8)> {
        let zero = Some(vec![0]);
        let seconds = match &self.seconds {
            Some(seconds) => (seconds, second),
            // Without a field for seconds a job runs at the full minute.
            None => (&zero, 0),
        };
        let first = |field: &Field| field.as_ref().map_or(0, |values| values[0] as i8);
        let (first_minute, first_second) = (first(&self.minutes), first(seconds.0));
        // A later minute of this hour, or else the first one of a later hour.
        let same_hour = fits(&self.hours, hour).then(|| {
            if fits(&self.minutes, minute)
                && let Some(second) = from(seconds.0, seconds.1, 59)
            {
                return Some((hour, minute, second));
            }
            from(&self.minutes, minute + 1, 59).map(|minute| (hour, minute, first_second))
        });
        match same_hour.flatten() {
            Some(time) => Some(time),
            None => from(&self.hours, hour + 1, 23).map(|hour| (hour, first_minute, first_second)),
        }
    }
}

fn fits(field: &Field, value: impl Into<i32>) -> bool {
    let value = value.into();
    field.as_ref().is_none_or(|values| values.iter().any(|one| i32::from(*one) == value))
}

/// Returns the first matching value, from one on and up to the maximum.
fn from(field: &Field, least: i8, most: i8) -> Option<i8> {
    (least..=most).find(|value| fits(field, *value))
}

fn is_nth(date: Date, weekday: u16, nth: u8) -> bool {
    if i32::from(date.weekday().to_sunday_zero_offset()) != i32::from(weekday) {
        return false;
    }
    // Zero is the last one: no such day follows within the month.
    if nth == 0 { date.day() + 7 > date.days_in_month() } else { (date.day() - 1) / 7 + 1 == nth as i8 }
}

fn nearest_working_day(date: Date, day: i8) -> i8 {
    // `31W` means the last day in a shorter month.
    let last = date.days_in_month();
    let day = day.min(last);
    let Ok(there) = Date::new(date.year(), date.month(), day) else { return day };
    // Never over the border of a month: from Saturday the 1st it is Monday the 3rd, from a Sunday that is the last
    // day the Friday before.
    match there.weekday().to_monday_zero_offset() {
        5 => {
            if day > 1 {
                day - 1
            } else {
                day + 2
            }
        }
        6 => {
            if day < last {
                day + 1
            } else {
                day - 2
            }
        }
        _ => day,
    }
}

#[derive(Default)]
struct Special {
    last_day: bool,
    nth: Vec<(u16, u8)>,
    nearest: Option<i8>,
}

fn read_field(index: usize, field: &str, special: &mut Special) -> Result<Field, BadCron> {
    let field = match field {
        // Quartz's sign for "no matter", which croniter takes in the day fields.
        "?" if index == DAY || index == WEEKDAY => "*",
        other if other.contains('?') => return Err(BadCron),
        other => other,
    };
    let (kind, mut values, mut star) = (&KINDS[index], Vec::new(), false);
    for item in field.split(',') {
        if item == "*" {
            star = true;
        } else if item == "l" && index == DAY {
            special.last_day = true;
        } else if index == DAY && (item.starts_with('w') || item.ends_with('w')) {
            let day: i8 = item.trim_matches('w').parse().map_err(|_| BadCron)?;
            // One day only: the nearest working day of a list is not defined.
            if field.contains(',') || !(1..=31).contains(&day) {
                return Err(BadCron);
            }
            special.nearest = Some(day);
            values.push(day.unsigned_abs().into());
        } else if index == WEEKDAY && (item.contains('#') || item.starts_with('l')) {
            let days = read_nth(kind, item, special)?;
            values.extend(days);
        } else {
            values.extend(read_item(kind, index, item)?);
        }
    }
    // A star among values means all.
    if star {
        return Ok(None);
    }
    values.sort_unstable();
    values.dedup();
    let all = usize::from(kind.most - kind.least) + 1;
    // A complete list in a day field stays a restriction here; `parse` decides about it with the other field.
    let day_field = index == DAY || index == WEEKDAY;
    Ok(if values.len() == all && !day_field { None } else { Some(values) })
}

/// `5#2`, `fri#2`, `mon-fri#1` or `l5`.
fn read_nth(kind: &Kind, item: &str, special: &mut Special) -> Result<Vec<u16>, BadCron> {
    let (days, nth) = match item.split_once('#') {
        Some((days, nth)) => {
            let nth: u8 = nth.parse().map_err(|_| BadCron)?;
            if !(1..=5).contains(&nth) {
                return Err(BadCron);
            }
            (days, nth)
        }
        None => (item.strip_prefix('l').filter(|day| !day.is_empty()).ok_or(BadCron)?, 0),
    };
    let days = read_item(kind, WEEKDAY, days)?;
    special.nth.extend(days.iter().map(|day| (*day, nth)));
    Ok(days)
}

/// `5`, `1-5`, `1-5/2`, `*/2`, `5/2`, names in place of numbers.
fn read_item(kind: &Kind, index: usize, item: &str) -> Result<Vec<u16>, BadCron> {
    let (range, step) = match item.split_once('/') {
        Some((range, step)) => (range, Some(number(step)?)),
        None => (item, None),
    };
    let (low, high, point) = match range.split_once('-') {
        Some((low, high)) => {
            let high = if index == DAY && high == "l" { 31 } else { value(kind, index, high)? };
            (value(kind, index, low)?, high, false)
        }
        None if range == "*" => (kind.least, kind.most, false),
        None => {
            let low = value(kind, index, range)?;
            // `5/2` runs to the end of the field.
            (low, if step.is_some() { kind.most } else { low }, true)
        }
    };
    let step = step.unwrap_or(1);
    // A step of zero would never end.
    if step == 0 || low.max(high) > kind.most || low.min(high) < kind.least {
        return Err(BadCron);
    }
    let stepped = |low: u16, high: u16| (low..=high).step_by(step.into());
    // A range from a value to itself is the whole circle.
    if low == high && !point {
        return Ok(stepped(kind.least, kind.most).collect());
    }
    if low <= high {
        return Ok(stepped(low, high).collect());
    }
    // "fri-mon" goes over the end of the week, and the steps continue there.
    let mut values: Vec<u16> = stepped(low, kind.most).collect();
    let last = values.last().copied().unwrap_or(low);
    // The steps continue in the next round: `fri-mon/2` is Friday and Sunday, not Friday and Monday.
    let (behind, all) = (kind.most - last, kind.most - kind.least + 1);
    let skip = if last - kind.least + step > all && behind < step { step - behind } else { 0 };
    values.extend(stepped(kind.least + skip, high));
    Ok(values)
}

fn number(text: &str) -> Result<u16, BadCron> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(BadCron);
    }
    text.parse().map_err(|_| BadCron)
}

fn value(kind: &Kind, index: usize, text: &str) -> Result<u16, BadCron> {
    if let Some(place) = kind.names.iter().position(|name| *name == text) {
        return Ok(place as u16 + kind.first);
    }
    match (index, number(text)?) {
        // Sunday is 0 and 7.
        (WEEKDAY, 7) => Ok(0),
        (_, number) => Ok(number),
    }
}
