//! `file.hardlink`.

use std::fs;
use std::path::Path;

use exec::{Context, KwArgs, Result, function};
use modules::file::paths::expand_user;
use modules::file::perms::normalize_mode;
use modules::file::tree;
use std::os::unix::fs::MetadataExt;
use value::Value;

use super::common::{default_owner, parent, preflight, start, user_or_owner};
use crate::Ret;

/// Makes sure that a path is a hard link to a file.
#[function]
pub fn hardlink(
    ctx: &Context,
    name: String,
    target: String,
    #[default(false)] force: bool,
    #[default(false)] makedirs: bool,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] group: Value,
    #[default(Value::Null)] dir_mode: Value,
    kwargs: KwArgs,
) -> Result<Ret> {
    let name = expand_user(&name);
    let ret = start(&name);
    if name.is_empty() {
        return Ok(ret.fail("Must provide name to file.hardlink"));
    }
    let (user, group) = default_owner(ctx, user_or_owner(user, &kwargs), group);
    if let Some(wrong) = preflight(&user, &group, &[("file", &name), ("target", &target)]) {
        return Ok(ret.fail(wrong));
    }
    if ctx.is_test() {
        return Ok(check(ret, &name, &target, force));
    }
    for (direction, item) in [("to", &name), ("from", &target)] {
        if Path::new(item).is_dir() {
            return Ok(ret.fail(format!("Unable to hard link {direction} directory {item}")));
        }
    }
    if !Path::new(&target).exists() {
        return Ok(ret.fail(format!("Target {target} for hard link does not exist")));
    }
    if !Path::new(parent(&name)).is_dir() {
        if !makedirs {
            return Ok(ret.fail(format!("Directory {} for hard link is not present", parent(&name))));
        }
        let mode = normalize_mode(&dir_mode).map_or(Value::Null, Value::from);
        tree::make_parents(&name, &user, &group, &mode)?;
    }
    make(ctx, ret, &name, &target, force)
}

fn make(ctx: &Context, mut ret: Ret, name: &str, target: &str, force: bool) -> Result<Ret> {
    let gone = |path: &str| fs::remove_file(path).map_err(|error| modules::file::os_error(&error, path));
    // A file with a single name is user data. An additional name can go without losing anything.
    if Path::new(name).is_file() && !is_hardlink(name) {
        if !force {
            return Ok(ret.fail(format!("File exists where the hard link {name} should be")));
        }
        gone(name)?;
        ret.changes.insert("forced", "File for hard link was forcibly replaced");
    }
    let (done, failed) = if is_hardlink(name) {
        if same(name, target) {
            return Ok(ret.ok(format!("Target of hard link {name} is already pointing to {target}")));
        }
        gone(name)?;
        ("Set target of hard link", "Unable to set target of hard link")
    } else if !Path::new(name).exists() {
        ("Created new hard link", "Unable to create new hard link")
    } else {
        // Something that is neither a file nor absent, such as a socket: Salt reports success
        // without a word.
        return Ok(ret);
    };
    match tree::link(ctx, target.to_owned(), name.to_owned()) {
        Ok(_) => {
            ret.changes.insert("new", name);
            Ok(ret.ok(format!("{done} {name} -> {target}")))
        }
        Err(error) => Ok(ret.fail(format!("{failed} {name} -> {target}: {error}"))),
    }
}

fn is_hardlink(path: &str) -> bool {
    // A file with more than one name is taken for the hard link, as in Salt.
    fs::symlink_metadata(path).is_ok_and(|meta| meta.nlink() > 1)
}

fn same(a: &str, b: &str) -> bool {
    // Salt compares inode numbers alone. On two file systems they could coincide, but there no hard
    // link can be made anyway.
    let inode = |path: &str| fs::symlink_metadata(path).map(|meta| meta.ino()).ok();
    inode(a).is_some() && inode(a) == inode(b)
}

fn check(mut ret: Ret, name: &str, target: &str, force: bool) -> Ret {
    let (place, from) = (Path::new(name), Path::new(target));
    if !from.exists() {
        return ret.fail(format!("Target {target} for hard link does not exist"));
    }
    if from.is_dir() {
        return ret.fail(format!("Unable to hard link from directory {target}"));
    }
    if place.is_dir() {
        return ret.fail(format!("Unable to hard link to directory {name}"));
    }
    if !place.exists() {
        ret.changes.insert("new", name);
        return ret.would(format!("Hard link {name} to {target} is set for creation"));
    }
    if is_hardlink(name) {
        if same(name, target) {
            return ret.ok(format!("The hard link {name} is presently targetting {target}"));
        }
        ret.changes.insert("change", name);
        return ret.would(format!("Link {name} target is set to be changed to {target}"));
    }
    if force {
        return ret.would(format!(
            "The file or directory {name} is set for removal to make way for a new hard link targeting {target}"
        ));
    }
    ret.fail(format!("File or directory exists where the hard link {name} should be. Did you mean to use force?"))
}
