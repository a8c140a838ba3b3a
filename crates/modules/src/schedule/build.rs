//! Definitions made of keyword arguments.

use exec::{Error, KwArgs, Result, function};
use value::{Map, Value, map};

const UNITS: [&str; 4] = ["seconds", "minutes", "hours", "days"];

/// Options that are copied unchanged, behind the rest.
const PLAIN: [&str; 12] = [
    "range",
    "when",
    "once",
    "once_fmt",
    "cron",
    "returner",
    "after",
    "return_config",
    "return_kwargs",
    "until",
    "run_on_start",
    "skip_during_range",
];

/// Returns whether intervals and times of day are mixed.
pub(super) fn mixes_units(kwargs: &Map) -> bool {
    // An interval and fixed times contradict each other.
    let by_day = kwargs.contains_key("when") || kwargs.contains_key("cron");
    by_day && UNITS.iter().any(|unit| kwargs.contains_key(unit))
}

/// Returns whether `when` and `cron` are both given.
pub(super) fn mixes_times(kwargs: &Map) -> bool {
    kwargs.contains_key("when") && kwargs.contains_key("cron")
}

/// Returns the definition of a job.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' schedule.build_schedule_item job1 function='test.ping' seconds=3600
#[function]
fn build_schedule_item(name: String, kwargs: KwArgs) -> Result<Map> {
    build(&name, &kwargs.0)
}

fn refused(comment: impl Into<Value>) -> Map {
    map! { "comment" => comment.into(), "result" => false }
}

/// The definition, or a map with `result: False` and a comment.
pub(super) fn build(name: &str, kwargs: &Map) -> Result<Map> {
    if name.is_empty() {
        return Ok(refused("Job name is required."));
    }
    // The text of Python's KeyError.
    let function = kwargs.get("function").cloned().ok_or_else(|| Error::Other("KeyError: 'function'".to_owned()))?;
    let mut job = map! { "function" => function };
    if mixes_units(kwargs) {
        return Ok(refused(
            "Unable to use \"seconds\", \"minutes\", \"hours\", or \"days\" with \"when\" or \"cron\" options.",
        ));
    }
    if mixes_times(kwargs) {
        return Ok(refused("Unable to use \"when\" and \"cron\" options together.  Ignoring."));
    }
    let mut take = |from: &str, to: &str| {
        if let Some(value) = kwargs.get(from) {
            job.insert(to, value.clone());
        }
    };
    for name in UNITS.iter().chain(&["return_job", "metadata"]) {
        take(name, name);
    }
    for (from, to, kind) in [("job_args", "args", "list"), ("job_kwargs", "kwargs", "dict")] {
        let fits = |value: &Value| if kind == "list" { value.as_list().is_some() } else { value.as_map().is_some() };
        match kwargs.get(from) {
            Some(value) if !fits(value) => {
                return Ok(refused(format!("{from} is not a {kind}. please correct and try again.")));
            }
            _ => take(from, to),
        }
    }
    let or = |key: &str, default: Value| kwargs.get(key).cloned().unwrap_or(default);
    // One by default, so that a slow job does not pile up.
    job.insert("maxrunning", or("maxrunning", 1.into()));
    job.insert("name", or("name", name.into()));
    job.insert("enabled", or("enabled", true.into()));
    job.insert("jid_include", or("jid_include", true.into()));
    if let Some(splay) = kwargs.get("splay") {
        job.insert("splay", splay.clone());
    }
    if let Some(bad) = kwargs.get("when").and_then(bad_when) {
        return Ok(refused(format!("Schedule item {bad} for \"when\" in invalid.")));
    }
    for name in PLAIN {
        if let Some(value) = kwargs.get(name) {
            job.insert(name, value.clone());
        }
    }
    Ok(job)
}

/// The first entry of `when` that is not a date.
fn bad_when(when: &Value) -> Option<&Value> {
    // Any day will do: only the form of the text is checked.
    let today = schedule::jiff::civil::date(2024, 1, 1);
    let is_bad = |entry: &&Value| match entry {
        Value::DateTime(_) => false,
        other => other.as_str().is_none_or(|text| python::dateutil::parse(text, today).is_err()),
    };
    let one = std::slice::from_ref(when);
    when.as_list().unwrap_or(one).iter().find(is_bad)
}
