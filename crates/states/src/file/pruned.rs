//! `file.pruned`.

use std::path::Path;

use exec::{Context, Result, function};
use modules::file::paths::expand_user;
use modules::file::tree;
use value::Value;

use super::common::start;
use crate::Ret;

/// Removes a directory that is empty, or with `recurse` holds nothing but empty directories.
#[function]
pub fn pruned(
    ctx: &Context,
    name: String,
    #[default(false)] recurse: bool,
    #[default(false)] ignore_errors: bool,
    older_than: Option<i64>,
) -> Result<Ret> {
    let name = expand_user(&name);
    let mut ret = start(&name);
    let recurse = recurse || ignore_errors;
    if !Path::new(&name).is_dir() {
        return Ok(ret.ok(format!("Directory {name} is not present")));
    }
    if ctx.is_test() {
        ret.changes.insert("deleted", name.as_str());
        return Ok(ret.would(format!("Directory {name} is set for removal")));
    }
    let mut found = tree::rmdir(ctx, name.clone(), recurse, true, older_than)?.into_map().unwrap_or_default();
    let result = found.remove("result").is_some_and(|result| result.truthy());
    let deleted = found.get("deleted").and_then(Value::as_list).unwrap_or_default();
    let mut sorted: Vec<String> = deleted.iter().map(Value::to_string).collect();
    sorted.sort();
    if recurse && !sorted.is_empty() && (result || ignore_errors) {
        ret.changes.insert("deleted", sorted);
        return Ok(ret.ok(format!("Recursively removed empty directories under {name}")));
    }
    if result {
        if !recurse {
            ret.changes.insert("deleted", name.as_str());
            ret.comment = format!("Removed directory {name}").into();
        }
        return Ok(ret);
    }
    Ok(ret.changed(found).fail(format!("Failed to remove directory {name}")))
}
