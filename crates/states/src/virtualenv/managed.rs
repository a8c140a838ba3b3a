//! `virtualenv.managed`.

use std::collections::BTreeSet;
use std::path::Path;

use exec::{Context, Error, Function, KwArgs, Result, function};
use value::{Map, Value, map};

use crate::pip::unsupported;
use crate::support::{call, call_with_kwargs, caught, has, over, saltenv};
use crate::{Ret, args};

/// The same under its older name.
pub static MANAGE: Function = Function { name: "manage", ..MANAGED };

/// Makes sure that a Python environment exists, with packages if some are named.
#[function]
fn managed(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] venv_bin: Value,
    #[default(Value::Null)] requirements: Value,
    #[default(false)] system_site_packages: Value,
    #[default(false)] distribute: Value,
    #[default(false)] use_wheel: Value,
    #[default(false)] clear: Value,
    #[default(Value::Null)] python: Value,
    #[default(Value::Null)] extra_search_dir: Value,
    #[default(Value::Null)] never_download: Value,
    #[default(Value::Null)] prompt: Value,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] cwd: Value,
    #[default(Value::Null)] index_url: Value,
    #[default(Value::Null)] extra_index_url: Value,
    #[default(false)] pre_releases: Value,
    #[default(false)] no_deps: Value,
    #[default(Value::Null)] pip_download: Value,
    #[default(Value::Null)] pip_download_cache: Value,
    #[default(Value::Null)] pip_exists_action: Value,
    #[default(false)] pip_ignore_installed: Value,
    #[default(Value::Null)] proxy: Value,
    #[default(false)] use_vt: Value,
    #[default(Value::Null)] env_vars: Value,
    #[default(false)] no_use_wheel: Value,
    #[default(false)] pip_upgrade: Value,
    #[default(Value::Null)] pip_pkgs: Value,
    #[default(false)] pip_no_cache_dir: Value,
    #[default(Value::Null)] pip_cache_dir: Value,
    #[default(false)] process_dependency_links: Value,
    #[default(Value::Null)] no_binary: Value,
    kwargs: KwArgs,
) -> Result<Ret> {
    let create = map! {
        "venv_bin" => venv_bin, "system_site_packages" => system_site_packages, "distribute" => distribute,
        "clear" => clear.clone(), "python" => python, "extra_search_dir" => extra_search_dir,
        "never_download" => never_download, "prompt" => prompt, "user" => user.clone(), "use_vt" => use_vt.clone(),
    };
    let install = map! {
        "pkgs" => pip_pkgs, "requirements" => requirements, "process_dependency_links" => process_dependency_links,
        "bin_env" => name.as_str(), "use_wheel" => use_wheel, "no_use_wheel" => no_use_wheel,
        "no_binary" => no_binary, "user" => user, "cwd" => cwd, "index_url" => index_url,
        "extra_index_url" => extra_index_url, "download" => pip_download, "download_cache" => pip_download_cache,
        "pre_releases" => pre_releases, "exists_action" => pip_exists_action,
        "ignore_installed" => pip_ignore_installed, "upgrade" => pip_upgrade, "no_deps" => no_deps,
        "proxy" => proxy, "use_vt" => use_vt, "env_vars" => env_vars, "no_cache_dir" => pip_no_cache_dir,
        "cache_dir" => pip_cache_dir,
    };
    let ret = Ret::new(name.as_str()).ok("");
    if !has(ctx, "virtualenv.create") {
        return Ok(ret.fail("Virtualenv was not detected on this system"));
    }
    Task { python: format!("{name}/bin/python"), name, clear: clear.truthy(), create, install, kwargs: kwargs.given() }
        .run(ctx, ret)
}

struct Task {
    name: String,
    /// The program that shows that the environment is there.
    python: String,
    clear: bool,
    /// The arguments for `virtualenv.create`.
    create: Map,
    /// The arguments for `pip.install`.
    install: Map,
    kwargs: Map,
}

fn is_there(ctx: &Context, python: &str) -> bool {
    #[cfg(test)]
    // For tests, which replay answers without an environment on the disk.
    if let Some(said) = ctx.opts.get("__venv_exists") {
        return said.truthy();
    }
    let _ = ctx;
    Path::new(python).exists()
}

impl Task {
    fn run(mut self, ctx: &Context, mut ret: Ret) -> Result<Ret> {
        let there = is_there(ctx, &self.python);
        let asked = self.install.get_str("requirements").filter(|file| file.starts_with("salt://")).map(str::to_owned);
        if let Some(file) = asked {
            match cached(ctx, &file)? {
                Some(path) => drop(self.install.insert("requirements", path)),
                None => return Ok(ret.fail(format!("pip requirements file '{file}' not found"))),
            }
        }
        // Recorded before clearing, since afterwards the old content is unknown.
        if there && self.clear {
            let packages = call_with_kwargs(ctx, "pip.freeze", map! { "bin_env" => self.name.as_str() })?;
            ret.changes.insert("cleared_packages", packages);
            ret.changes.insert("old", self.version(ctx)?);
        }
        if ctx.is_test() {
            let name = &self.name;
            return Ok(match (there, self.clear) {
                (true, true) => ret.would(format!("Virtualenv {name} is set to be cleared")),
                (true, false) => ret.ok(format!("Virtualenv {name} is already created")),
                _ => ret.would(format!("Virtualenv {name} is set to be created")),
            });
        }
        ret = match there && !self.clear {
            true => ret.ok("virtualenv exists"),
            false => match self.made(ctx, ret)? {
                Ok(ret) => ret,
                Err(ret) => return Ok(ret),
            },
        };
        self.fill(ctx, ret)
    }

    fn version(&self, ctx: &Context) -> Result<String> {
        // Python 2 printed its version on stderr. Newer ones use stdout, so the text is empty
        // there.
        let said = call(ctx, "cmd.run_stderr", args![format!("{} -V", self.python)], Map::new())?;
        Ok(said.to_string().trim_matches('\n').to_owned())
    }

    /// Makes the environment. The inner error ends the state.
    fn made(&self, ctx: &Context, mut ret: Ret) -> Result<std::result::Result<Ret, Ret>> {
        let options = over(self.create.clone(), &self.kwargs);
        let said = match call(ctx, "virtualenv.create", args![self.name.as_str()], options) {
            Err(Error::CommandNotFound(why)) => {
                return Ok(Err(ret.fail(format!("Failed to create virtualenv: {why}"))));
            }
            said => said?,
        };
        let part = |name: &str| said.get(name).map(Value::to_string).unwrap_or_default();
        if said.get("retcode").and_then(Value::as_i64) != Some(0) {
            return Ok(Err(ret.fail(part("stdout") + &part("stderr"))));
        }
        let version = self.version(ctx)?;
        ret.changes.insert("new", version);
        let text = if self.clear { "Cleared existing virtualenv" } else { "Created new virtualenv" };
        Ok(Ok(ret.ok(text)))
    }

    /// Sees to the packages.
    fn fill(mut self, ctx: &Context, mut ret: Ret) -> Result<Ret> {
        let limited = ["use_wheel", "no_use_wheel", "no_binary"];
        for name in limited {
            let value = self.install.get(name).cloned().unwrap_or_default();
            if !value.truthy() {
                continue;
            }
            let version = call_with_kwargs(ctx, "pip.version", map! { "bin_env" => self.name.as_str() })?.to_string();
            if let Some(comment) = unsupported(&version, &[(name, &value)]) {
                return Ok(ret.fail(comment));
            }
        }
        let requirements = self.install.get("requirements").cloned().unwrap_or_default();
        if !requirements.truthy() && !self.install.get("pkgs").is_some_and(Value::truthy) {
            return Ok(ret);
        }
        let part = |name: &str| self.install.get(name).cloned().unwrap_or_default();
        let place = map! { "bin_env" => self.name.as_str(), "user" => part("user"), "use_vt" => part("use_vt") };
        let before = match call_with_kwargs(ctx, "pip.freeze", place) {
            Ok(before) => lines(&before),
            Err(error) => return Ok(ret.fail(caught(error)?.without_changes)),
        };
        // Requirements may refer to other files relative to themselves.
        if let Some(folder) = folder_of(&requirements)? {
            self.install.insert("cwd", folder);
        }
        let said = call_with_kwargs(ctx, "pip.install", over(self.install.clone(), &self.kwargs))?;
        let code = said.get("retcode").and_then(Value::as_i64).unwrap_or(1);
        if code != 0 {
            ret.result = Some(false);
        }
        // A negative code, from a signal, fails the state without showing the output. Salt does the
        // same.
        if code > 0 {
            let part = |name: &str| said.get(name).map(Value::to_string).unwrap_or_default();
            ret.comment = format!("{}\n{}\n{}", ret.comment, part("stdout"), part("stderr")).into();
        }
        let after = lines(&call_with_kwargs(ctx, "pip.freeze", map! { "bin_env" => self.name.as_str() })?);
        if after != before {
            let only = |these: &BTreeSet<String>, those: &BTreeSet<String>| match these.difference(those).collect() {
                Value::List(none) if none.is_empty() => Value::from(""),
                some => some,
            };
            let packages = map! { "new" => only(&after, &before), "old" => only(&before, &after) };
            ret.changes.insert("packages", packages);
        }
        Ok(ret)
    }
}

fn lines(answer: &Value) -> BTreeSet<String> {
    answer.as_list().unwrap_or_default().iter().map(Value::to_string).collect()
}

/// The directory of a file with requirements that is named by a relative path.
fn folder_of(requirements: &Value) -> Result<Option<String>> {
    let first = match requirements {
        Value::Str(files) => files.split(',').next().unwrap_or_default().to_owned(),
        Value::List(files) => files.first().map(Value::to_string).unwrap_or_default(),
        other if !other.truthy() => return Ok(None),
        _ => return Err(Error::invocation("pip requirements must be either a string or a list")),
    };
    if Path::new(&first).is_absolute() {
        return Ok(None);
    }
    let whole = std::path::absolute(&first).map_err(|error| Error::io("find", &first, &error))?;
    Ok(whole.parent().map(|folder| folder.to_string_lossy().into_owned()))
}

/// Fetches a file of the master if it is not here yet or has changed, and returns its path.
fn cached(ctx: &Context, file: &str) -> Result<Option<String>> {
    let env = saltenv(ctx);
    let ask = |fun: &'static str, path: String| {
        let env = env.clone();
        call(ctx, fun, args![path, env], Map::new())
    };
    let mut path = ask("cp.is_cached", file.to_owned())?;
    if !path.truthy() {
        path = ask("cp.cache_file", file.to_owned())?;
    }
    if path.truthy() {
        // The cached copy may be outdated, so its hash is compared with the master's.
        let own = ask("cp.hash_file", file.to_owned())?;
        if own != ask("cp.hash_file", path.to_string())? {
            path = ask("cp.cache_file", file.to_owned())?;
        }
    }
    Ok(path.truthy().then(|| path.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    #[test]
    fn relative_requirements_are_read_in_their_directory() {
        assert_eq!(folder_of(&"/srv/r.txt".into()).unwrap(), None);
        assert_eq!(folder_of(&Value::Null).unwrap(), None);
        assert!(folder_of(&list!["x/r.txt", "/y"]).unwrap().unwrap().ends_with("/x"));
        assert!(folder_of(&true.into()).is_err());
    }
}
