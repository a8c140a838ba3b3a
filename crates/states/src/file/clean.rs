//! The files that `clean: True` removes or keeps.

use std::collections::BTreeSet;
use std::path::Path;

use exec::{Context, Result};
use modules::file::paths::absolute;
use value::{Map, Value};

use super::common::{join, parent};
use super::recurse_plan::{self, Plan};
use super::symlink::remove;
use super::walk;

/// Returns the paths that states named in `require` manage below a directory.
pub fn kept_by_others(ctx: &Context, name: &str, require: &Value) -> Result<Vec<String>> {
    let (Some(state), Value::List(require)) = (&ctx.state, require) else { return Ok(Vec::new()) };
    let mut keep = Vec::new();
    for wanted in require.iter().filter_map(|item| item.get("file")) {
        for low in state.chunks.iter() {
            // A requisite may name a state by its name or by its ID.
            if low.get("name") == Some(wanted) || low.get("__id__") == Some(wanted) {
                keep_one(ctx, name, low, &mut keep)?;
            }
        }
    }
    Ok(keep)
}

fn keep_one(ctx: &Context, name: &str, low: &Map, keep: &mut Vec<String>) -> Result<()> {
    let path = low.get("name").map(Value::to_string).unwrap_or_default();
    if !Path::new(&path).is_dir() {
        // Not a directory, or missing so far: only the path itself is kept.
        keep.push(path);
        return Ok(());
    }
    if !is_below(&path, name) {
        return Ok(());
    }
    // A required `file.directory` protects all it holds, because the state cannot know what else
    // manages it. For `file.recurse` the plan knows exactly.
    if low.get_str("fun") != Some("recurse") {
        keep.push(path.clone());
        for step in walk::down(&path, None) {
            keep.extend(step.dirs.iter().chain(&step.files).map(|name| join(&step.root, name)));
        }
        return Ok(());
    }
    let source = low.get("source").cloned().unwrap_or_default();
    if let Ok(sources) = recurse_plan::sources(ctx, &source)? {
        let flag = |key: &str| low.get(key).is_some_and(Value::truthy);
        let value = |key: &str| low.get(key).cloned().unwrap_or_default();
        let plan = Plan {
            name: path,
            sources,
            keep_symlinks: flag("keep_symlinks"),
            include: value("include_pat"),
            exclude: value("exclude_pat"),
            depth: low.get("maxdepth").and_then(Value::as_i64),
            include_empty: flag("include_empty"),
            merge: flag("merge"),
        };
        keep.extend(plan.make(ctx)?.keep);
    }
    Ok(())
}

fn is_below(path: &str, directory: &str) -> bool {
    let (path, directory) = (absolute(path), absolute(directory));
    // Compared with a slash at the end: /ab is not below /a.
    path == directory || path.starts_with(&format!("{}/", directory.trim_end_matches('/')))
}

/// Removes files that are not kept from a directory, or in test mode only reports them.
pub fn clean(ctx: &Context, root: &str, keep: &[String], exclude: &Value) -> Result<Vec<String>> {
    let kept = with_parents(root, keep);
    let mut removed = Vec::new();
    // A list instead of recursion keeps the depth of the tree off the stack.
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        let step = walk::step(&directory);
        for name in step.dirs.iter().chain(&step.files) {
            let path = join(&directory, name);
            let relative = path.strip_prefix(root.trim_end_matches('/')).unwrap_or(&path).trim_start_matches('/');
            if kept.contains(&path) || !walk::is_meant(relative, &Value::Null, exclude) {
                continue;
            }
            // Most entries are files, so the cheap call is tried first and the recursive one only
            // when it fails.
            if !ctx.is_test() && std::fs::remove_file(&path).is_err() {
                remove(ctx, &path)?;
            }
            removed.push(path);
        }
        let below = step.dirs.iter().rev().map(|name| join(&directory, name));
        // Links are never followed: their targets may be outside the directory. A directory just removed yields nothing
        // when it is read.
        open.extend(below.filter(|path| !Path::new(path).is_symlink()));
    }
    Ok(removed)
}

/// The paths that stay and all directories above them.
fn with_parents(root: &str, keep: &[String]) -> BTreeSet<String> {
    let mut kept = BTreeSet::from([root.to_owned()]);
    // A relative path would be resolved against the minion's working directory and protect a random
    // place.
    for path in keep.iter().filter(|path| path.starts_with('/')) {
        let mut path = absolute(path);
        while path != "/" {
            let above = parent(&path).to_owned();
            kept.insert(std::mem::replace(&mut path, above));
        }
        kept.insert(path);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_above_stays() {
        let kept = with_parents("/a", &["/a/b/c".to_owned(), "x".to_owned()]);
        assert_eq!(kept.into_iter().collect::<Vec<_>>(), ["/", "/a", "/a/b", "/a/b/c"]);
        // A sibling whose name starts the same must not count as being inside.
        assert!(is_below("/a/b", "/a") && !is_below("/ab", "/a") && is_below("/a", "/a/"));
    }
}
