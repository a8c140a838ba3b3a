//! `git.present`.

use std::path::Path;

use exec::{Context, Result, function};
use value::{Value, map};

use super::repo::{Repo, is_filled, sentences};
use crate::Ret;

/// Makes sure that there is a repository, by default a bare one. ``force`` removes other contents of the directory.
#[function]
fn present(
    ctx: &Context,
    name: String,
    #[default(false)] force: Value,
    #[default(true)] bare: Value,
    template: Option<Value>,
    separate_git_dir: Option<Value>,
    shared: Option<Value>,
    user: Option<Value>,
    password: Option<Value>,
    output_encoding: Option<Value>,
) -> Result<Ret> {
    let mut ret = Ret::new(name.clone()).ok("");
    let repo = Repo { user, password, output_encoding, ..Repo::default() };
    let is_bare = bare.truthy();
    let kind = if is_bare { "bare " } else { "" };
    let path = Path::new(&name);
    if path.is_dir() {
        let there = match is_bare {
            // A bare repository has no .git, but its HEAD is at the top.
            true => path.join("HEAD").is_file(),
            false => {
                path.join(".git").is_dir() || repo.git(ctx, "is_worktree", map! { "cwd" => name.clone() })?.truthy()
            }
        };
        if there {
            return Ok(ret);
        }
        if force.truthy() {
            if ctx.is_test() {
                let changes = map! { "new" => name.clone(), "forced init" => true };
                return Ok(ret.changed(changes).would(format!(
                    "Target directory {name} exists. Since force=True, the contents of {name} would be deleted, and a \
                     {kind}repository would be initialized in its place."
                )));
            }
            // A link is removed itself, and what it leads to stays.
            let gone = if path.is_symlink() { std::fs::remove_file(path) } else { std::fs::remove_dir_all(path) };
            if let Err(error) = gone {
                let why = modules::subprocess::os_text(&error, &name);
                return Ok(ret.fail(format!("Unable to remove {name}: {why}")));
            }
            ret.changes.insert("forced init", true);
        } else if is_filled(&name) {
            return Ok(ret.fail(format!(
                "Target '{name}' exists, is non-empty, and is not a git repository. Set the 'force' option to True to \
                 remove this directory's contents and proceed with initializing a repository"
            )));
        }
    }
    ret.changes.insert("new", name.clone());
    if ctx.is_test() {
        return Ok(ret.would(format!("New {kind}repository would be created")));
    }
    let arguments = map! {
        "cwd" => name.clone(), "bare" => bare, "template" => template.clone(),
        "separate_git_dir" => separate_git_dir.clone(), "shared" => shared,
    };
    repo.git(ctx, "init", arguments)?;
    let mut actions = vec![format!("Initialized {kind}repository in {name}")];
    if let Some(template) = template.filter(Value::truthy) {
        actions.push(format!("Template directory set to {template}"));
    }
    if let Some(directory) = separate_git_dir.filter(Value::truthy) {
        actions.push(format!("Gitdir set to {directory}"));
    }
    Ok(ret.ok(sentences(&actions)))
}
