//! The files in which sources of packages are described.

use std::path::Path;

use exec::{Context, Error, KwArgs, Result, function};
use value::{Map, Value};

use super::{Manager, call};
use crate::pkg::repo_file::{self, RepoFile, written};
use crate::pkg_resource;

/// The files that may hold the settings of dnf or yum.
const SETTINGS: [&str; 4] = ["/etc/yum/yum.conf", "/etc/yum.conf", "/etc/dnf/dnf.conf", "/etc/tdnf/tdnf.conf"];

/// The directories with files of sources: those given, those of the settings, the usual ones.
fn folders(given: Option<&Value>, strict: bool) -> Result<Vec<String>> {
    let given = match given {
        Some(Value::Str(text)) => text.split(',').map(|part| part.trim().to_owned()).collect(),
        Some(Value::List(items)) => items.iter().map(Value::to_string).collect(),
        _ => Vec::new(),
    };
    if !given.is_empty() {
        return Ok(given);
    }
    let Some(path) = SETTINGS.iter().find(|path| Path::new(path).exists()) else {
        let all: Vec<String> = SETTINGS.iter().map(|path| format!("'{path}'")).collect();
        return Err(Error::execution(format!("No suitable yum config file found in: ({})", all.join(", "))));
    };
    let settings = RepoFile::read(path, strict)?;
    // The settings of dnf or yum may move the folder.
    let set = settings.sections.get("main").and_then(|main| main.get("reposdir")).map(Value::to_string);
    Ok(match set {
        Some(folders) => folders.split(',').map(|part| part.trim().to_owned()).collect(),
        None => ["/etc/yum/repos.d", "/etc/yum.repos.d"].map(str::to_owned).to_vec(),
    })
}

fn strict(kwargs: &Map) -> bool {
    kwargs.get("strict_config").is_none_or(Value::truthy)
}

/// All sources with their settings and their file.
pub(super) fn all(_ctx: &Context, basedir: Option<&Value>, kwargs: &Map) -> Result<Map> {
    in_folders(&folders(basedir, strict(kwargs))?, strict(kwargs))
}

fn in_folders(folders: &[String], strict: bool) -> Result<Map> {
    let mut found = Map::new();
    for folder in folders {
        for name in repo_file::names_in(folder, ".repo")? {
            let path = format!("{folder}/{name}");
            for (repo, settings) in RepoFile::read(&path, strict)?.sections {
                let mut settings = settings.into_map().unwrap_or_default();
                settings.insert("file", path.as_str());
                found.insert(repo, settings);
            }
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
///     salt '*' pkg.list_repos basedir=/path/to/dir,/path/to/another/dir
#[function]
fn list_repos(ctx: &Context, #[default(Value::Null)] basedir: Value, kwargs: KwArgs) -> Result<Map> {
    all(ctx, Some(&basedir), &kwargs.0)
}

/// The name in files of a project in the build service COPR.
fn named(repo: &str) -> Result<String> {
    let Some(project) = repo.strip_prefix("copr:") else { return Ok(repo.to_owned()) };
    let (owner, name) = project
        .split_once('/')
        .ok_or_else(|| Error::invocation(format!("'{repo}' is not a copr:<owner>/<project>")))?;
    // This is the name that dnf's plug-in gives the section.
    Ok(format!("copr:copr.fedorainfracloud.org:{owner}:{name}"))
}

/// Returns the settings of a source; empty when there is none.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.get_repo myrepo
#[function]
fn get_repo(ctx: &Context, repo: String, #[default(Value::Null)] basedir: Value, kwargs: KwArgs) -> Result<Map> {
    let repos = all(ctx, Some(&basedir), &kwargs.0)?;
    let mut found = repos.get(&named(&repo)?).and_then(Value::as_map).cloned().unwrap_or_default();
    found.remove("file");
    Ok(found)
}

/// Removes a source; its file, too, when it holds nothing else.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.del_repo myrepo
#[function]
fn del_repo(_ctx: &Context, repo: String, #[default(Value::Null)] basedir: Value, kwargs: KwArgs) -> Result<String> {
    let repo = named(&repo)?;
    let strict = strict(&kwargs.0);
    let folders = folders(Some(&basedir), strict)?;
    let repos = in_folders(&folders, strict)?;
    let file_of = |settings: &Value| settings.get("file").map(Value::to_string).unwrap_or_default();
    let Some(file) = repos.get(&repo).map(file_of) else {
        let shown: Vec<String> = folders.iter().map(|folder| format!("'{folder}'")).collect();
        return Ok(format!("Error: the {repo} repo does not exist in [{}]", shown.join(", ")));
    };
    // A file without repos would only confuse, so it goes with its last one.
    let alone = repos.iter().filter(|(_, settings)| file_of(settings) == file).count() == 1;
    if alone {
        std::fs::remove_file(&file).map_err(|error| Error::io("remove", &file, &error))?;
        return Ok(format!("File {file} containing repo {repo} has been removed"));
    }
    let mut content = RepoFile::read(&file, strict)?;
    content.sections.remove(&repo);
    let mut text = content.header;
    for (name, settings) in &content.sections {
        text += &format!("\n[{name}]");
        let settings = settings.as_map().cloned().unwrap_or_default();
        text += &written(&settings, "\n", "");
        text += &format!("\n{}\n", repo_file::remarks(settings.get("comments")));
    }
    repo_file::store(&file, &text)?;
    Ok(format!("Repo {repo} has been removed from {file}"))
}

/// Settings of which a source has one: where its packages are.
const LINKS: [&str; 3] = ["baseurl", "mirrorlist", "metalink"];

/// Makes or changes a source; returns the file with all its sources. An empty setting is removed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.mod_repo reponame enabled=1 gpgcheck=1
///     salt '*' pkg.mod_repo reponame baseurl= mirrorlist=http://host.com/
#[function]
fn mod_repo(ctx: &Context, repo: String, #[default(Value::Null)] basedir: Value, kwargs: KwArgs) -> Result<Map> {
    let mut settings = kwargs.given();
    settings.remove("saltenv");
    // With several of them it would depend on the version which one counts.
    if LINKS.iter().filter(|link| settings.contains_key(link)).count() >= 2 {
        return Err(Error::invocation(format!("One and only one of {} can be used", LINKS.join(", "))));
    }
    let away = taken_away(&mut settings);
    if away.iter().any(|name| name == "name") {
        return Err(Error::invocation("The repo name cannot be deleted"));
    }
    let strict = strict(&kwargs.0);
    let folders = folders(Some(&basedir), strict)?;
    let name = named(&repo)?;
    let (file, mut content) = match file_of(&in_folders(&folders, strict)?, &name) {
        Some(file) => (file.clone(), RepoFile::read(&file, strict)?),
        None => made(ctx, &repo, &name, &folders, &settings, strict)?,
    };
    let there = content.sections.get(&name).and_then(Value::as_map).cloned().unwrap_or_default();
    check_links(&settings, &there, &away)?;
    let entry = content.sections.entry_or_insert_with(name.as_str(), || Value::Map(Map::new()));
    if let Value::Map(entry) = entry {
        away.iter().for_each(|key| drop(entry.remove(key)));
        entry.update(settings);
    }
    let mut text = content.header;
    for (name, settings) in content.sections.iter_mut() {
        let Value::Map(settings) = settings else { continue };
        let remarks = repo_file::remarks(settings.remove("comments").as_ref());
        text += &format!("[{name}]\n{}{remarks}\n", written(settings, "", "\n"));
    }
    repo_file::store(&file, &text)?;
    Ok([(file, content.sections)].into_iter().collect())
}

fn file_of(repos: &Map, name: &str) -> Option<String> {
    repos.get(name).and_then(|settings| settings.get("file")).map(Value::to_string)
}

/// Removes empty settings and returns their names, with the links that another one replaces.
fn taken_away(settings: &mut Map) -> Vec<String> {
    // An empty value takes a setting away, but `0` and `False` are values.
    let empty = |value: &Value| !value.truthy() && !matches!(value, Value::Int(_) | Value::Float(_) | Value::Bool(_));
    let mut away: Vec<String> =
        settings.iter().filter(|(_, value)| empty(value)).map(|(key, _)| key.to_string()).collect();
    settings.retain(|_, value| !empty(value));
    if let Some(link) = LINKS.iter().find(|link| settings.contains_key(link)) {
        // The new address replaces the old one, of whatever kind that was.
        away.extend(LINKS.iter().filter(|other| *other != link).map(|other| (*other).to_owned()));
    }
    away
}

fn check_links(settings: &Map, there: &Map, away: &[String]) -> Result<()> {
    for link in LINKS.iter().filter(|link| away.iter().any(|key| key == *link)) {
        let others: Vec<&str> = LINKS.iter().copied().filter(|other| other != link).collect();
        if others.iter().all(|other| !settings.contains_key(other) && !there.contains_key(other)) {
            let text = format!("Cannot delete {link} without specifying {}", others.join(" or "));
            return Err(Error::invocation(text));
        }
    }
    Ok(())
}

/// The file of a source that does not exist yet, and its content.
fn made(
    ctx: &Context,
    asked: &str,
    name: &str,
    folders: &[String],
    settings: &Map,
    strict: bool,
) -> Result<(String, RepoFile)> {
    let refuse = |text: String| Err(Error::invocation(text));
    let Some(folder) = folders.iter().find(|folder| Path::new(folder).exists()) else {
        let shown: Vec<String> = folders.iter().map(|folder| format!("'{folder}'")).collect();
        return refuse(format!(
            "The repo does not exist and needs to be created, but none of the following basedir directories exist: [{}]",
            shown.join(", ")
        ));
    };
    if let Some(project) = asked.strip_prefix("copr:") {
        enable_copr(ctx, project)?;
        let file = file_of(&in_folders(folders, strict)?, name);
        let file =
            file.ok_or_else(|| Error::execution(format!("COPR '{project}' was enabled, but {name} is not there")))?;
        let content = RepoFile::read(&file, strict)?;
        return Ok((file, content));
    }
    let start = "The repo does not exist and needs to be created, but";
    if !settings.contains_key("name") {
        return refuse(format!("{start} a name was not given"));
    }
    if !LINKS.iter().any(|link| settings.contains_key(link)) {
        return refuse(format!("{start} none of {} was given", LINKS.join(", ")));
    }
    // The name becomes the name of a file.
    if name.contains('/') {
        return refuse(format!("'{name}' cannot be the name of a repo"));
    }
    Ok((format!("{folder}/{name}.repo"), RepoFile::default()))
}

fn enable_copr(ctx: &Context, project: &str) -> Result<()> {
    let manager = Manager::of(ctx)?;
    let plugin = if manager.is_dnf() { "dnf-plugins-core" } else { "yum-plugin-copr" };
    let installed = super::reads::list_pkgs(ctx, true.into(), KwArgs::default())?;
    if !pkg_resource::versions_of(&installed, &[plugin.into()], false).truthy() {
        return Err(Error::invocation(format!("{plugin} must be installed to use COPR")));
    }
    let said = call(ctx, &["copr", "enable", project, "-y"], false)?;
    match said.retcode {
        Some(0) => Ok(()),
        code => Err(Error::execution(format!(
            "Unable to add COPR '{project}'. '{}' exited with status {}: '{}' ",
            manager.name(),
            code.unwrap_or(-1),
            said.stderr
        ))),
    }
}
