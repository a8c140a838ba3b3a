//! `file.line`.

use exec::{Context, Result, function};
use modules::file::paths::expand_user;
use value::{Value, map};

use super::common::{apply, check_file, start};
use super::managed::MANAGED;
use super::replace::with_changes;
use crate::Ret;

/// Puts a line in its place, replaces or deletes it.
#[function]
pub fn line(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] content: Value,
    #[default(Value::Null)] r#match: Value,
    #[default(Value::Null)] mode: Value,
    #[default(Value::Null)] location: Value,
    #[default(Value::Null)] before: Value,
    #[default(Value::Null)] after: Value,
    #[default(true)] show_changes: bool,
    #[default(false)] backup: Value,
    #[default(false)] quiet: bool,
    #[default(true)] indent: bool,
    #[default(false)] create: bool,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] group: Value,
    #[default(Value::Null)] file_mode: Value,
) -> Result<Ret> {
    let name = expand_user(&name);
    let ret = start(&name);
    if name.is_empty() {
        return Ok(ret.fail("Must provide name to file.line"));
    }
    let kept = map! {
        "name" => name.as_str(), "create" => create, "user" => user, "group" => group, "mode" => file_mode,
        "replace" => false,
    };
    apply(ctx, &MANAGED, kept)?;
    if let Err(wrong) = check_file(&name) {
        return Ok(ret.fail(wrong));
    }
    if mode.is_null() {
        return Ok(ret.fail("Mode was not defined. How to process the file?"));
    }
    let mode = mode.to_string().to_lowercase();
    if mode != "delete" && content.is_null() {
        return Ok(ret.fail("Content can only be empty if mode is ['delete']"));
    }
    let changes = modules::file::line::line(
        ctx,
        name,
        content,
        r#match,
        mode.into(),
        location,
        before,
        after,
        show_changes,
        backup,
        quiet,
        indent,
    )?;
    Ok(with_changes(ctx, ret, changes, "Changes would be made"))
}
