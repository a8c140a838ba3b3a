//! `pkg.downloaded`, `pkg.patch_installed` and `pkg.patch_downloaded`.

use exec::{Context, Error, KwArgs, Result, function};
use value::{Map, Value, map};

use super::targets::{self, Others};
use super::{empty_list, failed, listed, name_and_version, resolved};
use crate::Ret;
use crate::support::{call, caught, has, join, over};

/// Makes sure that packages are in the cache of the package manager.
#[function]
fn downloaded(
    ctx: &Context,
    name: String,
    version: Option<String>,
    #[default(Value::Null)] pkgs: Value,
    #[default(Value::Null)] fromrepo: Value,
    #[default(Value::Null)] ignore_epoch: Value,
    kwargs: KwArgs,
) -> Result<Ret> {
    if !has(ctx, "pkg.list_downloaded") {
        return Ok(failed(&name, "The pkg.downloaded state is not available on this platform"));
    }
    if empty_list(&pkgs) {
        return Ok(Ret::new(name).ok("No packages to download provided"));
    }
    let (mut pkgs, mut version) = (pkgs, Value::from(version));
    // A single name is turned into a list, so that only one path has to be right. The version moves
    // along.
    if !name.is_empty() && !pkgs.truthy() {
        pkgs = match std::mem::take(&mut version) {
            version if version.truthy() => value::list![map! { name.as_str() => version }],
            _ => value::list![name.as_str()],
        };
    }
    let mut kwargs = kwargs.given();
    // The state sets this itself, and an argument of the user would win over it below.
    kwargs.remove("downloadonly");
    let (pkgs, _) = match has(ctx, "pkg.resolve_capabilities") {
        true => resolved(ctx, pkgs, false, &kwargs)?,
        false => (pkgs, false),
    };
    let with_repo = over(map! { "fromrepo" => fromrepo.clone() }, &kwargs);
    let others = Others {
        name: &name,
        version: version.clone(),
        pkgs: &pkgs,
        normalize: true,
        ignore_epoch: &ignore_epoch,
        kwargs: &with_repo,
    };
    let targets = match targets::download(ctx, &others)? {
        Ok(targets) => targets,
        Err(ret) => return Ok(ret),
    };
    let ret = Ret::new(name.as_str());
    if ctx.is_test() {
        return Ok(ret.would(format!("The following packages would be downloaded: {}", join(targets.keys(), ", "))));
    }
    let own = map! {
        "name" => name.as_str(),
        "pkgs" => pkgs,
        "version" => version,
        "downloadonly" => true,
        "fromrepo" => fromrepo,
        "ignore_epoch" => ignore_epoch.clone(),
    };
    let mut ret = match call(ctx, "pkg.install", Vec::new(), over(own, &kwargs)) {
        Ok(changes) => ret.ok("").changed(changes.into_map().unwrap_or_default()),
        Err(error) => return not_fetched(&name, "downloading package(s)", error),
    };
    let new = listed(ctx, "pkg.list_downloaded", kwargs)?;
    // The package manager may succeed without leaving a file, for instance when the package is
    // installed already.
    let (_, bad) = targets::verify(ctx, &targets, &new, &Map::new(), &ignore_epoch)?;
    if !bad.is_empty() {
        let names = join(bad.iter().map(|name| name_and_version(name, &targets)), ", ");
        ret = ret.fail(format!("The following packages failed to download: {names}"));
    }
    if ret.changes.is_empty() && !ret.comment.truthy() {
        ret = ret.ok(format!("Packages downloaded: {}", join(targets.keys(), ", ")));
    }
    Ok(ret)
}

fn not_fetched(name: &str, doing: &str, error: Error) -> Result<Ret> {
    let caught = caught(error)?;
    let plain = format!("An error was encountered while {doing}: {}", caught.text);
    let comment = if caught.detailed { caught.without_changes } else { plain };
    Ok(failed(name, comment).changed(caught.changes))
}

/// Makes sure that advisory patches are installed.
#[function]
fn patch_installed(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] advisory_ids: Value,
    #[default(Value::Null)] downloadonly: Value,
    kwargs: KwArgs,
) -> Result<Ret> {
    patch(ctx, name, advisory_ids, downloadonly, kwargs.given())
}

/// Makes sure that advisory patches are in the cache of the package manager.
#[function]
fn patch_downloaded(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] advisory_ids: Value,
    kwargs: KwArgs,
) -> Result<Ret> {
    if !has(ctx, "pkg.list_patches") {
        return Ok(failed(&name, "The pkg.patch_downloaded state is not available on this platform"));
    }
    let mut kwargs = kwargs.given();
    kwargs.remove("downloadonly");
    patch(ctx, name, advisory_ids, true.into(), kwargs)
}

fn patch(ctx: &Context, name: String, ids: Value, downloadonly: Value, kwargs: Map) -> Result<Ret> {
    if !has(ctx, "pkg.list_patches") {
        return Ok(failed(&name, "The pkg.patch_installed state is not available on this platform"));
    }
    let ret = Ret::new(name.as_str());
    if empty_list(&ids) {
        return Ok(ret.ok("No advisory ids provided"));
    }
    let installed = listed(ctx, "pkg.list_installed_patches", kwargs.clone())?;
    let there = |id: &str| installed.get(id).is_some_and(Value::truthy);
    // Without a list the name of the state is the advisory's id.
    if !ids.truthy() && there(&name) {
        return Ok(ret.ok(format!("Advisory patch {name} is already installed")));
    }
    let wanted = if ids.truthy() { crate::support::items(&ids) } else { vec![name.as_str().into()] };
    let targets: Vec<String> = wanted.iter().map(Value::to_string).filter(|id| !there(id)).collect();
    if targets.is_empty() {
        return Ok(ret.ok("All specified advisory patches are already installed"));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("The following advisory patches would be downloaded: {}", targets.join(", "))));
    }
    let fetch_only = downloadonly.truthy();
    let own = map! { "name" => name.as_str(), "advisory_ids" => ids, "downloadonly" => downloadonly };
    match call(ctx, "pkg.install", Vec::new(), over(own, &kwargs)) {
        // An empty result is a success, too: an advisory may concern packages that are not
        // installed here.
        Ok(changes) if changes.truthy() => Ok(ret.ok("").changed(changes.into_map().unwrap_or_default())),
        Ok(_) => {
            let status = if fetch_only { "downloaded" } else { "installed" };
            Ok(ret.ok(format!("Advisory patch is not needed or related packages are already {status}")))
        }
        Err(error) => not_fetched(&name, "downloading package(s)", error),
    }
}
