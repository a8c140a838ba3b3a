//! `git.detached`.

use std::path::Path;

use exec::{Context, Error, KwArgs, Result, function};
use value::{Map, Value, list, map};

use super::repo::{Repo, empty, failed, is_filled, is_hash, refused, sentences, without_command};
use crate::Ret;
use crate::support::saltenv;

struct Detached<'a> {
    ctx: &'a Context,
    repo: Repo,
    name: String,
    rev: String,
    by_hash: bool,
    target: String,
    remote: String,
    force_clone: bool,
    force_checkout: bool,
    fetch_remote: bool,
    hard_reset: bool,
    submodules: bool,
    ret: Ret,
    comments: Vec<String>,
}

/// Makes sure that a commit, or the one of a branch or tag of the remote, is checked out without a branch (detached
/// HEAD).
#[function]
fn detached(
    ctx: &Context,
    name: String,
    rev: Value,
    target: Value,
    #[default("origin")] remote: Value,
    user: Option<Value>,
    password: Option<Value>,
    #[default(false)] force_clone: Value,
    #[default(false)] force_checkout: Value,
    #[default(true)] fetch_remote: Value,
    #[default(false)] hard_reset: Value,
    #[default(false)] submodules: Value,
    identity: Option<Value>,
    https_user: Option<Value>,
    https_pass: Option<Value>,
    output_encoding: Option<Value>,
    kwargs: KwArgs,
) -> Result<Ret> {
    let ret = Ret::new(name.clone()).ok("");
    if let Some(text) = refused(&kwargs.0) {
        return Ok(ret.fail(text));
    }
    if !rev.truthy() || !target.truthy() {
        // Salt shows the value of `rev` in both cases.
        let argument = if rev.truthy() { "target" } else { "rev" };
        return Ok(ret.fail(format!("'{rev}' is not a valid value for the '{argument}' argument")));
    }
    let (rev, target) = (rev.to_string(), target.to_string());
    if !target.starts_with('/') {
        return Ok(ret.fail(format!("Target '{target}' is not an absolute path")));
    }
    let identity = match Repo::identity(identity, "I") {
        Ok(identity) => identity,
        Err(text) => return Ok(ret.fail(text)),
    };
    if Path::new(&target).is_file() {
        return Ok(ret.fail(format!("Target '{target}' exists and is a regular file, cannot proceed")));
    }
    let text = |value: &Option<Value>| value.as_ref().map(Value::to_string);
    let credentials = (text(&https_user), text(&https_pass));
    // Only checked here. git gets the credentials with each command, so that they are never stored
    // in the state.
    if let Err(error) = modules::git::with_credentials(&name, credentials.0.as_deref(), credentials.1.as_deref()) {
        return Ok(ret.fail(error.to_string()));
    }
    let by_hash = is_hash(&rev);
    let detached = Detached {
        ctx,
        repo: Repo { user, password, output_encoding, identity, https_user, https_pass },
        name,
        // git prints hashes in lower case, and they are compared as text.
        rev: if by_hash { rev.to_lowercase() } else { rev },
        by_hash,
        target,
        remote: remote.to_string(),
        force_clone: force_clone.truthy(),
        force_checkout: force_checkout.truthy(),
        fetch_remote: fetch_remote != Value::Bool(false),
        hard_reset: hard_reset.truthy(),
        submodules: submodules.truthy(),
        ret,
        comments: Vec::new(),
    };
    detached.apply()
}

/// The end of the state, or what comes next.
type Step<T> = Result<std::result::Result<T, Ret>>;

impl Detached<'_> {
    fn apply(mut self) -> Result<Ret> {
        let at = map! { "cwd" => self.target.clone() };
        // A worktree has a file `.git` and no directory.
        let there =
            Path::new(&self.target).join(".git").is_dir() || self.repo.git(self.ctx, "is_worktree", at)?.truthy();
        let prepared = if there { self.look()? } else { self.clone()? };
        let (old, known) = match prepared {
            Ok(found) => found,
            Err(ret) => return Ok(ret),
        };
        // A local hash needs no fetch. A branch or a tag may have moved.
        if !known
            && self.fetch_remote
            && let Some(ret) = self.fetch()?
        {
            return Ok(ret);
        }
        let commit = match self.commit()? {
            Ok(commit) => commit,
            Err(ret) => return Ok(ret),
        };
        if self.hard_reset {
            if self.ctx.is_test() {
                let text = format!("Hard reset to HEAD would be performed on {}", self.target);
                return Ok(self.ret.would(text));
            }
            // Back to HEAD first, so that local changes do not stop the checkout.
            self.here("reset", map! { "opts" => list!["--hard", "HEAD"] })?;
            self.comments.push("Repository was reset to HEAD before checking out revision".into());
        }
        self.check_out(old, commit)
    }

    fn here(&self, fun: &str, more: Map) -> Result<Value> {
        let mut arguments = map! { "cwd" => self.target.clone() };
        arguments.update(more);
        self.repo.git(self.ctx, fun, arguments)
    }

    fn fail(&self, text: impl Into<String>) -> Ret {
        failed(self.ret.clone(), text, &self.comments)
    }

    /// Returns the commit that is checked out, and whether the wanted one is known locally.
    fn look(&mut self) -> Step<(Option<String>, bool)> {
        let (old, _) = self.repo.head(self.ctx, &self.target)?;
        if self.by_hash {
            let wanted = map! { "cwd" => self.target.clone(), "rev" => self.rev.clone() };
            return Ok(Ok((old, self.repo.look(self.ctx, "describe", wanted)?.is_some())));
        }
        // With credentials, because they belong to the address that is compared.
        let remotes = self.here("remotes", map! { "redact_auth" => false })?;
        let current = remotes.get(&self.remote).and_then(|urls| urls.get("fetch")).map(Value::to_string);
        // Contained and not equal: the stored address may have credentials that the state's has
        // not.
        if current.as_ref().is_some_and(|url| url.contains(&self.name)) {
            return Ok(Ok((old, false)));
        }
        let (remote, name) = (self.remote.clone(), self.name.clone());
        if self.ctx.is_test() {
            return Ok(Err(self.ret.clone().would(format!("Remote {remote} would be set to {name}"))));
        }
        let arguments = map! {
            "url" => name.clone(), "remote" => remote.clone(), "https_user" => self.repo.https_user.clone(),
            "https_pass" => self.repo.https_pass.clone(),
        };
        self.here("remote_set", arguments)?;
        let current = current.unwrap_or_else(|| "None".into());
        self.comments.push(format!("Remote {remote} updated from '{current}' to '{name}'"));
        Ok(Ok((old, false)))
    }

    fn clone(&mut self) -> Step<(Option<String>, bool)> {
        let (target, name) = (self.target.clone(), self.name.clone());
        if Path::new(&target).is_dir() {
            if self.force_clone {
                if self.ctx.is_test() {
                    return Ok(Err(self.ret.clone().would(format!(
                        "Target directory {target} exists. Since force_clone=True, the contents of {target} would be \
                         deleted, and {name} would be cloned into this directory."
                    ))));
                }
                if let Err(text) = empty(&target) {
                    return Ok(Err(self.fail(text)));
                }
                self.ret.changes.insert("forced clone", true);
            } else if is_filled(&target) {
                return Ok(Err(self.ret.clone().fail(format!(
                    "Target '{target}' exists, is non-empty and is not a git repository. Set the 'force_clone' option to \
                     True to remove this directory's contents and proceed with cloning the remote repository"
                ))));
            }
        }
        if self.ctx.is_test() {
            return Ok(Err(self.ret.clone().would(format!("Repository {name} would be cloned to {target}"))));
        }
        // The wanted commit is checked out afterwards, so checking out the default branch would be
        // wasted.
        let mut opts = vec!["--no-checkout".to_owned()];
        if self.remote != "origin" {
            opts.extend(["--origin".to_owned(), self.remote.clone()]);
        }
        let arguments = map! {
            "url" => name.clone(), "opts" => opts, "identity" => self.repo.identity.clone(),
            "https_user" => self.repo.https_user.clone(), "https_pass" => self.repo.https_pass.clone(),
            "saltenv" => saltenv(self.ctx),
        };
        match self.here("clone", arguments) {
            Ok(_) => {}
            Err(error) => return Ok(Err(self.fail(without_command(&error)))),
        }
        self.comments.push(format!("{name} cloned to {target}"));
        Ok(Ok((None, false)))
    }

    fn fetch(&mut self) -> Result<Option<Ret>> {
        let remote = self.remote.clone();
        if self.ctx.is_test() {
            return Ok(Some(self.ret.clone().would(format!("Repository remote {remote} would be fetched"))));
        }
        // All branches, since the wanted commit can be on any of them.
        let refspecs = list![format!("refs/heads/*:refs/remotes/{remote}/*"), "+refs/tags/*:refs/tags/*"];
        let arguments = map! {
            "remote" => remote.clone(), "force" => true, "refspecs" => refspecs,
            "identity" => self.repo.identity.clone(), "saltenv" => saltenv(self.ctx),
        };
        match self.here("fetch", arguments) {
            Ok(changes) if changes.truthy() => {
                self.comments.push(format!("Remote {remote} was fetched, resulting in updated refs"));
                Ok(None)
            }
            Ok(_) => Ok(None),
            Err(error @ Error::Execution(_)) => Ok(Some(self.fail(format!("Fetch failed:\n\n{error}")))),
            Err(error) => Err(error),
        }
    }

    /// The commit the revision is.
    fn commit(&mut self) -> Step<String> {
        if self.by_hash {
            let there = self.here("describe", map! { "rev" => self.rev.clone() })?.truthy();
            return Ok(if there { Ok(self.rev.clone()) } else { Err(self.unknown()) });
        }
        let arguments = map! {
            // The local copy is asked and not the remote: after the fetch it has the same refs, and
            // one connection less is needed.
            "url" => self.target.clone(), "identity" => self.repo.identity.clone(),
            "https_user" => self.repo.https_user.clone(), "https_pass" => self.repo.https_pass.clone(),
        };
        let refs = match self.repo.git(self.ctx, "remote_refs", arguments) {
            Ok(refs) => refs,
            Err(error @ Error::Execution(_)) => {
                let why = without_command(&error);
                return Ok(Err(self.ret.clone().fail(format!("Failed to list refs for {}: {why}", self.remote))));
            }
            Err(error) => return Err(error),
        };
        // A branch wins over a tag of the same name.
        let names = [format!("refs/remotes/{}/{}", self.remote, self.rev), format!("refs/tags/{}", self.rev)];
        let found = names.iter().find_map(|name| refs.get(name)).map(Value::to_string);
        Ok(found.ok_or_else(|| self.unknown()))
    }

    fn unknown(&self) -> Ret {
        self.ret.clone().fail(format!("Revision '{}' does not exist", self.rev))
    }

    fn check_out(mut self, old: Option<String>, commit: String) -> Result<Ret> {
        let mut new = None;
        if old.as_deref() != Some(commit.as_str()) {
            let target = self.target.clone();
            if self.ctx.is_test() {
                self.ret.changes.insert("HEAD", map! { "old" => old, "new" => commit.clone() });
                return Ok(self.ret.would(format!("Commit ID {commit} would be checked out at {target}")));
            }
            self.here("checkout", map! { "rev" => commit.clone(), "force" => self.force_checkout })?;
            self.comments.push(format!("Commit ID {commit} was checked out at {target}"));
            // Read back: the commit of a tag is not the hash that was looked up if the tag is
            // annotated.
            new = self.repo.look(self.ctx, "revision", map! { "cwd" => target })?;
        }
        if self.submodules {
            let opts = list!["--init", "--recursive"];
            let identity = self.repo.identity.clone();
            self.here("submodule", map! { "command" => "update", "opts" => opts, "identity" => identity })?;
            self.comments.push("Submodules were updated".into());
        }
        match new {
            Some(new) => drop(self.ret.changes.insert("HEAD", map! { "old" => old, "new" => new })),
            None => self.comments.push("Already checked out at correct revision".into()),
        }
        let text = sentences(&self.comments);
        Ok(self.ret.ok(text))
    }
}
