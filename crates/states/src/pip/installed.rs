//! `pip.installed`.

use std::collections::BTreeSet;

use exec::{Context, Error, KwArgs, Result, function};
use value::{Map, Value, map};

use super::there::{self, Look, RequestedPackage};
use super::unsupported;
use crate::support::{call, call_with_kwargs, has, join, over, saltenv};
use crate::{Ret, args};

/// Makes sure that Python packages are installed, in the requested versions.
#[function]
fn installed(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] pkgs: Value,
    #[default(Value::Null)] pip_bin: Value,
    #[default(Value::Null)] requirements: Value,
    #[default(Value::Null)] bin_env: Value,
    #[default(false)] use_wheel: Value,
    #[default(false)] no_use_wheel: Value,
    #[default(Value::Null)] log: Value,
    #[default(Value::Null)] proxy: Value,
    #[default(Value::Null)] timeout: Value,
    #[default(Value::Null)] repo: Value,
    #[default(Value::Null)] editable: Value,
    #[default(Value::Null)] find_links: Value,
    #[default(Value::Null)] index_url: Value,
    #[default(Value::Null)] extra_index_url: Value,
    #[default(false)] no_index: Value,
    #[default(Value::Null)] mirrors: Value,
    #[default(Value::Null)] build: Value,
    #[default(Value::Null)] target: Value,
    #[default(Value::Null)] download: Value,
    #[default(Value::Null)] download_cache: Value,
    #[default(Value::Null)] source: Value,
    #[default(false)] upgrade: Value,
    #[default(false)] force_reinstall: Value,
    #[default(false)] ignore_installed: Value,
    #[default(Value::Null)] exists_action: Value,
    #[default(false)] no_deps: Value,
    #[default(false)] no_install: Value,
    #[default(false)] no_download: Value,
    #[default(Value::Null)] install_options: Value,
    #[default(Value::Null)] global_options: Value,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] cwd: Value,
    #[default(false)] pre_releases: Value,
    #[default(Value::Null)] cert: Value,
    #[default(false)] allow_all_external: Value,
    #[default(Value::Null)] allow_external: Value,
    #[default(Value::Null)] allow_unverified: Value,
    #[default(false)] process_dependency_links: Value,
    #[default(Value::Null)] env_vars: Value,
    #[default(false)] use_vt: Value,
    #[default(Value::Null)] trusted_host: Value,
    #[default(false)] no_cache_dir: Value,
    #[default(Value::Null)] cache_dir: Value,
    #[default(Value::Null)] no_binary: Value,
    #[default(Value::Null)] extra_args: Value,
    kwargs: KwArgs,
) -> Result<Ret> {
    // Both are accepted and have no effect, as in Salt.
    let _ = (repo, cache_dir);
    // `pip_bin` is the old name of the argument.
    let bin_env = if pip_bin.truthy() && !bin_env.truthy() { pip_bin } else { bin_env };
    let options = map! {
        "bin_env" => bin_env, "requirements" => requirements, "use_wheel" => use_wheel,
        "no_use_wheel" => no_use_wheel, "no_binary" => no_binary, "log" => log, "proxy" => proxy,
        "timeout" => timeout, "editable" => editable, "find_links" => find_links, "index_url" => index_url,
        "extra_index_url" => extra_index_url, "no_index" => no_index, "mirrors" => mirrors, "build" => build,
        "target" => target, "download" => download, "download_cache" => download_cache, "source" => source,
        "upgrade" => upgrade, "force_reinstall" => force_reinstall, "ignore_installed" => ignore_installed,
        "exists_action" => exists_action, "no_deps" => no_deps, "no_install" => no_install,
        "no_download" => no_download, "install_options" => install_options, "global_options" => global_options,
        "user" => user, "cwd" => cwd, "pre_releases" => pre_releases, "cert" => cert,
        "allow_all_external" => allow_all_external, "allow_external" => allow_external,
        "allow_unverified" => allow_unverified, "process_dependency_links" => process_dependency_links,
        "saltenv" => saltenv(ctx), "env_vars" => env_vars, "use_vt" => use_vt, "trusted_host" => trusted_host,
        // The notice about a new version of pip would get into the output that is read.
        "no_cache_dir" => no_cache_dir, "extra_args" => extra_args, "disable_version_check" => true,
    };
    let names = match names(&name, &pkgs)? {
        Some(names) => names,
        None => return Ok(Ret::new(name).fail("pkgs argument must be formatted as a list")),
    };
    let ret = Ret::new(names.join(";"));
    Task { name, names, options, kwargs: kwargs.given() }.run(ctx, ret)
}

/// Returns the wanted packages, or None if `pkgs` is not a list.
fn names(name: &str, pkgs: &Value) -> Result<Option<Vec<String>>> {
    let list = match pkgs {
        Value::List(list) if !list.is_empty() => list,
        other if other.truthy() => return Ok(None),
        _ => return Ok(Some(vec![name.to_owned()])),
    };
    let text = |item: &Value| item.as_str().map(str::to_owned);
    let odd = |item: &Value| Error::invocation(format!("pkgs of pip.installed: {item} is not a text"));
    list.iter().map(|item| text(item).ok_or_else(|| odd(item))).collect::<Result<_>>().map(Some)
}

struct Task {
    name: String,
    names: Vec<String>,
    /// The arguments for `pip.install`.
    options: Map,
    kwargs: Map,
}

/// The packages to install, and the comments on those that are installed.
#[derive(Default)]
struct Plan {
    targets: Vec<RequestedPackage>,
    comments: Vec<String>,
}

impl Task {
    fn option(&self, name: &str) -> &Value {
        self.options.get(name).unwrap_or(&Value::Null)
    }

    fn some(&self, names: &[&str]) -> Map {
        names.iter().map(|name| (*name, self.option(name).clone())).collect()
    }

    /// Returns whether the names do not count, because other arguments say what to install.
    fn by_other_means(&self) -> bool {
        self.option("requirements").truthy() || self.option("editable").truthy()
    }

    fn run(self, ctx: &Context, ret: Ret) -> Result<Ret> {
        // Checked first: it fails if there is no pip, before anything is done.
        let version = match call(ctx, "pip.version", args![self.option("bin_env").clone()], Map::new()) {
            Ok(version) => version.to_string(),
            Err(error @ (Error::Execution(_) | Error::Detailed { .. } | Error::CommandNotFound(_))) => {
                return Ok(ret.fail(format!("Error installing '{}': {error}", self.name)));
            }
            Err(error) => return Err(error),
        };
        let limited = ["use_wheel", "no_use_wheel", "no_binary"].map(|name| (name, self.option(name)));
        if let Some(comment) = unsupported(&version, &limited) {
            return Ok(ret.fail(comment));
        }
        let mut wanted = Vec::new();
        let mut wrong = Vec::new();
        for name in self.names.iter().filter(|_| !self.by_other_means()) {
            match RequestedPackage::read(ctx, name)? {
                Ok(found) => wanted.push(found),
                Err(comment) => wrong.push(comment),
            }
        }
        if !wrong.is_empty() {
            return Ok(ret.fail(wrong.join("\n")));
        }
        let user = self.option("user");
        // pip would only fail once it changes the user, and with a poor message.
        if user.truthy() && has(ctx, "user.info") && !call(ctx, "user.info", args![user.clone()], Map::new())?.truthy()
        {
            return Ok(ret.fail(format!("User {user} does not exist")));
        }
        if self.by_other_means() {
            return self.without_names(ctx, ret);
        }
        let plan = match self.plan(ctx, wanted, ret.clone())? {
            Ok(plan) => plan,
            Err(ret) => return Ok(ret),
        };
        self.apply(ctx, plan, ret)
    }

    /// Decides what to install. The inner error ends the state.
    fn plan(&self, ctx: &Context, wanted: Vec<RequestedPackage>, ret: Ret) -> Result<std::result::Result<Plan, Ret>> {
        let look = Look {
            place: self.some(&["bin_env", "user", "cwd", "env_vars"]),
            index: self.some(&["index_url", "extra_index_url"]),
            kwargs: self.kwargs.clone(),
            ignore_installed: self.option("ignore_installed").clone(),
            force_reinstall: self.option("force_reinstall").clone(),
            upgrade: self.option("upgrade").truthy(),
        };
        let listed = there::listed(ctx, &look.place)?;
        let several = wanted.len() > 1;
        let mut plan = Plan::default();
        for package in wanted {
            let there = match package.prefix.is_empty() {
                // An address without `#egg=` does not name its package, so it is installed every time.
                true => None,
                false => look.satisfied(ctx, &package, &listed)?,
            };
            match there {
                Some(comment) => plan.comments.push(comment),
                None if ctx.is_test() && several => {
                    let text = format!("Python package(s) set to be installed:\n{}", self.names.join("\n"));
                    return Ok(Err(ret.would(text)));
                }
                None if ctx.is_test() => {
                    return Ok(Err(ret.would(format!("Python package {} is set to be installed", package.text))));
                }
                // A comma would part packages, so it goes to pip.install as a semicolon.
                None => plan.targets.push(RequestedPackage { text: package.text.replace(',', ";"), ..package }),
            }
        }
        if plan.targets.is_empty() {
            let newest = if look.upgrade { " and up-to-date" } else { "" };
            let last = format!("All specified packages are already installed{newest}");
            return Ok(Err(ret.ok(behind(&plan.comments, &last))));
        }
        Ok(Ok(plan))
    }

    fn install(&self, ctx: &Context, packages: String) -> Result<Map> {
        let all = over(over(map! { "pkgs" => packages }, &self.options), &self.kwargs);
        Ok(call_with_kwargs(ctx, "pip.install", all)?.into_map().unwrap_or_default())
    }

    /// Installs from a file of requirements or from a checkout.
    fn without_names(&self, ctx: &Context, ret: Ret) -> Result<Ret> {
        let (file, editable) = (self.option("requirements"), self.option("editable"));
        if ctx.is_test() {
            let first = format!("Requirements file '{file}' will be processed.");
            let second = format!(
                "Package will be installed in editable mode (i.e. setuptools \"develop mode\") from {editable}."
            );
            return Ok(ret.would(of_both(file, first, editable, second)));
        }
        let said = self.install(ctx, String::new())?;
        match outcome(&said) {
            Outcome::Nothing => Ok(ret.fail("Could not install package")),
            Outcome::Failed(error) => {
                let first = format!("Unable to process requirements file \"{file}\"");
                let second = format!("Unable to install from VCS checkout {editable}.");
                Ok(ret.fail(format!("{} {error}", of_both(file, first, editable, second))))
            }
            Outcome::Done => {
                let mut changes = Map::new();
                let changed = file.truthy() && requirements_changed(said.get_str("stdout").unwrap_or_default());
                changes.extend(changed.then_some(("requirements", true)));
                let first = match changed {
                    true => format!("Successfully processed requirements file {file}."),
                    false => "Requirements were already installed.".to_owned(),
                };
                changes.extend(editable.truthy().then_some(("editable", true)));
                let second = format!("Package successfully installed from VCS checkout {editable}.");
                Ok(ret.ok(of_both(file, first, editable, second)).changed(changes))
            }
        }
    }

    fn apply(&self, ctx: &Context, plan: Plan, ret: Ret) -> Result<Ret> {
        let packages = join(plan.targets.iter().map(|wanted| &wanted.text), ",");
        let said = self.install(ctx, packages)?;
        match outcome(&said) {
            Outcome::Nothing => return Ok(ret.fail("Could not install package")),
            Outcome::Failed(error) => {
                let names = join(plan.targets.iter().map(|wanted| &wanted.text), ", ");
                let text = format!("Failed to install packages: {names}. {error}");
                return Ok(ret.fail(behind(&plan.comments, &text)));
            }
            Outcome::Done => {}
        }
        let there = already_there(ctx, said.get_str("stdout").unwrap_or_default())?;
        let mut changes = Map::new();
        let mut missing = Vec::new();
        for wanted in &plan.targets {
            // The name is unknown, so Salt shows the address with a made-up version.
            if wanted.prefix.is_empty() {
                changes.insert(format!("{}==???", wanted.text), "Installed");
                continue;
            }
            let place = over(self.some(&["user", "cwd", "env_vars"]), &self.kwargs);
            let own = args![wanted.prefix.as_str(), self.option("bin_env").clone()];
            // Asked again for each package: pip may install another version than the one wanted.
            let listed = call(ctx, "pip.list", own, place)?;
            if !listed.truthy() {
                missing.push(format!(
                    "There was no error installing package '{}' although it does not show when calling 'pip.freeze'.",
                    // Salt's loop variable is the last name by then, whatever package is missing.
                    self.names.last().map(String::as_str).unwrap_or_default()
                ));
            } else if let Some(version) = there::version_in(&listed, &wanted.prefix)
                // pip reported that the package was installed already, so it is not a change.
                && !there.contains(&wanted.prefix)
            {
                changes.insert(format!("{}=={version}", wanted.prefix), "Installed");
            }
        }
        let last = match missing.is_empty() {
            true => "All packages were successfully installed".to_owned(),
            false => missing.join("\n"),
        };
        Ok(ret.ok(behind(&plan.comments, &last)).changed(changes))
    }
}

fn behind(comments: &[String], last: &str) -> String {
    comments.iter().map(String::as_str).chain([last]).collect::<Vec<_>>().join("\n")
}

fn of_both(file: &Value, first: String, editable: &Value, second: String) -> String {
    let parts = [(file, first), (editable, second)];
    join(parts.into_iter().filter(|(given, _)| given.truthy()).map(|(_, text)| text), " ")
}

enum Outcome {
    Done,
    Failed(String),
    Nothing,
}

fn outcome(said: &Map) -> Outcome {
    if said.is_empty() {
        return Outcome::Nothing;
    }
    if said.get("retcode").and_then(Value::as_i64) == Some(0) {
        return Outcome::Done;
    }
    let part = |name: &str| said.get(name).map(Value::to_string).unwrap_or_default();
    Outcome::Failed(match said.contains_key("stdout") {
        true => format!("Error: {} {}", part("stdout"), part("stderr")),
        false => format!("Error: {}", part("comment")),
    })
}

/// Lines of pip's output with these beginnings report no change.
const NO_CHANGE: [&str; 7] = [
    "Requirement already satisfied",
    "Requirement already up-to-date",
    "Requirement not upgraded",
    "Collecting",
    "Cloning",
    "Cleaning up...",
    "Looking in indexes",
];

fn requirements_changed(text: &str) -> bool {
    text.split('\n').any(|line| !NO_CHANGE.iter().any(|start| line.trim().starts_with(start)))
}

/// Returns the packages that pip reported as installed already, by their normalized names.
fn already_there(ctx: &Context, text: &str) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for line in text.split('\n') {
        let starts = ["Requirement already satisfied: ", "Requirement already up-to-date: "];
        let Some(rest) = starts.iter().find_map(|start| line.strip_prefix(start)) else { continue };
        let Some(word) = rest.split_whitespace().next() else { continue };
        let name = word.split(['=', '!', '<', '>', '~', '@']).next().unwrap_or_default();
        found.insert(call(ctx, "pip.normalize", args![name], Map::new())?.to_string());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pip_tells_whether_requirements_changed_something() {
        assert!(!requirements_changed("Requirement already satisfied: a\n  Collecting b"));
        assert!(requirements_changed("Collecting a\nSuccessfully installed a-1"));
        // Salt takes the end of an empty output for a change.
        assert!(requirements_changed(""));
    }
}
