//! `git.cloned`.

use std::path::Path;

use exec::{Context, Error, Result, function};
use value::{Map, Value, list, map};

use super::repo::{Repo, failed, with_made, without_command};
use crate::Ret;

/// Makes sure that a repository is cloned and, if wanted, a branch checked out. It is never updated; ``git.latest`` does that.
#[function]
fn cloned(
    ctx: &Context,
    name: String,
    target: Value,
    branch: Option<String>,
    user: Option<Value>,
    password: Option<Value>,
    identity: Option<Value>,
    https_user: Option<Value>,
    https_pass: Option<Value>,
    output_encoding: Option<Value>,
) -> Result<Ret> {
    let ret = Ret::new(name.clone());
    if target.is_null() {
        return Ok(ret.fail("'target' argument is required"));
    }
    let target = target.to_string();
    if !target.starts_with('/') {
        return Ok(ret.fail("'target' path must be absolute"));
    }
    if branch.as_deref() == Some("") {
        return Ok(ret.fail("Invalid 'branch' argument"));
    }
    let repo = Repo { user, password, output_encoding, identity, https_user, https_pass };
    // An empty directory exists, too. It fails at `git status` below, and unlike `git.latest` this
    // state does not clone into it.
    if !Path::new(&target).exists() {
        return clone(ctx, &repo, ret, &name, &target, branch.as_deref());
    }
    let at = map! { "cwd" => target.clone() };
    // The cheapest call that fails outside a repository.
    if let Err(error) = repo.git(ctx, "status", at.clone()) {
        return Ok(ret.fail(error.to_string()));
    }
    let Some(branch) = branch else { return Ok(there(ctx, ret, &target, None)) };
    let current = repo.text(ctx, "current_branch", at.clone())?;
    if current == branch {
        return Ok(there(ctx, ret, &target, Some(&branch)));
    }
    let ret = ret.changed(map! { "branch" => map! { "old" => current, "new" => branch.clone() } });
    if ctx.is_test() {
        return Ok(ret.would(format!("Branch would be changed to '{branch}'")));
    }
    // A local branch is checked out as it is. Otherwise one is made from the remote's, which is
    // assumed to be called origin.
    let known = repo.look(ctx, "rev_parse", map! { "cwd" => target.clone(), "rev" => branch.clone() })?;
    let arguments = match known {
        Some(_) => map! { "cwd" => target.clone(), "rev" => branch.clone() },
        None => {
            let opts = list!["-b", branch.clone()];
            map! { "cwd" => target.clone(), "rev" => format!("origin/{branch}"), "opts" => opts }
        }
    };
    match repo.git(ctx, "checkout", arguments) {
        Ok(_) => Ok(ret.ok(format!("Branch changed to '{branch}'"))),
        Err(error @ Error::Execution(_)) => {
            // The change was noted for test mode before anything was done.
            let ret = ret.changed(Map::new());
            Ok(failed(ret, format!("Failed to change branch to '{branch}': {error}"), &[]))
        }
        Err(error) => Err(error),
    }
}

fn there(ctx: &Context, ret: Ret, target: &str, branch: Option<&str>) -> Ret {
    let branch = branch.map(|branch| format!(" and is checked out to branch '{branch}'")).unwrap_or_default();
    ret.ok(with_made(ctx, format!("Repository already exists at {target}{branch}"), &[]))
}

fn clone(ctx: &Context, repo: &Repo, ret: Ret, name: &str, target: &str, branch: Option<&str>) -> Result<Ret> {
    let with = branch.map(|branch| format!(" with branch '{branch}'")).unwrap_or_default();
    let changes = map! { "new" => format!("{name} => {target}") };
    if ctx.is_test() {
        return Ok(ret.changed(changes).would(format!("{name} would be cloned to {target}{with}")));
    }
    let opts = branch.map(|branch| list!["--branch", branch]);
    let arguments = map! {
        "cwd" => target, "url" => name, "opts" => opts, "identity" => repo.identity.clone(),
        "https_user" => repo.https_user.clone(), "https_pass" => repo.https_pass.clone(),
    };
    match repo.git(ctx, "clone", arguments) {
        Ok(_) => Ok(ret.changed(changes).ok(format!("{name} cloned to {target}{with}"))),
        Err(error @ Error::Execution(_)) => Ok(ret.fail(format!("Clone failed: {}", without_command(&error)))),
        Err(error) => Err(error),
    }
}
