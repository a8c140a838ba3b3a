//! The sources apt takes packages from.

use std::path::{Path, PathBuf};

use exec::{Context, Error, KwArgs, Result, function};
use value::{Map, Value, map};

use super::changes::refresh_lists;
use super::definition::{self, Facts};
use super::{failure, flag, keys};
use crate::pkg::sources::{Line, MAIN_FILE, Source, SourcesList, Stanza, combined_comments, yes_or_no};
use crate::subprocess;
use crate::util;

fn facts(ctx: &Context) -> Facts<'_> {
    let grain = |name| ctx.grains.get_str(name).unwrap_or_default();
    Facts { os: grain("os"), codename: grain("oscodename") }
}

/// Returns the sources of packages, by address.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_repos
#[function]
fn list_repos(ctx: &Context, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    Ok(ctx.blocking(|| listed(&SourcesList::read(Path::new("/")))))
}

fn listed(sources: &SourcesList) -> Map {
    let mut repos = Map::new();
    for (uri, shown) in sources.list.iter().filter(|source| !source.invalid()).flat_map(Source::repo_entries) {
        if let Value::List(list) = repos.entry_or_insert_with(uri, || Value::List(Vec::new())) {
            list.push(Value::Map(shown));
        }
    }
    repos
}

/// Returns a source, given as a line of a sources file; nothing if there is no such source.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.get_repo "deb http://deb.debian.org/debian bookworm main"
#[function]
fn get_repo(ctx: &Context, repo: String, kwargs: KwArgs) -> Result<Map> {
    let auth = kwargs.0.get_str("ppa_auth");
    let repo = facts(ctx).ppa(&repo, auth).map_or(repo, |(line, ..)| line);
    ctx.blocking(move || found(&SourcesList::read(Path::new("/")), &repo)).map_err(Error::Invocation)
}

fn found(sources: &SourcesList, repo: &str) -> std::result::Result<Map, String> {
    let repos = listed(sources);
    // Before the definition is parsed, as in Salt: without any source even a wrong definition is
    // simply not found.
    if repos.is_empty() {
        return Ok(Map::new());
    }
    let wanted = definition::split(repo)?;
    let fits = |shown: &&Map| {
        let text = |key| shown.get_str(key).unwrap_or_default();
        let comps = shown.get("comps").map(definition::words).unwrap_or_default();
        text("type") == wanted.kind
            // A slash at the end makes no difference to apt.
            && text("uri").trim_end_matches('/') == wanted.uri.trim_end_matches('/')
            && text("dist") == wanted.dist
            // One component in common is enough.
            && (wanted.comps.is_empty() || wanted.comps.iter().any(|comp| comps.contains(comp)))
    };
    let all = repos.values().filter_map(Value::as_list).flatten().filter_map(Value::as_map);
    Ok(all.into_iter().find(fits).cloned().unwrap_or_default())
}

/// Deletes a source; returns a message.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.del_repo "deb http://deb.debian.org/debian bookworm main"
#[function]
fn del_repo(ctx: &Context, repo: String, kwargs: KwArgs) -> Result<String> {
    let ppa = facts(ctx).ppa(&repo, kwargs.0.get_str("ppa_auth")).map(|(line, ..)| line);
    let (is_ppa, line) = (ppa.is_some(), ppa.unwrap_or(repo));
    let text = ctx.blocking(move || removed(Path::new("/"), &line, is_ppa))?;
    refresh_lists(ctx, &KwArgs::default())?;
    Ok(text)
}

fn removed(root: &Path, repo: &str, is_ppa: bool) -> Result<String> {
    let mut sources = SourcesList::read(root);
    let wanted = definition::split(repo).map_err(Error::Invocation)?;
    let mut files: Vec<String> = Vec::new();
    let mut left = Vec::new();
    for mut source in std::mem::take(&mut sources.list) {
        let own = source.architectures() == wanted.architectures && source.is(&wanted.kind, &wanted.uri, &wanted.dist);
        // A PPA is added with its source packages, and goes with them.
        let of_ppa = is_ppa && wanted.kind == "deb" && source.is("deb-src", &wanted.uri, &wanted.dist);
        if source.invalid() || !(own || of_ppa) {
            left.push(source);
            continue;
        }
        let file = source.file().to_owned();
        let (keep, touched) = without(&mut source, &wanted);
        if keep {
            left.push(source);
        }
        if touched && !files.contains(&file) {
            files.push(file);
        }
    }
    sources.list = left;
    if files.is_empty() {
        return Err(Error::execution(format!("Repo {repo} doesn't exist in the sources.list(s)")));
    }
    sources.save().map_err(|error| Error::io("write", MAIN_FILE, &error))?;
    let text = |file: &String| {
        let used = sources.list.iter().any(|source| !source.invalid() && source.file() == file);
        // The main file stays even if it is empty.
        if !used && file.contains("sources.list.d/") && std::fs::remove_file(sources.real(file)).is_ok() {
            return format!("File {file} containing repo '{repo}' has been removed.");
        }
        format!("Repo '{repo}' has been removed from {file}.\n")
    };
    Ok(files.iter().map(text).collect())
}

/// Removes release or components from a source. Returns whether something of it stays, and whether it was changed.
fn without(source: &mut Source, wanted: &Line) -> (bool, bool) {
    let same = |a: &[String], b: &[String]| a.iter().all(|x| b.contains(x)) && b.iter().all(|x| a.contains(x));
    let comps = source.comps();
    // All components are named, so the whole release goes. A stanza may hold others.
    if same(&comps, &wanted.comps) {
        let mut suites = source.suites();
        if let Some(place) = suites.iter().position(|suite| *suite == wanted.dist) {
            suites.remove(place);
        }
        source.set_suites(&suites);
        return (!suites.is_empty(), true);
    }
    let rest: Vec<String> = comps.iter().filter(|comp| !wanted.comps.contains(comp)).cloned().collect();
    if rest.len() == comps.len() {
        return (true, false);
    }
    let keep = !rest.is_empty();
    source.set_comps(rest);
    (keep, true)
}

/// Adds a source, or changes a similar one. Keys are given by ``key_url``, ``keyid`` with ``keyserver`` or
/// ``key_text``; the package lists are refreshed unless ``refresh=False``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.mod_repo 'deb [signed-by=/etc/apt/keyrings/k.gpg] http://example.org/debian stable main'
#[function]
fn mod_repo(
    ctx: &Context,
    repo: String,
    #[default("base")] saltenv: String,
    #[default(true)] aptkey: bool,
    kwargs: KwArgs,
) -> Result<Map> {
    let mut settings = kwargs.given();
    let refresh = settings.get("refresh_db").or_else(|| settings.get("refresh")).is_none_or(util::is_true);
    let aptkey = aptkey && util::which("apt-key").is_some();
    if repo.starts_with("ppa:") {
        return add_ppa(ctx, repo, refresh);
    }
    let entry = definition::split(&repo).map_err(Error::Invocation)?;
    if entry.invalid {
        return Err(Error::invocation(format!(
            "Name {repo} is not valid. This must be the complete repo entry as seen in the sources file"
        )));
    }
    settings.insert("signedby", entry.signedby.as_str());
    // The key first: with the source in place but no key, the refresh would fail.
    keys::fetch(ctx, &mut settings, &entry.signedby, &saltenv, aptkey)?;
    let text = repo.clone();
    ctx.blocking(move || changed(Path::new("/"), &text, &entry, &settings, aptkey))?;
    if refresh {
        refresh_lists(ctx, &KwArgs::default())?;
    }
    let line = repo.clone();
    let now = ctx.blocking(move || found(&SourcesList::read(Path::new("/")), &line));
    Ok(map! { repo => now.map_err(Error::Invocation)? })
}

fn add_ppa(ctx: &Context, repo: String, refresh: bool) -> Result<Map> {
    let facts = facts(ctx);
    let Some((line, ..)) = facts.ppa(&repo, None) else {
        return Err(Error::execution(format!("cannot parse \"ppa:\" style repo definitions: {repo}")));
    };
    let now = ctx.blocking(move || found(&SourcesList::read(Path::new("/")), &line)).map_err(Error::Invocation)?;
    if !now.is_empty() {
        return Ok(map! { repo => now });
    }
    if util::which("apt-add-repository").is_none() {
        return Err(Error::execution("not supported: ppa: without the program apt-add-repository"));
    }
    let said = subprocess::quiet(ctx, &["apt-add-repository", "-y", &repo])?;
    if failure(&said).is_some() {
        let command = format!("['apt-add-repository', '-y', '{repo}']");
        let (code, why) = (said.retcode.unwrap_or(1), said.stderr.trim_end());
        let text = format!("Unable to add PPA '{}'. '{command}' exited with status {code}: '{why}'", &repo[4..]);
        return Err(Error::execution(text));
    }
    if refresh {
        refresh_lists(ctx, &KwArgs::default())?;
    }
    Ok(map! { repo => said.into_map() })
}

fn changed(root: &Path, repo: &str, entry: &Line, settings: &Map, aptkey: bool) -> Result<()> {
    let mut sources = SourcesList::read(root);
    let kwargs = KwArgs(settings.clone());
    if flag(&kwargs, "consolidate", false) {
        consolidate(&mut sources);
    }
    let mut comps = entry.comps.clone();
    if let Some(more) = settings.get("comps") {
        comps.extend(definition::words(more).into_iter().filter(|comp| !entry.comps.contains(comp)));
    }
    let architectures = settings.get("architectures").map_or(entry.architectures.clone(), definition::words);
    let place = match like(&sources, entry, settings, &comps, &architectures) {
        Some(place) => place,
        None => {
            let trusted = settings.get("trusted").map(definition::flag).transpose().map_err(Error::Invocation)?;
            // Without apt-key there is no common keyring, so the source must name the key it trusts.
            if !aptkey && entry.signedby.is_empty() && trusted.flatten() != Some(true) {
                return Err(Error::invocation("missing 'signedby' or 'trusted' option when apt-key is missing"));
            }
            sources.list.push(created(repo, entry, settings)?);
            sources.list.len() - 1
        }
    };
    let source = &mut sources.list[place];
    if let Source::Line(line) = source {
        // Salt replaces the text of the line first and then sets the single fields.
        line.line = format!("{}\n", repo.trim_end_matches('\n'));
    }
    set(source, entry, settings, architectures).map_err(Error::Invocation)?;
    sources.save().map_err(|error| Error::io("write", MAIN_FILE, &error))
}

/// Finds the source a definition is about: same kind, address and release, and something in common.
fn like(
    sources: &SourcesList,
    entry: &Line,
    settings: &Map,
    comps: &[String],
    architectures: &[String],
) -> Option<usize> {
    let named = settings.get_str("dist").zip(settings.get_str("type"));
    let fits = |source: &Source| {
        let by_name = named.is_some_and(|(dist, kind)| {
            source.suites().iter().any(|own| own == dist) && source.kind().split_whitespace().any(|own| own == kind)
        });
        let own = source.comps();
        (source.is(&entry.kind, &entry.uri, &entry.dist) || by_name)
            && (own.is_empty()
                || comps.iter().any(|comp| own.contains(comp))
                || source.architectures() != architectures)
    };
    sources.list.iter().position(|source| !source.invalid() && fits(source))
}

fn created(repo: &str, entry: &Line, settings: &Map) -> Result<Source> {
    let file = settings.get_str("file");
    if let Some(file) = file.filter(|file| file.ends_with(".sources")) {
        let mut stanza = Stanza { file: file.to_owned(), ..Stanza::default() };
        stanza.set("Types", entry.kind.clone());
        stanza.set("URIs", entry.uri.clone());
        stanza.set("Suites", entry.dist.clone());
        stanza.set("Components", entry.comps.join(" "));
        let asked = ["trusted", "Trusted"].iter().any(|name| settings.get(name) == Some(&Value::Bool(true)));
        if asked || (!settings.contains_key("trusted") && entry.trusted == Some(true)) {
            stanza.set("Trusted", "yes".into());
        }
        return Ok(Source::Stanza(stanza));
    }
    Line::parse(repo, file).map(Source::Line).map_err(Error::Invocation)
}

/// Sets the requested fields of a source.
fn set(
    source: &mut Source,
    entry: &Line,
    settings: &Map,
    architectures: Vec<String>,
) -> std::result::Result<(), String> {
    let text = |name: &str| settings.get(name).filter(|value| !value.is_null()).map(Value::to_string);
    let comps = settings.get("comps").map_or(entry.comps.clone(), definition::words);
    let disabled = match (settings.get("disabled"), settings.get("enabled")) {
        (Some(disabled), _) => Some(util::is_true(disabled)),
        (None, Some(enabled)) => Some(!util::is_true(enabled)),
        (None, None) => None,
    };
    if let Some(file) = text("file") {
        source.set_file(&file);
    }
    source.set_comps(comps);
    let comment = settings.get("comments").map(combined_comments);
    match source {
        Source::Line(line) => {
            if !architectures.is_empty() || !line.architectures.is_empty() {
                line.architectures = architectures;
            }
            line.disabled = disabled.unwrap_or(line.disabled);
            line.comment = comment.unwrap_or(std::mem::take(&mut line.comment));
            line.dist = text("dist").unwrap_or(std::mem::take(&mut line.dist));
            // Not kept from before: the definition always contains the place of the key.
            line.signedby = text("signedby").unwrap_or_default();
            if let Some(trusted) = settings.get("trusted") {
                line.trusted = definition::flag(trusted)?;
            }
            line.uri = entry.uri.clone();
        }
        Source::Stanza(stanza) => {
            if !architectures.is_empty() || !stanza.words("Architectures").is_empty() {
                stanza.set("Architectures", architectures.join(" "));
            }
            if let Some(disabled) = disabled {
                stanza.set_disabled(disabled);
            }
            if let Some(comment) = comment {
                stanza.set_comment(&comment);
            }
            for (name, field) in [("uri", "URIs"), ("dist", "Suites"), ("signedby", "Signed-By")] {
                if let Some(value) = text(name) {
                    stanza.set(field, value);
                }
            }
            for (name, field) in [("uris", "URIs"), ("suites", "Suites"), ("types", "Types")] {
                if let Some(value) = settings.get(name) {
                    stanza.set(field, definition::words(value).join(" "));
                }
            }
            match settings.get("trusted").filter(|value| !value.is_null()) {
                Some(Value::Str(word)) => stanza.set("Trusted", if yes_or_no(word)? { "yes" } else { "no" }.into()),
                Some(other) => stanza.set("Trusted", if other.truthy() { "yes" } else { "no" }.into()),
                None => {}
            }
        }
    }
    Ok(())
}

/// Joins sources of one kind, address and release in the main file, and removes the other files.
fn consolidate(sources: &mut SourcesList) {
    let mut joined: Vec<Line> = Vec::new();
    let mut files: Vec<PathBuf> = Vec::new();
    for source in std::mem::take(&mut sources.list) {
        if source.file() != MAIN_FILE {
            files.push(sources.real(source.file()));
        }
        // Stanzas cannot be joined into lines, so Salt drops them. The files they came from are
        // removed below.
        let Source::Line(line) = source else { continue };
        if line.invalid {
            continue;
        }
        let key = |line: &Line| {
            (line.architectures.clone(), line.disabled, line.kind.clone(), line.uri.clone(), line.dist.clone())
        };
        match joined.iter_mut().find(|known| key(known) == key(&line)) {
            Some(known) => {
                let new: Vec<String> = line.comps.into_iter().filter(|comp| !known.comps.contains(comp)).collect();
                known.comps.extend(new);
            }
            None => joined.push(Line { file: MAIN_FILE.to_owned(), ..line }),
        }
    }
    sources.list = joined.into_iter().map(Source::Line).collect();
    for file in files {
        if let Err(error) = std::fs::remove_file(&file)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!("failed to remove {}: {error}", file.display());
        }
    }
}

#[cfg(test)]
#[path = "repos_tests.rs"]
mod tests;
