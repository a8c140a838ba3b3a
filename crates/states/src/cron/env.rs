//! `cron.env_present` and `cron.env_absent`: variables in crontabs.

use exec::{Context, Result, function};
use value::{Map, Value, map};

use super::{Status, entries, removed, set, table, would_remove, would_set};
use crate::support::call;
use crate::{Ret, args};

fn status(table: &Map, name: &str, value: &Value) -> Status {
    let wanted = if value.is_null() { Value::from("") } else { value.clone() };
    match entries(table, "env").into_iter().find(|entry| entry.get_str("name") == Some(name)) {
        None => Status::Absent,
        Some(entry) if entry.get("value") == Some(&wanted) => Status::Present,
        Some(_) => Status::Update,
    }
}

/// Makes sure that a variable is set in the crontab of a user.
#[function]
fn env_present(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] value: Value,
    #[default("root")] user: String,
) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let what = format!("Cron env {name}");
    if ctx.is_test() {
        return Ok(would_set(ret, &what, status(&table(ctx, &user)?, &name, &value)));
    }
    let args = args![user.as_str(), name.as_str()];
    let answer = call(ctx, "cron.set_env", args, map! { "value" => value })?;
    Ok(set(ret, &what, &user, &name, &answer))
}

/// Makes sure that a variable is not set in the crontab of a user.
#[function]
fn env_absent(ctx: &Context, name: String, #[default("root")] user: String) -> Result<Ret> {
    let name = name.trim().to_owned();
    let ret = Ret::new(name.as_str());
    let what = format!("Cron env {name}");
    if ctx.is_test() {
        return Ok(would_remove(ret, &what, status(&table(ctx, &user)?, &name, &Value::Null)));
    }
    let answer = call(ctx, "cron.rm_env", args![user.as_str(), name.as_str()], Map::new())?;
    Ok(removed(ret, &what, &user, &name, &answer))
}
