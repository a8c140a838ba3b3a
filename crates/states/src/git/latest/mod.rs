//! `git.latest`: a checkout that follows a remote.

mod clone;
mod reconcile;
mod remote;
mod update;

use std::path::Path;

use exec::{Context, Error, KwArgs, Result, function};
use value::{Map, Value, map};

use super::repo::{Repo, failed, refused, with_made, without_command};
use crate::Ret;
use crate::support::{call_for_bool, saltenv};
use remote::{Found, RevType};

/// The argument `force_reset`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ForceReset {
    No,
    Yes,
    /// Only when the remote has something new.
    RemoteChanges,
}

/// The arguments of the state, the facts so far and the result so far.
struct Latest<'a> {
    ctx: &'a Context,
    repo: Repo,
    name: String,
    target: String,
    rev: String,
    branch: Option<String>,
    update_head: bool,
    force_checkout: bool,
    force_clone: bool,
    force_fetch: bool,
    force_reset: ForceReset,
    submodules: bool,
    bare: bool,
    mirror: bool,
    remote: String,
    sync_tags: bool,
    depth: Option<Value>,
    refspecs: Vec<String>,
    lfs: bool,
    found: Found,
    ret: Ret,
    comments: Vec<String>,
}

/// Makes sure that a repository is cloned and up to date with a branch, a tag or a commit (``rev``) of its remote.
///
/// ``branch`` is the local branch, by default the current one. An update that is not a fast-forward, and local changes,
/// need ``force_reset``; another branch over local changes needs ``force_checkout``; a directory with other contents
/// needs ``force_clone``. With ``update_head: False`` the remote is only fetched.
#[function]
fn latest(
    ctx: &Context,
    name: String,
    target: Value,
    #[default("HEAD")] rev: Value,
    branch: Option<String>,
    user: Option<Value>,
    password: Option<Value>,
    #[default(true)] update_head: Value,
    #[default(false)] force_checkout: Value,
    #[default(false)] force_clone: Value,
    #[default(false)] force_fetch: Value,
    #[default(false)] force_reset: Value,
    #[default(false)] submodules: Value,
    #[default(false)] bare: Value,
    #[default(false)] mirror: Value,
    #[default("origin")] remote: Value,
    #[default(true)] fetch_tags: Value,
    #[default(true)] sync_tags: Value,
    depth: Option<Value>,
    identity: Option<Value>,
    https_user: Option<Value>,
    https_pass: Option<Value>,
    #[default("*")] refspec_branch: String,
    #[default("*")] refspec_tag: String,
    output_encoding: Option<Value>,
    kwargs: KwArgs,
) -> Result<Ret> {
    let ret = Ret::new(name.clone()).ok("");
    if let Some(text) = refused(&kwargs.0) {
        return Ok(ret.fail(text));
    }
    for (value, text) in [
        (&remote, "'remote' argument is required".to_owned()),
        (&target, "'target' argument is required".to_owned()),
        (&rev, format!("'{rev}' is not a valid value for the 'rev' argument")),
    ] {
        if !value.truthy() {
            return Ok(ret.fail(text));
        }
    }
    // Python compares `1 == True`, so numbers pass as well.
    let force_reset = match &force_reset {
        Value::Bool(true) | Value::Int(1) => ForceReset::Yes,
        Value::Bool(false) | Value::Int(0) => ForceReset::No,
        Value::Str(text) if text == "remote-changes" => ForceReset::RemoteChanges,
        _ => return Ok(ret.fail("'force_reset' must be one of True, False, or 'remote-changes'")),
    };
    let (target, rev, remote) = (target.to_string(), rev.to_string(), remote.to_string());
    if !target.starts_with('/') {
        return Ok(ret.fail(format!("target '{target}' is not an absolute path")));
    }
    let identity = match Repo::identity(identity, "i") {
        Ok(identity) => identity,
        Err(text) => return Ok(ret.fail(text)),
    };
    let refspecs = match fetch_tags.truthy() {
        true => vec![
            format!("refs/heads/{refspec_branch}:refs/remotes/{remote}/{refspec_branch}"),
            format!("+refs/tags/{refspec_tag}:refs/tags/{refspec_tag}"),
        ],
        false => Vec::new(),
    };
    let mirror = mirror.truthy();
    let latest = Latest {
        ctx,
        repo: Repo { user, password, output_encoding, identity, https_user, https_pass },
        name,
        target,
        rev,
        branch,
        update_head: update_head.truthy(),
        force_checkout: force_checkout.truthy(),
        force_clone: force_clone.truthy(),
        force_fetch: force_fetch.truthy(),
        force_reset,
        submodules: submodules.truthy(),
        // A mirror is a bare repository that follows all refs.
        bare: bare.truthy() || mirror,
        mirror,
        remote,
        sync_tags: sync_tags.truthy(),
        depth,
        refspecs,
        lfs: false,
        found: Found::default(),
        ret,
        comments: Vec::new(),
    };
    latest.apply()
}

impl Latest<'_> {
    fn apply(mut self) -> Result<Ret> {
        // With git LFS, reset and merge download files, and then they need the SSH key.
        let lfs = map! { "key" => r"filter\.lfs\.", "global" => true, "ignore_retcode" => true };
        self.lfs = call_for_bool(self.ctx, "git.config_get_regexp", lfs)?;
        if Path::new(&self.target).is_file() {
            let text = format!("Target '{}' exists and is a regular file, cannot proceed", self.target);
            return Ok(self.ret.fail(text));
        }
        if let Some(text) = self.look_at_remote()? {
            return Ok(self.ret.fail(text));
        }
        // A bare repository has its refs at the top of the directory.
        let inside = if self.bare { "refs" } else { ".git" };
        let there = Path::new(&self.target).join(inside).is_dir() || self.is_worktree()?;
        let done = if there { self.update() } else { self.clone() };
        match done {
            Ok(ret) => Ok(ret),
            // Steps that do not handle their own errors end up here, with what was done so far.
            Err(error) => Ok(failed(self.ret, without_command(&error), &self.comments)),
        }
    }

    fn is_worktree(&self) -> Result<bool> {
        let answer = self.repo.git(self.ctx, "is_worktree", map! { "cwd" => self.target.clone() })?;
        Ok(answer.truthy())
    }

    fn saltenv(&self) -> String {
        saltenv(self.ctx)
    }

    /// Calls a function of `git` on the checkout.
    fn here(&self, fun: &str, more: Map) -> Result<Value> {
        let mut arguments = map! { "cwd" => self.target.clone() };
        arguments.update(more);
        self.repo.git(self.ctx, fun, arguments)
    }

    /// The same, where a failure is an answer.
    fn look(&self, fun: &str, more: Map) -> Result<Option<String>> {
        let mut arguments = map! { "cwd" => self.target.clone() };
        arguments.update(more);
        self.repo.look(self.ctx, fun, arguments)
    }

    fn names(&self, fun: &str) -> Result<Vec<String>> {
        let list = self.here(fun, Map::new())?.into_list().unwrap_or_default();
        Ok(list.iter().map(Value::to_string).collect())
    }

    /// Returns the options for resetting and merging in a repository with git-lfs.
    fn lfs_options(&self) -> Map {
        if self.lfs {
            map! { "identity" => self.repo.identity.clone() }
        } else {
            Map::new()
        }
    }

    /// Sets the branch and the files to a revision, whatever they are.
    fn hard_reset(&self, rev: &str, lfs: bool) -> Result<()> {
        let mut arguments = if lfs { self.lfs_options() } else { Map::new() };
        arguments.insert("opts", value::list!["--hard", rev]);
        self.here("reset", arguments).map(drop)
    }

    /// Returns whether another branch has to be checked out.
    fn changes_branch(&self, local: Option<&str>) -> bool {
        self.branch.is_some() && self.branch.as_deref() != local
    }

    fn fail(&mut self, text: impl Into<String>) -> Ret {
        failed(self.ret.clone(), text, &self.comments)
    }

    fn neutral(&mut self, text: impl Into<String>) -> Ret {
        self.ret.clone().would(text.into())
    }

    fn up_to_date(&mut self, comments: &[String], local_changes: bool) -> Ret {
        let mut text = format!("Repository {} is up-to-date", self.target);
        if local_changes {
            text.push_str(", but with uncommitted changes. Set 'force_reset' to True to purge uncommitted changes.");
        }
        let text = with_made(self.ctx, text, comments);
        Ret { comment: text.into(), ..self.ret.clone() }
    }

    /// Updates the submodules if requested. Returns the comment of a failure.
    fn update_submodules(&mut self, with_env: bool) -> Result<Option<Ret>> {
        let mut arguments = map! {
            "command" => "update", "opts" => value::list!["--init", "--recursive"],
            "identity" => self.repo.identity.clone(),
        };
        // Salt passes the environment only for existing repositories.
        if with_env {
            arguments.insert("saltenv", self.saltenv());
        }
        match self.here("submodule", arguments) {
            Ok(_) => Ok(None),
            Err(error @ Error::Execution(_)) => {
                Ok(Some(self.fail(format!("Failed to update submodules: {}", without_command(&error)))))
            }
            Err(error) => Err(error),
        }
    }

    fn note_revision(&mut self, old: Option<&str>, new: Option<&str>) {
        self.ret.changes.insert("revision", map! { "old" => old, "new" => new });
    }
}

/// The beginning of a hash.
fn short(hash: Option<&str>) -> String {
    hash.map_or_else(|| "None".into(), |hash| hash.chars().take(7).collect())
}

fn revs_equal(one: Option<&str>, other: Option<&str>, kind: Option<RevType>) -> bool {
    match (one, other) {
        (None, None) => true,
        // The state may give an abbreviated hash.
        (Some(one), Some(other)) if kind == Some(RevType::Sha1) => one.starts_with(other),
        (one, other) => one == other,
    }
}
