//! Groups of packages.

use std::collections::{BTreeMap, BTreeSet};

use exec::{Context, Result, function};
use value::{Map, Value, map};

use super::{common, installed_versions, reads};

/// The groups in pacman's answer, with their packages.
fn groups(ctx: &Context, words: &[&str]) -> Result<BTreeMap<String, Vec<String>>> {
    let text = common::output(ctx, words, true)?;
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (group, package) in reads::pairs(&text) {
        found.entry(group).or_default().push(package);
    }
    Ok(found)
}

/// Returns the groups that are installed, wholly or in part, and those that are available.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.group_list
#[function]
fn group_list(ctx: &Context) -> Result<Map> {
    let mut available = groups(ctx, &["pacman", "-Sgg"])?;
    let installed = groups(ctx, &["pacman", "-Qg"])?;
    let (mut whole, mut partly) = (Vec::new(), Vec::new());
    for (group, packages) in installed {
        match available.remove(&group) {
            // A group is nothing but a list of packages, so it is there when all of them are.
            Some(all) if all.len() == packages.len() => whole.push(group),
            Some(_) => partly.push(group),
            None => tracing::error!("the group {group} is installed, but pacman does not know it"),
        }
    }
    let available: Vec<String> = available.into_keys().collect();
    Ok(map! { "installed" => whole, "partially_installed" => partly, "available" => available })
}

/// The kinds of members other systems know; pacman's are all of the third one.
const KINDS: [&str; 4] = ["mandatory", "optional", "default", "conditional"];

fn members(ctx: &Context, name: &str) -> Result<BTreeSet<String>> {
    Ok(groups(ctx, &["pacman", "-Sgg", name])?.into_values().flatten().collect())
}

/// Returns the packages of a group.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.group_info 'xorg'
#[function]
fn group_info(ctx: &Context, name: String) -> Result<Map> {
    let members = members(ctx, &name)?;
    // Pacman has no kinds of members. Salt calls all of them "default".
    let of = |kind: &str| if kind == "default" { members.iter().cloned().collect() } else { Value::List(Vec::new()) };
    Ok(KINDS.iter().map(|kind| (*kind, of(kind))).collect())
}

/// Returns which packages of a group are installed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.group_diff 'xorg'
#[function]
fn group_diff(ctx: &Context, name: String) -> Result<Map> {
    let packages = installed_versions(ctx)?;
    let members = members(ctx, &name)?;
    let mut found = Map::new();
    for kind in KINDS {
        let own = members.iter().filter(|_| kind == "default");
        let (there, missing): (Vec<&String>, Vec<&String>) = own.partition(|member| packages.contains_key(member));
        let list = |names: Vec<&String>| names.into_iter().map(String::as_str).collect::<Value>();
        found.insert(kind, map! { "installed" => list(there), "not installed" => list(missing) });
    }
    Ok(found)
}
