//! The differences between an account and the wanted one.

use std::collections::BTreeSet;
use std::path::Path;

use exec::{Context, Error, Result};
use value::{Map, Value};

use super::{field, info, shadow};
use crate::args;
use crate::support::{call, equal, has, items};

/// The wanted attributes of an account.
#[derive(Clone, Default)]
pub struct Wish {
    /// The name.
    pub name: String,
    /// The number of the account.
    pub uid: Value,
    /// The main group.
    pub gid: Value,
    /// Supplementary groups.
    pub groups: Value,
    /// Supplementary groups, of which only existing ones count.
    pub optional_groups: Value,
    /// True if other groups are removed.
    pub remove_groups: bool,
    /// The home directory.
    pub home: Value,
    /// True if the home directory is made.
    pub createhome: bool,
    /// The hash of the password.
    pub password: Value,
    /// True if a changed password is reset.
    pub enforce_password: bool,
    /// True if there is to be no password.
    pub empty_password: bool,
    /// The shell.
    pub shell: Value,
    /// The fields of GECOS: `fullname`, `roomnumber`, `workphone`, `homephone` and `other`.
    pub person: Map,
    /// The fields of the shadow file: `date`, `mindays`, `maxdays`, `inactdays`, `warndays` and `expire`.
    pub ageing: Map,
    /// True if the password is locked.
    pub password_lock: Value,
    /// True if only local files count.
    pub local: Value,
}

/// The fields of ageing, and their names in `shadow.info`.
pub const AGEING: [(&str, &str); 6] = [
    ("date", "lstchg"),
    ("mindays", "min"),
    ("maxdays", "max"),
    ("inactdays", "inact"),
    ("warndays", "warn"),
    ("expire", "expire"),
];

fn texts(value: &Value) -> Vec<String> {
    items(value).iter().map(Value::to_string).collect()
}

fn gid_of(ctx: &Context, group: Value) -> Result<Value> {
    call(ctx, "file.group_to_gid", vec![group], Map::new())
}

impl Wish {
    /// Returns the changes to make; nothing at all if there is no such account.
    ///
    /// # Errors
    /// When numbers would change that may not (`allow_uid_change`, `allow_gid_change`).
    pub fn changes(&self, ctx: &Context, allow_uid: bool, allow_gid: bool) -> Result<Option<Map>> {
        // Read before the account, as in Salt.
        let secrets = if has(ctx, "shadow.info") { Some(shadow(ctx, &self.name)?) } else { None };
        let account = info(ctx, &self.name, &self.local)?;
        if account.is_empty() {
            return Ok(None);
        }
        let mut change = Map::new();
        let groups = self.groups_now(ctx, &account, &mut change)?;
        if let Some(wanted) = groups {
            change.insert("groups", wanted);
        }
        self.places(&account, &mut change);
        if let Some(secrets) = secrets.filter(|_| has(ctx, "shadow.default_hash")) {
            self.secrets(ctx, &secrets, &mut change)?;
        }
        self.person(ctx, &account, &mut change);
        refuse(&change, &account, allow_uid, allow_gid)?;
        Ok(Some(change))
    }

    /// The groups to be set, if they are not those wanted. Notes changed numbers on the way.
    fn groups_now(&self, ctx: &Context, account: &Map, change: &mut Map) -> Result<Option<Vec<String>>> {
        let mut own = account.get("groups").map(texts).unwrap_or_default();
        let mut numbers = Vec::new();
        for group in &own {
            numbers.push(gid_of(ctx, group.as_str().into())?);
        }
        // One GID can have several names. Comparing names alone would add and remove them for ever.
        let aliases = GroupAliases::of(&own, &numbers);
        let all: BTreeSet<String> = [texts(&self.groups), texts(&self.optional_groups)].concat().into_iter().collect();
        // Sorted and without duplicates, so that the report is stable.
        let mut wanted: Vec<String> = all.into_iter().collect();
        // Without any list `remove_groups` does nothing: a user without groups was not requested.
        if !self.remove_groups || (self.groups.is_null() && !self.optional_groups.truthy()) {
            wanted = wanted.into_iter().chain(own.clone()).collect::<BTreeSet<_>>().into_iter().collect();
        }
        if self.uid.truthy() && !equal(&field(account, "uid"), &self.uid) {
            change.insert("uid", self.uid.clone());
        }
        let gid = field(account, "gid");
        if !self.gid.is_null() {
            let number = gid_of(ctx, self.gid.clone())?;
            // `gid` may be a number or a name. Either form counts as equal.
            if !equal(&gid, &self.gid) && !equal(&gid, &number) {
                change.insert("gid", self.gid.clone());
            }
        }
        let main = if self.gid.is_null() { gid.clone() } else { self.gid.clone() };
        let new_main = call(ctx, "file.gid_to_group", vec![main], Map::new())?.to_string();
        let old_main = call(ctx, "file.gid_to_group", vec![gid], Map::new())?.to_string();
        // The main group is never a supplementary group, under whatever name.
        aliases.remove(&new_main, &mut own);
        aliases.remove(&new_main, &mut wanted);
        // The old main group must be removed from the current ones, or making it a supplementary group would look like
        // no change.
        if old_main != new_main {
            aliases.remove(&old_main, &mut own);
        }
        // A user's private group is usually its main group already and not listed as a supplementary one.
        if !wanted.contains(&self.name) {
            aliases.remove(&self.name, &mut own);
        }
        let differs = group_changes(ctx, &own, &wanted, self.remove_groups)?;
        Ok((differs && (!wanted.is_empty() || self.remove_groups)).then_some(wanted))
    }

    fn places(&self, account: &Map, change: &mut Map) {
        if self.home.truthy() && field(account, "home") != self.home {
            change.insert("home", self.home.clone());
        }
        let home = if self.home.truthy() { self.home.clone() } else { field(account, "home") };
        // Also for an account without `home` in the state: then the directory it has is created.
        if self.createhome && home.as_str().is_some_and(|home| !Path::new(home).is_dir()) {
            change.insert("homeDoesNotExist", home);
        }
        if self.shell.truthy() && field(account, "shell") != self.shell {
            change.insert("shell", self.shell.clone());
        }
    }

    fn secrets(&self, ctx: &Context, secrets: &Map, change: &mut Map) -> Result<()> {
        let hash = field(secrets, "passwd");
        if self.password.truthy() && !self.empty_password {
            let default = call(ctx, "shadow.default_hash", args![], Map::new())?;
            // Without `enforce_password` a password is only set on an account that has none, and a
            // user's own change survives.
            if (hash == default || self.enforce_password) && hash != self.password {
                change.insert("passwd", self.password.clone());
            }
        }
        if self.empty_password && hash.as_str() != Some("") {
            change.insert("empty_password", true);
        }
        for (name, key) in AGEING {
            let wanted = field(&self.ageing, name);
            // Salt tests `expire` for truth and the others for `None`, so an expiry of 0 cannot be
            // set on an existing account.
            let asked = if name == "expire" { wanted.truthy() } else { !wanted.is_null() };
            if asked && !equal(&field(secrets, key), &wanted) {
                change.insert(name, wanted);
            }
        }
        // `passwd -l` puts an exclamation mark in front of the hash.
        let locked = hash.as_str().is_some_and(|hash| hash.starts_with('!'));
        let lock = &self.password_lock;
        if (lock.truthy() && !locked) || (*lock == Value::Bool(false) && locked) {
            change.insert("password_lock", lock.clone());
        }
        Ok(())
    }

    fn person(&self, ctx: &Context, account: &Map, change: &mut Map) {
        for name in ["fullname", "roomnumber", "workphone", "homephone", "other"] {
            // Not every platform has all fields of GECOS. Those without a function are ignored.
            let known = name == "fullname" || has(ctx, &format!("user.ch{name}"));
            let wanted = field(&self.person, name);
            if known && !wanted.is_null() && field(account, name) != wanted {
                change.insert(name, wanted);
            }
        }
    }
}

fn refuse(change: &Map, account: &Map, allow_uid: bool, allow_gid: bool) -> Result<()> {
    let mut errors = Vec::new();
    for (key, allowed) in [("uid", allow_uid), ("gid", allow_gid)] {
        // Files keep the old number, so a changed UID can hand a user's files to someone else.
        if let Some(new) = change.get(key).filter(|_| !allowed) {
            errors.push(format!(
                "Changing {key} ({} -> {new}) not permitted, set allow_{key}_change to True to force this change. Note that \
                 this will not change file ownership.",
                field(account, key)
            ));
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    let errors = exec::nested(&errors.into());
    let text = "Encountered error checking for needed changes. Additional info follows:";
    Err(Error::execution(format!("{text}\n\n{errors}")))
}

/// Sets of group names that share one GID.
struct GroupAliases(Vec<Vec<String>>);

impl GroupAliases {
    fn of(groups: &[String], numbers: &[Value]) -> Self {
        let mut found: Vec<(&Value, Vec<String>)> = Vec::new();
        for (group, number) in groups.iter().zip(numbers) {
            match found.iter_mut().find(|(known, _)| known == &number) {
                Some((_, names)) => names.push(group.clone()),
                None => found.push((number, vec![group.clone()])),
            }
        }
        GroupAliases(found.into_iter().map(|(_, names)| names).filter(|names| names.len() > 1).collect())
    }

    /// Removes a group from a list, with its other names.
    fn remove(&self, name: &str, list: &mut Vec<String>) {
        let names = self.0.iter().find(|names| names.iter().any(|own| own == name));
        match names {
            Some(names) => list.retain(|group| !names.contains(group)),
            None => list.retain(|group| group != name),
        }
    }
}

/// Returns whether groups differ. Groups with the same number count as one.
fn group_changes(ctx: &Context, own: &[String], wanted: &[String], remove: bool) -> Result<bool> {
    let missing: Vec<&String> = wanted.iter().filter(|group| !own.contains(group)).collect();
    let surplus: Vec<&String> = own.iter().filter(|group| !wanted.contains(group)).collect();
    if missing.is_empty() && (surplus.is_empty() || !remove) {
        return Ok(false);
    }
    let mut numbers = Vec::new();
    for group in own.iter().chain(missing.iter().copied()) {
        let info = call(ctx, "group.info", args![group.as_str()], Map::new())?;
        numbers.push((group, info.get("gid").cloned()));
    }
    let number = |name: &String| numbers.iter().find(|(group, _)| *group == name).and_then(|(_, gid)| gid.clone());
    let twin = |name: &&String| {
        let own = number(name);
        own.is_some() && numbers.iter().any(|(group, gid)| group != name && *gid == own)
    };
    // A group whose GID exists already under another name is no difference.
    let surplus = surplus.iter().filter(|_| remove);
    Ok(!missing.iter().chain(surplus).all(twin))
}

/// Shows the changes as lines, with the password hidden.
pub fn describe(changes: &Map) -> String {
    let hidden = |key: &Value, value: &Value| match key.as_str() {
        Some("passwd") => super::HIDDEN.to_owned(),
        _ => value.to_string(),
    };
    changes.iter().map(|(key, value)| format!("{key}: {}\n", hidden(key, value))).collect()
}

/// The changes with the password hidden, for the result.
pub fn without_secrets(changes: &Map) -> Map {
    let mut changes = changes.clone();
    if changes.contains_key("passwd") {
        changes.insert("passwd", super::HIDDEN);
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    #[test]
    fn names_of_one_group_go_together() {
        let groups = ["a", "b", "c"].map(str::to_owned);
        let aliases = GroupAliases::of(&groups, &[1.into(), 2.into(), 1.into()]);
        let mut own = groups.to_vec();
        aliases.remove("a", &mut own);
        assert_eq!(own, ["b"]);
        aliases.remove("b", &mut own);
        assert!(own.is_empty());
    }

    #[test]
    fn passwords_are_not_shown() {
        let changes = map! { "passwd" => "$6$x", "groups" => list!["a"] };
        assert_eq!(describe(&changes), "passwd: XXX-REDACTED-XXX\ngroups: ['a']\n");
        // Results go to the master and to returners, so a hash must never get into them.
        assert!(!without_secrets(&changes).values().any(|value| value.to_string().contains("$6$")));
    }
}
