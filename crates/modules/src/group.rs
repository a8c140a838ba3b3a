//! `group` — the groups of the machine.

use exec::{Context, Error, Module, Result, function};
use value::{Map, Value, map};

use crate::accounts::{self, Team};

/// Registers the functions of `group`.
pub static MODULE: Module = Module::new(
    "group",
    "Functions that look at groups and change them.",
    &[&ADD, &ADDUSER, &CHGID, &DELETE, &DELUSER, &GETENT, &INFO, &MEMBERS],
);

fn group_map(team: &Team) -> Map {
    map! {
        "name" => team.name.as_str(),
        "passwd" => team.passwd.as_str(),
        "gid" => team.gid,
        "members" => team.members.clone(),
    }
}

/// Adds a group.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' group.add foo 3456
#[function]
fn add(
    ctx: &Context,
    name: String,
    gid: Option<String>,
    #[default(false)] system: bool,
    root: Option<String>,
    #[default(false)] non_unique: bool,
    #[default(false)] local: bool,
) -> Result<bool> {
    let mut args = Vec::new();
    // 0 counts as not given: Salt tests the number for truth.
    if let Some(gid) = gid.as_deref().filter(|gid| !gid.is_empty() && *gid != "0") {
        args.extend(["-g", gid]);
        // libuser's `lgroupadd` has no such option, and none for another root either.
        args.extend((non_unique && !local).then_some("-o"));
    }
    args.extend(system.then_some("-r"));
    args.push(&name);
    let program = if local { "lgroupadd" } else { "groupadd" };
    accounts::change(ctx, program, &args, root.as_deref().filter(|_| !local))
}

/// Adds a user to a group.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' group.adduser foo bar
#[function]
fn adduser(ctx: &Context, name: String, username: String, root: Option<String>) -> Result<bool> {
    gpasswd(ctx, &["--add", &username, &name], root.as_deref())
}

/// Runs `gpasswd`, which names the option for another root differently.
fn gpasswd(ctx: &Context, args: &[&str], root: Option<&str>) -> Result<bool> {
    let mut args = args.to_vec();
    args.extend(root.into_iter().flat_map(|root| ["--root", root]));
    accounts::change(ctx, "gpasswd", &args, None)
}

/// Changes the number of a group.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' group.chgid foo 4376
#[function]
fn chgid(
    ctx: &Context,
    name: String,
    gid: u64,
    root: Option<String>,
    #[default(false)] non_unique: bool,
) -> Result<bool> {
    let has = |team: Option<Team>| team.is_some_and(|team| u64::from(team.gid) == gid);
    let Some(before) = accounts::team(ctx, &name, root.as_deref())? else { return Ok(false) };
    // Salt does not run groupmod for a number that the group has already.
    if has(Some(before)) {
        return Ok(true);
    }
    let flag = if non_unique { "-og" } else { "-g" };
    accounts::attempt(ctx, "groupmod", &[flag, &gid.to_string(), &name], root.as_deref())?;
    // Salt judges by what the group looks like afterwards, not by the exit code.
    Ok(has(accounts::team(ctx, &name, root.as_deref())?))
}

/// Removes a group.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' group.delete foo
#[function]
fn delete(ctx: &Context, name: String, root: Option<String>, #[default(false)] local: bool) -> Result<bool> {
    let program = if local { "lgroupdel" } else { "groupdel" };
    accounts::change(ctx, program, &[&name], root.as_deref().filter(|_| !local))
}

/// Removes a user from a group.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' group.deluser foo bar
#[function]
fn deluser(ctx: &Context, name: String, username: String, root: Option<String>) -> Result<bool> {
    let team = accounts::team(ctx, &name, None)?;
    // gpasswd fails for a user who is not a member; removing one twice must succeed.
    if !team.is_some_and(|team| team.members.contains(&username)) {
        return Ok(true);
    }
    gpasswd(ctx, &["--del", &username, &name], root.as_deref())
}

/// Returns all groups with all information about them.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' group.getent
#[function]
fn getent(ctx: &Context, #[default(false)] refresh: bool, root: Option<String>) -> Result<Value> {
    // Nothing is kept between calls.
    let _ = refresh;
    Ok(accounts::teams(ctx, root.as_deref())?.iter().map(group_map).collect())
}

/// Returns information about a group; nothing if there is no such group.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' group.info foo
#[function]
fn info(ctx: &Context, name: String, root: Option<String>) -> Result<Map> {
    Ok(accounts::team(ctx, &name, root.as_deref())?.as_ref().map(group_map).unwrap_or_default())
}

/// Makes exactly these users the members of a group.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' group.members foo 'user1,user2,user3'
#[function]
fn members(ctx: &Context, name: String, members_list: Value, root: Option<String>) -> Result<bool> {
    let list = match members_list {
        Value::List(items) => items.iter().map(Value::to_string).collect::<Vec<_>>().join(","),
        Value::Map(_) => return Err(Error::invocation("members_list must be a text or a list")),
        other => other.to_string(),
    };
    gpasswd(ctx, &["--members", &list, &name], root.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_shown_as_salt_shows_them() {
        let (ctx, _) = exec::testing::context(&[&MODULE], map! {}, map! {}, map! {});
        let root = ctx.call("group.info", vec!["root".into()]).unwrap();
        assert_eq!(root.get("gid"), Some(&Value::Int(0)));
        assert!(root.get("members").unwrap().as_list().is_some());
        assert_eq!(ctx.call("group.info", vec!["no-such-group".into()]).unwrap(), Map::new().into());
        let all = ctx.call("group.getent", vec![]).unwrap();
        assert!(all.as_list().unwrap().contains(&root));
    }
}
