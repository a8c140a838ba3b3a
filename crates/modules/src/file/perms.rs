//! Bringing owner, permissions, attributes and SELinux context of a path into a wanted state.

use std::path::Path;

use exec::{Context, Error, Result, function};
use value::{Map, Value, list, map};

use super::owners::{self, Owner};
use super::selinux::{Outcome, Selinux};
use super::{attrs, facts, selinux};
use crate::file::paths::expand_user;

/// The result of bringing something into a state: the map that Salt's functions pass around.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The path.
    pub name: Value,
    /// The changes, made or pending.
    pub changes: Map,
    /// The comment: text, or a list of texts.
    pub comment: Value,
    /// True or False, or `None` when something would be changed in test mode.
    pub result: Option<bool>,
    /// Additional entries (`warnings`, `skip_req`).
    pub more: Map,
}

impl Report {
    /// Creates a successful report without changes or comment.
    pub fn new(name: impl Into<Value>) -> Self {
        Report { name: name.into(), changes: Map::new(), comment: "".into(), result: Some(true), more: Map::new() }
    }

    /// Marks the report as failed.
    pub fn failed(self, comment: impl Into<Value>) -> Self {
        Report { result: Some(false), comment: comment.into(), ..self }
    }

    /// Marks the report as successful.
    pub fn done(self, comment: impl Into<Value>) -> Self {
        Report { result: Some(true), comment: comment.into(), ..self }
    }

    /// Reads the map of another function; additional entries are kept.
    pub fn from_map(mut map: Map) -> Self {
        let mut take = |key: &str| map.remove(key);
        Report {
            name: take("name").unwrap_or_default(),
            changes: take("changes").and_then(Value::into_map).unwrap_or_default(),
            comment: take("comment").unwrap_or_else(|| "".into()),
            // None stays None: the state would change something.
            result: take("result").and_then(|result| result.as_bool()),
            more: map,
        }
    }

    /// Adds a warning.
    pub fn warn(&mut self, warning: impl Into<Value>) {
        let warnings = self.more.entry_or_insert_with("warnings", || Value::List(Vec::new()));
        if let Value::List(warnings) = warnings {
            warnings.push(warning.into());
        }
    }
}

impl From<Report> for Map {
    fn from(report: Report) -> Map {
        let Report { name, changes, comment, result, more } = report;
        let mut map =
            map! { "name" => name, "changes" => changes, "comment" => comment, "result" => Value::from(result) };
        map.update(more);
        map
    }
}

impl From<Report> for Value {
    fn from(report: Report) -> Value {
        Map::from(report).into()
    }
}

/// Returns permissions in Salt's form, four digits: 644 and "0o644" are `0644`. `None` stays `None`.
pub fn normalize_mode(mode: &Value) -> Option<String> {
    if mode.is_null() {
        return None;
    }
    let text = mode.to_string().replace("0o", "0");
    // YAML and the command line leave quotes around modes at times.
    let digits = text.trim_matches('"').trim_matches('\'').trim_start_matches('0');
    Some(format!("{digits:0>4}"))
}

/// The wanted state of a path; `None` and null keep the present one.
#[derive(Clone, Debug, Default)]
pub struct DesiredPerms {
    /// Name or number of the owner.
    pub user: Value,
    /// Name or number of the group.
    pub group: Value,
    /// Permissions, as [`normalize_mode`] returns them.
    pub mode: Option<String>,
    /// The letters of the attributes.
    pub attrs: Option<String>,
    /// Follows links.
    pub follow_symlinks: bool,
    /// The SELinux context.
    pub selinux: Selinux,
}

impl DesiredPerms {
    /// Owner and permissions.
    pub fn of(user: &Value, group: &Value, mode: Option<String>) -> Self {
        DesiredPerms { user: user.clone(), group: group.clone(), mode, ..DesiredPerms::default() }
    }
}

/// Returns whether a file has this user or group, by name or number.
pub fn is_one(wanted: &Value, stats: &Map, name: &str, number: &str) -> bool {
    Some(wanted) == stats.get(name) || Some(wanted) == stats.get(number)
}

/// Brings a path into the wanted state, or in test mode reports what would change. The second value holds the state
/// before (`luser`, `lgroup`, `lmode`) and the changes.
///
/// # Errors
/// When there is no such path.
pub fn enforce(ctx: &Context, name: &str, report: Option<Report>, wanted: &DesiredPerms) -> Result<(Report, Map)> {
    let name = expand_user(name);
    let mut report = report.unwrap_or_else(|| Report::new(name.as_str()));
    // The caller's comment comes first.
    let before = std::mem::replace(&mut report.comment, Value::Null);
    let mut work = Work { ctx, name: &name, wanted, report, said: Vec::new(), perms: Map::new() };
    work.owner_and_mode()?;
    work.attributes()?;
    let only = work.selinux()?;
    let Work { mut report, mut said, perms, .. } = work;
    report.comment = match (only, before) {
        // Salt overwrites all other comments with this one in test mode.
        (Some(text), _) => text.into(),
        (None, Value::List(_)) => said.into(),
        (None, before) => {
            if before.truthy() {
                said.insert(0, before.to_string());
            }
            said.join("; ").into()
        }
    };
    // None is a state's result for "would change".
    if ctx.is_test() && !report.changes.is_empty() {
        report.result = None;
    }
    Ok((report, perms))
}

struct Work<'a> {
    ctx: &'a Context,
    name: &'a str,
    wanted: &'a DesiredPerms,
    report: Report,
    said: Vec<String>,
    perms: Map,
}

impl Work<'_> {
    fn fail(&mut self, reason: impl Into<String>) {
        self.report.result = Some(false);
        self.said.push(reason.into());
    }

    fn is_unfollowed_link(&self) -> bool {
        !self.wanted.follow_symlinks && Path::new(self.name).is_symlink()
    }

    fn owner_and_mode(&mut self) -> Result<()> {
        let current = facts::of(self.name, None, self.wanted.follow_symlinks)?;
        // A number is compared with a number, so that the caller sees like beside like.
        let part = |wanted: &Value, name: &str, number: &str| {
            current.get(if matches!(wanted, Value::Int(_)) { number } else { name }).cloned().unwrap_or_default()
        };
        self.perms = map! {
            "luser" => part(&self.wanted.user, "user", "uid"),
            "lgroup" => part(&self.wanted.group, "group", "gid"),
            "lmode" => current.get("mode").cloned().unwrap_or_default(),
        };
        let (user, group) = (self.wanted.user.clone(), self.wanted.group.clone());
        let owners = [(&user, "user", "uid", "cuser"), (&group, "group", "gid", "cgroup")];
        for (wanted, name, number, noted) in owners {
            if wanted.truthy() && !is_one(wanted, &current, name, number) {
                self.perms.insert(noted, wanted.clone());
            }
        }
        if !self.ctx.is_test() {
            self.give_away(&current)?;
            self.set_mode(&current)?;
        }
        // Read again: some file systems accept a change and ignore it.
        let after = facts::of(self.name, None, self.wanted.follow_symlinks)?;
        for (wanted, name, number, noted) in owners {
            if !wanted.truthy() {
                continue;
            }
            let settled = is_one(wanted, &after, name, number);
            self.tell(name, wanted, settled, noted);
        }
        if let Some(mode) = self.wanted.mode.clone().filter(|_| !self.is_unfollowed_link()) {
            let settled = after.get_str("mode") == Some(&mode);
            self.tell("mode", &mode.into(), settled, "cmode");
        }
        Ok(())
    }

    /// Reports the result for one of owner, group and mode.
    fn tell(&mut self, what: &str, wanted: &Value, settled: bool, noted: &str) {
        match settled {
            // Only what was different before is a change.
            true if self.perms.contains_key(noted) => drop(self.report.changes.insert(what, wanted.clone())),
            true => {}
            false if self.ctx.is_test() => drop(self.report.changes.insert(what, wanted.clone())),
            false => self.fail(format!("Failed to change {what} to {wanted}")),
        }
    }

    fn give_away(&mut self, current: &Map) -> Result<()> {
        if !self.perms.contains_key("cuser") && !self.perms.contains_key("cgroup") {
            return Ok(());
        }
        let or_current = |wanted: &Value, name: &str| match wanted {
            // chown needs both; the one that is not wanted stays.
            Value::Null => current.get(name).cloned().unwrap_or_default(),
            wanted => wanted.clone(),
        };
        let (user, group) = (or_current(&self.wanted.user, "user"), or_current(&self.wanted.group, "group"));
        match Owner::of(&user, &group).give(self.name, !self.is_unfollowed_link()) {
            Ok(Value::Null) if Path::new(self.name).is_symlink() => {}
            // Giving a file away takes its special bits.
            Ok(Value::Null) => {
                owners::set_mode_now(self.name, &current.get("mode").cloned().unwrap_or_default())?;
            }
            Ok(wrong) => self.fail(wrong.to_string()),
            // Salt drops the text of this error; the check afterwards reports what did not change.
            Err(_) => self.report.result = Some(false),
        }
        Ok(())
    }

    fn set_mode(&mut self, current: &Map) -> Result<()> {
        let Some(mode) = self.wanted.mode.clone().filter(|_| !self.is_unfollowed_link()) else { return Ok(()) };
        if current.get_str("mode") != Some(&mode) {
            self.perms.insert("cmode", mode.as_str());
            owners::set_mode_now(self.name, &mode.into())?;
        }
        Ok(())
    }

    fn attributes(&mut self) -> Result<()> {
        let Some(wanted) = self.wanted.attrs.clone() else { return Ok(()) };
        // Salt leaves the attributes of directories alone.
        if Path::new(self.name).is_dir() || self.is_unfollowed_link() {
            return Ok(());
        }
        let Some(difference) = attrs::compare(self.ctx, self.name, &wanted)?.filter(|all| !all.is_empty()) else {
            return Ok(());
        };
        let old = attrs::letters(self.ctx, self.name)?.unwrap_or_default();
        let mut new = wanted.clone();
        if !self.ctx.is_test() {
            attrs::apply(self.ctx, self.name, &difference)?;
            if attrs::compare(self.ctx, self.name, &wanted)?.is_some_and(|left| !left.is_empty()) {
                self.fail(format!("Failed to change attributes to {wanted}"));
                new = attrs::letters(self.ctx, self.name)?.unwrap_or_default();
            }
        }
        if old != new {
            self.report.changes.insert("attrs", map! { "old" => old, "new" => new });
        }
        Ok(())
    }

    /// Sets the SELinux context. In test mode returns the only comment of the report.
    fn selinux(&mut self) -> Result<Option<String>> {
        if !self.wanted.selinux.is_wanted() {
            return Ok(None);
        }
        match selinux::enforce(self.ctx, self.name, &self.wanted.selinux)? {
            Outcome::Right => {}
            Outcome::Failed(word) => self.fail(word),
            Outcome::Changed { changes, wrong } => {
                self.report.changes.insert("selinux", changes);
                if self.ctx.is_test() {
                    self.report.result = None;
                    return Ok(Some(format!("File {} selinux context to be updated", self.name)));
                }
                self.said.push(format!("The file {} is set to be changed", self.name));
                wrong.into_iter().for_each(|reason| self.fail(reason));
            }
        }
        Ok(None)
    }
}

/// Brings owner, permissions and attributes of a path into a state and returns the changes.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.check_perms /etc/sudoers '{}' root root 400 ai
#[function]
pub fn check_perms(
    ctx: &Context,
    name: String,
    ret: Value,
    user: Value,
    group: Value,
    mode: Value,
    #[default(Value::Null)] attrs: Value,
    #[default(false)] follow_symlinks: bool,
    seuser: Option<String>,
    serole: Option<String>,
    setype: Option<String>,
    serange: Option<String>,
) -> Result<Value> {
    let report = match ret {
        Value::Map(map) if !map.is_empty() => Some(Report::from_map(map)),
        // The command line may pass the empty map as text.
        Value::Str(text) if text.trim() == "{}" => None,
        other if !other.truthy() => None,
        other => return Err(Error::invocation(format!("'ret' must be a dictionary, not {}", other.type_name()))),
    };
    let wanted = DesiredPerms {
        user,
        group,
        mode: normalize_mode(&mode),
        attrs: Some(attrs).filter(|attrs| !attrs.is_null()).map(|attrs| attrs.to_string()),
        follow_symlinks,
        selinux: Selinux { user: seuser, role: serole, kind: setype, range: serange },
    };
    let (report, perms) = enforce(ctx, &name, report, &wanted)?;
    Ok(list![report, perms])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_have_four_digits() {
        for (given, expected) in [
            (Value::Int(644), "0644"),
            (Value::from("0o0644"), "0644"),
            (Value::from("'00644'"), "0644"),
            (Value::from("1777"), "1777"),
            (Value::Int(0), "0000"),
        ] {
            assert_eq!(normalize_mode(&given).as_deref(), Some(expected), "{given:?}");
        }
        assert_eq!(normalize_mode(&Value::Null), None);
    }
}
