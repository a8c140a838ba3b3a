//! Functions about single runs.

use exec::{Context, KwArgs, Result, function};
use schedule::jiff::fmt::strtime;
use value::{Map, Value, map};

use super::{ListOptions, ask, listed, tell};

const FORMAT: &str = "%Y-%m-%dT%H:%M:%S";

/// A time in a format of `strftime`.
pub(super) fn written(time: &value::DateTime, format: &str) -> String {
    let seconds = format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
        time.year, time.month, time.day, time.hour, time.minute, time.second
    );
    let parsed: std::result::Result<schedule::jiff::civil::DateTime, _> = seconds.parse();
    // A format that cannot be applied falls back to the plain one.
    parsed.ok().and_then(|time| strtime::format(format, time).ok()).unwrap_or(seconds)
}

/// Runs a job now, also a disabled one with ``force``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' schedule.run_job job1
///
///     salt '*' schedule.run_job job1 force=True
///     Force the job to run even if it is disabled.
#[function]
fn run_job(ctx: &Context, name: String, #[default(false)] force: bool) -> Result<Map> {
    let told = |comment: String, result: bool| map! { "comment" => comment, "result" => result };
    let (jobs, _) = listed(ctx, ListOptions::default())?;
    let Some(job) = jobs.get(&name) else { return Ok(told(format!("Job {name} does not exist."), false)) };
    if job.get("enabled").is_some_and(|enabled| !enabled.truthy()) && !force {
        return Ok(told(format!("Job {name} is disabled."), true));
    }
    Ok(match tell(ctx, map! { "name" => name.as_str(), "func" => "run_job" })? {
        true => told(format!("Scheduling Job {name} on minion."), true),
        false => told(format!("Failed to run job {name} on minion."), false),
    })
}

/// The outcome of the check of a request's times.
enum TimesCheck {
    Refused(Map),
    Format(String),
}

/// Checks the times of a request.
fn check(name: &str, times: &[(&Value, &str)], kwargs: &Map) -> TimesCheck {
    let refused = |comment: &str| TimesCheck::Refused(map! { "comment" => comment, "result" => false });
    let format = kwargs.get_str("time_fmt").filter(|format| !format.is_empty()).unwrap_or(FORMAT);
    if name.is_empty() {
        return refused("Job name is required.");
    }
    for (time, missing) in times {
        if !time.truthy() {
            return refused(missing);
        }
        if time.as_str().is_none_or(|text| strtime::parse(format, text).is_err()) {
            tracing::error!("Date string could not be parsed: {time}, {format}");
            return refused("Date string could not be parsed.");
        }
    }
    TimesCheck::Format(format.to_owned())
}

/// Sends a request about a run and returns the usual answer.
fn change(ctx: &Context, name: &str, request: Map, tag: &str, words: (&str, &str)) -> Result<Map> {
    let told = |comment: String, result: bool| map! { "comment" => comment, "result" => result };
    let (jobs, _) = listed(ctx, ListOptions::default())?;
    if !jobs.contains_key(name) {
        return Ok(told(format!("Job {name} does not exist."), false));
    }
    let answer = ask(ctx, request, tag)?;
    // A job that does not say is enabled.
    let on = |job: &Value| job.get("enabled").is_none_or(Value::truthy);
    let job = answer.as_ref().and_then(|answer| answer.get("schedule")?.get(name));
    let (done, verb) = words;
    Ok(match job {
        Some(job) if on(job) => told(format!("{done} Job {name} in schedule."), true),
        _ => told(format!("Failed to {verb} job {name} in schedule."), false),
    })
}

/// Postpones the run of a job at one time to another one.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' schedule.postpone_job job current_time new_time
///
///     salt '*' schedule.postpone_job job current_time new_time time_fmt='%Y-%m-%dT%H:%M:%S'
#[function]
fn postpone_job(ctx: &Context, name: String, current_time: Value, new_time: Value, kwargs: KwArgs) -> Result<Map> {
    let times = [(&current_time, "Job current time is required."), (&new_time, "Job new_time is required.")];
    let format = match check(&name, &times, &kwargs.0) {
        TimesCheck::Refused(answer) => return Ok(answer),
        TimesCheck::Format(format) => format,
    };
    if ctx.is_test() {
        return Ok(map! { "comment" => format!("Job: {name} would be postponed in schedule."), "result" => true });
    }
    let request = map! {
        "name" => name.as_str(), "time" => current_time, "new_time" => new_time, "time_fmt" => format, "func" => "postpone_job",
    };
    change(ctx, &name, request, "postpone_job_complete", ("Postponed", "postpone"))
}

/// Skips the run of a job at a time.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' schedule.skip_job job time
#[function]
fn skip_job(ctx: &Context, name: String, current_time: Value, kwargs: KwArgs) -> Result<Map> {
    let format = match check(&name, &[(&current_time, "Job time is required.")], &kwargs.0) {
        TimesCheck::Refused(answer) => return Ok(answer),
        TimesCheck::Format(format) => format,
    };
    if ctx.is_test() {
        return Ok(map! { "comment" => format!("Job: {name} would be skipped in schedule."), "result" => true });
    }
    let request = map! { "name" => name.as_str(), "time" => current_time, "time_fmt" => format, "func" => "skip_job" };
    change(ctx, &name, request, "skip_job_complete", ("Added Skip", "skip"))
}

/// Returns the next run of a job.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' schedule.show_next_fire_time job_name
#[function]
fn show_next_fire_time(ctx: &Context, name: String, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    let mut told = map! { "result" => true };
    if name.is_empty() {
        told.insert("comment", "Job name is required.");
        told.insert("result", false);
    }
    let request = map! { "name" => name, "func" => "get_next_fire_time" };
    match ask(ctx, request, "next_fire_time_complete")?.and_then(|mut answer| answer.remove("next_fire_time")) {
        Some(next) => told.insert("next_fire_time", next),
        None => told.insert("comment", "next fire time not available."),
    };
    Ok(told)
}
