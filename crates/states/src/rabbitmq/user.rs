//! `rabbitmq_user`: users of the broker.

use exec::{Context, Error, Module, Result, function};
use value::{Map, Value, list, map};

use super::{failed, installed};
use crate::support::{call, call_with_kwargs, caught, equal};
use crate::{Ret, args};

/// The module.
pub static MODULE: Module =
    Module::new("rabbitmq_user", "Users of the broker.", &[&ABSENT, &PRESENT]).only_if(installed);

/// Makes sure that a user does not exist.
#[function]
fn absent(ctx: &Context, name: String, #[default(Value::Null)] runas: Value) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let runas = map! { "runas" => runas };
    match call(ctx, "rabbitmq.user_exists", args![name.as_str()], runas.clone()) {
        Ok(exists) if exists.truthy() => {}
        Ok(_) => return Ok(ret.ok(format!("The user '{name}' is not present."))),
        Err(error) => return failed(ret, error),
    }
    let changes = map! { "name" => map! { "old" => name.as_str(), "new" => "" } };
    if ctx.is_test() {
        return Ok(ret.would(format!("The user '{name}' will be removed.")).changed(changes));
    }
    match call(ctx, "rabbitmq.delete_user", args![name.as_str()], runas) {
        Ok(_) => Ok(ret.ok(format!("The user '{name}' was removed.")).changed(changes)),
        Err(error) => failed(ret, error),
    }
}

/// Makes sure that a user exists, with a password, tags, and permissions: a list of maps, each with a virtual host and
/// the three patterns for configuring, writing and reading there. With ``force`` the password is set in any case.
#[function]
fn present(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] password: Value,
    #[default(false)] force: Value,
    #[default(Value::Null)] tags: Value,
    #[default(list![])] perms: Value,
    #[default(Value::Null)] runas: Value,
) -> Result<Ret> {
    let wish = Wish { name: &name, password, force: force.truthy(), tags, perms, runas };
    let mut ret = Ret::new(name.as_str());
    match wish.carry_out(ctx, &mut ret) {
        Ok(()) => Ok(ret),
        Err(error) => failed(ret, error),
    }
}

/// The wanted user.
struct Wish<'a> {
    name: &'a str,
    password: Value,
    force: bool,
    tags: Value,
    perms: Value,
    runas: Value,
}

impl Wish<'_> {
    fn ask(&self, ctx: &Context, fun: &str, args: Vec<Value>) -> Result<Value> {
        call(ctx, fun, args, map! { "runas" => self.runas.clone() })
    }

    /// Makes the changes, in a test none. `ret` holds the changes also when something fails.
    fn carry_out(&self, ctx: &Context, ret: &mut Ret) -> Result<()> {
        let name = self.name;
        let exists = self.ask(ctx, "rabbitmq.user_exists", args![name])?.truthy();
        let mut other_password = false;
        if exists && !self.password.is_null() {
            // Passwords cannot be read back, so the broker is asked to try it.
            let same = self.ask(ctx, "rabbitmq.check_password", args![name, self.password.clone()])?;
            other_password = !same.truthy();
        }
        if exists && !(self.force || self.perms.truthy() || self.tags.truthy() || other_password) {
            *ret = ret.clone().ok(format!("User '{name}' is already present."));
            return Ok(());
        }
        if !exists {
            ret.changes.insert("user", map! { "old" => "", "new" => name });
            if ctx.is_test() {
                *ret = ret.clone().would(format!("User '{name}' is set to be created."));
                return Ok(());
            }
            self.ask(ctx, "rabbitmq.add_user", args![name, self.password.clone()])?;
        } else if self.force || other_password {
            self.set_password(ctx, ret)?;
        }
        self.set_tags(ctx, ret)?;
        self.set_permissions(ctx, ret)?;
        let done = ret.clone();
        *ret = match ret.changes.is_empty() {
            true => done.ok(format!("'{name}' is already in the desired state.")),
            false if ctx.is_test() => done.would(format!("Configuration for '{name}' will change.")),
            false => done.ok(format!("'{name}' was configured.")),
        };
        Ok(())
    }

    fn set_password(&self, ctx: &Context, ret: &mut Ret) -> Result<()> {
        let (fun, change) = match self.password.is_null() {
            true => ("rabbitmq.clear_password", map! { "old" => "Removed password.", "new" => "" }),
            false => ("rabbitmq.change_password", map! { "old" => "", "new" => "Set password." }),
        };
        if !ctx.is_test() {
            let mut args = args![self.name];
            args.extend(Some(self.password.clone()).filter(|password| !password.is_null()));
            self.ask(ctx, fun, args)?;
        }
        ret.changes.insert("password", change);
        Ok(())
    }

    fn current_tags(&self, ctx: &Context) -> Result<Vec<Value>> {
        let users = match call_with_kwargs(ctx, "rabbitmq.list_users", map! { "runas" => self.runas.clone() }) {
            Ok(users) => users,
            Err(error) => {
                tracing::error!("Error: {}", caught(error)?.text);
                // As in Salt, the user is treated as if it had no tags, which then are set.
                return Ok(Vec::new());
            }
        };
        let user = users.get(self.name).ok_or_else(|| Error::Other(format!("there is no user {}", self.name)))?;
        Ok(user.as_list().unwrap_or_default().to_vec())
    }

    fn set_tags(&self, ctx: &Context, ret: &mut Ret) -> Result<()> {
        if self.tags.is_null() {
            return Ok(());
        }
        let current = self.current_tags(ctx)?;
        let tags: Vec<Value> = match &self.tags {
            Value::Str(text) => text.split_whitespace().map(Value::from).collect(),
            Value::List(tags) => tags.clone(),
            other => return Err(Error::Other(format!("tags of a user are a list or a text, not {other}"))),
        };
        let same = tags.iter().all(|tag| current.contains(tag)) && current.iter().all(|tag| tags.contains(tag));
        if same {
            return Ok(());
        }
        if !ctx.is_test() {
            self.ask(ctx, "rabbitmq.set_user_tags", args![self.name, tags.clone()])?;
        }
        ret.changes.insert("tags", map! { "old" => current, "new" => tags });
        Ok(())
    }

    fn set_permissions(&self, ctx: &Context, ret: &mut Ret) -> Result<()> {
        let existing = self.ask(ctx, "rabbitmq.list_user_permissions", args![self.name])?;
        let existing = existing.as_map().cloned().unwrap_or_default();
        let wanted = permissions(&self.perms)?;
        let differs =
            |wanted: &Permission| !existing.get_value(&wanted.vhost).is_some_and(|is| equal(is, &wanted.to_value()));
        // One difference makes Salt set all permissions, also those that are up to date.
        if !wanted.iter().any(differs) {
            return Ok(());
        }
        for permission in &wanted {
            let Permission { vhost, patterns: [configure, write, read] } = permission;
            if !ctx.is_test() {
                let args = args![vhost.clone(), self.name, configure.clone(), write.clone(), read.clone()];
                self.ask(ctx, "rabbitmq.set_permissions", args)?;
            }
            if differs(permission) {
                note(&mut ret.changes, existing.get_value(vhost), permission);
            }
        }
        Ok(())
    }
}

/// The permissions of a user in one virtual host.
struct Permission {
    vhost: Value,
    patterns: [Value; 3],
}

impl Permission {
    fn to_value(&self) -> Value {
        let [configure, write, read] = self.patterns.clone();
        map! { "configure" => configure, "write" => write, "read" => read }.into()
    }
}

fn permissions(perms: &Value) -> Result<Vec<Permission>> {
    let refused = |what: &Value| {
        Error::Other(format!("perms is a list of maps from virtual hosts to three patterns, not {what}"))
    };
    let mut found = Vec::new();
    if !perms.truthy() {
        return Ok(found);
    }
    for entry in perms.as_list().ok_or_else(|| refused(perms))? {
        for (vhost, patterns) in entry.as_map().ok_or_else(|| refused(entry))? {
            let patterns = patterns.as_list().and_then(|patterns| patterns.first_chunk::<3>());
            let patterns = patterns.ok_or_else(|| refused(entry))?.clone();
            found.push(Permission { vhost: vhost.clone(), patterns });
        }
    }
    Ok(found)
}

/// Adds a permission to the changes. As in Salt, one for a new virtual host replaces the earlier entries.
fn note(changes: &mut Map, existing: Option<&Value>, permission: &Permission) {
    let new = map! { permission.vhost.clone() => permission.to_value() };
    let Some(existing) = existing else {
        changes.insert("perms", map! { "new" => new });
        return;
    };
    let perms = changes.entry_or_insert_with("perms", || map! { "old" => Map::new(), "new" => Map::new() }.into());
    let Value::Map(perms) = perms else { return };
    for (name, more) in [("old", existing.as_map().cloned().unwrap_or_default()), ("new", new)] {
        if let Value::Map(part) = perms.entry_or_insert_with(name, || Map::new().into()) {
            part.update(more);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_that_are_none_are_named() {
        for perms in [list!["/"], list![map! { "/" => ".*" }], list![map! { "/" => list![".*", ".*"] }], "x".into()] {
            let said = permissions(&perms).err().unwrap().to_string();
            assert!(said.starts_with("perms is a list of maps from virtual hosts to three patterns, not "), "{said}");
        }
    }

    #[test]
    fn changes_tell_of_permissions() {
        let permission =
            |vhost: &str, patterns: [&str; 3]| Permission { vhost: vhost.into(), patterns: patterns.map(Value::from) };
        let mut changes = Map::new();
        note(&mut changes, None, &permission("/new", ["a", "b", "c"]));
        let new = map! { "configure" => "a", "write" => "b", "read" => "c" };
        assert_eq!(changes, map! { "perms" => map! { "new" => map! { "/new" => new.clone() } } });
        // Salt ends with an exception here.
        let old = map! { "configure" => "x" };
        note(&mut changes, Some(&old.clone().into()), &permission("/", ["a", "b", "c"]));
        let expected = map! { "new" => map! { "/new" => new.clone(), "/" => new }, "old" => old };
        assert_eq!(changes, map! { "perms" => expected });
    }
}
