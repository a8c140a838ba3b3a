//! The definition of a job.

use std::time::Duration;

use jiff::civil::{Date, DateTime};
use python::dateutil;
use value::{Map, Value};

use crate::cron::Cron;
use crate::moment::from_value;

/// The reasons why a job never runs, in Salt's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem(pub String);

/// When a job is due.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Timing {
    /// Repeatedly, after this time.
    Every(Duration),
    /// Once, at this time.
    Once(DateTime),
    /// At each of these times.
    When(Vec<When>),
    /// At each match of the expression.
    Cron(Box<Cron>),
    /// Only on request.
    Never,
}

/// A time of `when`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum When {
    /// As it is written; what it omits depends on the day.
    Text(String),
    /// Complete.
    At(DateTime),
}

/// A random delay in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Splay {
    pub least: i64,
    pub most: i64,
}

/// The parsed definition of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    pub(crate) timing: Timing,
    pub(crate) splay: Option<Splay>,
    pub(crate) run_on_start: bool,
    pub(crate) run_explicit: Vec<DateTime>,
    pub(crate) skip_explicit: Vec<DateTime>,
}

/// The maps that define names in `when`: `whens` of the pillar and of the grains.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Whens<'a> {
    pub pillar: Option<&'a Value>,
    pub grains: Option<&'a Value>,
}

const UNITS: [(&str, u64); 4] = [("seconds", 1), ("minutes", 60), ("hours", 3600), ("days", 86400)];
const OTHERS: [&str; 3] = ["when", "cron", "once"];
const ONCE_FORMAT: &str = "%Y-%m-%dT%H:%M:%S";

/// Returns the function of a job: `function`, or else `func` or `fun`.
pub fn function_of(data: &Map) -> Option<&Value> {
    ["function", "func", "fun"].iter().find_map(|name| data.get(name))
}

/// Returns the time between two runs of a job that is due at intervals.
pub fn interval_of(data: &Map) -> Option<Duration> {
    match interval(data) {
        Some(Ok(interval)) => Some(interval),
        _ => None,
    }
}

/// Reads the interval, if the job has one.
fn interval(data: &Map) -> Option<Result<Duration, Problem>> {
    if !UNITS.iter().any(|(unit, _)| data.contains_key(unit)) {
        return None;
    }
    let seconds = UNITS.iter().try_fold(0u64, |sum, (unit, long)| {
        let count = data.get(unit).map_or(Ok(0), whole)?;
        Ok(sum.saturating_add(count.saturating_mul(*long)))
    });
    // Salt checks its schedule once a second, so no interval is shorter. A century at most, so that sums of times
    // cannot overflow.
    Some(seconds.map(|seconds| Duration::from_secs(seconds.clamp(1, 86400 * 36500))))
}

impl Definition {
    /// Parses a definition.
    pub(crate) fn read(name: &str, data: &Map, whens: Whens, today: Date) -> Result<Self, Problem> {
        // Salt refuses a mixture rather than choose.
        if OTHERS.iter().filter(|key| data.contains_key(key)).count() > 1 {
            let all = OTHERS.join("\", \"");
            return Err(Problem(format!("Unable to use \"{all}\" options together. Ignoring.")));
        }
        let timing = timing(name, data, whens, today)?;
        let by_interval = matches!(timing, Timing::Every(_));
        Ok(Definition {
            splay: data.get("splay").and_then(read_splay),
            run_on_start: data.get("run_on_start").map_or(by_interval, Value::truthy),
            run_explicit: explicit(data, "run_explicit")?,
            skip_explicit: explicit(data, "skip_explicit")?,
            timing,
        })
    }
}

fn timing(name: &str, data: &Map, whens: Whens, today: Date) -> Result<Timing, Problem> {
    // Salt means to refuse intervals beside times of day, but its check never matches: intervals win.
    if let Some(interval) = interval(data) {
        return interval.map(Timing::Every);
    }
    if let Some(once) = data.get("once") {
        return read_once(name, data, once);
    }
    if let Some(when) = data.get("when") {
        let one = std::slice::from_ref(when);
        let entries = when.as_list().unwrap_or(one);
        return entries
            .iter()
            .map(|entry| read_when(name, entry, whens, today))
            .collect::<Result<_, _>>()
            .map(Timing::When);
    }
    if let Some(cron) = data.get("cron") {
        let bad = || Problem(format!("Invalid cron string. Ignoring job {name}."));
        let cron = Cron::parse(cron.as_str().ok_or_else(bad)?).map_err(|_| bad())?;
        return Ok(Timing::Cron(Box::new(cron)));
    }
    // A job without a time runs only with `run_job`, or at the start.
    Ok(Timing::Never)
}

/// Parses an integer as Python's `int()` does.
fn whole(value: &Value) -> Result<u64, Problem> {
    let number = match value {
        // Python takes underscores between digits.
        Value::Str(text) => text.trim().replace('_', "").parse().ok(),
        Value::Float(number) => Some(*number as i64),
        other => other.as_i64(),
    };
    let bad = || {
        Problem(format!(
            "Exception invalid literal for int() with base 10: {} occurred in scheduled job",
            value::python::repr(value)
        ))
    };
    // A negative interval would be due always.
    number.map(|number: i64| number.max(0).unsigned_abs()).ok_or_else(bad)
}

fn read_once(name: &str, data: &Map, once: &Value) -> Result<Timing, Problem> {
    let format = data.get("once_fmt").map_or_else(|| ONCE_FORMAT.to_owned(), Value::to_string);
    let found = match once {
        Value::DateTime(time) => from_value(time),
        other => other.as_str().and_then(|text| strptime(text, &format)),
    };
    let bad = || Problem(format!("Date string could not be parsed: {once}, {format}. Ignoring job {name}."));
    found.map(Timing::Once).ok_or_else(bad)
}

/// Parses a time in a format of `strptime`.
pub(crate) fn strptime(text: &str, format: &str) -> Option<DateTime> {
    let parts = jiff::fmt::strtime::parse(format, text).ok()?;
    // As in Python, a time without a date is in the year 1900.
    let date = parts.to_date().unwrap_or(jiff::civil::date(1900, 1, 1));
    Some(date.to_datetime(parts.to_time().ok()?))
}

fn read_when(name: &str, entry: &Value, whens: Whens, today: Date) -> Result<When, Problem> {
    // The pillar's names come before those of the grains.
    let (named, problem) = match (has(whens.pillar, entry), has(whens.grains, entry)) {
        (true, _) => (whens.pillar, "Pillar item \"whens\" must be a dict."),
        (false, true) => (whens.grains, "Grain \"whens\" must be a dict."),
        (false, false) => (None, ""),
    };
    let time = match named {
        Some(Value::Map(whens)) => whens.get_value(entry).unwrap_or(entry),
        Some(_) => return Err(Problem(format!("{problem} Ignoring job {name}."))),
        None => entry,
    };
    let found = match time {
        Value::DateTime(time) => from_value(time).map(When::At),
        // Parsed again on each day (`next_of`); this only checks that it can be.
        Value::Str(text) => dateutil::parse(text, today).ok().map(|_| When::Text(text.clone())),
        _ => None,
    };
    found.ok_or_else(|| Problem(format!("Invalid date string {entry}. Ignoring job {name}.")))
}

fn has(whens: Option<&Value>, entry: &Value) -> bool {
    match (whens, entry) {
        (Some(Value::Map(whens)), entry) => whens.get_value(entry).is_some(),
        (Some(Value::List(items)), entry) => items.contains(entry),
        // In Python, `in` on a text looks for a part of it. Such a `whens` is refused below.
        (Some(Value::Str(text)), Value::Str(entry)) => text.contains(entry.as_str()),
        _ => false,
    }
}

/// Parses a splay: the maximum, or a map with `start` and `end`.
pub(crate) fn read_splay(splay: &Value) -> Option<Splay> {
    match splay {
        Value::Map(ends) => {
            let (least, most) = (ends.get("start")?.as_i64()?, ends.get("end")?.as_i64()?);
            if most < least {
                tracing::error!("schedule.handle_func: Invalid Splay, end must be larger than start. Ignoring splay.");
                return None;
            }
            Some(Splay { least, most })
        }
        // `splay: 10` draws from one second on.
        other => other.as_i64().filter(|most| *most > 0).map(|most| Splay { least: 1, most }),
    }
}

/// Times with specific formats.
fn explicit(data: &Map, key: &str) -> Result<Vec<DateTime>, Problem> {
    let entries = data.get(key).and_then(Value::as_list).unwrap_or_default();
    let read = |entry: &Value| match entry {
        Value::DateTime(time) => from_value(time),
        entry => {
            strptime(entry.get("time")?.as_str()?, entry.get("time_fmt").and_then(Value::as_str).unwrap_or(ONCE_FORMAT))
        }
    };
    let bad = |entry: &Value| {
        Problem(format!("Exception time data {entry} does not match its format occurred in scheduled job"))
    };
    let read: Result<Vec<DateTime>, Problem> =
        entries.iter().map(|entry| read(entry).ok_or_else(|| bad(entry))).collect();
    // Sorted, so that the first one is the next one.
    read.map(|mut times| {
        times.sort();
        times
    })
}
