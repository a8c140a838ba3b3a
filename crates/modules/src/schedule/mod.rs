//! `schedule` — the jobs a minion runs at times.
//!
//! The schedule belongs to the minion that runs; these functions ask it over its event bus, so that a call beside the minion
//! sees and changes the same jobs. With `offline` they read and write the file that is used at the next start.

mod build;
mod change;
mod times;

use std::path::PathBuf;
use std::time::Duration;

use exec::{Context, Error, Module, Result, function};
use store::disk::Writing;
use value::{Map, Value, map};
use yaml::Flow;

/// The module.
pub static MODULE: Module = Module::new(
    "schedule",
    "The jobs a minion runs at times.",
    &[
        &change::ADD,
        &build::BUILD_SCHEDULE_ITEM,
        &change::COPY,
        &change::DELETE,
        &change::DISABLE,
        &change::DISABLE_JOB,
        &change::ENABLE,
        &change::ENABLE_JOB,
        &IS_ENABLED,
        &JOB_STATUS,
        &LIST,
        &change::MODIFY,
        &change::MOVE,
        &times::POSTPONE_JOB,
        &change::PURGE,
        &RELOAD,
        &times::RUN_JOB,
        &SAVE,
        &times::SHOW_NEXT_FIRE_TIME,
        &times::SKIP_JOB,
    ],
);

/// The longest wait for an answer of the minion.
const PATIENCE: Duration = Duration::from_secs(30);

/// The keys of a job that `schedule.list` shows.
const SHOWN: [&str; 28] = [
    "name",
    "maxrunning",
    "function",
    "splay",
    "range",
    "when",
    "once",
    "once_fmt",
    "returner",
    "jid_include",
    "args",
    "kwargs",
    "_seconds",
    "seconds",
    "minutes",
    "hours",
    "days",
    "enabled",
    "return_job",
    "metadata",
    "cron",
    "until",
    "after",
    "return_config",
    "return_kwargs",
    "run_on_start",
    "skip_during_range",
    "run_after_skip_range",
];

/// Keys beside the jobs that hold for the whole schedule.
const HIDDEN: [&str; 3] = ["enabled", "skip_function", "skip_during_range"];

/// Sends a request to the minion's schedule. Returns None if no minion confirms it.
fn ask(ctx: &Context, question: Map, answer: &str) -> Result<Option<Map>> {
    let tag = format!("/salt/minion/minion_schedule_{answer}");
    // The schedule lives in the minion's main process. It is asked by an event and answers with
    // one.
    let answer = ctx.wait(ctx.agent.ask_minion("manage_schedule", question, &tag, PATIENCE))?;
    Ok(answer.filter(|answer| answer.get("complete").is_some_and(Value::truthy)))
}

/// Sends a request to the minion's schedule that has no answer.
fn tell(ctx: &Context, question: Map) -> Result<bool> {
    ctx.wait(ctx.agent.fire_local("manage_schedule", question))
}

fn file(ctx: &Context, name: &str) -> PathBuf {
    schedule::beside(&ctx.opts, name)
}

/// Returns the schedule in the minion's file, which the next start reads.
fn saved(ctx: &Context) -> Result<Map> {
    let path = file(ctx, "_schedule.conf");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Map::new()),
        Err(error) => return Err(Error::io("read", &path, &error)),
    };
    let content =
        yaml::load(&text, &path.display().to_string()).map_err(|error| Error::execution(error.to_string()))?;
    Ok(content.get("schedule").and_then(Value::as_map).cloned().unwrap_or_default())
}

/// Writes the schedule of the next start.
fn write(ctx: &Context, jobs: Map) -> Result<()> {
    let path = file(ctx, "_schedule.conf");
    let text = yaml::dump(&map! { "schedule" => jobs }.into(), Flow::Leaves);
    // Arguments of jobs may be passwords.
    let written = path.parent().map_or(Ok(()), store::disk::make_directory);
    written
        .and_then(|()| store::disk::write(&path, text.as_bytes(), Writing::PRIVATE))
        .map_err(|error| Error::execution(error.to_string()))
}

/// The arguments of `schedule.list`.
#[derive(Clone, Copy)]
struct ListOptions<'a> {
    all: bool,
    disabled: bool,
    source: Option<&'a str>,
    offline: bool,
}

impl Default for ListOptions<'_> {
    fn default() -> Self {
        ListOptions { all: true, disabled: true, source: None, offline: false }
    }
}

/// The jobs as they are shown, and those on the disk.
fn listed(ctx: &Context, wanted: ListOptions<'_>) -> Result<(Map, Map)> {
    let saved = saved(ctx)?;
    let mut jobs = if wanted.offline {
        saved.clone()
    } else {
        let answer = ask(ctx, map! { "func" => "list", "where" => wanted.source }, "list_complete")?;
        answer.and_then(|mut answer| answer.remove("schedule")).and_then(Value::into_map).unwrap_or_default()
    };
    jobs.retain(|name, job| {
        let name = name.to_string();
        // These are switches of the whole schedule, not jobs.
        if HIDDEN.contains(&name.as_str()) {
            return true;
        }
        let Value::Map(job) = job else { return true };
        let hidden = name.starts_with("__") && !wanted.all;
        tidy(job);
        !hidden && (wanted.disabled || job.get("enabled").is_some_and(Value::truthy))
    });
    Ok((jobs, saved))
}

/// Keeps only the fields of a job that are shown.
fn tidy(job: &mut Map) {
    if !job.contains_key("enabled") {
        job.insert("enabled", true);
    }
    job.retain(|key, value| {
        match value.as_str() {
            // Salt turns such texts into booleans before it shows a job.
            Some("true") => *value = true.into(),
            Some("false") => *value = false.into(),
            _ => {}
        }
        // Computed by the scheduler from the units, and not part of the definition.
        key.as_str().is_some_and(|key| SHOWN.contains(&key) && key != "_seconds") && !value.is_null()
    });
}

/// Returns the jobs of this minion: those of the options and of the pillar, or with ``where`` (``opts``, ``pillar``) of one of
/// them.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' schedule.list
///
///     # Show all jobs including hidden internal jobs
///     salt '*' schedule.list show_all=True
///
///     # Hide disabled jobs from list of jobs
///     salt '*' schedule.list show_disabled=False
#[function]
fn list(
    ctx: &Context,
    #[default(false)] show_all: bool,
    #[default(true)] show_disabled: bool,
    r#where: Option<String>,
    #[default(true)] return_yaml: bool,
    #[default(false)] offline: bool,
) -> Result<Value> {
    let wanted = ListOptions { all: show_all, disabled: show_disabled, source: r#where.as_deref(), offline };
    let (mut jobs, saved) = listed(ctx, wanted)?;
    if !return_yaml {
        return Ok(jobs.into());
    }
    for (name, job) in jobs.iter_mut() {
        if let Value::Map(job) = job {
            job.insert("saved", saved.get_value(name).is_some());
        }
    }
    Ok(yaml::dump(&map! { "schedule" => jobs }.into(), Flow::Block).into())
}

/// Returns a job, or without a name whether the schedule is enabled.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' schedule.is_enabled name=job_name
///     salt '*' schedule.is_enabled
#[function]
fn is_enabled(ctx: &Context, name: Option<String>) -> Result<Value> {
    let (mut jobs, _) = listed(ctx, ListOptions { all: false, ..ListOptions::default() })?;
    Ok(match name.filter(|name| !name.is_empty()) {
        None => jobs.remove("enabled").unwrap_or_else(|| true.into()),
        Some(name) => jobs.remove(&name).unwrap_or_else(|| Map::new().into()),
    })
}

/// Returns information about a job: its definition, its next run, its last run, the reason why it was skipped.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' schedule.job_status job_name
#[function]
fn job_status(ctx: &Context, name: String, #[default("%Y-%m-%dT%H:%M:%S")] time_fmt: String) -> Result<Map> {
    let question = map! { "func" => "job_status", "name" => name, "fire_event" => true };
    let answer = ask(ctx, question, "job_status_complete")?;
    let mut job = answer.and_then(|mut answer| answer.remove("data")).and_then(Value::into_map).unwrap_or_default();
    for (_, value) in job.iter_mut() {
        if let Value::DateTime(time) = value {
            *value = times::written(time, &time_fmt).into();
        }
    }
    Ok(job)
}

/// Saves the jobs of this minion that are not in the pillar, for the next start.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' schedule.save
#[function]
fn save(ctx: &Context, kwargs: exec::KwArgs) -> Result<Map> {
    if is_set(&kwargs.0, "test") {
        return Ok(map! { "comment" => "Schedule would be saved.", "result" => true });
    }
    let answer = ask(ctx, map! { "func" => "save_schedule" }, "saved")?;
    let comment = if answer.is_some() { "Schedule (non-pillar items) saved." } else { "Failed to save schedule." };
    Ok(map! { "comment" => comment, "result" => answer.is_some() })
}

/// Reloads the jobs of the pillar and of the file ``schedule.conf`` in the directory of ``default_include``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' schedule.reload
#[function]
fn reload(ctx: &Context) -> Result<Map> {
    let (mut comments, mut good) = (Vec::new(), true);
    if ctx.pillar.contains_key("schedule") {
        let fired = ctx.wait(ctx.agent.fire_local("pillar_refresh", Map::new()))?;
        good &= fired;
        comments.push(if fired {
            "Reloaded schedule from pillar on minion."
        } else {
            "Failed to reload schedule from pillar on minion."
        });
    }
    // Another name than the file that is written. Salt reads and writes different files, too.
    let path = file(ctx, "schedule.conf");
    if path.is_file() {
        let text = std::fs::read_to_string(&path).map_err(|error| Error::io("read", &path, &error))?;
        let jobs = yaml::load(&text, &path.display().to_string());
        let jobs = match jobs {
            Ok(content) => content.into_map().filter(|content| content.get("schedule").is_some_and(Value::truthy)),
            Err(error) => {
                let comment = format!("Unable to read existing schedule file: {error}");
                return Ok(map! { "comment" => vec![comment], "result" => false });
            }
        };
        let (comment, done) = match jobs {
            None => ("Failed to reload schedule on minion.  Saved file is empty or invalid.", false),
            Some(jobs) if tell(ctx, map! { "func" => "reload", "schedule" => jobs.clone() })? => {
                ("Reloaded schedule on minion from schedule.conf.", true)
            }
            Some(_) => ("Failed to reload schedule on minion from schedule.conf.", false),
        };
        comments.push(comment);
        good &= done;
    }
    let comments: Vec<Value> = comments.into_iter().map(Value::from).collect();
    Ok(map! { "comment" => comments, "result" => good })
}

/// Returns whether a keyword argument is set.
fn is_set(kwargs: &Map, name: &str) -> bool {
    kwargs.get(name).is_some_and(Value::truthy)
}

#[cfg(test)]
mod tests;
