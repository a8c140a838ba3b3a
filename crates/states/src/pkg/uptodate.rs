//! `pkg.uptodate`.

use exec::{Context, KwArgs, Result, function};
use value::{Map, Value, map};

use super::{failed, resolved};
use crate::Ret;
use crate::support::{call, caught, has, join, over};

/// Makes sure that all packages, or those named, are up to date.
#[function]
fn uptodate(
    ctx: &Context,
    name: String,
    #[default(false)] refresh: Value,
    #[default(Value::Null)] pkgs: Value,
    kwargs: KwArgs,
) -> Result<Ret> {
    if !has(ctx, "pkg.list_upgrades") {
        return Ok(failed(&name, "State pkg.uptodate is not available"));
    }
    let kwargs = kwargs.given();
    // Unlike the other states this one insists on a boolean, as in Salt.
    let Value::Bool(refresh) = refresh else { return Ok(failed(&name, "refresh must be either True or False")) };
    let (pkgs, refresh) = resolved(ctx, pkgs, refresh, &kwargs)?;
    let expected = match expected(ctx, refresh, &pkgs, &kwargs) {
        Ok(expected) => expected,
        Err(error) => return Ok(failed(&name, error.to_string())),
    };
    let ret = Ret::new(name.as_str());
    if expected.is_empty() {
        return Ok(ret.ok("System is already up-to-date"));
    }
    if ctx.is_test() {
        return Ok(ret.would("System update will be performed").changed(expected));
    }
    let own = map! { "refresh" => refresh, "pkgs" => pkgs.clone() };
    let changes = match call(ctx, "pkg.upgrade", Vec::new(), over(own, &kwargs)) {
        Ok(changes) => changes.into_map().unwrap_or_default(),
        Err(error) => {
            let caught = caught(error)?;
            let plain = format!("An error was encountered while updating packages: {}", caught.text);
            let comment = if caught.detailed { caught.without_changes } else { plain };
            return Ok(ret.fail(comment).changed(caught.changes));
        }
    };
    // Without names an upgrade may hold packages back, which is the package manager's business.
    // Named ones must change.
    let named = pkgs.as_list().is_some();
    let missing: Vec<&str> = expected.text_keys().filter(|name| named && !changes.contains_key(name)).collect();
    if !missing.is_empty() {
        let text = format!("The following package(s) failed to update: {}", join(missing, ", "));
        return Ok(ret.fail(text).changed(changes));
    }
    Ok(ret.ok("Upgrade ran successfully").changed(changes))
}

/// Returns the packages that would be upgraded, all or only the named ones.
fn expected(ctx: &Context, refresh: bool, pkgs: &Value, kwargs: &Map) -> Result<Map> {
    let own = map! { "refresh" => refresh };
    let upgrades = call(ctx, "pkg.list_upgrades", Vec::new(), over(own, kwargs))?.into_map().unwrap_or_default();
    let mut expected = Map::new();
    for (package, new) in upgrades {
        // One call per package, since the answer for several names has another shape.
        let old = call(ctx, "pkg.version", vec![package.clone()], kwargs.clone())?;
        expected.insert(package, map! { "new" => new, "old" => old });
    }
    if let Some(named) = pkgs.as_list() {
        expected.retain(|package, _| named.contains(package));
    }
    Ok(expected)
}
