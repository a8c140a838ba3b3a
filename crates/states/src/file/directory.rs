//! `file.directory`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use exec::{Context, Error, KwArgs, Result, function};
use modules::file::facts;
use modules::file::owners::{gid_of, uid_of};
use modules::file::paths::expand_user;
use modules::file::perms::{self, DesiredPerms, is_one, normalize_mode};
use modules::file::tree;
use value::{Map, Value, map};

use super::common::{check_user, join, lexists, parent, start, user_or_owner};
use super::symlink::remove;
use super::walk::Step;
use super::{clean, walk};
use crate::Ret;

const RECURSE_TYPES: [&str; 6] = ["user", "group", "mode", "ignore_files", "ignore_dirs", "silent"];

/// The arguments of the state.
struct DirectoryArgs {
    name: String,
    user: Value,
    group: Value,
    recurse: Value,
    depth: Option<usize>,
    dir_mode: Option<String>,
    file_mode: Option<String>,
    makedirs: bool,
    clean: bool,
    require: Value,
    exclude: Value,
    follow: bool,
    children_only: bool,
}

/// Makes sure that a directory exists, with its owner, mode and permitted contents.
#[function]
pub fn directory(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] group: Value,
    #[default(Value::Null)] recurse: Value,
    max_depth: Option<i64>,
    #[default(Value::Null)] dir_mode: Value,
    #[default(Value::Null)] file_mode: Value,
    #[default(false)] makedirs: bool,
    #[default(false)] clean: bool,
    #[default(Value::Null)] require: Value,
    #[default(Value::Null)] exclude_pat: Value,
    #[default(false)] follow_symlinks: bool,
    #[default(false)] force: bool,
    backupname: Option<String>,
    #[default(true)] allow_symlink: bool,
    #[default(false)] children_only: bool,
    #[default(Value::Null)] win_owner: Value,
    #[default(Value::Null)] win_perms: Value,
    #[default(Value::Null)] win_deny_perms: Value,
    #[default(true)] win_inheritance: bool,
    #[default(false)] win_perms_reset: bool,
    kwargs: KwArgs,
) -> Result<Ret> {
    let _ = (win_owner, win_perms, win_deny_perms, win_inheritance, win_perms_reset);
    let name = expand_user(&name);
    let mut ret = start(&name);
    if name.is_empty() {
        return Ok(ret.fail("Must provide name to file.directory"));
    }
    // A trailing slash would follow a link at the end of the path. For / itself nothing would
    // remain, so it stays.
    let name = name.strip_suffix('/').filter(|name| !name.is_empty()).unwrap_or(&name).to_owned();
    // Cleaning below the depth would delete files that the state ignores.
    if max_depth.is_some() && clean {
        return Ok(ret.fail("Cannot specify both max_depth and clean"));
    }
    let user = user_or_owner(user, &kwargs);
    let dir_mode = if dir_mode.truthy() { dir_mode } else { kwargs.0.get("mode").cloned().unwrap_or(dir_mode) };
    // Salt falls back to the directory's mode for files. A state that sets only `dir_mode`
    // therefore makes files executable.
    let file_mode = if file_mode.truthy() { file_mode } else { dir_mode.clone() };
    if let Some(wrong) = check_user(ctx, &user, &group) {
        return Ok(ret.fail(wrong));
    }
    if !name.starts_with('/') {
        return Ok(ret.fail(format!("Specified file {name} is not an absolute path")));
    }
    let order = DirectoryArgs {
        user,
        group,
        recurse,
        depth: max_depth.map(|depth| usize::try_from(depth).unwrap_or(0)),
        dir_mode: normalize_mode(&dir_mode),
        file_mode: normalize_mode(&file_mode),
        makedirs,
        clean,
        require,
        exclude: exclude_pat,
        follow: follow_symlinks,
        children_only,
        name,
    };
    let path = Path::new(&order.name);
    // A link to a directory passes unless `allow_symlink` is off or `force` is on.
    if path.is_file() || ((!allow_symlink || force) && path.is_symlink()) {
        let way = Way { force, backup: backupname };
        if let Some(done) = way.make(ctx, &order.name, &mut ret)? {
            return Ok(done);
        }
    }
    order.apply(ctx, ret)
}

/// The arguments that decide about something else in the place of a directory.
struct Way {
    force: bool,
    backup: Option<String>,
}

impl Way {
    /// Clears the place of the directory. Returns a result if that ends the state.
    fn make(&self, ctx: &Context, name: &str, ret: &mut Ret) -> Result<Option<Ret>> {
        // From here on test mode only records what would be done.
        let test = ctx.is_test();
        let path = Path::new(name);
        if let Some(backup) = &self.backup {
            if lexists(backup) {
                if !self.force {
                    let comment = format!("File exists where the backup target {backup} should go");
                    return Ok(Some(ret.clone().fail(comment)));
                }
                if test {
                    let forced = format!("Existing file at backup path {backup} would be removed");
                    ret.changes.insert("forced", forced);
                } else {
                    remove(ctx, backup)?;
                }
            }
            if test {
                ret.changes.insert("backup", format!("{name} would be renamed to {backup}"));
                ret.changes.insert(name, map! { "directory" => "new" });
                let comment = format!("{name} would be backed up and replaced with a new directory");
                return Ok(Some(ret.clone().would(comment)));
            }
            fs::rename(name, backup).map_err(|error| modules::file::os_error(&error, name))?;
            return Ok(None);
        }
        // `is_file` follows links and so must come first: a link to a file is called a file.
        if self.force {
            let kind = match () {
                () if path.is_file() => "File",
                () if path.is_symlink() => "Symlink",
                () => "Directory",
            };
            if !test {
                remove(ctx, name)?;
            }
            let word = if test { "would be" } else { "was" };
            ret.changes.insert("forced", format!("{kind} {word} forcibly replaced"));
            return Ok(None);
        }
        let kind = if path.is_file() { "file" } else { "symlink" };
        Ok(Some(ret.clone().fail(format!("Specified location {name} exists and is a {kind}"))))
    }
}

/// Reads the list `recurse`.
fn recurse_set(recurse: &Value) -> std::result::Result<BTreeSet<String>, String> {
    if !recurse.truthy() {
        return Ok(BTreeSet::new());
    }
    let Value::List(items) = recurse else {
        return Err("\"recurse\" must be formed as a list of strings".into());
    };
    let set: BTreeSet<String> = items.iter().map(Value::to_string).collect();
    // Unknown words fail the state: a misspelt "mode" would otherwise silently leave permissions
    // alone.
    if !set.iter().all(|item| RECURSE_TYPES.contains(&item.as_str())) {
        let types: Vec<String> = RECURSE_TYPES.iter().map(|kind| format!("\"{kind}\"")).collect();
        return Err(format!("Types for \"recurse\" limited to {}.", types.join(", ")));
    }
    if set.contains("ignore_files") && set.contains("ignore_dirs") {
        return Err(
            "Must not specify \"recurse\" options \"ignore_files\" and \"ignore_dirs\" at the same time.".into()
        );
    }
    Ok(set)
}

/// Returns the changes of owner and permissions that are needed.
fn metadata_changes(path: &str, user: &Value, group: &Value, mode: Option<&String>, follow: bool) -> Map {
    let Ok(stats) = facts::of(path, None, follow) else { return map! { "directory" => "new" } };
    let mut changes = Map::new();
    for (wanted, name, number) in [(user, "user", "uid"), (group, "group", "gid")] {
        if !wanted.is_null() && !is_one(wanted, &stats, name, number) {
            changes.insert(name, wanted.clone());
        }
    }
    let is_mode = |mode: &&String| stats.get_str("mode") != Some(mode);
    if let Some(mode) = mode.filter(is_mode).filter(|_| follow || stats.get_str("type") != Some("link")) {
        changes.insert("mode", mode.as_str());
    }
    changes
}

impl DirectoryArgs {
    fn walk(&self) -> Vec<Step> {
        walk::down(&self.name, self.depth)
    }

    /// Returns the changes that are needed. The inner error is the comment on a wrong argument.
    fn check(&self, ctx: &Context) -> Result<std::result::Result<Map, String>> {
        let mut changes = Map::new();
        let (mut user, mut group, mut dir_mode, mut file_mode) =
            (self.user.clone(), self.group.clone(), self.dir_mode.clone(), self.file_mode.clone());
        let steps = if self.recurse.truthy() || self.clean { self.walk() } else { Vec::new() };
        if self.recurse.truthy() {
            let set = match recurse_set(&self.recurse) {
                Ok(set) => set,
                Err(wrong) => return Ok(Err(wrong)),
            };
            // Salt keeps the reduced values for the directory itself: with `recurse` owner and mode
            // of the top are only compared if listed.
            user = if set.contains("user") { user } else { Value::Null };
            group = if set.contains("group") { group } else { Value::Null };
            if !set.contains("mode") {
                (dir_mode, file_mode) = (None, None);
            }
            let mut note = |path: String, mode: Option<&String>| {
                let found = metadata_changes(&path, &user, &group, mode, self.follow);
                if !found.is_empty() {
                    changes.insert(path, found);
                }
            };
            for step in &steps {
                if !set.contains("ignore_files") {
                    step.files.iter().for_each(|name| note(join(&step.root, name), file_mode.as_ref()));
                }
                if !set.contains("ignore_dirs") {
                    step.dirs.iter().for_each(|name| note(join(&step.root, name), dir_mode.as_ref()));
                }
            }
        }
        if !self.children_only {
            let found = metadata_changes(&self.name, &user, &group, dir_mode.as_ref(), self.follow);
            if !found.is_empty() {
                changes.insert(self.name.as_str(), found);
            }
        }
        if self.clean {
            self.check_clean(ctx, &steps, &mut changes)?;
        }
        if !Path::new(&self.name).is_dir() {
            changes.insert(self.name.as_str(), map! { "directory" => "new" });
        }
        Ok(Ok(changes))
    }

    fn check_clean(&self, ctx: &Context, steps: &[Step], changes: &mut Map) -> Result<()> {
        let keep = clean::kept_by_others(ctx, &self.name, &self.require)?;
        for step in steps {
            // Test mode checks the paths one by one and does not skip paths below a removed directory.
            for name in step.files.iter().chain(&step.dirs) {
                let path = join(&step.root, name);
                let relative = path[self.name.trim_end_matches('/').len()..].trim_start_matches('/');
                // As in Salt a path stays if it is part of one that stays.
                let kept = keep.iter().any(|kept| kept.contains(&path));
                if !kept && walk::is_meant(relative, &Value::Null, &self.exclude) {
                    changes.insert(path, map! { "removed" => "Removed due to clean" });
                }
            }
        }
        Ok(())
    }

    fn apply(&self, ctx: &Context, mut ret: Ret) -> Result<Ret> {
        let name = &self.name;
        let (result, comment, changes) = match self.check(ctx)? {
            Err(wrong) => (Some(false), wrong, Map::new()),
            Ok(changes) if changes.is_empty() => {
                (Some(true), format!("The directory {name} is in the correct state"), changes)
            }
            Ok(changes) => (None, announced(&changes), changes),
        };
        ret.changes.update(changes);
        if ctx.is_test() || ret.changes.is_empty() {
            return Ok(Ret { result, comment: comment.into(), ..ret });
        }
        // A directory made just now is empty, so there is nothing to recurse into or to clean.
        if !Path::new(name).is_dir() {
            return self.make(ret);
        }
        if !self.children_only {
            let wanted = self.desired_perms(&self.user, &self.group, self.dir_mode.clone());
            ret = perms::enforce(ctx, name, Some(ret.into()), &wanted)?.0.into();
        }
        let mut errors = Vec::new();
        if self.recurse.truthy() {
            match recurse_set(&self.recurse) {
                Ok(set) => self.recurse(ctx, &mut ret, &set, &mut errors)?,
                Err(wrong) => ret = ret.fail(wrong),
            }
        }
        if self.clean {
            let keep = clean::kept_by_others(ctx, name, &self.require)?;
            let removed = clean::clean(ctx, name, &keep, &self.exclude)?;
            if !removed.is_empty() {
                ret.changes.insert("removed", removed);
                ret.comment = format!("Files cleaned from directory {name}").into();
            }
        }
        Ok(self.with_changes(ret, &errors))
    }

    fn desired_perms(&self, user: &Value, group: &Value, mode: Option<String>) -> DesiredPerms {
        DesiredPerms { follow_symlinks: self.follow, ..DesiredPerms::of(user, group, mode) }
    }

    fn make(&self, mut ret: Ret) -> Result<Ret> {
        let name = &self.name;
        let mode = self.dir_mode.clone().map_or(Value::Null, Value::from);
        if !Path::new(parent(name)).is_dir() {
            if !self.makedirs {
                return Ok(ret.fail(format!("No directory to create {name} in")));
            }
            tree::make_parents(name, &self.user, &self.group, &mode)?;
        }
        tree::make_with_parents(name, &self.user, &self.group, &mode)?;
        if !Path::new(name).is_dir() {
            return Ok(ret.fail(format!("Failed to create directory {name}")));
        }
        ret.changes.insert(name.as_str(), map! { "directory" => "new" });
        Ok(ret)
    }

    fn recurse(&self, ctx: &Context, ret: &mut Ret, set: &BTreeSet<String>, errors: &mut Vec<String>) -> Result<()> {
        let fail = |ret: &mut Ret, comment: String| {
            ret.result = Some(false);
            ret.comment = comment.into();
        };
        // The uid 0 is falsy, but it does name a user.
        let given = |value: &Value| value.truthy() || matches!(value, Value::Int(_));
        let (mut user, mut group) = (Value::Null, Value::Null);
        if set.contains("user") {
            user = self.user.clone();
            if !given(&user) {
                fail(ret, "user not specified, but configured as a target for recursive ownership management".into());
            } else if uid_of(&user).is_none() {
                fail(ret, format!("Failed to enforce ownership for user {user} (user does not exist)"));
            }
        }
        if set.contains("group") {
            group = self.group.clone();
            if !given(&group) {
                fail(ret, "group not specified, but configured as a target for recursive ownership management".into());
            } else if gid_of(&group).is_none() {
                fail(ret, format!("Failed to enforce group ownership for group {group}"));
            }
        }
        let with_mode = set.contains("mode");
        if set.contains("silent") {
            // Set before the walk. Changes found during the walk are added to it nevertheless, as
            // in Salt.
            ret.changes = map! { "recursion" => "Changes silenced" };
        }
        for step in self.walk() {
            for (skip, names, mode) in
                [("ignore_files", &step.files, &self.file_mode), ("ignore_dirs", &step.dirs, &self.dir_mode)]
            {
                if set.contains(skip) {
                    continue;
                }
                let wanted = self.desired_perms(&user, &group, mode.clone().filter(|_| with_mode));
                for name in names {
                    let path = join(&step.root, name);
                    match perms::enforce(ctx, &path, Some(ret.clone().into()), &wanted) {
                        Ok((report, _)) => *ret = report.into(),
                        // A file that disappears during the walk, such as a temporary one, is no
                        // failure of the state.
                        Err(Error::Execution(reason)) if reason.starts_with("Path not found") => {}
                        // One unmanageable file must not keep the others from being managed. All
                        // errors go into the comment at the end.
                        Err(error) => errors.push(error.to_string()),
                    }
                }
            }
        }
        Ok(())
    }

    fn with_changes(&self, mut ret: Ret, errors: &[String]) -> Ret {
        let name = &self.name;
        if !ret.comment.truthy() {
            if self.children_only {
                ret.comment = format!("Directory {name}/* updated").into();
            } else if !ret.changes.is_empty() {
                ret.comment = format!("Directory {name} updated").into();
            }
        }
        if ret.changes.is_empty() && ret.result == Some(true) {
            let before = ret.comment.to_string();
            let end = if before.is_empty() { String::new() } else { format!("\n{before}") };
            ret.comment = format!("Directory {name} is in the correct state{end}").into();
        }
        if !errors.is_empty() {
            let list: String = errors.iter().map(|error| format!("\n- {error}")).collect();
            ret.result = Some(false);
            ret.comment = format!("{}\n\nThe following errors were encountered:\n{list}", ret.comment).into();
        }
        ret
    }
}

/// The words of test mode for changes.
fn announced(changes: &Map) -> String {
    let mut text = "The following files will be changed:\n".to_owned();
    for (path, parts) in changes {
        for (key, value) in parts.as_map().into_iter().flatten() {
            text.push_str(&format!("{path}: {key} - {value}\n"));
        }
    }
    text
}
