//! Times in which a job may not run.

use std::time::Duration;

use jiff::civil::DateTime;
use value::{Map, Value};

use crate::dates;
use crate::definition::Problem;
use crate::moment::from_value;

/// Whether a job that is due may run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum May {
    /// It may.
    Run,
    /// It is passed over, for this reason.
    Skip(&'static str),
    /// It waits until this time, when it is looked at again, if it is one of those that wait.
    Wait(&'static str, DateTime),
}

/// The beginning and the end of a range, as of today.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ends {
    pub start: DateTime,
    pub end: DateTime,
}

/// Reads a range. `place` is put behind the name of the end that cannot be read, `dot` ends the sentence of a range that is no map.
pub(crate) fn ends(name: &str, range: &Value, (place, dot): (&str, &str), now: DateTime) -> Result<Ends, Problem> {
    let Some(map) = range.as_map() else {
        let text =
            format!("schedule.handle_func: Invalid, range must be specified as a dictionary.{dot}Ignoring job {name}.");
        return Err(Problem(text));
    };
    let end_of = |key: &str| {
        let value = map.get(key).ok_or_else(|| Problem(format!("Exception '{key}' occurred in scheduled job")))?;
        let bad = || Problem(format!("Invalid date string for {key}{place}. Ignoring job {name}."));
        time(value, now).ok_or_else(bad)
    };
    let ends = Ends { start: end_of("start")?, end: end_of("end")? };
    if ends.end <= ends.start {
        let text = "schedule.handle_func: Invalid range, end must be larger than start.";
        return Err(Problem(format!("{text} Ignoring job {name}.")));
    }
    Ok(ends)
}

/// A time as a range has it.
pub(crate) fn time(value: &Value, now: DateTime) -> Option<DateTime> {
    match value {
        Value::DateTime(time) => from_value(time),
        Value::Str(text) => dates::parse(text, now.date()).ok(),
        _ => None,
    }
}

impl Ends {
    fn holds(&self, now: DateTime) -> bool {
        self.start <= now && now <= self.end
    }

    /// When to look again: the next end of the range, or midnight, when its day may be another one.
    fn next(&self, now: DateTime) -> DateTime {
        let midnight = now.date().tomorrow().map_or(DateTime::MAX, |day| day.at(0, 0, 0, 0));
        let ends = [self.start, self.end, midnight];
        ends.into_iter().filter(|end| *end > now).min().unwrap_or(midnight)
    }
}

/// Whether `range` lets a job run.
pub(crate) fn in_range(
    name: &str,
    data: &Map,
    now: DateTime,
    replaced: &mut bool,
    can_replace: bool,
) -> Result<May, Problem> {
    let Some(range) = data.get("range") else { return Ok(May::Run) };
    let ends = ends(name, range, ("", ""), now)?;
    if range.get("invert").is_some_and(Value::truthy) {
        let outside = now <= ends.start || now >= ends.end;
        return Ok(if outside { May::Run } else { May::Wait("in_skip_range", ends.next(now)) });
    }
    if ends.holds(now) {
        return Ok(May::Run);
    }
    *replaced |= can_replace;
    Ok(if can_replace { May::Run } else { May::Wait("not_in_range", ends.next(now)) })
}

/// Whether `after` and `until` let a job run.
pub(crate) fn in_time(data: &Map, now: DateTime) -> Result<May, Problem> {
    let end = |key: &str| match data.get(key) {
        None => Ok(None),
        Some(value) => time(value, now)
            .map(Some)
            .ok_or_else(|| Problem(format!("Exception Unknown string format: {value} occurred in scheduled job"))),
    };
    if end("until")?.is_some_and(|until| until <= now) {
        return Ok(May::Skip("until_passed"));
    }
    if end("after")?.is_some_and(|after| after >= now) {
        return Ok(May::Skip("after_not_passed"));
    }
    Ok(May::Run)
}

/// Whether a time that is to be passed over is now.
pub(crate) fn is_passed_over(skipped: &[DateTime], now: DateTime, window: Duration) -> bool {
    skipped.iter().any(|time| *time <= now && now <= time.saturating_add(window))
}
