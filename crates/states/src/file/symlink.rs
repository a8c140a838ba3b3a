//! `file.symlink`.

use std::fs;
use std::path::Path;

use exec::{Context, KwArgs, Result, function};
use modules::file::owners::Owner;
use modules::file::paths::{expand_user, normalize};
use modules::file::perms::normalize_mode;
use modules::file::{facts, tree};
use value::Value;

use super::common::{default_owner, join, lexists, parent, preflight, start, user_or_owner};
use crate::Ret;

/// A link with its wanted target and owner.
struct Link {
    name: String,
    target: String,
    force: bool,
    backupname: Option<String>,
    user: Value,
    group: Value,
    atomic: bool,
    disallow_copy_and_unlink: bool,
    follow_symlinks: bool,
}

/// Makes sure that a path is a symbolic link that leads to the target.
#[function]
pub fn symlink(
    ctx: &Context,
    name: String,
    target: String,
    #[default(false)] force: bool,
    backupname: Option<String>,
    #[default(false)] makedirs: bool,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] group: Value,
    #[default(Value::Null)] mode: Value,
    #[default(Value::Null)] win_owner: Value,
    #[default(Value::Null)] win_perms: Value,
    #[default(Value::Null)] win_deny_perms: Value,
    #[default(Value::Null)] win_inheritance: Value,
    #[default(false)] atomic: bool,
    #[default(false)] disallow_copy_and_unlink: bool,
    #[default(false)] inherit_user_and_group: bool,
    #[default(true)] follow_symlinks: bool,
    kwargs: KwArgs,
) -> Result<Ret> {
    let _ = (win_owner, win_perms, win_deny_perms, win_inheritance);
    let name = expand_user(&name);
    let ret = start(&name);
    if name.is_empty() {
        return Ok(ret.fail("Must provide name to file.symlink"));
    }
    let (mut user, mut group) = (user_or_owner(user, &kwargs), group);
    // Only an existing link can pass on its owner. A new one gets the defaults below.
    if inherit_user_and_group && let Some((own_user, own_group)) = owner_of(&name) {
        user = if user.is_null() { own_user } else { user };
        group = if group.is_null() { own_group } else { group };
    }
    // A link always gets an explicit owner, so that the result does not depend on which user ran
    // the minion before.
    let (user, group) = default_owner(ctx, user, group);
    if let Some(wrong) = preflight(&user, &group, &[("file", &name)]) {
        return Ok(ret.fail(wrong));
    }
    let link = Link { name, target, force, backupname, user, group, atomic, disallow_copy_and_unlink, follow_symlinks };
    let directory = parent(&link.name).to_owned();
    let missing = !Path::new(&directory).is_dir();
    if ctx.is_test() {
        let mut ret = link.check(ret);
        if missing {
            let more = match makedirs {
                true => format!("\n{directory} will be created"),
                false => format!("\nDirectory {directory} for symlink is not present"),
            };
            ret.comment = format!("{}{more}", ret.comment).into();
        }
        return Ok(ret);
    }
    if missing {
        if !makedirs {
            return Ok(ret.fail(format!("Directory {directory} for symlink is not present")));
        }
        let mode = normalize_mode(&mode).map_or(Value::Null, Value::from);
        tree::make_parents(&link.name, &link.user, &link.group, &mode)?;
    }
    link.make(ctx, ret)
}

/// User and group of a link itself.
fn owner_of(name: &str) -> Option<(Value, Value)> {
    let is_link = Path::new(name).is_symlink();
    let stats = is_link.then(|| facts::of(name, None, false).ok()).flatten()?;
    Some((stats.get("user")?.clone(), stats.get("group")?.clone()))
}

impl Link {
    fn is_owned(&self) -> bool {
        owner_of(&self.name).is_some_and(|(user, group)| user == self.user && group == self.group)
    }

    fn target_now(&self) -> Option<String> {
        // A readable target is the test for a link. `None` covers every other kind of file and a
        // missing one.
        fs::read_link(&self.name).ok().map(|target| target.to_string_lossy().into_owned())
    }

    fn exists(&self) -> bool {
        // Following means that a dangling link counts as absent.
        if self.follow_symlinks { Path::new(&self.name).exists() } else { lexists(&self.name) }
    }

    fn check(&self, mut ret: Ret) -> Ret {
        let (name, target) = (&self.name, &self.target);
        match self.target_now() {
            None if !self.exists() => {
                ret.changes.insert("new", name.as_str());
                ret.would(format!("Symlink {name} to {target} is set for creation"))
            }
            None if self.force => ret.would(format!(
                "The file or directory {name} is set for removal to make way for a new symlink targeting {target}"
            )),
            None => ret.fail(format!(
                "File or directory exists where the symlink {name} should be. Did you mean to use force?"
            )),
            // Test mode compares the texts as they are, while the real run normalizes both. Salt
            // differs from itself in the same way.
            Some(now) if now != *target => {
                ret.changes.insert("change", name.as_str());
                ret.would(format!("Link {name} target is set to be changed to {target}"))
            }
            Some(_) if self.is_owned() => ret.ok(format!("The symlink {name} is present")),
            Some(_) => {
                let (user, group) = owner_of(name).unwrap_or_default();
                ret.changes.insert("ownership", format!("{user}:{group}"));
                ret.would(format!(
                    "The symlink {name} is present, but the ownership of the symlink would be changed from \
                     {user}:{group} to {}:{}",
                    self.user, self.group
                ))
            }
        }
    }

    fn make(&self, ctx: &Context, mut ret: Ret) -> Result<Ret> {
        let name = &self.name;
        if let Some(now) = self.target_now() {
            if normalize(&now) == normalize(&self.target) {
                return Ok(self.own(ret));
            }
            // The old link goes first even with `atomic`, because Salt does so when the target
            // changes.
            remove(ctx, name)?;
        } else if self.exists()
            && let Some(wrong) = self.make_way(ctx)?
        {
            return Ok(ret.fail(wrong));
        }
        let (target, place) = (self.target.clone(), name.clone());
        match tree::symlink(ctx, target, place, self.force, self.atomic, self.follow_symlinks) {
            Ok(_) => {}
            Err(error) => {
                let comment = format!("Unable to create new symlink {name} -> {}: {error}", self.target);
                return Ok(ret.fail(comment));
            }
        }
        let comment = format!("Created new symlink {name} -> {}", self.target);
        ret.changes.insert("new", name.as_str());
        if !self.is_owned() && !self.give() {
            let comment = format!("{comment}, but was unable to set ownership to {}:{}", self.user, self.group);
            return Ok(ret.fail(comment));
        }
        Ok(ret.ok(comment))
    }

    fn give(&self) -> bool {
        // A failed chown is not an error by itself: what counts is who owns the link afterwards.
        if let Err(error) = Owner::of(&self.user, &self.group).give(&self.name, false) {
            tracing::debug!("{} is not given away: {error}", self.name);
        }
        self.is_owned()
    }

    /// The link is there and leads to the right place.
    fn own(&self, mut ret: Ret) -> Ret {
        let (name, owner) = (&self.name, format!("{}:{}", self.user, self.group));
        if self.is_owned() {
            return ret.ok(format!("Symlink {name} is present and owned by {owner}"));
        }
        if self.give() {
            ret.changes.insert("ownership", owner.as_str());
            return ret.ok(format!("Set ownership of symlink {name} to {owner}"));
        }
        ret.fail(format!("Failed to set ownership of symlink {name} to {owner}"))
    }

    /// Moves away the path in the place of the link, or returns why not.
    fn make_way(&self, ctx: &Context) -> Result<Option<String>> {
        let name = &self.name;
        let Some(backup) = &self.backupname else {
            let path = Path::new(name);
            let kind = match () {
                // The execution function replaces the existing path, so nothing has to be moved here.
                () if self.force || self.atomic => return Ok(None),
                () if path.is_file() => "File",
                () if path.is_dir() => "Directory",
                () => "File system entry",
            };
            return Ok(Some(format!("{kind} exists where the symlink {name} should be")));
        };
        let backup = match backup {
            backup if backup.starts_with('/') => backup.clone(),
            // A bare name is beside the link. A relative path would depend on the directory the minion was started in.
            backup if !backup.contains('/') => join(parent(&normalize(name)), backup),
            backup => return Ok(Some(format!("Backupname must be an absolute path or a file name: {backup}"))),
        };
        if lexists(&backup) {
            if !self.force {
                return Ok(Some(format!(
                    "Symlink & backup dest exists and Force not set. {name} -> {} - backup: {backup}",
                    self.target
                )));
            }
            remove(ctx, &backup)?;
        }
        match tree::move_(ctx, name.clone(), backup.clone(), self.disallow_copy_and_unlink) {
            Ok(_) => Ok(None),
            Err(error) => Ok(Some(format!("Unable to rename {name} to backup {backup} -> : {error}"))),
        }
    }
}

/// Removes whatever is at a path.
pub fn remove(ctx: &Context, path: &str) -> Result<()> {
    tree::remove(ctx, path.to_owned(), KwArgs::default()).map(drop)
}
