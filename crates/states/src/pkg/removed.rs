//! `pkg.removed` and `pkg.purged`.

use exec::{Context, Error, KwArgs, Result, function};
use value::{Map, Value, map};

use super::targets::{self, Others};
use super::{failed, listed};
use crate::support::{call, caught, over, saltenv};
use crate::{Ret, args};

/// Makes sure that packages are not installed; their settings stay.
#[function]
fn removed(
    ctx: &Context,
    name: String,
    version: Option<String>,
    #[default(Value::Null)] pkgs: Value,
    #[default(true)] normalize: bool,
    #[default(Value::Null)] ignore_epoch: Value,
    kwargs: KwArgs,
) -> Result<Ret> {
    let task = Task { action: "remove", name, version: version.into(), pkgs, normalize, ignore_epoch };
    task.run(ctx, kwargs.given())
}

/// Makes sure that packages and their settings are removed.
#[function]
fn purged(
    ctx: &Context,
    name: String,
    version: Option<String>,
    #[default(Value::Null)] pkgs: Value,
    #[default(true)] normalize: bool,
    #[default(Value::Null)] ignore_epoch: Value,
    kwargs: KwArgs,
) -> Result<Ret> {
    let task = Task { action: "purge", name, version: version.into(), pkgs, normalize, ignore_epoch };
    task.run(ctx, kwargs.given())
}

struct Task {
    action: &'static str,
    name: String,
    version: Value,
    pkgs: Value,
    normalize: bool,
    ignore_epoch: Value,
}

impl Task {
    fn run(&self, ctx: &Context, mut kwargs: Map) -> Result<Ret> {
        kwargs.insert("saltenv", saltenv(ctx));
        match self.apply(ctx, &kwargs) {
            // Only failures of the package manager become the result of the state. A bad argument
            // stays an error of the call.
            Err(error @ (Error::Execution(_) | Error::Detailed { .. })) => {
                let caught = caught(error)?;
                let doing = if self.action == "purge" { "purging" } else { "removing" };
                let plain = format!("An error was encountered while {doing} package(s): {}", caught.text);
                let comment = if caught.detailed { caught.without_changes } else { plain };
                Ok(failed(&self.name, comment).changed(caught.changes))
            }
            other => other,
        }
    }

    fn parse_targets(&self, ctx: &Context, kwargs: &Map) -> Result<Map> {
        let own = map! { "normalize" => self.normalize, "version" => self.version.clone() };
        let args = args![self.name.as_str(), self.pkgs.clone()];
        let parsed = call(ctx, "pkg_resource.parse_targets", args, over(own, kwargs))?;
        // The second part of the answer is the kind of package, which is always a repository here.
        let first = parsed.into_list().and_then(|parts| parts.into_iter().next()).unwrap_or_default();
        Ok(match first {
            Value::Map(map) => map,
            Value::List(names) => names.into_iter().map(|name| (name, Value::Null)).collect(),
            _ => Map::new(),
        })
    }

    fn apply(&self, ctx: &Context, kwargs: &Map) -> Result<Ret> {
        let purge = self.action == "purge";
        let asked = self.parse_targets(ctx, kwargs)?;
        let others = Others {
            name: &self.name,
            version: self.version.clone(),
            pkgs: &self.pkgs,
            normalize: self.normalize,
            ignore_epoch: &self.ignore_epoch,
            kwargs,
        };
        let mut targets = match targets::remove(ctx, &others)? {
            Ok(targets) => targets,
            // Nothing is installed, but configuration files may be left. `purge` removes those,
            // too.
            Err(_) if purge => Vec::new(),
            Err(ret) => return Ok(ret),
        };
        // `removed: True` lists packages of which only the configuration is left; only dpkg has that state.
        let leftovers = || map! { "versions_as_list" => true, "removed" => true };
        if purge {
            let old = listed(ctx, "pkg.list_pkgs", over(leftovers(), kwargs))?;
            targets.extend(asked.text_keys().filter(|name| old.contains_key(name)).map(str::to_owned));
        }
        targets.sort();
        let ret = Ret::new(self.name.as_str());
        if targets.is_empty() {
            let partially = if purge { " or partially installed" } else { "" };
            return Ok(ret.ok(format!("None of the targeted packages are installed{partially}")));
        }
        let done = format!("{}d", self.action);
        if ctx.is_test() {
            let change = |name: &String| (name.clone(), map! { "new" => done.as_str(), "old" => "" });
            let changes = targets.iter().map(change).collect();
            // "removed" and "purged": both actions end in e.
            let text = format!("The following packages will be {done}: {}.", targets.join(", "));
            return Ok(ret.would(text).changed(changes));
        }
        let own = map! { "pkgs" => self.pkgs.clone(), "version" => self.version.clone(), "split_arch" => false };
        let fun = format!("pkg.{}", self.action);
        let changes = call(ctx, &fun, args![self.name.as_str()], over(own, kwargs))?;
        let changes = changes.into_map().unwrap_or_default();
        let mut left = self.left(ctx, &asked, kwargs)?;
        // Checked twice: a package can be removed while its configuration still exists.
        if purge {
            let new = listed(ctx, "pkg.list_pkgs", over(leftovers(), kwargs))?;
            left.extend(asked.text_keys().filter(|name| new.contains_key(name)).map(str::to_owned));
        }
        left.sort();
        if !left.is_empty() {
            let text = format!("The following packages failed to {}: {}.", self.action, left.join(", "));
            return Ok(ret.fail(text).changed(changes));
        }
        let mut absent: Vec<&str> = asked.text_keys().filter(|name| !targets.iter().any(|one| one == name)).collect();
        absent.sort_unstable();
        let comment = match absent.is_empty() {
            true => format!("All targeted packages were {done}."),
            false => format!(
                "The following packages were not installed: {} The following packages were {done}: {}.",
                absent.join(", "),
                targets.join(", ")
            ),
        };
        Ok(ret.ok(comment).changed(changes))
    }

    /// The packages that are still there.
    fn left(&self, ctx: &Context, asked: &Map, kwargs: &Map) -> Result<Vec<String>> {
        let new = listed(ctx, "pkg.list_pkgs", over(map! { "versions_as_list" => true }, kwargs))?;
        // Only rpm can have several versions of a package installed, and remove one of them.
        let by_version = ["Suse", "RedHat"].contains(&ctx.grains.get_str("os_family").unwrap_or_default());
        let mut left = Vec::new();
        for (name, version) in asked {
            let name = name.to_string();
            let Some(versions) = new.get(&name) else { continue };
            if !by_version || !version.truthy() {
                left.push(name);
            } else if versions.as_list().is_some_and(|versions| versions.contains(version)) {
                left.push(format!("{name}-{version}"));
            }
        }
        Ok(left)
    }
}
