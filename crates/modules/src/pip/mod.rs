//! `pip` — Python packages.
//!
//! [`pep440`] parses versions and requirements; here pip is called.

mod install;
pub mod pep440;

use std::path::Path;

use exec::{Call, Context, Error, KwArgs, Module, Result, function};
use value::{Map, Value, map};

use crate::pkg_resource::compare_loosely;
use crate::util;
use pep440::normalize as normal_name;

/// The module.
pub static MODULE: Module = Module::new(
    "pip",
    "Functions that look at Python packages and change what is installed.",
    &[
        &FREEZE,
        &install::INSTALL,
        &IS_INSTALLED,
        &LIST,
        &LIST_ALL_VERSIONS,
        &LIST_FREEZE_PARSE,
        &LIST_UPGRADES,
        &NORMALIZE,
        &install::UNINSTALL,
        &UPGRADE,
        &UPGRADE_AVAILABLE,
        &VERSION,
    ],
);

/// The place to run pip in: an environment, a user and a directory.
#[derive(Clone, Default)]
struct Place {
    bin_env: Option<String>,
    user: Value,
    cwd: Value,
    env_vars: Value,
}

fn non_empty(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

/// The program, and the words before the command.
fn program(bin_env: Option<&str>) -> Result<Vec<String>> {
    let module = |python: String| vec![python, "-m".to_owned(), "pip".to_owned()];
    let Some(path) = bin_env else {
        let python = util::which("python3").or_else(|| util::which("python"));
        let python = python.ok_or_else(|| Error::CommandNotFound("Could not find a `pip` binary".into()))?;
        return Ok(module(python.to_string_lossy().into_owned()));
    };
    if Path::new(path).is_dir() {
        // `python -m pip` and not the script `pip`: its first line breaks when an environment is
        // moved.
        let names = ["python", "bin/python", "bin/python3"];
        let found = names.iter().map(|name| Path::new(path).join(name)).find(|path| util::is_executable(path));
        let missing = || Error::CommandNotFound(format!("Could not find a pip binary in virtualenv {path}"));
        return Ok(module(found.ok_or_else(missing)?.to_string_lossy().into_owned()));
    }
    if !util::is_executable(Path::new(path)) {
        return Err(Error::CommandNotFound(format!("Access denied to {path}, could not find a pip binary")));
    }
    // The argument may be a Python or a pip.
    let python = path.rsplit('/').next().is_some_and(|name| name.contains("python"));
    Ok(if python { module(path.to_owned()) } else { vec![path.to_owned()] })
}

/// The outcome of a run of pip.
struct PipOutput {
    code: i64,
    stdout: String,
    stderr: String,
    whole: Map,
}

impl Place {
    fn of(bin_env: Option<String>, user: Value, cwd: Value, env_vars: Value) -> Self {
        Place { bin_env: non_empty(&bin_env).map(str::to_owned), user, cwd, env_vars }
    }

    fn run(&self, ctx: &Context, args: &[String], more: Map) -> Result<PipOutput> {
        let mut words = program(self.bin_env.as_deref())?;
        words.extend(args.iter().cloned());
        let mut env = self.env_vars.as_map().cloned().unwrap_or_default();
        // The environment takes texts only, while YAML has numbers.
        env = env.into_iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        if let Some(path) = self.bin_env.as_deref().filter(|path| Path::new(path).is_dir()) {
            // pip and build tools look for the variable that `activate` would set.
            env.insert("VIRTUAL_ENV", path);
        }
        let mut kwargs = map! { "python_shell" => false, "runas" => self.user.clone(), "env" => env };
        if self.cwd.truthy() {
            kwargs.insert("cwd", self.cwd.clone());
        }
        kwargs.update(more);
        let said = ctx.call_with("cmd.run_all", Call { args: vec![words.into()], kwargs })?;
        let text = |name: &str| said.get(name).map(Value::to_string).unwrap_or_default();
        Ok(PipOutput {
            code: said.get("retcode").and_then(Value::as_i64).unwrap_or(1),
            stdout: text("stdout"),
            stderr: text("stderr"),
            whole: said.into_map().unwrap_or_default(),
        })
    }

    fn query(&self, ctx: &Context, args: &[&str]) -> Result<PipOutput> {
        let args: Vec<String> = args.iter().map(|word| (*word).to_owned()).collect();
        let said = self.run(ctx, &args, Map::new())?;
        if said.code != 0 {
            return Err(Error::detailed(said.stderr, said.whole));
        }
        Ok(said)
    }

    fn version(&self, ctx: &Context) -> Result<String> {
        let said = self.run(ctx, &["--version".to_owned()], Map::new())?;
        if said.code != 0 {
            return Err(Error::CommandNotFound("Could not find a `pip` binary".into()));
        }
        let mut words = said.stdout.split_whitespace();
        Ok(words.nth(1).unwrap_or_default().to_owned())
    }

    /// Installed packages with their versions, by name made alike.
    fn installed(&self, ctx: &Context, prefix: Option<&str>) -> Result<Map> {
        let said = self.query(ctx, &["list", "--format=json", "--disable-pip-version-check"])?;
        let list: Value =
            serde_json::from_str(&said.stdout).map_err(|_| Error::detailed("Invalid JSON", said.whole.clone()))?;
        let prefix = prefix.map(normal_name);
        let fits = |name: &str| prefix.as_ref().is_none_or(|prefix| name.starts_with(prefix));
        let field = |entry: &Value, name: &str| entry.get(name).map(Value::to_string).unwrap_or_default();
        let all = list.as_list().unwrap_or_default().iter();
        let all = all.map(|entry| (normal_name(&field(entry, "name")), field(entry, "version")));
        Ok(all.filter(|(name, _)| fits(name)).collect())
    }

    fn upgrades(&self, ctx: &Context) -> Result<Map> {
        let args = ["list", "--outdated", "--disable-pip-version-check", "--format=json"];
        let said = self.query(ctx, &args)?;
        let list: Value =
            serde_json::from_str(&said.stdout).map_err(|_| Error::detailed("Invalid JSON", said.whole.clone()))?;
        let field = |entry: &Value, name: &str| entry.get(name).map(Value::to_string).unwrap_or_default();
        let shown = |entry: &Value| {
            let newest = format!("{} [{}]", field(entry, "latest_version"), field(entry, "latest_filetype"));
            (field(entry, "name"), newest)
        };
        Ok(list.as_list().unwrap_or_default().iter().map(shown).collect())
    }

    fn frozen(&self, ctx: &Context) -> Result<Vec<String>> {
        let args = match compare_loosely(&self.version(ctx)?, "8.0.3", false) {
            // Without `--all` newer versions hide pip and setuptools.
            order if order < 0 => vec!["freeze"],
            _ => vec!["freeze", "--all"],
        };
        Ok(self.query(ctx, &args)?.stdout.lines().map(str::to_owned).collect())
    }
}

/// Normalizes names of packages.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pip.normalize Zope.Interface
#[function]
fn normalize(name: String) -> Result<String> {
    Ok(normal_name(&name))
}

/// Returns the version of pip.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pip.version
#[function]
fn version(
    ctx: &Context,
    bin_env: Option<String>,
    #[default(Value::Null)] cwd: Value,
    #[default(Value::Null)] user: Value,
) -> Result<String> {
    Place::of(bin_env, user, cwd, Value::Null).version(ctx)
}

/// Returns installed packages as requirements.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pip.freeze bin_env=/home/code/path/to/virtualenv
#[function]
fn freeze(
    ctx: &Context,
    bin_env: Option<String>,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] cwd: Value,
    #[default(false)] use_vt: Value,
    #[default(Value::Null)] env_vars: Value,
    kwargs: KwArgs,
) -> Result<Value> {
    let _ = (use_vt, kwargs);
    Ok(Place::of(bin_env, user, cwd, env_vars).frozen(ctx)?.into())
}

/// Returns installed packages and their versions from `pip freeze`, and the version of pip; with ``prefix`` only those
/// whose names begin with it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pip.list_freeze_parse salt
#[function]
fn list_freeze_parse(
    ctx: &Context,
    prefix: Option<String>,
    bin_env: Option<String>,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] cwd: Value,
    #[default(Value::Null)] env_vars: Value,
    kwargs: KwArgs,
) -> Result<Map> {
    let _ = kwargs;
    let place = Place::of(bin_env, user, cwd, env_vars);
    let prefix = non_empty(&prefix).map(normal_name);
    let mut found = map! { "pip" => place.version(ctx)? };
    found.extend(place.frozen(ctx)?.iter().filter_map(|line| frozen_package(line)));
    found.retain(|name, _| prefix.as_ref().is_none_or(|prefix| name.to_string().starts_with(prefix)));
    Ok(found)
}

/// Reads a line of `pip freeze`: name and version, or where an editable package comes from.
fn frozen_package(line: &str) -> Option<(String, String)> {
    // Options and remarks of `pip freeze`, not packages.
    if line.starts_with("-f") || line.starts_with('#') || line.starts_with("-e hg+not trust") {
        return None;
    }
    let package = line.strip_prefix("-e ").unwrap_or(line);
    if package.len() < line.len()
        && let Some((source, name)) = package.split_once("#egg=")
    {
        return Some((normal_name(name), source.to_owned()));
    }
    let Some((name, version)) = package.split_once("===").or_else(|| package.split_once("==")) else {
        tracing::error!("Can't parse line '{line}'");
        return None;
    };
    Some((normal_name(name), version.to_owned()))
}

/// Returns installed packages and their versions; with ``prefix`` only those whose names begin with it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pip.list salt
#[function(name = "list")]
fn list(
    ctx: &Context,
    prefix: Option<String>,
    bin_env: Option<String>,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] cwd: Value,
    #[default(Value::Null)] env_vars: Value,
    kwargs: KwArgs,
) -> Result<Map> {
    let _ = kwargs;
    Place::of(bin_env, user, cwd, env_vars).installed(ctx, non_empty(&prefix))
}

/// Returns the packages that have a newer version, with that version.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pip.list_upgrades
#[function]
fn list_upgrades(
    ctx: &Context,
    bin_env: Option<String>,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] cwd: Value,
) -> Result<Map> {
    Place::of(bin_env, user, cwd, Value::Null).upgrades(ctx)
}

/// Returns whether a package is installed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pip.is_installed salt
#[function]
fn is_installed(
    ctx: &Context,
    pkgname: Value,
    bin_env: Option<String>,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] cwd: Value,
) -> Result<bool> {
    let installed = Place::of(bin_env, user, cwd, Value::Null).installed(ctx, None)?;
    Ok(pkgname.as_str().is_some_and(|name| installed.contains_key(&normal_name(name))))
}

/// Returns whether there is a newer version of a package.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pip.upgrade_available <package name>
#[function]
fn upgrade_available(
    ctx: &Context,
    pkg: String,
    bin_env: Option<String>,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] cwd: Value,
) -> Result<bool> {
    Ok(Place::of(bin_env, user, cwd, Value::Null).upgrades(ctx)?.contains_key(&pkg))
}

/// Upgrades all packages; returns the changes, or under ``result`` that it failed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pip.upgrade
#[function]
fn upgrade(
    ctx: &Context,
    bin_env: Option<String>,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] cwd: Value,
    #[default(false)] use_vt: Value,
) -> Result<Map> {
    let _ = use_vt;
    let place = Place::of(bin_env, user, cwd, Value::Null);
    let old = place.installed(ctx, None)?;
    let mut problems = Vec::new();
    // One at a time, so that a failing package does not hold up the others.
    for name in place.upgrades(ctx)?.text_keys() {
        let args = ["install", "-U", name].map(str::to_owned);
        let said = place.run(ctx, &args, Map::new())?;
        if said.code != 0 {
            problems.push(said.stderr);
        }
    }
    let new = place.installed(ctx, None)?;
    if !problems.is_empty() {
        return Ok(map! { "changes" => Map::new(), "result" => false, "comment" => problems.join("\n") });
    }
    let text = |packages: &Map, name: &Value| packages.get_value(name).cloned().unwrap_or("".into());
    let names = old.keys().chain(new.keys()).filter(|name| text(&old, name) != text(&new, name));
    Ok(names.map(|name| (name.clone(), map! { "new" => text(&new, name), "old" => text(&old, name) })).collect())
}

/// Returns all available versions of a package, the newest last; pre-releases only on demand.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pip.list_all_versions <package name>
#[function]
fn list_all_versions(
    ctx: &Context,
    pkg: String,
    bin_env: Option<String>,
    #[default(false)] include_alpha: bool,
    #[default(false)] include_beta: bool,
    #[default(false)] include_rc: bool,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] cwd: Value,
    index_url: Option<String>,
    extra_index_url: Option<String>,
) -> Result<Value> {
    let place = Place::of(bin_env, user, cwd, Value::Null);
    let mut args = vec!["index".to_owned(), "versions".into(), pkg];
    for (word, value) in [("--index-url", index_url), ("--extra-index-url", extra_index_url)] {
        args.extend(value.into_iter().flat_map(|value| [word.to_owned(), value]));
    }
    args.extend((include_alpha || include_beta || include_rc).then(|| "--pre".to_owned()));
    let said = place.run(ctx, &args, Map::new())?;
    let unwanted = |version: &str| {
        let kind = |sign: &str| version.contains(sign);
        // Salt looks for the letter anywhere in the version.
        (kind("a") && !include_alpha) || (kind("rc") && !include_rc) || (kind("b") && !include_beta)
    };
    Ok(available(&said.stdout).into_iter().filter(|version| !unwanted(version)).collect())
}

/// Reads "Available versions: 2.0, 1.0".
fn available(text: &str) -> Vec<String> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("Available versions:")).unwrap_or_default();
    let mut versions: Vec<String> = line.split(',').map(|part| part.trim().to_owned()).collect();
    versions.retain(|version| !version.is_empty());
    // pip lists the newest first.
    versions.reverse();
    versions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_oldest_first() {
        assert_eq!(available("x (2.0)\nAvailable versions: 2.0, 1.1, 1.0\n"), ["1.0", "1.1", "2.0"]);
        assert!(available("").is_empty());
    }

    #[test]
    fn frozen_packages_are_read() {
        let read = |line: &str| frozen_package(line).map(|(name, version)| format!("{name} {version}"));
        assert_eq!(read("Zope.Interface==5.0").as_deref(), Some("zope-interface 5.0"));
        assert_eq!(read("a===1==2").as_deref(), Some("a 1==2"));
        assert_eq!(read("-e git+https://h/r@abc#egg=My_App").as_deref(), Some("my-app git+https://h/r@abc"));
        assert_eq!(read("-e b==1").as_deref(), Some("b 1"));
        assert_eq!([read("# x"), read("-f links"), read("c @ file:///c")], [None, None, None]);
    }

    #[test]
    fn the_program_of_an_environment_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        assert!(matches!(program(Some(path)), Err(Error::CommandNotFound(_))));
        std::fs::create_dir(folder.path().join("bin")).unwrap();
        util::replace_file(&folder.path().join("bin/python3"), b"#!/bin/sh\n", 0o755).unwrap();
        assert_eq!(program(Some(path)).unwrap(), [format!("{path}/bin/python3"), "-m".into(), "pip".into()]);
    }
}
