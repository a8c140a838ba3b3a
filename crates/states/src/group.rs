//! `group`: groups of users.

use exec::{Context, Module, Result, function};
use value::{Map, Value, map};

use crate::support::{call, equal, items};
use crate::{Ret, args};

/// The module.
pub static MODULE: Module = Module::new("group", "Groups of users are there or not.", &[&ABSENT, &PRESENT]);

fn root(local: &Value) -> Map {
    if local.truthy() {
        // An explicit root makes the functions read /etc/group instead of asking NSS.
        map! { "root" => "/" }
    } else {
        Map::new()
    }
}

struct Wish {
    name: String,
    gid: Value,
    addusers: Value,
    delusers: Value,
    members: Value,
    local: Value,
}

impl Wish {
    fn info(&self, ctx: &Context) -> Result<Map> {
        let info = call(ctx, "group.info", args![self.name.as_str()], root(&self.local))?;
        Ok(info.into_map().unwrap_or_default())
    }

    /// Returns the attributes that differ, or None if there is no such group.
    fn changes(&self, ctx: &Context) -> Result<Option<Map>> {
        let group = self.info(ctx)?;
        if group.is_empty() {
            return Ok(None);
        }
        let mut change = Map::new();
        if self.gid.truthy() {
            match number(&self.gid) {
                Some(gid) if group.get("gid").is_none_or(|own| !equal(own, &gid.into())) => {
                    change.insert("gid", gid);
                }
                Some(_) => {}
                // Salt mixes an error into the map of changes, and it is then shown as one.
                None => return Ok(Some(map! { "result" => false, "comment" => "Invalid gid" })),
            }
        }
        let own = group.get("members").map(items).unwrap_or_default();
        let differs = |wanted: &[Value]| {
            wanted.iter().any(|user| !own.contains(user)) || own.iter().any(|user| !wanted.contains(user))
        };
        if !self.members.is_null() {
            let wanted = items(&self.members);
            if differs(&wanted) {
                // An empty list means to remove everybody, one by one.
                let (key, users) = if wanted.is_empty() { ("delusers", own.clone()) } else { ("members", wanted) };
                change.insert(key, users);
            }
        }
        let picked = |list: &Value, there: bool| -> Vec<Value> {
            items(list).into_iter().filter(|user| own.contains(user) == there).collect()
        };
        // Only members that have to be added or removed are listed, so that a second run finds nothing.
        for (key, list, there) in [("addusers", &self.addusers, false), ("delusers", &self.delusers, true)] {
            let users = picked(list, there);
            if !users.is_empty() {
                change.insert(key, users);
            }
        }
        Ok(Some(change))
    }

    /// Shows a list of users. Salt keeps the members of a group to be emptied in a set.
    fn display(&self, key: &str, value: &Value) -> String {
        let set = key == "delusers" && !self.delusers.truthy();
        match value.as_list().filter(|_| set) {
            Some(users) => {
                let users: Vec<String> = users.iter().map(value::python::repr).collect();
                format!("{{{}}}", users.join(", "))
            }
            None => value.to_string(),
        }
    }

    fn apply(&self, ctx: &Context, changes: &Map, non_unique: &Value) -> Result<()> {
        let name = self.name.as_str();
        for (key, value) in changes {
            match key.as_str() {
                Some("gid") => {
                    let kwargs = map! { "non_unique" => non_unique.clone() };
                    call(ctx, "group.chgid", args![name, self.gid.clone()], kwargs)?;
                }
                Some(key @ ("addusers" | "delusers")) => {
                    let fun = if key == "addusers" { "group.adduser" } else { "group.deluser" };
                    for user in items(value) {
                        call(ctx, fun, args![name, user], Map::new())?;
                    }
                }
                Some("members") => {
                    call(ctx, "group.members", args![name, joined(&self.members)], Map::new())?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn number(value: &Value) -> Option<i64> {
    value
        .as_i64()
        .or_else(|| value.as_f64().map(|number| number as i64))
        .or_else(|| value.as_str()?.trim().parse().ok())
}

fn joined(users: &Value) -> String {
    crate::support::join(items(users), ",")
}

/// Makes sure that a group exists, with its id and members.
#[function]
fn present(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] gid: Value,
    #[default(false)] system: Value,
    #[default(Value::Null)] addusers: Value,
    #[default(Value::Null)] delusers: Value,
    #[default(Value::Null)] members: Value,
    #[default(false)] non_unique: Value,
    #[default(false)] local: Value,
) -> Result<Ret> {
    let ret = Ret::new(name.as_str()).ok(format!("Group {name} is present and up to date"));
    if !members.is_null() && (!addusers.is_null() || !delusers.is_null()) {
        let text =
            "Error: Conflicting options \"members\" with \"addusers\" and/or \"delusers\" can not be used together. ";
        // Salt sets the result to None here although nothing will be done in a real run either.
        return Ok(ret.would(text));
    }
    let gone = items(&delusers);
    if items(&addusers).iter().any(|user| gone.contains(user)) {
        return Ok(ret.would("Error. Same user(s) can not be added and deleted simultaneously"));
    }
    let wish = Wish { name, gid, addusers, delusers, members, local };
    // The same comparison again shows what could not be applied.
    match wish.changes(ctx)? {
        None => create(ctx, &wish, &system, &non_unique, ret),
        Some(changes) if changes.is_empty() => Ok(ret),
        Some(changes) => {
            let lines =
                changes.iter().map(|(key, value)| format!("{key}: {}\n", wish.display(&key.to_string(), value)));
            let mut text = "The following group attributes are set to be changed:\n".to_owned();
            text.extend(lines);
            if ctx.is_test() {
                return Ok(ret.would(text));
            }
            wish.apply(ctx, &changes, &non_unique)?;
            match wish.changes(ctx)? {
                None => create(ctx, &wish, &system, &non_unique, ret.ok(text)),
                Some(left) if left.is_empty() => {
                    Ok(ret.ok(text).changed(map! { "Final" => "All changes applied successfully" }))
                }
                Some(left) => {
                    let text = format!("{text}Some changes could not be applied");
                    Ok(ret.fail(text).changed(map! { "Failed" => left }))
                }
            }
        }
    }
}

fn create(ctx: &Context, wish: &Wish, system: &Value, non_unique: &Value, ret: Ret) -> Result<Ret> {
    let name = &wish.name;
    if ctx.is_test() {
        return Ok(ret.would(format!("Group {name} set to be added")));
    }
    // `groupadd` would refuse a taken GID, too, but without naming the group that has it.
    let all = call(ctx, "group.getent", args![], Map::new())?;
    if !wish.gid.is_null() && !non_unique.truthy() {
        let own = |group: &&Value| group.get("gid").is_some_and(|gid| equal(gid, &wish.gid));
        if let Some(taken) = all.as_list().unwrap_or_default().iter().find(own) {
            let by = taken.get("name").cloned().unwrap_or_default();
            let text = format!("Group {name} is not present but gid {} is already taken by group {by}", wish.gid);
            return Ok(ret.fail(text));
        }
    }
    let kwargs = map! {
        "gid" => wish.gid.clone(),
        "system" => system.clone(),
        "non_unique" => non_unique.clone(),
        "local" => wish.local.clone(),
    };
    if !call(ctx, "group.add", args![name.as_str()], kwargs)?.truthy() {
        return Ok(ret.fail(format!("Failed to create new group {name}")));
    }
    // A new group has no members, so adding and setting are the same.
    let users = if wish.addusers.truthy() { &wish.addusers } else { &wish.members };
    if users.truthy() {
        call(ctx, "group.members", args![name.as_str(), joined(users)], Map::new())?;
    }
    let info = wish.info(ctx)?;
    Ok(match wish.changes(ctx)? {
        Some(left) if !left.is_empty() => {
            let text = format!("Group {name} has been created but, some changes could not be applied");
            ret.fail(text).changed(map! { "Failed" => left })
        }
        _ => ret.ok(format!("New group {name} created")).changed(info),
    })
}

/// Makes sure that a group does not exist.
#[function]
fn absent(ctx: &Context, name: String, #[default(false)] local: Value) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    if !call(ctx, "group.info", args![name.as_str()], root(&local))?.truthy() {
        return Ok(ret.ok("Group not present"));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("Group {name} is set for removal")));
    }
    let done = call(ctx, "group.delete", args![name.as_str()], map! { "local" => local })?;
    Ok(match done.truthy() {
        true => ret.ok(format!("Removed group {name}")).changed(map! { name => "" }),
        false => ret.fail(format!("Failed to remove group {name}")),
    })
}
