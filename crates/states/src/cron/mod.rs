//! `cron`: jobs of users at times.

mod env;
mod file;
mod jobs;

use exec::{Context, Module};
use value::{Map, Value, map};

use crate::Ret;
use crate::support::needs;

/// The module.
pub static MODULE: Module = Module::new(
    "cron",
    "Jobs of users at times.",
    &[&jobs::ABSENT, &env::ENV_ABSENT, &env::ENV_PRESENT, &file::FILE, &jobs::PRESENT],
)
.only_if(|_| needs(&["crontab"], "cron module could not be loaded"));

/// The status of a job or a variable: there, missing, or different.
enum Status {
    Absent,
    Present,
    Update,
}

/// Finishes a test run for something that should be present.
fn would_set(ret: Ret, what: &str, status: Status) -> Ret {
    match status {
        Status::Absent => ret.would(format!("{what} is set to be added")),
        Status::Present => ret.ok(format!("{what} already present")),
        Status::Update => ret.would(format!("{what} is set to be updated")),
    }
}

/// The same of a thing that should not.
fn would_remove(ret: Ret, what: &str, status: Status) -> Ret {
    match status {
        Status::Absent => ret.ok(format!("{what} is absent")),
        Status::Present | Status::Update => ret.would(format!("{what} is set to be removed")),
    }
}

fn changed(user: &str, name: &str) -> Map {
    map! { user => name }
}

/// Finishes a state by the answer of a function that sets something.
fn set(ret: Ret, what: &str, user: &str, name: &str, answer: &Value) -> Ret {
    match answer.as_str() {
        Some("present") => ret.ok(format!("{what} already present")),
        Some("new") => ret.ok(format!("{what} added to {user}'s crontab")).changed(changed(user, name)),
        Some("updated") => ret.ok(format!("{what} updated")).changed(changed(user, name)),
        _ => ret.fail(format!("{what} for user {user} failed to commit with error \n{answer}")),
    }
}

/// Finishes a state by the answer of a function that removes something.
fn removed(ret: Ret, what: &str, user: &str, name: &str, answer: &Value) -> Ret {
    match answer.as_str() {
        Some("absent") => ret.ok(format!("{what} already absent")),
        Some("removed") => ret.ok(format!("{what} removed from {user}'s crontab")).changed(changed(user, name)),
        _ => ret.fail(format!("{what} for user {user} failed to commit with error {answer}")),
    }
}

fn table(ctx: &Context, user: &str) -> exec::Result<Map> {
    let table = crate::support::call(ctx, "cron.list_tab", crate::args![user], Map::new())?;
    Ok(table.into_map().unwrap_or_default())
}

fn entries<'a>(table: &'a Map, kind: &str) -> Vec<&'a Map> {
    table.get(kind).and_then(Value::as_list).unwrap_or_default().iter().filter_map(Value::as_map).collect()
}
