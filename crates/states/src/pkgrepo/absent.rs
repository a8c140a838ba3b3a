//! `pkgrepo.absent`.

use exec::{Context, Error, KwArgs, Result, function};
use modules::pkg::{apt, sources};
use value::{Map, Value, map};

use super::{grain, is_debian, would_differ};
use crate::support::{call, caught, caught_or_refused, has, over};
use crate::{Ret, args};

/// Makes sure that a source of packages does not exist; with `keyid` its key, too.
#[function]
fn absent(ctx: &Context, name: String, kwargs: KwArgs) -> Result<Ret> {
    let mut kwargs = kwargs.given();
    let ret = Ret::new(name.as_str());
    let name = renamed(ctx, name, &mut kwargs);
    let given = |key: &str| kwargs.get(key).is_some_and(|value| !value.is_null());
    let remove_key = given("keyid") || given("keyid_ppa");
    if remove_key && !has(ctx, "pkg.del_repo_key") {
        return Ok(ret.fail("Repo key management is not implemented for this platform"));
    }
    // apt finds a source without a slash at the end of its address; states often write one.
    let bare = if is_debian(ctx) { sources::strip_uri(&name) } else { name.clone() };
    let mut repo = match call(ctx, "pkg.get_repo", args![bare.as_str()], kwargs.clone()) {
        Ok(repo) => repo.into_map().unwrap_or_default(),
        Err(error) => return Ok(ret.fail(format!("Failed to configure repo '{name}': {}", caught(error)?.text))),
    };
    if !repo.is_empty() && is_debian(ctx) {
        let mut wanted = apt::split(&bare).map_err(Error::Invocation)?.architectures;
        let mut there: Vec<String> = repo
            .get("architectures")
            .and_then(Value::as_list)
            .unwrap_or_default()
            .iter()
            .map(Value::to_string)
            .collect();
        wanted.sort();
        there.sort();
        // Another architecture of the same source is a different source in sources.list, and must
        // stay.
        if wanted != there {
            repo = Map::new();
        }
    }
    if repo.is_empty() {
        return Ok(ret.ok(format!("Package repo {name} is absent")));
    }
    if ctx.is_test() {
        return Ok(ret.would(would_differ(&name, "will be removed")));
    }
    if let Err(error) = call(ctx, "pkg.del_repo", args![], over(map! { "repo" => bare.as_str() }, &kwargs)) {
        return Ok(ret.fail(caught_or_refused(error)?.text));
    }
    // Checked again: the source may be listed in a second file.
    let repos = call(ctx, "pkg.list_repos", args![], Map::new())?;
    if repos.get(&bare).is_some() {
        return Ok(ret.fail(format!("Failed to remove repo {name}")));
    }
    // The source is gone even if removing its key fails, so the change is reported either way.
    let mut changes = map! { "repo" => name.as_str() };
    let text = format!("Removed repo {name}");
    if !remove_key {
        return Ok(ret.ok(text).changed(changes));
    }
    match call(ctx, "pkg.del_repo_key", args![bare.as_str()], kwargs) {
        Ok(keyid) => {
            changes.insert("keyid", keyid.clone());
            Ok(ret.ok(format!("{text}, and keyid {keyid}")).changed(changes))
        }
        Err(error) => {
            let why = caught_or_refused(error)?.text;
            Ok(ret.fail(format!("{text}, but failed to remove key: {why}")).changed(changes))
        }
    }
}

/// A source given as `ppa` or `copr` gets its name from there.
fn renamed(ctx: &Context, name: String, kwargs: &mut Map) -> String {
    let here = |kind: &str| match kind {
        "ppa" => ["Ubuntu", "Mint"].contains(&grain(ctx, "os")),
        _ => grain(ctx, "os_family") == "RedHat",
    };
    for kind in ["ppa", "copr"].into_iter().filter(|kind| here(kind)) {
        if let Some(given) = kwargs.remove(kind) {
            let given = given.to_string();
            let prefix = format!("{kind}:");
            return if given.starts_with(&prefix) { given } else { format!("{prefix}{given}") };
        }
    }
    name
}
