//! `file.rename`.

use std::fs;
use std::path::Path;

use exec::{Context, KwArgs, Result, function};
use modules::file::paths::{expand_user, expand_vars};
use modules::file::tree;
use value::{Value, map};

use super::common::{lexists, parent, start};
use super::symlink::remove;
use crate::Ret;

/// Moves a file or directory if it exists and the target does not, or in any case with `force`.
#[function]
pub fn rename(
    ctx: &Context,
    name: String,
    source: String,
    #[default(false)] force: bool,
    #[default(false)] makedirs: bool,
    kwargs: KwArgs,
) -> Result<Ret> {
    let _ = kwargs;
    let (name, source) = (expand_vars(&expand_user(&name)), expand_vars(&expand_user(&source)));
    let ret = start(&name);
    if name.is_empty() {
        return Ok(ret.fail("Must provide name to file.rename"));
    }
    if !name.starts_with('/') {
        return Ok(ret.fail(format!("Specified file {name} is not an absolute path")));
    }
    if !lexists(&source) {
        return Ok(ret.ok(format!("Source file \"{source}\" has already been moved out of place")));
    }
    if lexists(&name) {
        if !force {
            return Ok(ret.ok(format!("The target file \"{name}\" exists and will not be overwritten")));
        }
        if !ctx.is_test() {
            remove(ctx, &name)?;
        }
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("File \"{source}\" is set to be moved to \"{name}\"")));
    }
    let directory = parent(&name);
    if !Path::new(directory).is_dir() {
        if !makedirs {
            return Ok(ret.fail(format!("The target directory {directory} is not present")));
        }
        tree::make_parents(&name, &Value::Null, &Value::Null, &Value::Null)?;
    }
    let moved = match fs::read_link(&source) {
        Ok(target) => std::os::unix::fs::symlink(target, &name)
            .and_then(|()| fs::remove_file(&source))
            .map_err(|error| error.to_string()),
        Err(_) => tree::moved(&source, &name),
    };
    match moved {
        Ok(()) => {
            Ok(ret.changed(map! { name.as_str() => source.as_str() }).ok(format!("Moved \"{source}\" to \"{name}\"")))
        }
        Err(error) => {
            tracing::error!("{source} is not moved to {name}: {error}");
            Ok(ret.fail(format!("Failed to move \"{source}\" to \"{name}\"")))
        }
    }
}
