//! `pkg.group_installed`.

use exec::{Context, KwArgs, Result, function};
use value::{Map, Value, map};

use super::{failed, listed};
use crate::Ret;
use crate::support::{call, caught, has, join, over};

/// Makes sure that a group of packages is installed.
#[function]
fn group_installed(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] skip: Value,
    #[default(Value::Null)] include: Value,
    kwargs: KwArgs,
) -> Result<Ret> {
    let kwargs = kwargs.given();
    if !has(ctx, "pkg.group_diff") {
        return Ok(failed(&name, "pkg.group_install not available for this platform"));
    }
    let (skip, include) = match (names(&skip), names(&include)) {
        (None, _) => return Ok(failed(&name, "skip must be formatted as a list")),
        (_, None) => return Ok(failed(&name, "include must be formatted as a list")),
        (Some(skip), Some(include)) => (skip, include),
    };
    let diff = match call(ctx, "pkg.group_diff", vec![name.as_str().into()], kwargs.clone()) {
        Ok(diff) => diff,
        // Salt recognizes Python's TypeError for an unknown keyword argument, and reports it as a
        // limit of the platform.
        Err(exec::Error::Arguments(_)) => {
            return Ok(failed(&name, "Repo options are not supported on this platform"));
        }
        Err(exec::Error::Invocation(text)) if text.contains("keyword argument") => {
            return Ok(failed(&name, "Repo options are not supported on this platform"));
        }
        Err(error) => {
            let why = caught(error)?.text;
            return Ok(failed(
                &name,
                format!("An error was encountered while installing/updating group '{name}': {why}."),
            ));
        }
    };
    let part = |kind: &str, state: &str| -> Vec<String> {
        let list = diff.get(kind).and_then(|kind| kind.get(state)).and_then(Value::as_list).unwrap_or_default();
        list.iter().map(Value::to_string).collect()
    };
    let mandatory = [part("mandatory", "installed"), part("mandatory", "not installed")].concat();
    // Without its mandatory packages the group would not count as installed, so the next run would
    // try again.
    let wrong: Vec<String> = mandatory.into_iter().filter(|package| skip.contains(package)).collect();
    if !wrong.is_empty() {
        let text = format!("The following mandatory packages cannot be skipped: {}", wrong.join(", "));
        return Ok(failed(&name, text));
    }
    let optional = part("default", "not installed").into_iter().filter(|package| !skip.contains(package));
    let mut targets = part("mandatory", "not installed");
    let required: Vec<String> = targets.iter().chain(&include).cloned().collect();
    // The packages of the group's `default` list may be missing afterwards. Only the mandatory and
    // the included ones are checked.
    targets.extend(optional);
    targets.extend(include);
    let ret = Ret::new(name.as_str());
    if targets.is_empty() {
        return Ok(ret.ok(format!("Group '{name}' is already installed")));
    }
    // Any installed member makes it an update in Salt's words, even a purely optional one.
    let partly = ["mandatory", "default", "optional"].iter().any(|kind| !part(kind, "installed").is_empty());
    if ctx.is_test() {
        let what = if partly { "is partially installed and will be updated" } else { "will be installed" };
        return Ok(ret.would(format!("Group '{name}' {what}")));
    }
    let changes = match call(ctx, "pkg.install", Vec::new(), over(map! { "pkgs" => targets }, &kwargs)) {
        Ok(changes) => changes.into_map().unwrap_or_default(),
        Err(error) => {
            let caught = caught(error)?;
            let text = format!("An error was encountered while installing/updating group '{name}'");
            let comment = if caught.detailed { caught.without_changes } else { format!("{text}: {}", caught.text) };
            return Ok(ret.fail(comment).changed(caught.changes));
        }
    };
    let installed: Map = listed(ctx, "pkg.list_pkgs", kwargs)?;
    let missing = required.iter().filter(|package| !installed.contains_key(package)).collect::<Vec<_>>();
    if !missing.is_empty() {
        let text = format!("Failed to install the following packages: {}", join(missing, ", "));
        return Ok(ret.fail(text).changed(changes));
    }
    let what = if partly { "updated" } else { "installed" };
    Ok(ret.ok(format!("Group '{name}' was {what}")).changed(changes))
}

fn names(list: &Value) -> Option<Vec<String>> {
    match list {
        Value::Null => Some(Vec::new()),
        Value::List(items) => Some(items.iter().map(Value::to_string).collect()),
        _ => None,
    }
}
