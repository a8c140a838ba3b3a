//! `pkg.installed`.

use exec::{Context, KwArgs, Result, function};
use value::{Map, Value, map};

use super::report::{Holds, Report};
use super::targets::{self, Plan, Verify, Wish};
use super::{empty_list, failed, listed, name_and_version, refresh_wanted, reinstalls, resolved, with_warnings};
use crate::Ret;
use crate::support::{call, caught, has, join, over, saltenv};

/// Makes sure that packages are installed, in the requested versions.
#[function]
fn installed(
    ctx: &Context,
    name: String,
    version: Option<String>,
    #[default(Value::Null)] refresh: Value,
    #[default(Value::Null)] fromrepo: Value,
    #[default(false)] skip_verify: Value,
    #[default(false)] skip_suggestions: bool,
    #[default(Value::Null)] pkgs: Value,
    #[default(Value::Null)] sources: Value,
    #[default(false)] allow_updates: Value,
    #[default(false)] pkg_verify: Value,
    #[default(true)] normalize: bool,
    #[default(Value::Null)] ignore_epoch: Value,
    #[default(false)] reinstall: bool,
    #[default(false)] update_holds: Value,
    kwargs: KwArgs,
) -> Result<Ret> {
    // A list that is given but empty usually comes from a template loop over nothing, so it is a
    // success.
    if empty_list(&pkgs) {
        return Ok(Ret::new(name).ok("No packages to install provided"));
    }
    let (mut pkgs, mut version) = (pkgs, version.map_or(Value::Null, Value::from));
    if !name.is_empty() && !pkgs.truthy() && !sources.truthy() {
        // From here on a single package is a list of one, and its version belongs to it.
        pkgs = match std::mem::take(&mut version) {
            version if version.truthy() => value::list![map! { name.as_str() => version }],
            _ => value::list![name.as_str()],
        };
    }
    let mut kwargs = kwargs.given();
    kwargs.insert("saltenv", saltenv(ctx));
    let mut refresh = refresh_wanted(ctx, &refresh);
    if pkgs.truthy() {
        (pkgs, refresh) = resolved(ctx, pkgs, refresh, &kwargs)?;
    }
    let verify = Verify::of(&pkg_verify);
    if (verify.on || pkg_verify.as_list().is_some()) && !has(ctx, "pkg.verify") {
        return Ok(failed(&name, "pkg.verify not implemented"));
    }
    kwargs.insert("allow_updates", allow_updates);
    // Names must keep an architecture suffix (`glibc.i686`) here. Otherwise yum's list would mix
    // the architectures.
    let own = map! { "fromrepo" => fromrepo.clone(), "split_arch" => false };
    let wish = Wish {
        name: name.clone(),
        version,
        pkgs,
        sources,
        skip_suggestions,
        verify,
        normalize,
        ignore_epoch,
        reinstall,
        refresh,
        kwargs: over(own, &kwargs),
    };
    let plan = match targets::install(ctx, &wish)? {
        Ok(plan) => plan,
        // Nothing to install, but `hold` still has to be applied.
        Err(ret) => return super::report::hold_done(ctx, &wish, &kwargs, ret),
    };
    if !plan.unpurge.is_empty() && !has(ctx, "lowpkg.unpurge") {
        return Ok(with_warnings(failed(&name, "lowpkg.unpurge not implemented"), &plan.warnings));
    }
    if ctx.is_test() {
        return would(ctx, &wish, &plan);
    }
    let more = map! { "fromrepo" => fromrepo, "skip_verify" => skip_verify, "update_holds" => update_holds };
    install(ctx, &wish, plan, over(more, &kwargs), &kwargs)
}

/// Reports what would be done.
fn would(ctx: &Context, wish: &Wish, plan: &Plan) -> Result<Ret> {
    // The version in a file is not known without unpacking it, so the changes show a placeholder.
    let from_files = wish.sources.truthy();
    let placeholder = || map! { "new" => "installed", "old" => "" };
    let (mut comment, mut changes) = (Vec::new(), Map::new());
    if !plan.targets.is_empty() {
        changes.update(match from_files {
            true => plan.targets.keys().map(|name| (name.clone(), placeholder())).collect(),
            false => targets::installable(ctx, &plan.targets, &Map::new())?,
        });
        let summary = join(plan.targets.keys(), ", ");
        comment.push(format!("The following packages would be installed/updated: {summary}"));
    }
    if !plan.unpurge.is_empty() {
        let names = plan.unpurge.join(", ");
        let text = "The following packages would have their selection status changed from 'purge' to 'install'";
        comment.push(format!("{text}: {names}"));
        changes.extend(plan.unpurge.iter().map(|name| (name.as_str(), placeholder())));
    }
    let text = |name: &str| if from_files { name.to_owned() } else { name_and_version(name, &plan.reinstall) };
    if wish.reinstall && !plan.reinstall.is_empty() {
        let names: Vec<String> = plan.reinstall.text_keys().map(text).collect();
        changes.extend(names.iter().map(|name| (name.as_str(), placeholder())));
        comment.push(format!("The following packages would be reinstalled: {}", names.join(", ")));
    } else {
        for name in plan.reinstall.text_keys() {
            let shown = text(name);
            comment
                .push(format!("Package '{shown}' would be reinstalled because the following files have been altered:"));
            // Salt leaves the entry empty for packages that `pkg_verify` would reinstall.
            changes.insert(name, Map::new());
            comment.push(exec::nested(plan.altered.get(name).unwrap_or(&Value::Null)));
        }
    }
    let ret = Ret::new(wish.name.as_str()).would(comment.join("\n")).changed(changes);
    Ok(with_warnings(ret, &plan.warnings))
}

/// The packages or files to hand to the package manager.
// Only missing packages are passed on: package managers would otherwise upgrade the rest, too.
fn handed_on(wish: &Wish, plan: &Plan) -> (Value, Value) {
    if wish.pkgs.truthy() {
        let all = plan.targets.iter().chain(&plan.reinstall);
        let pkgs: Vec<Map> = all.map(|(name, version)| map! { name.clone() => version.clone() }).collect();
        return (pkgs.into(), wish.sources.clone());
    }
    let picked = |among: &Map| -> Vec<Value> {
        let first = |item: &Value| item.as_map()?.keys().next()?.as_str().map(str::to_owned);
        let chosen = |item: &&Value| first(item).is_some_and(|name| among.contains_key(&name));
        wish.sources.as_list().unwrap_or_default().iter().filter(chosen).cloned().collect()
    };
    let sources = match wish.sources.truthy() {
        true => [picked(&plan.targets), picked(&plan.reinstall)].concat().into(),
        false => wish.sources.clone(),
    };
    (wish.pkgs.clone(), sources)
}

fn install(ctx: &Context, wish: &Wish, mut plan: Plan, more: Map, kwargs: &Map) -> Result<Ret> {
    let (pkgs, sources) = handed_on(wish, &plan);
    let mut report = Report::default();
    let mut installed = Map::new();
    if !plan.targets.is_empty() || !plan.reinstall.is_empty() {
        let own = map! {
            // Always by list, since a name beside a list would be ambiguous.
            "name" => Value::Null,
            // The lists were already read while the newest versions were looked up.
            "refresh" => wish.refresh && !plan.refreshed,
            "version" => wish.version.clone(),
            "pkgs" => pkgs,
            "sources" => sources,
            "reinstall" => !plan.reinstall.is_empty(),
            "normalize" => wish.normalize,
            "ignore_epoch" => wish.ignore_epoch.clone(),
            "split_arch" => false,
        };
        match call(ctx, "pkg.install", Vec::new(), over(own, &more)) {
            Ok(Value::Map(changes)) => installed = changes,
            // Some package managers answer with a message instead of changes.
            Ok(Value::Str(text)) => report.comment.push(text),
            Ok(_) => {}
            Err(error) => {
                let caught = caught(error)?;
                let plain = format!("An error was encountered while installing package(s): {}", caught.text);
                let comment = if caught.detailed { caught.without_changes } else { plain };
                return Ok(with_warnings(failed(&wish.name, comment).changed(caught.changes), &plan.warnings));
            }
        }
        report.changes.update(installed.clone());
    }
    let mut holds = Holds::default();
    if has(ctx, "pkg.hold")
        && let Some(hold) = kwargs.get("hold")
    {
        // All wanted packages are held, the ones that were already installed included.
        match Holds::set(ctx, hold.truthy(), map! { "name" => wish.name.as_str(), "pkgs" => plan.desired.clone() })? {
            Ok(found) => holds = found,
            Err(super::report::Refused::Said(text)) => {
                report.comment.push(text);
                let ret = failed(&wish.name, report.comment.join("\n")).changed(report.changes);
                return Ok(with_warnings(ret, &plan.warnings));
            }
            // Salt drops the changes in this case although packages were installed.
            Err(super::report::Refused::Answered(text)) => {
                return Ok(with_warnings(failed(&wish.name, text), &plan.warnings));
            }
        }
    }
    if !plan.unpurge.is_empty() {
        let names = plan.unpurge.iter().map(Value::from).collect();
        report.changes.insert("purge_desired", call(ctx, "lowpkg.unpurge", names, Map::new())?);
    }
    check(ctx, wish, &plan, kwargs, &mut report)?;
    report.tell(wish, &plan, &holds);
    reinstalls::tell(ctx, wish, &mut plan, &installed, kwargs, &mut report)?;
    let mut ret = Ret::new(wish.name.as_str()).ok(report.comment.join("\n")).changed(report.changes);
    ret.result = Some(!report.failed);
    Ok(with_warnings(ret, &plan.warnings))
}

/// Checks whether the packages are installed now.
// The answer of the package manager is not trusted: some exit with 0 and install nothing.
fn check(ctx: &Context, wish: &Wish, plan: &Plan, kwargs: &Map, report: &mut Report) -> Result<()> {
    let untouched = |name: &str| !plan.targets.contains_key(name) && !plan.reinstall.contains_key(name);
    if wish.sources.truthy() {
        let names = plan.targets.text_keys();
        (report.modified, report.bad) = names.map(str::to_owned).partition(|name| report.changes.contains_key(name));
        // Salt reports them in the order of the changes.
        let order = |name: &String| report.changes.text_keys().position(|known| known == name);
        report.modified.sort_by_key(order);
        report.same = plan.desired.text_keys().filter(|name| untouched(name)).map(str::to_owned).collect();
        return Ok(());
    }
    let there = listed(ctx, "pkg.list_pkgs", over(map! { "versions_as_list" => true }, kwargs))?;
    let capabilities = kwargs.get("resolve_capabilities").is_some_and(Value::truthy) && has(ctx, "pkg.list_provides");
    let provided = if capabilities { listed(ctx, "pkg.list_provides", kwargs.clone())? } else { Map::new() };
    let (good, bad) = targets::verify(ctx, &plan.desired, &there, &provided, &wish.ignore_epoch)?;
    report.same = good.iter().filter(|name| untouched(name)).cloned().collect();
    report.modified = good.into_iter().filter(|name| plan.targets.contains_key(name)).collect();
    report.bad = bad.into_iter().filter(|name| plan.targets.contains_key(name)).collect();
    // Windows installers that run as a scheduled task are still active. Salt counts them as done.
    let started = |name: &String| {
        let status = report.changes.get(name).and_then(|change| change.get("install status"));
        status.and_then(Value::as_str) == Some("task started")
    };
    let (begun, bad) = std::mem::take(&mut report.bad).into_iter().partition(started);
    let begun: Vec<String> = begun;
    report.modified.extend(begun);
    report.bad = bad;
    Ok(())
}
