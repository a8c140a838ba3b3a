//! Ranges in which a job must not run.

use std::time::Duration;

use jiff::civil::DateTime;
use python::dateutil;
use value::{Map, Value};

use crate::definition::Problem;
use crate::moment::from_value;

/// The decision of a job's ranges about a run that is due.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// It may.
    Run,
    /// It is skipped, for this reason.
    Skip(&'static str),
    /// It waits until this time, when it is checked again, if it is a job that waits.
    Wait(&'static str, DateTime),
}

/// The start and the end of a range, for today.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ends {
    pub start: DateTime,
    pub end: DateTime,
}

/// Parses a range. `place` follows the name of an invalid end; `dot` ends the sentence about a range that is not a map.
pub(crate) fn ends(name: &str, range: &Value, (place, dot): (&str, &str), now: DateTime) -> Result<Ends, Problem> {
    // The sentence differs by a blank, as in Salt.
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

/// Converts the time of a range.
pub(crate) fn time(value: &Value, now: DateTime) -> Option<DateTime> {
    match value {
        Value::DateTime(time) => from_value(time),
        Value::Str(text) => dateutil::parse(text, now.date()).ok(),
        _ => None,
    }
}

impl Ends {
    fn holds(&self, now: DateTime) -> bool {
        self.start <= now && now <= self.end
    }

    /// Returns when to check again: the next end of the range, or midnight, because the range may depend on the day.
    fn next(&self, now: DateTime) -> DateTime {
        let midnight = now.date().tomorrow().map_or(DateTime::MAX, |day| day.at(0, 0, 0, 0));
        let ends = [self.start, self.end, midnight];
        ends.into_iter().filter(|end| *end > now).min().unwrap_or(midnight)
    }
}

/// Returns whether `range` lets a job run.
pub(crate) fn in_range(
    name: &str,
    data: &Map,
    now: DateTime,
    replaced: &mut bool,
    can_replace: bool,
) -> Result<Verdict, Problem> {
    let Some(range) = data.get("range") else { return Ok(Verdict::Run) };
    let ends = ends(name, range, ("", ""), now)?;
    if range.get("invert").is_some_and(Value::truthy) {
        // Both ends belong to the range, so at the very end an inverted job may run.
        let outside = now <= ends.start || now >= ends.end;
        return Ok(if outside { Verdict::Run } else { Verdict::Wait("in_skip_range", ends.next(now)) });
    }
    if ends.holds(now) {
        return Ok(Verdict::Run);
    }
    *replaced |= can_replace;
    Ok(if can_replace { Verdict::Run } else { Verdict::Wait("not_in_range", ends.next(now)) })
}

/// Returns whether `after` and `until` let a job run.
pub(crate) fn in_time(data: &Map, now: DateTime) -> Result<Verdict, Problem> {
    let end = |key: &str| match data.get(key) {
        None => Ok(None),
        Some(value) => time(value, now)
            .map(Some)
            .ok_or_else(|| Problem(format!("Exception Unknown string format: {value} occurred in scheduled job"))),
    };
    // In Salt's order: a job whose end has passed reports that, even if it has a start.
    if end("until")?.is_some_and(|until| until <= now) {
        return Ok(Verdict::Skip("until_passed"));
    }
    if end("after")?.is_some_and(|after| after >= now) {
        return Ok(Verdict::Skip("after_not_passed"));
    }
    Ok(Verdict::Run)
}

/// Returns whether a time that must be skipped is now.
pub(crate) fn is_passed_over(skipped: &[DateTime], now: DateTime, window: Duration) -> bool {
    skipped.iter().any(|time| *time <= now && now <= time.saturating_add(window))
}
