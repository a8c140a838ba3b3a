//! `user.absent`.

use exec::{Context, Result, function};
use value::{Map, Value, map};

use super::info;
use crate::support::call;
use crate::{Ret, args};

/// Makes sure that an account does not exist; with `purge` its files neither.
#[function]
fn absent(
    ctx: &Context,
    name: String,
    #[default(false)] purge: Value,
    #[default(false)] force: Value,
    #[default(false)] local: Value,
) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    if info(ctx, &name, &local)?.is_empty() {
        return Ok(ret.ok(format!("User {name} is not present")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("User {name} set for removal")));
    }
    let account = name.clone();
    // Asked before the removal: `userdel` also removes the user's own group, and that is reported
    // as a change.
    let groups = ctx.blocking(move || modules::accounts::group_names(&account));
    let done = call(ctx, "user.delete", args![name.as_str(), purge, force], map! { "local" => local })?;
    let mut changes = Map::new();
    for group in groups {
        if !call(ctx, "group.info", args![group.as_str()], Map::new())?.truthy() {
            changes.insert(format!("{group} group"), "removed");
        }
    }
    if !done.truthy() {
        return Ok(ret.fail(format!("Failed to remove user {name}")));
    }
    changes.insert(name.as_str(), "removed");
    Ok(ret.ok(format!("Removed user {name}")).changed(changes))
}
