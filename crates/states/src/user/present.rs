//! `user.present`.

use exec::{Context, Result, function};
use value::{Map, Value, map};

use super::changes::{AGEING, Wish, describe, without_secrets};
use super::{HIDDEN, create, field, info, shadow};
use crate::support::{call, caught, has, items, join};
use crate::{Ret, args};

/// Makes sure that an account exists, as described.
#[function]
fn present(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] uid: Value,
    #[default(Value::Null)] gid: Value,
    #[default(Value::Null)] usergroup: Value,
    #[default(Value::Null)] groups: Value,
    #[default(Value::Null)] optional_groups: Value,
    #[default(true)] remove_groups: bool,
    #[default(Value::Null)] home: Value,
    #[default(true)] createhome: bool,
    #[default(false)] persist_home: Value,
    #[default(Value::Null)] password: Value,
    #[default(false)] hash_password: bool,
    #[default(true)] enforce_password: bool,
    #[default(false)] empty_password: bool,
    #[default(Value::Null)] shell: Value,
    #[default(true)] unique: Value,
    #[default(false)] system: Value,
    #[default(Value::Null)] fullname: Value,
    #[default(Value::Null)] roomnumber: Value,
    #[default(Value::Null)] workphone: Value,
    #[default(Value::Null)] homephone: Value,
    #[default(Value::Null)] other: Value,
    #[default(Value::Null)] loginclass: Value,
    #[default(Value::Null)] date: Value,
    #[default(Value::Null)] mindays: Value,
    #[default(Value::Null)] maxdays: Value,
    #[default(Value::Null)] inactdays: Value,
    #[default(Value::Null)] warndays: Value,
    #[default(Value::Null)] expire: Value,
    #[default(Value::Null)] win_homedrive: Value,
    #[default(Value::Null)] win_profile: Value,
    #[default(Value::Null)] win_logonscript: Value,
    #[default(Value::Null)] win_description: Value,
    #[default(false)] nologinit: Value,
    #[default(false)] allow_uid_change: bool,
    #[default(false)] allow_gid_change: bool,
    #[default(Value::Null)] password_lock: Value,
    #[default(false)] local: Value,
) -> Result<Ret> {
    let _ = (win_homedrive, win_profile, win_logonscript, win_description);
    // The fields of GECOS are text. YAML turns a phone number into an integer.
    let text = |value: Value| if value.is_null() { value } else { Value::from(value.to_string()) };
    let person = map! {
        "fullname" => text(fullname),
        "roomnumber" => text(roomnumber),
        "workphone" => text(workphone),
        "homephone" => text(homephone),
        "other" => text(other),
    };
    let ageing = map! {
        "date" => date,
        "mindays" => mindays,
        "maxdays" => maxdays,
        "inactdays" => inactdays,
        "warndays" => warndays,
        "expire" => expire,
    };
    let password = if password.truthy() && hash_password { hashed(ctx, &name, password)? } else { password };
    let wish = Wish {
        name,
        uid,
        gid: gid.clone(),
        groups,
        optional_groups,
        remove_groups,
        home,
        createhome,
        password,
        enforce_password,
        empty_password,
        shell,
        person,
        ageing,
        password_lock,
        local,
    };
    let more = map! {
        "usergroup" => usergroup, "unique" => unique, "system" => system, "loginclass" => loginclass, "nologinit" => nologinit,
    };
    let task = Task { wish, more, persist_home, allow: (allow_uid_change, allow_gid_change), missing: Vec::new() };
    task.run(ctx)
}

/// Makes a hash of a password in clear text, with the salt of the present one.
fn hashed(ctx: &Context, name: &str, password: Value) -> Result<Value> {
    let present = field(&shadow(ctx, name)?, "passwd").to_string();
    // A crypt hash: `$id$salt$hash`. With the salt of the present hash an unchanged password gives
    // the same hash, so that nothing looks changed.
    let parts: Vec<&str> = present.splitn(5, '$').collect();
    let kwargs = match parts[..] {
        [_, algorithm, salt, _] => {
            let names = [("1", "md5"), ("2a", "blowfish"), ("5", "sha256"), ("6", "sha512")];
            let algorithm = names.iter().find(|(sign, _)| *sign == algorithm).map(|(_, name)| *name);
            map! { "crypt_salt" => salt, "algorithm" => algorithm }
        }
        // No hash yet, or one with parameters: a new salt is chosen.
        _ => Map::new(),
    };
    call(ctx, "shadow.gen_password", vec![password], kwargs)
}

struct Task {
    wish: Wish,
    more: Map,
    persist_home: Value,
    allow: (bool, bool),
    missing: Vec<Value>,
}

impl Task {
    fn run(mut self, ctx: &Context) -> Result<Ret> {
        let name = self.wish.name.clone();
        let ret = Ret::new(name.as_str()).ok(format!("User {name} is present and up to date"));
        // GECOS separates its fields with commas. Salt checks these three only.
        let mut comma = ["fullname", "roomnumber", "workphone"].iter().map(|part| field(&self.wish.person, part));
        if let Some(bad) = comma.find(|text| text.as_str().is_some_and(|text| text.contains(','))) {
            return Ok(ret.fail(format!("Unsupported char ',' in {bad}")));
        }
        self.missing = self.look_for_groups(ctx)?;
        // In test mode a group may be made by an earlier state.
        if !self.missing.is_empty() && !ctx.is_test() {
            let names = join(&self.missing, ",");
            return Ok(ret.fail(format!("The following group(s) are not present: {names}")));
        }
        // With `usergroup` the account is compared as if its main group were named after it. The wanted account itself
        // is not changed.
        let gid = self.wish.gid.clone();
        let own_group = self.more.get("usergroup").is_some_and(Value::truthy)
            && call(ctx, "file.group_to_gid", args![name.as_str()], Map::new())?.as_str() != Some("");
        if own_group {
            self.wish.gid = name.as_str().into();
        }
        let found = self.wish.changes(ctx, self.allow.0, self.allow.1);
        self.wish.gid = gid;
        match found {
            Err(error) => Ok(ret.fail(caught(error)?.text)),
            Ok(Some(changes)) if changes.is_empty() => Ok(ret),
            Ok(Some(changes)) => self.change(ctx, changes, ret),
            Ok(None) if ctx.is_test() => {
                let mut text = format!("User {name} set to be added");
                if !self.missing.is_empty() {
                    text.push_str(&format!(" (pending groups: {})", join(&self.missing, ",")));
                }
                Ok(ret.would(text))
            }
            Ok(None) => create::account(ctx, &self.wish, &self.more, ret),
        }
    }

    /// Keeps the existing groups and returns the missing ones.
    fn look_for_groups(&mut self, ctx: &Context) -> Result<Vec<Value>> {
        let mut missing = Vec::new();
        for group in items(&self.wish.groups) {
            if !call(ctx, "group.info", vec![group.clone()], Map::new())?.truthy() {
                missing.push(group);
            }
        }
        if !missing.is_empty() {
            let mut groups = items(&self.wish.groups);
            groups.retain(|group| !missing.contains(group));
            self.wish.groups = groups.into();
        }
        if self.wish.optional_groups.truthy() {
            let mut there = Vec::new();
            for group in items(&self.wish.optional_groups) {
                if call(ctx, "group.info", vec![group.clone()], Map::new())?.truthy() {
                    there.push(group);
                }
            }
            self.wish.optional_groups = there.into();
        } else {
            self.wish.optional_groups = Value::Null;
        }
        Ok(missing)
    }

    fn change(&self, ctx: &Context, changes: Map, ret: Ret) -> Result<Ret> {
        let name = self.wish.name.as_str();
        if ctx.is_test() {
            let mut text = format!("The following user attributes are set to be changed:\n{}", describe(&changes));
            if !self.missing.is_empty() {
                text.push_str(&format!("groups (pending creation): {}\n", join(&self.missing, ",")));
            }
            return Ok(ret.would(text));
        }
        let has_shadow = has(ctx, "shadow.info");
        // Read around the change, so that the report shows what really happened.
        let before = if has_shadow { shadow(ctx, name)? } else { Map::new() };
        let pre = info(ctx, name, &self.wish.local)?;
        self.apply(ctx, changes, &pre)?;
        let post = info(ctx, name, &self.wish.local)?;
        let mut ret = ret;
        let differing = |new: &Map, old: &Map| -> Map {
            let differs = |(key, value): &(&Value, &Value)| old.get_value(key) != Some(value);
            new.iter().filter(differs).map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        ret.changes = differing(&post, &pre);
        // Salt looks for changed password data only if the hash differs from the wanted one.
        if has_shadow && field(&before, "passwd") != self.wish.password {
            let mut after = differing(&shadow(ctx, name)?, &before);
            if after.contains_key("passwd") {
                after.insert("passwd", HIDDEN);
            }
            ret.changes.update(after);
        }
        if !ret.changes.is_empty() {
            ret.comment = format!("Updated user {name}").into();
        }
        // The same comparison once more: it must find nothing. Numbers were allowed or refused
        // before.
        if let Some(left) = self.wish.changes(ctx, true, true)?.filter(|left| !left.is_empty()) {
            let left = value::python::repr_map(&without_secrets(&left));
            return Ok(ret.fail(format!("These values could not be changed: {left}")));
        }
        Ok(ret)
    }

    fn apply(&self, ctx: &Context, mut changes: Map, pre: &Map) -> Result<()> {
        let name = self.wish.name.as_str();
        // `empty_password` wins over a password.
        if let Some(hash) = changes.remove("passwd").filter(|_| !self.wish.empty_password) {
            call(ctx, "shadow.set_password", args![name, hash], Map::new())?;
        }
        if changes.remove("empty_password").is_some() {
            call(ctx, "shadow.del_password", args![name], Map::new())?;
        }
        if let Some(lock) = changes.remove("password_lock") {
            let fun = if lock.truthy() { "shadow.lock_password" } else { "shadow.unlock_password" };
            call(ctx, fun, args![name], Map::new())?;
        }
        // `passwd` sets the date of the last change to today, so the wanted date comes after it.
        if let Some(date) = changes.remove("date") {
            call(ctx, "shadow.set_date", args![name, date], Map::new())?;
        }
        self.move_home(ctx, &mut changes, pre)?;
        for (key, _) in &AGEING[1..] {
            if let Some(value) = changes.remove(key) {
                call(ctx, &format!("shadow.set_{key}"), args![name, value], Map::new())?;
            }
        }
        // Groups come after a changed main group, which decides what counts as a supplementary group.
        let groups = changes.remove("groups");
        for (key, value) in changes {
            let fun = format!("user.ch{key}");
            if has(ctx, &fun) {
                call(ctx, &fun, args![name, value], Map::new())?;
            }
        }
        if let Some(groups) = groups {
            call(ctx, "user.chgroups", args![name, groups, !self.wish.remove_groups], Map::new())?;
        }
        Ok(())
    }

    fn move_home(&self, ctx: &Context, changes: &mut Map, pre: &Map) -> Result<()> {
        let name = self.wish.name.as_str();
        let persist = || map! { "persist" => self.persist_home.clone() };
        let home = changes.remove("home");
        let absent = changes.remove("homeDoesNotExist");
        // If the new home does not exist, the branch below moves and creates it.
        if let (Some(home), None) = (&home, &absent) {
            call(ctx, "user.chhome", args![name, home.clone()], persist())?;
        }
        if let Some(home) = absent {
            call(ctx, "user.chhome", args![name, home.clone()], persist())?;
            if !std::path::Path::new(&home.to_string()).is_dir() {
                // Made with the numbers the account had before the change, as in Salt.
                let args = args![home, field(pre, "uid"), field(pre, "gid"), 0o755];
                call(ctx, "file.mkdir", args, Map::new())?;
            }
        }
        Ok(())
    }
}
