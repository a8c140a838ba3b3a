//! `file.replace`.

use exec::{Context, Result, function};
use modules::file::paths::expand_user;
use value::Value;

use super::common::{check_file, note_diff, start};
use crate::Ret;

/// Replaces the matches of a regular expression in a file.
#[function]
pub fn replace(
    ctx: &Context,
    name: String,
    pattern: Value,
    repl: Value,
    #[default(0)] count: u64,
    #[default(8)] flags: Value,
    #[default(1)] bufsize: Value,
    #[default(false)] append_if_not_found: bool,
    #[default(false)] prepend_if_not_found: bool,
    #[default(Value::Null)] not_found_content: Value,
    #[default(".bak")] backup: Value,
    #[default(true)] show_changes: bool,
    #[default(false)] ignore_if_missing: bool,
    #[default(false)] backslash_literal: bool,
    encoding: Option<String>,
) -> Result<Ret> {
    let name = expand_user(&name);
    let ret = start(&name);
    if name.is_empty() {
        return Ok(ret.fail("Must provide name to file.replace"));
    }
    if let Err(wrong) = check_file(&name) {
        // A relative path is an error even with `ignore_if_missing`.
        return Ok(match ignore_if_missing && wrong.contains("file not found") {
            true => ret.ok("No changes needed to be made"),
            false => ret.fail(wrong),
        });
    }
    let changes = modules::file::replace::replace(
        ctx,
        name,
        pattern.to_string(),
        repl,
        count,
        flags,
        bufsize,
        append_if_not_found,
        prepend_if_not_found,
        not_found_content,
        backup,
        ctx.is_test(),
        false,
        show_changes,
        ignore_if_missing,
        true,
        backslash_literal,
        encoding,
    )?;
    Ok(with_changes(ctx, ret, changes, "Changes would have been made"))
}

/// Finishes a state with Salt's comment on its changes: made, to be made, or not needed.
pub fn with_changes(ctx: &Context, mut ret: Ret, changes: Value, would: &str) -> Ret {
    if !changes.truthy() {
        return ret.ok("No changes needed to be made");
    }
    note_diff(&mut ret.changes, changes);
    if ctx.is_test() { ret.would(would) } else { ret.ok("Changes were made") }
}
