//! Functions that access other repositories.

use exec::{Context, Error, KwArgs, Result, function};
use value::{Map, Value, map};

use super::run::{Git, Who, listed, named, options, pattern, redacted, with_credentials};

fn all_remotes(ctx: &Context, who: &Who, cwd: &str, redact: bool) -> Result<Map> {
    let output = Git::of(ctx, who, &["remote", "--verbose"]).at(cwd).text()?;
    let mut found = Map::new();
    for line in output.split('\n') {
        let Some((name, rest)) = line.split_once(char::is_whitespace) else { continue };
        // From the right: the address may be a path with blanks.
        let Some((url, action)) = rest.trim().rsplit_once(char::is_whitespace) else { continue };
        let action = action.trim_start_matches('(').trim_end_matches(')').to_lowercase();
        if action != "fetch" && action != "push" {
            tracing::warn!("Unknown action '{action}' for remote '{name}' in git checkout located in {cwd}");
            continue;
        }
        // The answer ends up in the job cache, where a password would be readable for long.
        let url = if redact { redacted(url.trim()) } else { url.trim().to_owned() };
        if let Value::Map(urls) = found.entry_or_insert_with(name, || Map::new().into()) {
            urls.insert(action, url);
        }
    }
    Ok(found)
}

fn one_remote(ctx: &Context, who: &Who, cwd: &str, name: &str, redact: bool) -> Result<Value> {
    let found = all_remotes(ctx, who, cwd, redact)?.remove(name);
    found.ok_or_else(|| Error::execution(format!("Remote '{name}' not present in git checkout located at {cwd}")))
}

/// Reads lines of a hash and a ref.
fn refs_of(output: &str) -> Map {
    let pairs = output.lines().filter_map(|line| line.trim_start().split_once(char::is_whitespace));
    pairs.map(|(hash, name)| (name.trim_start(), hash)).collect()
}

/// Parses the messages of `git fetch` about new and updated refs.
fn fetched(output: &str) -> Map {
    // git has no output of `fetch` for programs, so its messages are read, as Salt does.
    let update = pattern(r"^[\s*]*(?:([0-9a-f]+)\.\.([0-9a-f]+)|\[(?:new (tag|branch)|tag update)\])\s+(.+)->");
    let mut found = Map::new();
    for line in output.split('\n') {
        let Some(hit) = update.captures(line) else { continue };
        let name = hit[4].trim_end().to_owned();
        match (hit.get(1), hit.get(2), hit.get(3)) {
            (_, _, Some(kind)) => {
                let key = if kind.as_str() == "tag" { "new tags" } else { "new branches" };
                add(&mut found, key, name);
            }
            (Some(old), Some(new), _) => {
                let updated = found.entry_or_insert_with("updated branches", || Map::new().into());
                if let Value::Map(updated) = updated {
                    updated.insert(name, map! { "old" => old.as_str(), "new" => new.as_str() });
                }
            }
            _ => add(&mut found, "updated tags", name),
        }
    }
    found
}

fn add(found: &mut Map, key: &str, name: String) {
    if let Value::List(names) = found.entry_or_insert_with(key, || Value::List(Vec::new())) {
        names.push(name.into());
    }
}

/// Clones a repository; returns True. With ``name`` the clone is made below the directory, else in the directory
/// itself.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.clone /path/to/repo_parent_dir git://github.com/saltstack/salt.git
#[function]
fn clone(
    ctx: &Context,
    cwd: String,
    url: Option<String>,
    name: Option<String>,
    #[default("")] opts: Value,
    #[default("")] git_opts: Value,
    user: Option<String>,
    password: Option<Value>,
    identity: Option<Value>,
    https_user: Option<String>,
    https_pass: Option<String>,
    #[default(false)] ignore_retcode: Value,
    #[default("base")] saltenv: String,
    output_encoding: Option<Value>,
) -> Result<bool> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    let url = url.filter(|url| !url.is_empty()).ok_or_else(|| Error::invocation("Missing 'url' argument"))?;
    let url = with_credentials(&url, https_user.as_deref(), https_pass.as_deref())?;
    let git = Git::with(ctx, &who, &git_opts)?.word("clone").words(options(&opts)?).words(["--", url.as_str()]);
    let git = match name {
        Some(name) => {
            std::fs::create_dir_all(&cwd).map_err(|error| Error::io("make the directory", &cwd, &error))?;
            git.word(name).at(&cwd)
        }
        // The target directory does not exist yet, and the user may not be allowed to enter the minion's own.
        None => git.word(cwd).at("/tmp"),
    };
    git.identity(identity, &saltenv).text()?;
    Ok(true)
}

/// Fetches from a remote and returns the changes: new branches and tags, and the updated ones.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.fetch /path/to/repo upstream
#[function]
fn fetch(
    ctx: &Context,
    cwd: String,
    remote: Option<String>,
    #[default(false)] force: bool,
    refspecs: Option<Value>,
    #[default("")] opts: Value,
    #[default("")] git_opts: Value,
    user: Option<String>,
    password: Option<Value>,
    identity: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    #[default("base")] saltenv: String,
    output_encoding: Option<Value>,
) -> Result<Map> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    // The argument `force` decides; the option in `opts` would override it.
    let opts = options(&opts)?.into_iter().filter(|word| word != "-f" && word != "--force");
    let remote = remote.filter(|remote| !remote.is_empty());
    let git = Git::with(ctx, &who, &git_opts)?.word("fetch").word_if(force, "--force").words(opts).words(remote);
    let git = git.words(refspecs.map(|refspecs| listed(&refspecs)).unwrap_or_default());
    let output = git.at(&cwd).merged().identity(identity, &saltenv).text()?;
    Ok(fetched(&output))
}

/// Returns the refs of a remote with their hashes.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.ls_remote /path/to/repo origin master
///     salt myminion git.ls_remote remote=https://mydomain.tld/repo.git ref=mytag opts='--tags'
#[function]
fn ls_remote(
    ctx: &Context,
    cwd: Option<String>,
    #[default("origin")] remote: String,
    r#ref: Option<String>,
    #[default("")] opts: Value,
    #[default("")] git_opts: Value,
    user: Option<String>,
    password: Option<Value>,
    identity: Option<Value>,
    https_user: Option<String>,
    https_pass: Option<String>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
    #[default("base")] saltenv: String,
) -> Result<Map> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let remote = with_credentials(&remote, https_user.as_deref(), https_pass.as_deref())?;
    let wanted = r#ref.filter(|name| !name.is_empty());
    let mut git = Git::with(ctx, &who, &git_opts)?.word("ls-remote").words(options(&opts)?).word(remote).words(wanted);
    if let Some(cwd) = cwd {
        git = git.at(&who.path(&cwd));
    }
    Ok(refs_of(&git.identity(identity, &saltenv).text()?))
}

/// Pulls from the upstream of the current branch and returns the output of git.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.pull /path/to/repo opts='--rebase origin master'
#[function]
fn pull(
    ctx: &Context,
    cwd: String,
    #[default("")] opts: Value,
    #[default("")] git_opts: Value,
    user: Option<String>,
    password: Option<Value>,
    identity: Option<Value>,
    #[default(false)] ignore_retcode: Value,
    #[default("base")] saltenv: String,
    output_encoding: Option<Value>,
) -> Result<String> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    let git = Git::with(ctx, &who, &git_opts)?.word("pull").words(options(&opts)?);
    git.at(&cwd).identity(identity, &saltenv).text()
}

/// Pushes to a remote and returns the output of git.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.push /path/to/repo origin master
#[function]
fn push(
    ctx: &Context,
    cwd: String,
    remote: Option<String>,
    r#ref: Option<String>,
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
    let [] = named(&kwargs, [])?;
    let git = Git::with(ctx, &who, &git_opts)?.word("push").words(options(&opts)?).words(remote).words(r#ref);
    git.at(&cwd).identity(identity, &saltenv).text()
}

/// Returns the addresses of a remote to fetch from and to push to.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.remote_get /path/to/repo upstream
#[function]
fn remote_get(
    ctx: &Context,
    cwd: String,
    #[default("origin")] remote: String,
    user: Option<String>,
    password: Option<Value>,
    #[default(true)] redact_auth: bool,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
) -> Result<Value> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    one_remote(ctx, &who, &cwd, &remote, redact_auth)
}

/// Returns the refs of the repository at an address with their hashes.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.remote_refs https://github.com/saltstack/salt.git filter=develop
#[function]
fn remote_refs(
    ctx: &Context,
    url: String,
    #[default(false)] heads: bool,
    #[default(false)] tags: bool,
    user: Option<String>,
    password: Option<Value>,
    identity: Option<Value>,
    https_user: Option<String>,
    https_pass: Option<String>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
    #[default("base")] saltenv: String,
    kwargs: KwArgs,
) -> Result<Map> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let [filter] = named(&kwargs, ["filter"])?;
    let url = with_credentials(&url, https_user.as_deref(), https_pass.as_deref())?;
    let git = Git::of(ctx, &who, &["ls-remote"]).word_if(heads, "--heads").word_if(tags, "--tags").word(url);
    let git = git.words(filter.truthy().then(|| filter.to_string()));
    Ok(refs_of(&git.identity(identity, &saltenv).text()?))
}

/// Replaces the addresses of a remote and returns them.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.remote_set /path/to/repo git@github.com:user/repo.git remote=upstream
#[function]
fn remote_set(
    ctx: &Context,
    cwd: String,
    url: String,
    #[default("origin")] remote: String,
    user: Option<String>,
    password: Option<Value>,
    https_user: Option<String>,
    https_pass: Option<String>,
    push_url: Option<String>,
    push_https_user: Option<String>,
    push_https_pass: Option<String>,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
) -> Result<Value> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    if all_remotes(ctx, &who, &cwd, true)?.contains_key(&remote) {
        // Removed and added rather than changed: a separate push address would survive `set-url`.
        Git::of(ctx, &who, &["remote", "rm", &remote]).at(&cwd).text()?;
    }
    let url = with_credentials(&url, https_user.as_deref(), https_pass.as_deref())?;
    Git::of(ctx, &who, &["remote", "add", &remote, &url]).at(&cwd).text()?;
    if let Some(url) = push_url.filter(|url| !url.is_empty()) {
        let url = with_credentials(&url, push_https_user.as_deref(), push_https_pass.as_deref())?;
        Git::of(ctx, &who, &["remote", "set-url", "--push", &remote, &url]).at(&cwd).text()?;
    }
    one_remote(ctx, &who, &cwd, &remote, true)
}

/// Returns all remotes with their addresses to fetch from and to push to.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion git.remotes /path/to/repo
#[function]
fn remotes(
    ctx: &Context,
    cwd: String,
    user: Option<String>,
    password: Option<Value>,
    #[default(true)] redact_auth: bool,
    #[default(false)] ignore_retcode: Value,
    output_encoding: Option<Value>,
) -> Result<Map> {
    let who = Who { user, password, ignore_retcode, output_encoding };
    let cwd = who.path(&cwd);
    all_remotes(ctx, &who, &cwd, redact_auth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    #[test]
    fn what_was_fetched_is_read() {
        // git marks an updated tag with a `t`, which Salt's pattern does not allow: it is not reported.
        let output = "From /x\n   1a2b..3c4d  master     -> origin/master\n * [new branch]      dev        -> origin/dev\n \
                      * [new tag]         v1         -> v1\n t [tag update]      v0         -> v0";
        let expected = map! {
            "updated branches" => map! { "master" => map! { "old" => "1a2b", "new" => "3c4d" } },
            "new branches" => list!["dev"], "new tags" => list!["v1"],
        };
        assert_eq!(fetched(output), expected);
    }
}
