//! Patches and patterns, and services that still run what was replaced.

use std::collections::BTreeSet;

use exec::{Context, KwArgs, Result, function};
use value::{Map, Value, map};

use super::call::{Zypper, attribute};
use super::{common, repos};

/// Searches for one kind of thing and returns its summary and whether it is installed.
fn found(ctx: &Context, kind: &str, installed_only: bool, root: Option<&str>) -> Result<Map> {
    let all = Zypper::looking(root).elements(ctx, &["se", "-t", kind], "solvable")?;
    let there = |one: &&Map| !installed_only || attribute(one, "status") == "installed";
    let entry = |one: &Map| {
        let installed = attribute(one, "status") == "installed";
        (attribute(one, "name").to_owned(), map! { "installed" => installed, "summary" => attribute(one, "summary") })
    };
    Ok(all.iter().filter(there).map(entry).collect())
}

pub(super) fn patches(ctx: &Context, installed_only: bool, root: Option<&str>) -> Result<Map> {
    found(ctx, "patch", installed_only, root)
}

/// Returns the patches, and whether they are installed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_patches
#[function]
fn list_patches(ctx: &Context, #[default(false)] refresh: bool, root: Option<String>, kwargs: KwArgs) -> Result<Map> {
    if refresh {
        repos::refresh(ctx, root.as_deref(), &kwargs.given())?;
    }
    patches(ctx, false, root.as_deref())
}

/// Returns the patches that are installed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_installed_patches
#[function]
fn list_installed_patches(ctx: &Context, root: Option<String>, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    patches(ctx, true, root.as_deref())
}

/// Returns the patterns, and whether they are installed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_patterns
#[function]
fn list_patterns(ctx: &Context, #[default(false)] refresh: bool, root: Option<String>) -> Result<Map> {
    if refresh {
        repos::refresh(ctx, root.as_deref(), &Map::new())?;
    }
    found(ctx, "pattern", false, root.as_deref())
}

/// Returns the patterns that are installed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_installed_patterns
#[function]
fn list_installed_patterns(ctx: &Context, root: Option<String>) -> Result<Map> {
    installed_patterns(ctx, root.as_deref())
}

pub(super) fn installed_patterns(ctx: &Context, root: Option<&str>) -> Result<Map> {
    let mut words = vec!["rpm"];
    words.extend(root.iter().flat_map(|root| ["--root", root]));
    // Zypper does not show the hidden patterns, but rpm knows what was installed for them.
    words.extend(["-q", "--provides", "--whatprovides", "pattern()"]);
    let text = common::output(ctx, &words, true)?;
    let names = text.lines().filter(|line| line.starts_with("pattern() = "));
    // A leading dot marks internal patterns.
    let names = names.filter_map(|line| line.rsplit('=').next()).map(str::trim).filter(|name| !name.starts_with('.'));
    let names: BTreeSet<String> = names.map(str::to_owned).collect();
    let mut all = found(ctx, "pattern", false, root)?;
    all.retain(|_, entry| entry.get("installed").is_some_and(Value::truthy));
    for name in names {
        all.entry_or_insert_with(name, || map! { "installed" => true, "summary" => "Non-visible pattern" }.into());
    }
    Ok(all)
}

/// Returns services that still run files that were replaced.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.services_need_restart
#[function]
fn services_need_restart(ctx: &Context, root: Option<String>, kwargs: KwArgs) -> Result<Vec<String>> {
    let _ = kwargs;
    let said = Zypper { looks: true, ..Zypper::at(root.as_deref()) }.call(ctx, &["ps", "-sss"])?;
    Ok(said.stdout.split_whitespace().map(str::to_owned).collect())
}
