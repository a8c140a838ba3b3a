//! `git` — repositories, through the git program.
//!
//! [`run`] builds a command and runs it; [`config`] reads and sets options, [`remotes`] accesses other repositories,
//! [`worktrees`] other checkouts, [`work`] this one.

mod config;
mod inquiry;
mod remotes;
mod run;
mod work;
mod worktrees;

use exec::{Context, Module, Result, function};
use value::{Map, Value};

use config::{CONFIG_GET, CONFIG_GET_REGEX, CONFIG_GET_REGEXP, CONFIG_SET, CONFIG_UNSET};
use inquiry::{
    CURRENT_BRANCH, DESCRIBE, DIFF, LIST_BRANCHES, LIST_TAGS, MERGE_BASE, MERGE_TREE, REV_PARSE, REVISION, STATUS,
};
use remotes::{CLONE, FETCH, LS_REMOTE, PULL, PUSH, REMOTE_GET, REMOTE_REFS, REMOTE_SET, REMOTES};
use run::{Git, Who};
pub use run::{redacted, with_credentials};
use work::{
    ADD, ARCHIVE, BRANCH, CHECKOUT, COMMIT, DISCARD_LOCAL_CHANGES, INIT, MERGE, REBASE, RESET, RM, STASH, SUBMODULE,
    SYMBOLIC_REF, TAG,
};
use worktrees::{IS_WORKTREE, LIST_WORKTREES, WORKTREE_ADD, WORKTREE_PRUNE, WORKTREE_RM};

/// Registers the functions of `git`.
pub static MODULE: Module = Module::new(
    "git",
    "Functions for repositories, through the git program.",
    &[
        &ADD,
        &ARCHIVE,
        &BRANCH,
        &CHECKOUT,
        &CLONE,
        &COMMIT,
        &CONFIG_GET,
        &CONFIG_GET_REGEX,
        &CONFIG_GET_REGEXP,
        &CONFIG_SET,
        &CONFIG_UNSET,
        &CURRENT_BRANCH,
        &DESCRIBE,
        &DIFF,
        &DISCARD_LOCAL_CHANGES,
        &FETCH,
        &INIT,
        &IS_WORKTREE,
        &LIST_BRANCHES,
        &LIST_TAGS,
        &LIST_WORKTREES,
        &LS_REMOTE,
        &MERGE,
        &MERGE_BASE,
        &MERGE_TREE,
        &PULL,
        &PUSH,
        &REBASE,
        &REMOTE_GET,
        &REMOTE_REFS,
        &REMOTE_SET,
        &REMOTES,
        &RESET,
        &REV_PARSE,
        &REVISION,
        &RM,
        &STASH,
        &STATUS,
        &SUBMODULE,
        &SYMBOLIC_REF,
        &TAG,
        &VERSION,
        &WORKTREE_ADD,
        &WORKTREE_PRUNE,
        &WORKTREE_RM,
    ],
)
.only_if(installed);

fn installed(_grains: &Map) -> std::result::Result<(), String> {
    match crate::util::which("git") {
        Some(_) => Ok(()),
        None => Err("The git execution module cannot be loaded: git unavailable.".into()),
    }
}

/// Returns the version of git, with ``versioninfo=True`` as a list.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.version
#[function]
fn version(ctx: &Context, #[default(false)] versioninfo: bool) -> Result<Value> {
    let who = Who { ignore_retcode: false.into(), ..Who::default() };
    let text = match Git::of(ctx, &who, &["--version"]).text() {
        Ok(text) => text,
        Err(error) => {
            tracing::error!("Failed to obtain the git version: {error}");
            String::new()
        }
    };
    let text = text.split('(').next().unwrap_or_default();
    // Builds for Windows and macOS append their own version to that of git.
    let text = text.split(".windows").next().unwrap_or_default();
    let number = text.split_whitespace().last().unwrap_or("unknown");
    if !versioninfo {
        return Ok(number.into());
    }
    let part = |part: &str| part.parse::<i64>().map_or_else(|_| Value::from(part), Value::from);
    Ok(number.split('.').map(part).collect())
}
