//! Additional checkouts of a repository.

use std::path::Path;

use exec::{Context, Error, KwArgs, Result, function};
use value::{Map, Value, map};

use super::run::{Git, Who, named, options};

/// One block of `git worktree list --porcelain`.
struct Tree {
    path: String,
    head: String,
    /// None when no branch is checked out.
    branch: Option<String>,
}

impl Tree {
    fn read(block: &str) -> Option<Self> {
        let value = |key: &str| block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        let branch = value("branch").map(|name| name.strip_prefix("refs/heads/").unwrap_or(name).to_owned());
        // A bare repository has neither, and is not a checkout.
        if branch.is_none() && !block.lines().any(|line| line == "detached") {
            return None;
        }
        Some(Tree { path: value("worktree")?.to_owned(), head: value("HEAD")?.to_owned(), branch })
    }
}

/// Returns whether a directory is a linked worktree: there `.git` is a file that names the directory of the repository.
fn belongs_elsewhere(ctx: &Context, who: &Who, cwd: &str) -> Result<bool> {
    let who = Who { ignore_retcode: true.into(), ..who.clone() };
    let top = match Git::of(ctx, &who, &["rev-parse", "--show-toplevel"]).at(cwd).text() {
        Ok(top) => top,
        Err(_) => return Ok(false),
    };
    // In the main checkout this is a directory, and reading it fails.
    let Ok(text) = std::fs::read_to_string(Path::new(&top).join(".git")) else { return Ok(false) };
    let first = text.lines().next().unwrap_or_default();
    let path = first.split_once(char::is_whitespace).filter(|(label, _)| *label == "gitdir:");
    // A submodule has such a file too, but with a relative path.
    Ok(path.is_some_and(|(_, path)| Path::new(path.trim()).is_absolute()))
}

/// Returns whether a directory is an additional checkout of a repository, made with ``git worktree``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.is_worktree /path/to/repo
#[function]
fn is_worktree(
    ctx: &Context,
    cwd: String,
    user: Option<String>,
    password: Option<Value>,
    output_encoding: Option<Value>,
) -> Result<bool> {
    let who = Who { user, password, output_encoding, ..Who::default() };
    let cwd = who.path(&cwd);
    belongs_elsewhere(ctx, &who, &cwd)
}

/// Returns the checkouts of a repository: those whose directory exists, with ``stale=True`` those without one, with
/// ``all=True`` both.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.list_worktrees /path/to/repo
///     salt myminion git.list_worktrees /path/to/repo all=True
#[function]
fn list_worktrees(
    ctx: &Context,
    cwd: String,
    #[default(false)] stale: bool,
    user: Option<String>,
    password: Option<Value>,
    output_encoding: Option<Value>,
    kwargs: KwArgs,
) -> Result<Map> {
    let who = Who { user, password, output_encoding, ..Who::default() };
    let cwd = who.path(&cwd);
    let [all] = named(&kwargs, ["all"])?;
    if all.truthy() && stale {
        return Err(Error::execution("'all' and 'stale' cannot both be set to True"));
    }
    let output = Git::of(ctx, &who, &["worktree", "list", "--porcelain"]).at(&cwd).text()?;
    let mut found = Map::new();
    for block in output.trim().split("\n\n") {
        let Some(tree) = Tree::read(block) else {
            tracing::error!("git.worktree: Incomplete worktree data. Full data below:\n{block}");
            continue;
        };
        let gone = !Path::new(&tree.path).is_dir();
        if !all.truthy() && gone != stale {
            continue;
        }
        let mut entry = map! { "stale" => gone, "HEAD" => tree.head.clone(), "detached" => tree.branch.is_none() };
        entry.insert("branch", tree.branch.clone());
        if tree.branch.is_none() {
            // A detached checkout is often at a tag; its name is more informative than the hash.
            let tags = Git::of(ctx, &who, &["tag", "--points-at", &tree.head]).at(&cwd).text()?;
            let tags: Vec<&str> = tags.lines().collect();
            if !tags.is_empty() {
                entry.insert("tags", tags);
            }
        }
        found.insert(tree.path, entry);
    }
    Ok(found)
}

/// Makes an additional checkout, by default on a new branch named after its directory, and returns the output of git.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.worktree_add /path/to/repo/main ../hotfix ref=origin/master
#[function]
fn worktree_add(
    ctx: &Context,
    cwd: String,
    worktree_path: String,
    r#ref: Option<String>,
    reset_branch: Option<Value>,
    force: Option<Value>,
    #[default(false)] detach: bool,
    #[default("")] opts: Value,
    #[default("")] git_opts: Value,
    user: Option<String>,
    password: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
    kwargs: KwArgs,
) -> Result<String> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    let [branch] = named(&kwargs, ["branch"])?;
    if branch.truthy() && detach {
        return Err(Error::invocation("Only one of 'branch' and 'detach' is allowed"));
    }
    let yes = |flag: Option<Value>| flag.is_some_and(|flag| flag.truthy());
    let mut git = Git::with(ctx, &who, &git_opts)?.words(["worktree", "add"]);
    if detach {
        if yes(force) {
            tracing::warn!("'force' argument to git.worktree_add is ignored when detach=True");
        }
        git = git.word("--detach");
    } else {
        let base = Path::new(&worktree_path).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let branch = if branch.truthy() { branch.to_string() } else { base };
        git = git.words([if yes(reset_branch) { "-B" } else { "-b" }, branch.as_str()]).word_if(yes(force), "--force");
    }
    let start = r#ref.filter(|name| !name.is_empty());
    git.words(options(&opts)?).word(worktree_path).words(start).at(&cwd).merged().text()
}

/// Prunes checkouts whose directories are gone and returns the output of git.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.worktree_prune /path/to/repo dry_run=True
#[function]
fn worktree_prune(
    ctx: &Context,
    cwd: String,
    #[default(false)] dry_run: bool,
    #[default(true)] verbose: bool,
    expire: Option<String>,
    #[default("")] opts: Value,
    #[default("")] git_opts: Value,
    user: Option<String>,
    password: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
) -> Result<String> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    let mut git = Git::with(ctx, &who, &git_opts)?.words(["worktree", "prune"]);
    git = git.word_if(dry_run, "--dry-run").word_if(verbose, "--verbose");
    if let Some(expire) = expire.filter(|expire| !expire.is_empty()) {
        git = git.words(["--expire", expire.as_str()]);
    }
    // Older versions print on stdout what newer ones print on stderr.
    git.words(options(&opts)?).at(&cwd).merged().text()
}

/// Removes the directory of an additional checkout; returns True.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.worktree_rm /path/to/worktree
#[function]
fn worktree_rm(ctx: &Context, cwd: String, user: Option<String>, output_encoding: Option<Value>) -> Result<bool> {
    let who = Who { user, output_encoding, ..Who::default() };
    let cwd = who.path(&cwd);
    if !Path::new(&cwd).exists() {
        return Err(Error::execution(format!("{cwd} does not exist")));
    }
    // The whole directory is removed below; nothing but an additional checkout may be lost.
    if !belongs_elsewhere(ctx, &who, &cwd)? {
        return Err(Error::execution(format!("{cwd} is not a git worktree")));
    }
    let failed = |error: std::io::Error| Error::execution(format!("Unable to remove {cwd}: {error}"));
    std::fs::remove_dir_all(&cwd).map_err(failed)?;
    Ok(true)
}
