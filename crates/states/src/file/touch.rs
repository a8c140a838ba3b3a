//! `file.touch`.

use std::path::Path;

use exec::{Context, Result, function};
use modules::file::paths::expand_user;
use modules::file::{content, facts, tree};
use value::Value;

use super::common::{parent, start};
use crate::Ret;

/// Makes an empty file, or sets the times of an existing path.
#[function]
pub fn touch(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] atime: Value,
    #[default(Value::Null)] mtime: Value,
    #[default(false)] makedirs: bool,
) -> Result<Ret> {
    let name = expand_user(&name);
    let mut ret = start(&name);
    if name.is_empty() {
        return Ok(ret.fail("Must provide name to file.touch"));
    }
    if !name.starts_with('/') {
        return Ok(ret.fail(format!("Specified file {name} is not an absolute path")));
    }
    if ctx.is_test() {
        return check(ret, &name, &atime, &mtime);
    }
    if makedirs {
        tree::make_parents(&name, &Value::Null, &Value::Null, &Value::Null)?;
    }
    if !Path::new(parent(&name)).is_dir() {
        return Ok(ret.fail(format!("Directory not present to touch file {name}")));
    }
    // Asked before the call, which creates the file.
    let extant = Path::new(&name).exists();
    content::touched(&name, content::time_given(&atime)?, content::time_given(&mtime)?)?;
    if !extant {
        ret.changes.insert("new", name.as_str());
        return Ok(ret.ok(format!("Created empty file {name}")));
    }
    let kind = if Path::new(&name).is_dir() { "directory" } else { "file" };
    ret.changes.insert("touched", name.as_str());
    Ok(ret.ok(format!("Updated times on {kind} {name}")))
}

fn check(mut ret: Ret, name: &str, atime: &Value, mtime: &Value) -> Result<Ret> {
    if !Path::new(name).exists() {
        ret.changes.insert("new", name);
        return Ok(ret.would(format!("File {name} is set to be created")));
    }
    let stats = facts::of(name, None, false)?;
    let differs = |given: &Value, which: &str| {
        !given.is_null() && stats.get(which).is_none_or(|time| time.to_string() != given.to_string())
    };
    if differs(atime, "atime") || differs(mtime, "mtime") {
        ret.changes.insert("touched", name);
        return Ok(ret.would(format!("Times set to be updated on file {name}")));
    }
    // As in Salt, new paths stay listed.
    ret.changes.insert("new", name);
    Ok(ret.ok(format!("File {name} exists and has the correct times")))
}
