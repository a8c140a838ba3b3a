//! Sources of packages.

use exec::{Context, Error, KwArgs, Result, function};
use value::{Map, Value, map};

use super::call::{Zypper, parsed};
use super::{below, common, root_of};
use crate::pkg::repo_file::{self, RepoFile};

/// The settings of all sources, by their alias.
fn all(ctx: &Context, root: Option<&str>) -> Result<Map> {
    let folder = below(ctx, root, "/etc/zypp/repos.d");
    let mut found = Map::new();
    for name in repo_file::names_in(&folder, ".repo")? {
        for (alias, settings) in RepoFile::read(&format!("{folder}/{name}"), true)?.sections {
            let mut settings = settings.into_map().unwrap_or_default();
            settings.remove("comments");
            settings.insert("alias", alias.clone());
            for (_, value) in settings.iter_mut() {
                // Salt shows the flags as booleans and `NONE`, zypper's "no value", as None.
                let shown = match value.as_str() {
                    Some(number @ ("0" | "1")) => Value::Bool(number == "1"),
                    Some("NONE") => Value::Null,
                    _ => continue,
                };
                *value = shown;
            }
            found.insert(alias, settings);
        }
    }
    Ok(found)
}

/// Returns the sources and their settings.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_repos
#[function]
fn list_repos(ctx: &Context, root: Option<String>, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    all(ctx, root.as_deref())
}

/// Returns the settings of a source; empty when there is none.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.get_repo alias
#[function]
fn get_repo(ctx: &Context, repo: String, root: Option<String>, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    one(ctx, &repo, root.as_deref())
}

fn one(ctx: &Context, repo: &str, root: Option<&str>) -> Result<Map> {
    Ok(all(ctx, root)?.remove(repo).and_then(Value::into_map).unwrap_or_default())
}

/// Removes a source.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.del_repo alias
#[function]
fn del_repo(ctx: &Context, repo: String, root: Option<String>) -> Result<Map> {
    removed(ctx, &repo, root.as_deref())
}

fn removed(ctx: &Context, repo: &str, root: Option<&str>) -> Result<Map> {
    if all(ctx, root)?.contains_key(repo) {
        let zypper = Zypper { xml: true, ..Zypper::at(root) };
        let said = zypper.call(ctx, &["rr", "--loose-auth", "--loose-query", repo])?;
        let answer = parsed(&said.stdout)?;
        // The progress in the answer is the only sign that something was removed.
        let has_progress = answer.descendants().any(|node| node.has_tag_name("progress"));
        let message = answer.descendants().find(|node| node.has_tag_name("message")).and_then(|node| node.text());
        if let Some(message) = message.filter(|_| has_progress) {
            return Ok(map! { repo => true, "message" => message });
        }
    }
    Err(Error::execution(format!("Repository '{repo}' not found.")))
}

/// Makes or changes a source; returns its settings.
///
/// The address is ``url``, ``mirrorlist`` or ``baseurl``; ``enabled``, ``refresh``, ``cache``, ``gpgcheck``, ``priority`` and
/// ``name`` are set, ``gpgautoimport=True`` imports its key.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.mod_repo alias alias=new_alias baseurl=http://host.com/
#[function]
fn mod_repo(ctx: &Context, repo: String, kwargs: KwArgs) -> Result<Map> {
    let kwargs = kwargs.given();
    let root = root_of(&kwargs);
    changed(ctx, &repo, root.as_deref(), kwargs)
}

fn changed(ctx: &Context, repo: &str, root: Option<&str>, mut kwargs: Map) -> Result<Map> {
    let mut added = !all(ctx, root)?.contains_key(repo);
    if added {
        add(ctx, repo, root, &kwargs)?;
    }
    let mut current = one(ctx, repo, root)?;
    if !added
        && let Some(url) = kwargs.get("baseurl")
        && current.get("baseurl") != Some(url)
    {
        // zypper cannot change an address, so the source is replaced with all its settings.
        current.update(kwargs);
        current.entry_or_insert_with("cache", || false.into());
        removed(ctx, repo, root)?;
        add(ctx, repo, root, &current)?;
        (kwargs, added) = (current, true);
    }
    let options = options(&kwargs);
    if !options.is_empty() {
        let mut words = vec!["mr".to_owned()];
        words.extend(options.iter().cloned());
        words.push(repo.to_owned());
        // Without the global `--no-refresh`, which has the name of one of the options of `mr`.
        Zypper { xml: true, refreshes: true, ..Zypper::at(root) }.call(ctx, &words)?;
    }
    let mut comment = None;
    if kwargs.get("gpgautoimport") == Some(&Value::Bool(true)) {
        kwargs.insert("repos", repo);
        refresh(ctx, root, &kwargs)?;
    } else if !added && options.is_empty() {
        comment = Some("Specified arguments did not result in modification of repo");
    }
    let mut found = one(ctx, repo, root)?;
    found.extend(comment.map(|comment| ("comment", comment)));
    Ok(found)
}

fn add(ctx: &Context, repo: &str, root: Option<&str>, kwargs: &Map) -> Result<()> {
    let url = ["url", "mirrorlist", "baseurl"].iter().find_map(|name| kwargs.get(name));
    let Some(url) = url.filter(|url| url.truthy()).map(Value::to_string) else {
        let text = format!("Repository '{repo}' not found, and neither 'baseurl' nor 'mirrorlist' was specified");
        return Err(Error::execution(text));
    };
    let scheme = url.split_once(':').map(|(scheme, _)| scheme).unwrap_or_default();
    if scheme.is_empty() || !scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)) {
        let text = format!("Repository '{repo}' not found and URL for baseurl/mirrorlist is malformed");
        return Err(Error::execution(text));
    }
    for (alias, settings) in &all(ctx, root)? {
        let there = settings.get("baseurl").map(Value::to_string).unwrap_or_default();
        // Two names for one address would list every package twice.
        if there == with_path(&url) {
            return Err(Error::execution(format!("Repository '{repo}' already exists as '{alias}'.")));
        }
    }
    Zypper { xml: true, ..Zypper::at(root) }.call(ctx, &["ar", &url, repo])?;
    // Zypper may end well without having added anything.
    if all(ctx, root)?.contains_key(repo) {
        return Ok(());
    }
    let text = format!("Failed add new repository '{repo}' for unspecified reason. Please check zypper logs.");
    Err(Error::execution(text))
}

/// Adds a path to an address that consists of a host alone.
fn with_path(url: &str) -> String {
    match url.split_once("://") {
        // Zypper stores an address without a path with a slash.
        Some((_, rest)) if !rest.is_empty() && !rest.contains(['/', '?', '#']) => format!("{url}/"),
        _ => url.to_owned(),
    }
}

/// The settings as options of `zypper mr`.
fn options(kwargs: &Map) -> Vec<String> {
    let mut words = Vec::new();
    let switches = [
        ("enabled", "--enable", "--disable"),
        ("refresh", "--refresh", "--no-refresh"),
        ("cache", "--keep-packages", "--no-keep-packages"),
        ("gpgcheck", "--gpgcheck", "--no-gpgcheck"),
    ];
    for (name, on, off) in switches {
        words.extend(kwargs.get(name).map(|value| if value.truthy() { on } else { off }.to_owned()));
    }
    words.extend(kwargs.get("priority").map(|priority| format!("--priority={priority}")));
    // The quotes are Salt's and end up in the name.
    words.extend(kwargs.get("humanname").map(|name| format!("--name='{name}'")));
    words.extend(kwargs.get("name").into_iter().flat_map(|name| ["--name".to_owned(), name.to_string()]));
    words
}

/// Refreshes the package metadata: True for each source that changed, False for each that did not.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.refresh_db [force=true|false]
#[function]
fn refresh_db(
    ctx: &Context,
    force: Option<bool>,
    root: Option<String>,
    #[default(false)] gpgautoimport: bool,
    kwargs: KwArgs,
) -> Result<Map> {
    let mut all = kwargs.given();
    all.extend(force.map(|force| ("force", force)));
    all.insert("gpgautoimport", gpgautoimport);
    refresh(ctx, root.as_deref(), &all)
}

/// The same, of a call with arguments that may say more.
pub(super) fn refresh(ctx: &Context, root: Option<&str>, kwargs: &Map) -> Result<Map> {
    common::clear_refresh_mark(ctx);
    let usual = || {
        let zypper = ctx.pillar.get("zypper").and_then(|zypper| zypper.get("refreshdb_force"));
        zypper.is_none_or(Value::truthy)
    };
    let force = kwargs.get("force").filter(|force| !force.is_null()).map_or_else(usual, Value::truthy);
    let mut words = Vec::new();
    words.extend(kwargs.get("gpgautoimport").is_some_and(Value::truthy).then(|| "--gpg-auto-import-keys".to_owned()));
    words.push("refresh".to_owned());
    words.extend(force.then(|| "--force".to_owned()));
    words.extend(match kwargs.get("repos") {
        Some(Value::List(repos)) => repos.iter().map(Value::to_string).collect(),
        Some(repo) => vec![repo.to_string()],
        None => Vec::new(),
    });
    let said = Zypper { refreshes: true, ..Zypper::at(root) }.call(ctx, &words)?;
    Ok(refreshed(&said.stdout))
}

fn refreshed(text: &str) -> Map {
    let mut found = Map::new();
    for line in text.lines().map(str::trim) {
        // Only this text of zypper shows which repo was new.
        let Some(name) = line.split('\'').nth(1).map(str::trim) else { continue };
        if line.starts_with("Repository") && line.contains("is up to date") {
            found.insert(name, false);
        } else if line.starts_with("Building") && line.contains("done") {
            found.insert(name, true);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_path() {
        assert_eq!(with_path("http://x"), "http://x/");
        assert_eq!(with_path("http://x/y"), "http://x/y");
        assert_eq!(with_path("dir:///srv"), "dir:///srv");
    }

    #[test]
    fn the_outcome_of_a_refresh_is_read() {
        let text = "Repository 'a' is up to date.\nRetrieving repository 'b' metadata [...done]\nBuilding repository 'b' cache \
                    [....done]\nAll repositories have been refreshed.\n";
        assert_eq!(refreshed(text), map! { "a" => false, "b" => true });
    }
}
