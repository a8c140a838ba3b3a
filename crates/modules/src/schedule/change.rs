//! Functions that change the schedule.

use exec::{Call, Context, KwArgs, Result, function};
use value::{Map, Value, map};

use super::build::{build, mixes_times, mixes_units};
use super::{ListOptions, ask, is_set, listed, tell, write};

/// The parts of the answers of this module.
fn reply(comment: impl Into<Value>, result: bool) -> Map {
    map! { "comment" => comment.into(), "result" => result, "changes" => Map::new() }
}

fn changed(name: &str, what: impl Into<Value>, comment: String) -> Map {
    map! { "comment" => comment, "result" => true, "changes" => map! { name => what.into() } }
}

fn persist(kwargs: &Map) -> Value {
    kwargs.get("persist").cloned().unwrap_or_else(|| true.into())
}

/// Returns where a job is defined, `opts` or `pillar`.
fn source_of(ctx: &Context, name: &str) -> Result<Option<&'static str>> {
    // A job of the pillar cannot be saved in the minion's file, so it has to be known where it is
    // from.
    for source in ["opts", "pillar"] {
        let (jobs, _) = listed(ctx, ListOptions { source: Some(source), ..ListOptions::default() })?;
        if jobs.contains_key(name) {
            return Ok(Some(source));
        }
    }
    Ok(None)
}

/// The request for a change of one job.
fn request(func: &str, name: &str, source: &str, kwargs: &Map) -> Map {
    let mut request = map! { "name" => name, "func" => func };
    if source == "pillar" {
        request.insert("where", "pillar");
        // The pillar comes back with the next refresh; saving it would make a copy that never
        // changes.
        request.insert("persist", false);
    } else {
        request.insert("persist", persist(kwargs));
    }
    request
}

/// Deletes all jobs of this minion that are not in the pillar.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' schedule.purge
#[function]
fn purge(ctx: &Context, kwargs: KwArgs) -> Result<Map> {
    let (kwargs, offline) = (&kwargs.0, is_set(&kwargs.0, "offline"));
    let (mut jobs, _) = listed(ctx, ListOptions { offline, ..ListOptions::default() })?;
    let names: Vec<String> = jobs.keys().map(Value::to_string).collect();
    let (mut comments, mut changes) = (Vec::new(), Map::new());
    // Names with underscores are jobs of the minion itself, such as the mine's.
    for name in names.iter().filter(|name| *name != "enabled" && !name.starts_with("__")) {
        if is_set(kwargs, "test") {
            comments.push(format!("Job: {name} would be deleted from schedule."));
            continue;
        }
        let gone = if offline {
            jobs.remove(name).is_some()
        } else {
            let question = map! { "name" => name.as_str(), "func" => "delete", "persist" => persist(kwargs) };
            // Salt reports nothing about a job without an answer.
            let Some(answer) = ask(ctx, question, "delete_complete")? else { continue };
            !holds(&answer, name)
        };
        if gone {
            changes.insert(name.as_str(), "removed");
            comments.push(format!("Deleted job: {name} from schedule."));
        } else {
            comments.push(format!("Failed to delete job {name} from schedule."));
        }
    }
    if offline && !is_set(kwargs, "test") {
        write(ctx, jobs)?;
    }
    let comments: Vec<Value> = comments.into_iter().map(Value::from).collect();
    Ok(map! { "comment" => comments, "changes" => changes, "result" => true })
}

fn job_in<'a>(answer: &'a Map, name: &str) -> Option<&'a Value> {
    answer.get("schedule")?.get(name)
}

fn holds(answer: &Map, name: &str) -> bool {
    job_in(answer, name).is_some()
}

/// Deletes a job; with ``offline`` from the file of the next start only.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' schedule.delete job1
#[function]
fn delete(ctx: &Context, name: String, kwargs: KwArgs) -> Result<Map> {
    delete_job(ctx, &name, &kwargs.0)
}

fn delete_job(ctx: &Context, name: &str, kwargs: &Map) -> Result<Map> {
    if is_set(kwargs, "test") {
        return Ok(reply(format!("Job: {name} would be deleted from schedule."), true));
    }
    let unknown = || reply(format!("Job {name} does not exist."), false);
    let done = || changed(name, "removed", format!("Deleted Job {name} from schedule."));
    if is_set(kwargs, "offline") {
        let (mut jobs, _) = listed(ctx, ListOptions { offline: true, ..ListOptions::default() })?;
        if jobs.remove(name).is_none() {
            return Ok(unknown());
        }
        write(ctx, jobs)?;
        return Ok(done());
    }
    let Some(source) = source_of(ctx, name)? else { return Ok(unknown()) };
    let answer = ask(ctx, request("delete", name, source, kwargs), "delete_complete")?;
    Ok(match answer {
        Some(answer) if !holds(&answer, name) => done(),
        _ => reply(format!("Failed to delete job {name} from schedule."), false),
    })
}

/// Adds a job; with ``offline`` to the file of the next start only, with ``persist=False`` until then only.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' schedule.add job1 function='test.ping' seconds=3600
///     # If function have some arguments, use job_args
///     salt '*' schedule.add job2 function='cmd.run' job_args="['date >> /tmp/date.log']" seconds=60
#[function]
fn add(ctx: &Context, name: String, kwargs: KwArgs) -> Result<Map> {
    let (kwargs, offline) = (&kwargs.0, is_set(&kwargs.0, "offline"));
    let (mut jobs, _) = listed(ctx, ListOptions { offline, ..ListOptions::default() })?;
    if jobs.contains_key(&name) {
        return Ok(reply(format!("Job {name} already exists in schedule."), false));
    }
    if mixes_units(kwargs) {
        let text =
            "Error: Unable to use \"seconds\", \"minutes\", \"hours\", or \"days\" with \"when\" or \"cron\" options.";
        return Ok(reply(text, false));
    }
    if mixes_times(kwargs) {
        return Ok(reply("Unable to use \"when\" and \"cron\" options together.  Ignoring.", false));
    }
    let job = build(&name, kwargs)?;
    if job.get("result").is_some_and(|result| !result.truthy()) {
        return Ok(job);
    }
    if is_set(kwargs, "test") {
        return Ok(reply(format!("Job: {name} would be added to schedule."), true));
    }
    let done = || changed(&name, "added", format!("Added job: {name} to schedule."));
    if offline {
        jobs.insert(name.as_str(), job);
        write(ctx, jobs)?;
        return Ok(done());
    }
    let question = map! {
        "name" => name.as_str(), "schedule" => map! { name.as_str() => job }, "func" => "add", "persist" => persist(kwargs),
    };
    let answer = ask(ctx, question, "add_complete")?;
    Ok(match answer {
        Some(answer) if holds(&answer, &name) => done(),
        _ => reply(format!("Failed to add job {name} to schedule."), false),
    })
}

/// Replaces the definition of a job.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' schedule.modify job1 function='test.ping' seconds=3600
#[function]
fn modify(ctx: &Context, name: String, kwargs: KwArgs) -> Result<Map> {
    let (mut kwargs, offline) = (kwargs.0.clone(), is_set(&kwargs.0, "offline"));
    let reply =
        |comment: String, result: bool| map! { "comment" => comment, "changes" => Map::new(), "result" => result };
    if mixes_units(&kwargs) {
        let text = "Error: Unable to use \"seconds\", \"minutes\", \"hours\", or \"days\" with \"when\" option.";
        return Ok(reply(text.to_owned(), false));
    }
    if mixes_times(&kwargs) {
        return Ok(reply("Unable to use \"when\" and \"cron\" options together.  Ignoring.".to_owned(), false));
    }
    let (mut jobs, _) = listed(ctx, ListOptions { offline, ..ListOptions::default() })?;
    let Some(current) = jobs.get(&name).and_then(Value::as_map).cloned() else {
        return Ok(reply(format!("Job {name} does not exist in schedule."), false));
    };
    if !kwargs.contains_key("function") {
        // A change of the interval alone need not repeat the function.
        kwargs.insert("function", current.get("function").cloned());
    }
    let new = build(&name, &kwargs)?;
    if new.get("result").is_some_and(|result| !result.truthy()) {
        return Ok(new);
    }
    if value::python::equal(&new.clone().into(), &current.clone().into()) {
        return Ok(reply(format!("Job {name} in correct state"), true));
    }
    let changes = map! { name.as_str() => map! { "old" => current.clone(), "new" => new.clone() } };
    let done = |comment: String, result: bool| map! { "comment" => comment, "changes" => changes, "result" => result };
    if is_set(&kwargs, "test") {
        return Ok(done(format!("Job: {name} would be modified in schedule."), true));
    }
    if offline {
        let mut job = current;
        // Offline the definitions are merged; a running minion replaces the whole job.
        job.update(new);
        jobs.insert(name.as_str(), job);
        write(ctx, jobs)?;
        return Ok(done(format!("Modified job: {name} in schedule."), true));
    }
    let source = source_of(ctx, &name)?.unwrap_or("opts");
    let mut question = request("modify", &name, source, &kwargs);
    question.insert("schedule", new);
    Ok(match tell(ctx, question)? {
        true => done(format!("Modified job: {name} in schedule."), true),
        false => done(format!("Failed to modify job {name} in schedule."), false),
    })
}

/// Enables a job.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' schedule.enable_job job1
#[function]
fn enable_job(ctx: &Context, name: String, kwargs: KwArgs) -> Result<Map> {
    // Salt checks the minion's test mode here, and the argument for `disable_job`.
    switch_job(ctx, &name, &kwargs.0, true, ctx.is_test())
}

/// Disables a job.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' schedule.disable_job job1
#[function]
fn disable_job(ctx: &Context, name: String, kwargs: KwArgs) -> Result<Map> {
    switch_job(ctx, &name, &kwargs.0, false, is_set(&kwargs.0, "test"))
}

/// The words for both directions: the request's, of the failure, and of the success.
fn verbs(on: bool) -> (&'static str, &'static str, &'static str) {
    if on { ("enable", "enabled", "Enabled") } else { ("disable", "disabled", "Disabled") }
}

fn switch_job(ctx: &Context, name: &str, kwargs: &Map, on: bool, test: bool) -> Result<Map> {
    let (verb, past, capital) = verbs(on);
    let reply =
        |comment: String, result: bool| map! { "comment" => comment, "result" => result, "changes" => Map::new() };
    if test {
        return Ok(reply(format!("Job: {name} would be {past} in schedule."), true));
    }
    let Some(source) = source_of(ctx, name)? else {
        return Ok(reply(format!("Job {name} does not exist."), false));
    };
    let answer = ask(ctx, request(&format!("{verb}_job"), name, source, kwargs), &format!("{past}_job_complete"))?;
    let is_on = |job: &Value| job.get("enabled").is_some_and(Value::truthy);
    Ok(match answer.as_ref().and_then(|answer| job_in(answer, name)) {
        Some(job) if is_on(job) == on => changed(name, past, format!("{capital} Job {name} in schedule.")),
        _ => reply(format!("Failed to {verb} job {name} in schedule."), false),
    })
}

/// Enables all jobs.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' schedule.enable
#[function]
fn enable(ctx: &Context, kwargs: KwArgs) -> Result<Map> {
    switch_all(ctx, &kwargs.0, true)
}

/// Disables all jobs.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' schedule.disable
#[function]
fn disable(ctx: &Context, kwargs: KwArgs) -> Result<Map> {
    switch_all(ctx, &kwargs.0, false)
}

fn switch_all(ctx: &Context, kwargs: &Map, on: bool) -> Result<Map> {
    let (verb, past, capital) = verbs(on);
    let reply =
        |comment: String, result: bool| map! { "comment" => comment, "changes" => Map::new(), "result" => result };
    if is_set(kwargs, "test") {
        return Ok(reply(format!("Schedule would be {past}."), true));
    }
    let question = map! { "func" => verb, "persist" => persist(kwargs) };
    let answer = ask(ctx, question, &format!("{past}_complete"))?;
    let now = answer.as_ref().and_then(|answer| answer.get("schedule")?.get("enabled"));
    Ok(match now {
        Some(now) if now.truthy() == on => changed("schedule", past, format!("{capital} schedule on minion.")),
        _ => reply(format!("Failed to {verb} schedule on minion."), false),
    })
}

/// Moves a job to other minions.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' schedule.move jobname target
#[function(name = "move")]
fn move_(ctx: &Context, name: String, target: String, kwargs: KwArgs) -> Result<Map> {
    send(ctx, &name, &target, &kwargs.0, true)
}

/// Copies a job to other minions.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' schedule.copy jobname target
#[function]
fn copy(ctx: &Context, name: String, target: String, kwargs: KwArgs) -> Result<Map> {
    send(ctx, &name, &target, &kwargs.0, false)
}

fn send(ctx: &Context, name: &str, target: &str, kwargs: &Map, away: bool) -> Result<Map> {
    let reply = |comment: String, result: bool| map! { "comment" => comment, "result" => result };
    if is_set(kwargs, "test") {
        let verb = if away { "moved" } else { "copied" };
        return Ok(reply(format!("Job: {name} would be {verb} from schedule."), true));
    }
    let (jobs, _) = listed(ctx, ListOptions::default())?;
    let Some(job) = jobs.get(name).and_then(Value::as_map) else {
        return Ok(reply(format!("Job {name} does not exist."), false));
    };
    let mut args = vec![Value::from(name)];
    // As words of a command line, so the target's minion parses them as YAML again.
    args.extend(job.iter().filter(|(key, _)| key.as_str() != Some("name")).map(|(key, value)| {
        let key = match key.as_str() {
            Some("args") => "job_args",
            Some("kwargs") => "job_kwargs",
            other => other.unwrap_or_default(),
        };
        Value::from(format!("{key}={value}"))
    }));
    let call = Call { args: vec![target.into(), "schedule.add".into(), Value::List(args)], kwargs: Map::new() };
    let response = ctx.call_with("publish.publish", call)?.into_map().unwrap_or_default();
    if response.is_empty() {
        // A success in Salt, although nothing was moved.
        return Ok(reply("no servers answered the published schedule.add command".to_owned(), true));
    }
    let names = |only_failed: bool| -> Vec<Value> {
        response.iter().filter(|(_, value)| !only_failed || !value.truthy()).map(|(minion, _)| minion.clone()).collect()
    };
    let failed = names(true);
    let (comment, minions) = if !failed.is_empty() {
        ("the following minions return False".to_owned(), failed)
    } else if away {
        // Only after all have taken it. One that returned False keeps the job here.
        delete_job(ctx, name, &Map::new())?;
        (format!("Moved Job {name} from schedule."), names(false))
    } else {
        (format!("Copied Job {name} from schedule to minion(s)."), names(false))
    };
    let mut answer = reply(comment, true);
    answer.insert("minions", minions);
    Ok(answer)
}
