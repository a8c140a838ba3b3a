//! `at`: commands that run once, later.

use exec::{Context, KwArgs, Module, Result, function};
use value::{Map, Value, map};

use crate::support::{call, call_with_kwargs, items, needs};
use crate::{Ret, args};

/// The module.
pub static MODULE: Module =
    Module::new("at", "Commands that run once, later.", &[&ABSENT, &MOD_WATCH, &PRESENT, &WATCH])
        .only_if(|_| needs(&["at"], "at module could not be loaded"));

fn list(answer: &Value, name: &str) -> Vec<Value> {
    answer.get(name).map(items).unwrap_or_default()
}

fn jobs(answer: &Value) -> Vec<Value> {
    list(answer, "jobs")
}

fn removed(answer: &Value) -> Vec<Value> {
    answer.get("jobs").map(|jobs| list(jobs, "removed")).unwrap_or_default()
}

struct Wish {
    name: String,
    timespec: Value,
    tag: Value,
    user: Option<String>,
    job: Option<String>,
    unique_tag: bool,
}

fn add(ctx: &Context, wish: Wish) -> Result<Ret> {
    let Wish { name, timespec, tag, user, job, unique_tag } = wish;
    let mut ret = Ret { result: Some(true), ..Ret::new(name.as_str()) };
    let job = job.filter(|job| !job.is_empty()).unwrap_or(name);
    if ctx.is_test() {
        return Ok(ret.would(format!("job {job} added and will run on {timespec}")));
    }
    if unique_tag {
        if !tag.truthy() {
            return Ok(ret.fail("no tag provided and unique_tag is set to True"));
        }
        let known = call_with_kwargs(ctx, "at.jobcheck", map! { "tag" => tag.clone() })?;
        if !jobs(&known).is_empty() {
            return Ok(ret.ok(format!("atleast one job with tag {tag} exists.")));
        }
    }
    let mut more = map! { "tag" => tag };
    ret.comment = match user.filter(|user| !user.is_empty()) {
        Some(user) => {
            if !call(ctx, "user.info", args![user.as_str()], Map::new())?.truthy() {
                return Ok(ret.fail(format!("user {user} does not exists")));
            }
            more.insert("runas", user.as_str());
            format!("job {job} added and will run as {user} on {timespec}")
        }
        None => format!("job {job} added and will run on {timespec}"),
    }
    .into();
    let said = call(ctx, "at.at", args![timespec, job], more)?;
    if let Some(job) = jobs(&said).into_iter().next().and_then(Value::into_map) {
        ret.changes = job;
    }
    match said.get("error") {
        Some(error) => Ok(Ret { result: Some(false), comment: error.clone(), ..ret }),
        None => Ok(ret),
    }
}

/// Adds a command that runs at a time; `unique_tag` adds it only if no job has the tag.
#[function]
fn present(
    ctx: &Context,
    name: String,
    timespec: Value,
    #[default(Value::Null)] tag: Value,
    user: Option<String>,
    job: Option<String>,
    #[default(false)] unique_tag: bool,
) -> Result<Ret> {
    add(ctx, Wish { name, timespec, tag, user, job, unique_tag })
}

/// Removes the job of a number.
fn single(ctx: &Context, ret: Ret, jobid: &Value) -> Result<Ret> {
    let known = jobs(&call(ctx, "at.atq", args![jobid.clone()], Map::new())?);
    match known.len() {
        0 => return Ok(ret.ok(format!("job with id {jobid} not present"))),
        1 => {}
        _ => return Ok(ret.fail(format!("more than one job was return for job with id {jobid}"))),
    }
    let gone = removed(&call(ctx, "at.atrm", args![jobid.clone()], Map::new())?);
    // Jobs are named by text here, and by number there.
    let done = gone.iter().any(|job| job.to_string() == jobid.to_string());
    let ret = ret.changed(map! { "removed" => gone });
    Ok(match done {
        true => ret.ok(format!("job with id {jobid} was removed")),
        false => ret.fail(format!("failed to remove job with id {jobid}")),
    })
}

/// Removes pending commands: one by its number, those that match arguments as of `at.jobcheck`, or all.
#[function]
fn absent(ctx: &Context, name: String, #[default(Value::Null)] jobid: Value, kwargs: KwArgs) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let asked = kwargs.given();
    if asked.contains_key("limit") {
        return Ok(ret.fail(format!("limit parameter not supported {name}")));
    }
    if ctx.is_test() {
        return Ok(ret.would("removed ? job(s)"));
    }
    if jobid.truthy() {
        return single(ctx, ret, &jobid);
    }
    let which: Vec<Value> = if asked.is_empty() {
        args!["all"]
    } else {
        let fitting = jobs(&call_with_kwargs(ctx, "at.jobcheck", asked)?);
        fitting.iter().filter_map(|job| Some(job.get("job")?.to_string().into())).collect()
    };
    let gone = removed(&call(ctx, "at.atrm", which, Map::new())?);
    let text = format!("removed {} job(s)", gone.len());
    Ok(match gone.is_empty() {
        true => ret.ok(text),
        false => ret.ok(text).changed(map! { "removed" => gone }),
    })
}

/// Adds a command when a watched state has changed.
#[function]
fn watch(
    name: String,
    timespec: Value,
    #[default(Value::Null)] tag: Value,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] job: Value,
    #[default(false)] unique_tag: Value,
) -> Result<Ret> {
    let _ = (timespec, tag, user, job, unique_tag);
    Ok(Ret::new(name).ok(""))
}

/// Runs when a watched state has changed.
#[function]
fn mod_watch(ctx: &Context, name: String, kwargs: KwArgs) -> Result<Ret> {
    let given = kwargs.given();
    if given.get_str("sfun") != Some("watch") {
        return Ok(Ret::new(name));
    }
    let part = |name: &str| given.get(name).cloned().unwrap_or_default();
    let text = |name: &str| given.get(name).filter(|value| value.truthy()).map(Value::to_string);
    let wish = Wish {
        name,
        timespec: part("timespec"),
        tag: part("tag"),
        user: text("user"),
        job: text("job"),
        unique_tag: part("unique_tag").truthy(),
    };
    add(ctx, wish)
}
