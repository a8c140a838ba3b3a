//! Functions that change the checkout and its branches.

use exec::{Context, Error, KwArgs, Result, function};
use value::Value;

use super::run::{Git, Who, named, options};

/// Adds a file or a directory to the index and returns the output of git.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.add /path/to/repo foo/bar.py
#[function]
fn add(
    ctx: &Context,
    cwd: String,
    filename: String,
    #[default("")] opts: Value,
    #[default("")] git_opts: Value,
    user: Option<String>,
    password: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
) -> Result<String> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    // Salt always adds the option itself, because the answer lists what was added.
    let opts = options(&opts)?.into_iter().filter(|word| word != "-v" && word != "--verbose");
    let git = Git::with(ctx, &who, &git_opts)?.words(["add", "--verbose"]).words(opts);
    git.words(["--", filename.as_str()]).at(&cwd).text()
}

/// Writes an archive of a revision; returns True. Files are placed below ``prefix``, by default the name of the
/// directory; an empty prefix puts them at the top. ``format`` names the format if the file name does not.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.archive /path/to/repo /path/to/archive.tar
#[function]
fn archive(
    ctx: &Context,
    cwd: String,
    output: String,
    #[default("HEAD")] rev: String,
    prefix: Option<String>,
    #[default("")] git_opts: Value,
    user: Option<String>,
    password: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
    kwargs: KwArgs,
) -> Result<bool> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    let [format] = named(&kwargs, ["format"])?;
    let mut git = Git::with(ctx, &who, &git_opts)?.word("archive");
    let prefix = prefix.unwrap_or_else(|| {
        let name = std::path::Path::new(&cwd).file_name().unwrap_or_default();
        format!("{}/", name.to_string_lossy())
    });
    if !prefix.is_empty() {
        // A separate prefix keeps an archive from unpacking into the current directory; an empty text turns it off.
        git = git.words(["--prefix".to_owned(), prefix]);
    }
    if format.truthy() {
        git = git.words(["--format".to_owned(), format.to_string()]);
    }
    git.words(["--output".to_owned(), who.path(&output), rev]).at(&cwd).text()?;
    Ok(true)
}

/// Makes, renames or deletes a branch as the options say; returns True.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.branch /path/to/repo mybranch
///     salt myminion git.branch /path/to/repo newbranch opts='-m oldbranch'
#[function]
fn branch(
    ctx: &Context,
    cwd: String,
    name: Option<String>,
    #[default("")] opts: Value,
    #[default("")] git_opts: Value,
    user: Option<String>,
    password: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
) -> Result<bool> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    let git = Git::with(ctx, &who, &git_opts)?.word("branch").words(options(&opts)?).words(name);
    git.at(&cwd).text()?;
    Ok(true)
}

/// Checks a revision out and returns the output of git.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.checkout /path/to/repo somebranch
#[function]
fn checkout(
    ctx: &Context,
    cwd: String,
    rev: Option<String>,
    #[default(false)] force: bool,
    #[default("")] opts: Value,
    #[default("")] git_opts: Value,
    user: Option<String>,
    password: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
) -> Result<String> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    let opts = options(&opts)?;
    if rev.is_none() && !opts.iter().any(|word| word == "-b" || word == "-B") {
        return Err(Error::invocation("'rev' argument is required unless -b or -B in opts"));
    }
    let git = Git::with(ctx, &who, &git_opts)?.word("checkout").word_if(force, "--force").words(opts).words(rev);
    git.at(&cwd).merged().text()
}

/// Commits the index, or a file alone, and returns the output of git.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.commit /path/to/repo 'The commit message'
#[function]
fn commit(
    ctx: &Context,
    cwd: String,
    message: String,
    #[default("")] opts: Value,
    #[default("")] git_opts: Value,
    user: Option<String>,
    password: Option<Value>,
    filename: Option<String>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
) -> Result<String> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    let mut git = Git::with(ctx, &who, &git_opts)?.words(["commit", "-m", message.as_str()]).words(options(&opts)?);
    if let Some(filename) = filename.filter(|filename| !filename.is_empty()) {
        git = git.words(["--", filename.as_str()]);
    }
    git.at(&cwd).text()
}

/// Restores a file, or all below a directory, from the index.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.discard_local_changes /path/to/repo
///     salt myminion git.discard_local_changes /path/to/repo path=foo
#[function]
fn discard_local_changes(
    ctx: &Context,
    cwd: String,
    #[default(".")] path: String,
    user: Option<String>,
    password: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
) -> Result<String> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    Git::of(ctx, &who, &["checkout", "--", &path]).at(&cwd).merged().text()
}

/// Makes a repository and returns the output of git.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.init /path/to/repo
///     salt myminion git.init /path/to/bare/repo.git bare=True
#[function]
fn init(
    ctx: &Context,
    cwd: String,
    #[default(false)] bare: bool,
    template: Option<String>,
    separate_git_dir: Option<String>,
    shared: Option<Value>,
    #[default("")] opts: Value,
    #[default("")] git_opts: Value,
    user: Option<String>,
    password: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
) -> Result<String> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    let mut git = Git::with(ctx, &who, &git_opts)?.word("init").word_if(bare, "--bare");
    git = git.words(template.map(|template| format!("--template={template}")));
    git = git.words(separate_git_dir.map(|directory| format!("--separate-git-dir={directory}")));
    git = git.words(shared.map(|shared| match shared {
        // git distinguishes an octal mode from a word by the leading zero, which YAML takes away.
        Value::Int(mode) => format!("--shared=0{mode}"),
        other => format!("--shared={}", other.to_string().to_lowercase()),
    }));
    git.words(options(&opts)?).word(cwd).text()
}

/// Merges a revision into the current branch and returns the output of git.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.merge /path/to/repo
///     salt myminion git.merge /path/to/repo rev=upstream/foo
#[function]
fn merge(
    ctx: &Context,
    cwd: String,
    rev: Option<String>,
    #[default("")] opts: Value,
    #[default("")] git_opts: Value,
    user: Option<String>,
    password: Option<Value>,
    identity: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
    kwargs: KwArgs,
) -> Result<String> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    let [] = named(&kwargs, [])?;
    let rev = rev.filter(|rev| !rev.is_empty());
    let git = Git::with(ctx, &who, &git_opts)?.word("merge").words(options(&opts)?).words(rev);
    git.at(&cwd).identity(identity, "base").text()
}

/// Rebases the current branch and returns the output of git.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.rebase /path/to/repo master
#[function]
fn rebase(
    ctx: &Context,
    cwd: String,
    #[default("master")] rev: String,
    #[default("")] opts: Value,
    #[default("")] git_opts: Value,
    user: Option<String>,
    password: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
) -> Result<String> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    let opts = options(&opts)?;
    // An editor would wait for a user forever.
    if opts.iter().any(|word| word == "-i" || word == "--interactive") {
        return Err(Error::invocation("Interactive rebases are not supported"));
    }
    // `rev` may hold several words here, such as `--onto main topic`; Salt splits it like options.
    let git = Git::with(ctx, &who, &git_opts)?.word("rebase").words(opts).words(options(&rev.into())?);
    git.at(&cwd).text()
}

/// Resets the current branch, the index or the files according to the options, and returns the output of git.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.reset /path/to/repo opts='--hard origin/master'
#[function]
fn reset(
    ctx: &Context,
    cwd: String,
    #[default("")] opts: Value,
    #[default("")] git_opts: Value,
    user: Option<String>,
    password: Option<Value>,
    identity: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
) -> Result<String> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    let git = Git::with(ctx, &who, &git_opts)?.word("reset").words(options(&opts)?);
    git.at(&cwd).identity(identity, "base").text()
}

/// Removes files from the index and the directory and returns the output of git.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.rm /path/to/repo foo/bar.py
#[function]
fn rm(
    ctx: &Context,
    cwd: String,
    filename: String,
    #[default("")] opts: Value,
    #[default("")] git_opts: Value,
    user: Option<String>,
    password: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
) -> Result<String> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    let git = Git::with(ctx, &who, &git_opts)?.word("rm").words(options(&opts)?).words(["--", filename.as_str()]);
    git.at(&cwd).text()
}

/// Stashes changes, or restores them, according to the action, and returns the output of git.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.stash /path/to/repo save opts='work in progress'
///     salt myminion git.stash /path/to/repo apply
#[function]
fn stash(
    ctx: &Context,
    cwd: String,
    #[default("save")] action: String,
    #[default("")] opts: Value,
    #[default("")] git_opts: Value,
    user: Option<String>,
    password: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
) -> Result<String> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    let git = Git::with(ctx, &who, &git_opts)?.words(["stash", action.as_str()]).words(options(&opts)?);
    git.at(&cwd).text()
}

/// Runs a command of ``git submodule`` and returns the output of git.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.submodule /path/to/repo update opts='--init'
#[function]
fn submodule(
    ctx: &Context,
    cwd: String,
    command: String,
    #[default("")] opts: Value,
    #[default("")] git_opts: Value,
    user: Option<String>,
    password: Option<Value>,
    identity: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    #[default("base")] saltenv: String,
    output_encoding: Option<Value>,
    kwargs: KwArgs,
) -> Result<String> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    let [init] = named(&kwargs, ["init"])?;
    if init.truthy() {
        return Err(Error::invocation(
            "The 'init' argument is no longer supported. Either set 'command' to 'init', or include '--init' in the 'opts' \
             argument and set 'command' to 'update'.",
        ));
    }
    let git = Git::with(ctx, &who, &git_opts)?.words(["submodule", command.as_str()]).words(options(&opts)?);
    git.at(&cwd).identity(identity, &saltenv).text()
}

/// Returns the target of a symbolic ref, or sets or deletes it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.symbolic_ref /path/to/repo HEAD
///     salt myminion git.symbolic_ref /path/to/repo HEAD 'refs/heads/master'
#[function]
fn symbolic_ref(
    ctx: &Context,
    cwd: String,
    r#ref: String,
    value: Option<String>,
    #[default("")] opts: Value,
    #[default("")] git_opts: Value,
    user: Option<String>,
    password: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
) -> Result<String> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    let opts = options(&opts)?;
    if value.is_some() && opts.iter().any(|word| word == "-d" || word == "--delete") {
        return Err(Error::invocation("Value cannot be set for symbolic ref if -d/--delete is included in opts"));
    }
    let value = value.filter(|value| !value.is_empty());
    let git = Git::with(ctx, &who, &git_opts)?.word("symbolic-ref").words(opts).word(r#ref).words(value);
    git.at(&cwd).text()
}

/// Makes a tag, annotated with ``message``, or deletes one with the option ``-d``; returns the output of git.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.tag /path/to/repo v1.2
///     salt myminion git.tag /path/to/repo v1.2 3b96c6dd
#[function]
fn tag(
    ctx: &Context,
    cwd: String,
    name: String,
    #[default("HEAD")] r#ref: String,
    message: Option<String>,
    #[default("")] opts: Value,
    #[default("")] git_opts: Value,
    user: Option<String>,
    password: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
) -> Result<String> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    let opts: Vec<String> = options(&opts)?.into_iter().filter(|word| word != "-a" && word != "--annotate").collect();
    if opts.iter().any(|word| word == "-m" || word.contains("--message")) {
        return Err(Error::invocation("Tag messages must be passed in the \"message\" argument"));
    }
    let mut git = Git::with(ctx, &who, &git_opts)?.word("tag");
    if let Some(message) = message {
        git = git.words(["-a", "-m", message.as_str()]);
    }
    // `git tag -d` would take the revision for the name of a second tag.
    let deletes = opts.iter().any(|word| word == "-d" || word == "--delete");
    git = git.words(opts).word(name);
    if !deletes {
        git = git.word(r#ref);
    }
    git.at(&cwd).merged().text()
}
