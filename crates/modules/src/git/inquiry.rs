//! Functions that only read.

use exec::{Context, Error, KwArgs, Result, function};
use value::{Map, Value};

use super::run::{Git, Who, listed, named, options};

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

/// Checks the arguments of `merge_base` and returns its revisions. `kinds` contains the wanted ones of octopus,
/// independent, is_ancestor and fork_point.
fn common(refs: Option<Value>, kinds: &[bool; 4]) -> Result<Vec<String>> {
    let refs: Vec<String> = match refs {
        None => Vec::new(),
        Some(refs) => listed(&refs).iter().map(|name| name.trim().to_owned()).collect(),
    };
    let [_, _, is_ancestor, fork_point] = *kinds;
    if kinds.iter().filter(|kind| **kind).count() > 1 {
        return Err(Error::invocation(
            "Only one of 'octopus', 'independent', 'is_ancestor', and 'fork_point' is permitted",
        ));
    }
    if is_ancestor && refs.len() != 2 {
        return Err(Error::invocation("Two refs/commits are required if 'is_ancestor' is True"));
    }
    if fork_point && refs.len() > 1 {
        return Err(Error::invocation("At most one ref/commit can be passed if 'fork_point' is specified"));
    }
    // git would take the current branch; Salt names it explicitly.
    Ok(if fork_point && refs.is_empty() { vec!["HEAD".into()] } else { refs })
}

/// Returns the name of the current branch; HEAD if there is none.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.current_branch /path/to/repo
#[function]
fn current_branch(
    ctx: &Context,
    cwd: String,
    user: Option<String>,
    password: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
) -> Result<String> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    Git::of(ctx, &who, &["rev-parse", "--abbrev-ref", "HEAD"]).at(&cwd).text()
}

/// Returns a name for a revision, made from the tag before it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.describe /path/to/repo
#[function]
fn describe(
    ctx: &Context,
    cwd: String,
    #[default("HEAD")] rev: String,
    user: Option<String>,
    password: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
) -> Result<String> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    Git::of(ctx, &who, &["describe", "--always", &rev]).at(&cwd).text()
}

/// Returns the differences: between revisions, with the index (``cached=True``), or between any files
/// (``no_index=True``).
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.diff /path/to/repo
///     salt myminion git.diff /path/to/repo master..stable paths=foo.txt
#[function]
fn diff(
    ctx: &Context,
    cwd: String,
    item1: Option<String>,
    item2: Option<String>,
    #[default("")] opts: Value,
    #[default("")] git_opts: Value,
    user: Option<String>,
    password: Option<Value>,
    #[default(false)] no_index: bool,
    #[default(false)] cached: bool,
    paths: Option<Value>,
    output_encoding: Option<Value>,
) -> Result<String> {
    let who = Who { user, password, output_encoding, ..Who::default() };
    let cwd = who.path(&cwd);
    if no_index && cached {
        return Err(Error::execution("The 'no_index' and 'cached' options cannot be used together"));
    }
    let given = |item: Option<String>| item.filter(|item| !item.is_empty());
    let (item1, item2) = (given(item1), given(item2));
    // `git diff --no-index` exits with 1 when the files differ, like `diff`.
    let who = Who { ignore_retcode: no_index.into(), ..who };
    let mut git = Git::with(ctx, &who, &git_opts)?.word("diff").words(options(&opts)?).at(&cwd).merged();
    if no_index {
        git = git.word("--no-index");
        for item in item1.iter().chain(&item2) {
            tracing::warn!("Revision '{item}' ignored in git diff, as revisions cannot be used when no_index=True");
        }
    } else if cached {
        git = git.word("--cached").words(item1);
        if let Some(item) = item2 {
            tracing::warn!("Second revision '{item}' ignored in git diff, at most one is considered when cached=True");
        }
    } else {
        git = git.words(item1).words(item2);
    }
    if let Some(paths) = paths.map(|paths| listed(&paths)).filter(|paths| !paths.is_empty()) {
        // The dashes keep a path that looks like a revision from being taken for one.
        git = git.word("--").words(paths);
    }
    if no_index { git.done().map(|done| done.stdout) } else { git.text() }
}

/// Returns the names of the branches, or of those of the remotes.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.list_branches /path/to/repo
///     salt myminion git.list_branches /path/to/repo remote=True
#[function]
fn list_branches(
    ctx: &Context,
    cwd: String,
    #[default(false)] remote: bool,
    user: Option<String>,
    password: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
) -> Result<Vec<String>> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    let place = if remote { "refs/remotes/" } else { "refs/heads/" };
    let git = Git::of(ctx, &who, &["for-each-ref", "--format", "%(refname:short)", place]);
    Ok(lines(&git.at(&cwd).text()?))
}

/// Returns the names of the tags.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.list_tags /path/to/repo
#[function]
fn list_tags(
    ctx: &Context,
    cwd: String,
    user: Option<String>,
    password: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
) -> Result<Vec<String>> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    let git = Git::of(ctx, &who, &["for-each-ref", "--format", "%(refname:short)", "refs/tags/"]);
    Ok(lines(&git.at(&cwd).text()?))
}

/// Returns the best common ancestor of revisions; with ``all=True`` all of them, with ``is_ancestor=True`` whether the first is one of the second.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.merge_base /path/to/repo HEAD upstream/mybranch
#[function]
fn merge_base(
    ctx: &Context,
    cwd: String,
    refs: Option<Value>,
    #[default(false)] octopus: bool,
    #[default(false)] is_ancestor: bool,
    #[default(false)] independent: bool,
    fork_point: Option<Value>,
    #[default("")] opts: Value,
    #[default("")] git_opts: Value,
    user: Option<String>,
    password: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
    kwargs: KwArgs,
) -> Result<Value> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    let [all] = named(&kwargs, ["all"])?;
    let all = all.truthy();
    let fork_point = fork_point.filter(Value::truthy);
    let kinds = [octopus, independent, is_ancestor, fork_point.is_some()];
    if all && (independent || is_ancestor || fork_point.is_some()) {
        return Err(Error::invocation(
            "The 'all' argument is not compatible with 'independent', 'is_ancestor', or 'fork_point'",
        ));
    }
    let refs = common(refs, &kinds)?;
    let mut git = Git::with(ctx, &who, &git_opts)?.word("merge-base").words(options(&opts)?).word_if(all, "--all");
    git = match (octopus, is_ancestor, independent, fork_point) {
        (true, ..) => git.word("--octopus"),
        (_, true, ..) => git.word("--is-ancestor"),
        (_, _, true, _) => git.word("--independent"),
        (.., Some(point)) => git.words(["--fork-point".to_owned(), point.to_string()]),
        _ => git,
    };
    git = git.words(refs).at(&cwd);
    if is_ancestor {
        // The answer is in the exit code alone.
        return Ok((git.done()?.retcode == 0).into());
    }
    let bases = lines(&git.text()?);
    if all {
        return Ok(bases.into());
    }
    let first = bases.into_iter().next();
    first.map(Value::from).ok_or_else(|| Error::Other("the revisions have no common ancestor".into()))
}

/// Returns the changes that merging two revisions would make, as ``git merge-tree`` shows them.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.merge_tree /path/to/repo HEAD upstream/dev
#[function]
fn merge_tree(
    ctx: &Context,
    cwd: String,
    ref1: String,
    ref2: String,
    base: Option<String>,
    user: Option<String>,
    password: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
) -> Result<String> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    let base = match base {
        Some(base) => base,
        None => {
            let found = Git::of(ctx, &who, &["merge-base", &ref1, &ref2]).at(&cwd).text();
            let missing = || Error::execution(format!("Unable to determine merge base for {ref1} and {ref2}"));
            found.ok().and_then(|text| lines(&text).into_iter().next()).ok_or_else(missing)?
        }
    };
    Git::of(ctx, &who, &["merge-tree", &base, &ref1, &ref2]).at(&cwd).text()
}

/// Returns the output of ``git rev-parse`` for a revision or its options.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.rev_parse /path/to/repo HEAD
///     salt myminion git.rev_parse /path/to/repo opts='--is-inside-work-tree'
#[function]
fn rev_parse(
    ctx: &Context,
    cwd: String,
    rev: Option<String>,
    #[default("")] opts: Value,
    #[default("")] git_opts: Value,
    user: Option<String>,
    password: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
) -> Result<String> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    let git = Git::with(ctx, &who, &git_opts)?.word("rev-parse").words(options(&opts)?).words(rev);
    git.at(&cwd).text()
}

/// Returns the hash of a revision.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.revision /path/to/repo mybranch
#[function]
fn revision(
    ctx: &Context,
    cwd: String,
    #[default("HEAD")] rev: String,
    #[default(false)] short: bool,
    user: Option<String>,
    password: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
) -> Result<String> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    Git::of(ctx, &who, &["rev-parse"]).word_if(short, "--short").word(rev).at(&cwd).text()
}

/// Returns the changed files, by the kind of change.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.status /path/to/repo
#[function]
fn status(
    ctx: &Context,
    cwd: String,
    user: Option<String>,
    password: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
) -> Result<Map> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    // With `-z` names are not quoted and may hold line breaks.
    let output = Git::of(ctx, &who, &["status", "-z", "--porcelain"]).at(&cwd).text()?;
    let mut found = Map::new();
    for line in output.split('\0') {
        let line = line.trim_start();
        // Salt splits at the first white space, so a state of two letters such as `MM` stays one key.
        let Some((state, file)) = line.split_once(char::is_whitespace) else { continue };
        let state = match state {
            "M" => "modified",
            "A" => "new",
            "D" => "deleted",
            "??" => "untracked",
            other => other,
        };
        if let Value::List(files) = found.entry_or_insert_with(state, || Value::List(Vec::new())) {
            files.push(file.trim_start().into());
        }
    }
    Ok(found)
}
