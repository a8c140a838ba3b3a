//! `cron.present` and `cron.absent`.

use exec::{Context, KwArgs, Result, function};
use modules::cron::tab::{entry_is, needs_change};
use value::{Map, Value, map};

use super::{Status, entries, removed, set, table, would_remove, would_set};
use crate::support::call;
use crate::{Ret, args};

/// A job as it is looked for.
struct Wish {
    cmd: String,
    times: Map,
    special: Value,
    comment: Value,
    commented: Value,
    identifier: Value,
}

impl Wish {
    /// Compares the job with a crontab.
    fn status(&self, table: &Map) -> Status {
        let identifier = (!self.identifier.is_null()).then(|| self.identifier.to_string());
        let kind = if self.special.is_null() { "crons" } else { "special" };
        let own = entries(table, kind).into_iter().find(|entry| entry_is(entry, &self.cmd, identifier.as_deref()));
        let Some(entry) = own else { return Status::Absent };
        let mut wanted = map! {
            "identifier" => identifier,
            "cmd" => self.cmd.as_str(),
            "comment" => self.comment.clone(),
            "commented" => self.commented.clone(),
        };
        match self.special.is_null() {
            true => wanted.update(self.times.clone()),
            false => drop(wanted.insert("spec", self.special.clone())),
        }
        let differs = wanted.iter().any(|(key, new)| {
            let old = entry.get_value(key).cloned().unwrap_or_default();
            needs_change(&old, new)
        });
        if differs { Status::Update } else { Status::Present }
    }
}

fn lower(value: &Value) -> Value {
    if value.is_null() { Value::Null } else { value.to_string().to_lowercase().into() }
}

/// Makes sure that a job is in the crontab of a user.
#[function]
fn present(
    ctx: &Context,
    name: String,
    #[default("root")] user: String,
    #[default("*")] minute: Value,
    #[default("*")] hour: Value,
    #[default("*")] daymonth: Value,
    #[default("*")] month: Value,
    #[default("*")] dayweek: Value,
    #[default(Value::Null)] comment: Value,
    #[default(false)] commented: Value,
    #[default(false)] identifier: Value,
    #[default(Value::Null)] special: Value,
) -> Result<Ret> {
    let name = name.trim().to_owned();
    let identifier = if identifier == Value::Bool(false) { name.as_str().into() } else { identifier };
    let times =
        map! { "minute" => minute, "hour" => hour, "daymonth" => daymonth, "month" => month, "dayweek" => dayweek };
    let ret = Ret::new(name.as_str());
    let what = format!("Cron {name}");
    if ctx.is_test() {
        let times = times.iter().map(|(key, value)| (key.clone(), lower(value))).collect();
        let commented = Value::Bool(commented == Value::Bool(true));
        let wish = Wish { cmd: name, times, special, comment, commented, identifier };
        return Ok(would_set(ret, &what, wish.status(&table(ctx, &user)?)));
    }
    let mut kwargs = map! {
        "user" => user.as_str(),
        "cmd" => name.as_str(),
        "comment" => comment,
        "commented" => commented,
        "identifier" => identifier,
    };
    let fun = if special.is_null() { "cron.set_job" } else { "cron.set_special" };
    match special.is_null() {
        true => kwargs.update(times),
        false => drop(kwargs.insert("special", special)),
    }
    let answer = call(ctx, fun, args![], kwargs)?;
    Ok(set(ret, &what, &user, &name, &answer))
}

/// Makes sure that a job is not in the crontab of a user.
#[function]
fn absent(
    ctx: &Context,
    name: String,
    #[default("root")] user: String,
    #[default(false)] identifier: Value,
    #[default(Value::Null)] special: Value,
    kwargs: KwArgs,
) -> Result<Ret> {
    let _ = kwargs;
    let name = name.trim().to_owned();
    let identifier = if identifier == Value::Bool(false) { name.as_str().into() } else { identifier };
    let ret = Ret::new(name.as_str());
    let what = format!("Cron {name}");
    if ctx.is_test() {
        let nothing = || Value::Null;
        let wish = Wish {
            cmd: name,
            times: Map::new(),
            special: nothing(),
            comment: nothing(),
            commented: nothing(),
            identifier,
        };
        return Ok(would_remove(ret, &what, wish.status(&table(ctx, &user)?)));
    }
    let mut kwargs = map! { "identifier" => identifier };
    let fun = if special.is_null() { "cron.rm_job" } else { "cron.rm_special" };
    if !special.is_null() {
        kwargs.insert("special", special);
    }
    let answer = call(ctx, fun, args![user.as_str(), name.as_str()], kwargs)?;
    Ok(removed(ret, &what, &user, &name, &answer))
}
