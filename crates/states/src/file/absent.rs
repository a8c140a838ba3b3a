//! Paths that exist or not.

use std::path::Path;

use exec::{Context, KwArgs, Result, function};
use modules::file::paths::expand_user;
use modules::file::tree;
use value::Value;

use super::common::start;
use crate::Ret;

/// Makes sure that there is no such file or directory.
#[function]
pub fn absent(ctx: &Context, name: String, kwargs: KwArgs) -> Result<Ret> {
    let _ = kwargs;
    let name = expand_user(&name);
    let mut ret = start(&name);
    if name.is_empty() {
        return Ok(ret.fail("Must provide name to file.absent"));
    }
    if !name.starts_with('/') {
        return Ok(ret.fail(format!("Specified file {name} is not an absolute path")));
    }
    if name == "/" {
        return Ok(ret.fail("Refusing to make \"/\" absent"));
    }
    let path = Path::new(&name);
    let (word, title) = match () {
        () if path.is_file() || path.is_symlink() => ("file", "File"),
        () if path.is_dir() => ("directory", "Directory"),
        () => return Ok(ret.ok(format!("File {name} is not present"))),
    };
    if ctx.is_test() {
        ret.changes.insert("removed", name.as_str());
        return Ok(ret.would(format!("{title} {name} is set for removal")));
    }
    match tree::remove(ctx, name.clone(), KwArgs::default()) {
        Ok(_) => {
            ret.changes.insert("removed", name.as_str());
            Ok(ret.ok(format!("Removed {word} {name}")))
        }
        Err(error) if word == "file" => Ok(ret.fail(error.to_string())),
        Err(error) => Err(error),
    }
}

/// Succeeds if the path exists.
#[function]
pub fn exists(name: String, kwargs: KwArgs) -> Result<Ret> {
    let _ = kwargs;
    let name = expand_user(&name);
    let ret = start(&name);
    Ok(match () {
        () if name.is_empty() => ret.fail("Must provide name to file.exists"),
        () if Path::new(&name).exists() => ret.ok(format!("Path {name} exists")),
        () => ret.fail(format!("Specified path {name} does not exist")),
    })
}

/// Succeeds if the path does not exist.
#[function]
pub fn missing(name: String, kwargs: KwArgs) -> Result<Ret> {
    let _ = kwargs;
    let name = expand_user(&name);
    let ret = start(&name);
    Ok(match () {
        () if name.is_empty() => ret.fail("Must provide name to file.missing"),
        () if Path::new(&name).exists() => ret.fail(format!("Specified path {name} exists")),
        () => ret.ok(format!("Path {name} is missing")),
    })
}

/// Makes shortcuts on Windows; here it fails.
#[function]
pub fn shortcut(
    name: String,
    target: Value,
    #[default(Value::Null)] arguments: Value,
    #[default(Value::Null)] working_dir: Value,
    #[default(Value::Null)] description: Value,
    #[default(Value::Null)] icon_location: Value,
    #[default(false)] force: bool,
    #[default(Value::Null)] backupname: Value,
    #[default(false)] makedirs: bool,
    #[default(Value::Null)] user: Value,
    kwargs: KwArgs,
) -> Result<Ret> {
    let _ = (target, arguments, working_dir, description, icon_location, force, backupname, makedirs, user, kwargs);
    Ok(Ret::new(name).fail("Shortcuts are only supported on Windows"))
}
