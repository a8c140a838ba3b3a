//! Upgrading and removing packages.

use exec::{Context, Error, KwArgs, Result, function};
use value::{Map, Value, map};

use super::call::{WELL, Zypper};
use super::install::{BATCH, kinds};
use super::{reads, repos};
use crate::packages::common::{self, Targets};
use crate::packages::rpm::{self, Listing};

/// Upgrades all packages, or those named; returns the changes, with ``dryrun=True`` the plan of zypper.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.upgrade
///     salt '*' pkg.upgrade dist_upgrade=True fromrepo='["MyRepoName"]' novendorchange=True
#[function]
fn upgrade(
    ctx: &Context,
    name: Option<String>,
    #[default(Value::Null)] pkgs: Value,
    #[default(true)] refresh: bool,
    #[default(false)] dryrun: bool,
    #[default(false)] dist_upgrade: bool,
    #[default(Value::Null)] fromrepo: Value,
    #[default(false)] novendorchange: bool,
    #[default(false)] skip_verify: bool,
    #[default(false)] no_recommends: bool,
    root: Option<String>,
    #[default(Value::Null)] diff_attr: Value,
    kwargs: KwArgs,
) -> Result<Value> {
    let kwargs = kwargs.given();
    if refresh {
        repos::refresh(ctx, root.as_deref(), &kwargs)?;
    }
    let mut words: Vec<String> = Vec::new();
    words.extend(skip_verify.then(|| "--no-gpg-checks".to_owned()));
    words.push(if dist_upgrade { "dist-upgrade" } else { "update" }.to_owned());
    words.push("--auto-agree-with-licenses".to_owned());
    words.extend(dryrun.then(|| "--dry-run".to_owned()));
    // The same option has another name for each verb.
    let choose = if dist_upgrade { "--from" } else { "--repo" };
    let repos = if fromrepo.truthy() { common::texts(Some(&fromrepo)) } else { Vec::new() };
    words.extend(repos.into_iter().flat_map(|repo| [choose.to_owned(), repo]));
    let zypper = Zypper { tolerant: true, scope: true, ..Zypper::at(root.as_deref()) };
    if dist_upgrade {
        words.extend((novendorchange && is_newer_than_11(ctx)).then(|| "--no-allow-vendor-change".to_owned()));
        words.extend(no_recommends.then(|| "--no-recommends".to_owned()));
        if dryrun {
            // Salt lets the solver write down its thoughts before the rehearsal itself.
            zypper.call(ctx, &[&words[..], &["--debug-solver".to_owned()]].concat())?;
        }
    } else if (name.is_some() || pkgs.truthy())
        && let Targets::Packages(packages) = common::parse_targets(ctx, vec![name.into(), pkgs, Value::Null], kwargs)?
    {
        words.extend(packages.text_keys().map(str::to_owned));
    }
    let listing = || Listing { root: root.clone(), ..Listing::default() }.with(Some(&diff_attr));
    let old = reads::installed(ctx, listing(), &[])?;
    let said = zypper.call(ctx, &words)?;
    rpm::changed(ctx);
    let changes = common::differences(&old, &reads::installed(ctx, listing(), &[])?);
    if !said.retcode.is_some_and(|code| WELL.contains(&code)) {
        let info = map! { "changes" => changes, "result" => said.into_map() };
        return Err(Error::detailed("Problem encountered upgrading packages", info));
    }
    if dryrun {
        return Ok(format!("{}\n{}", said.stdout, said.stderr).trim().into());
    }
    Ok(changes.into())
}

/// Older versions of zypper have no option for vendors.
fn is_newer_than_11(ctx: &Context) -> bool {
    let release = ctx.grains.get("osrelease_info").and_then(Value::as_list).and_then(<[Value]>::first);
    // The option came with SLES 12.
    let newer = release.and_then(Value::as_i64).is_some_and(|release| release > 11);
    if !newer {
        tracing::warn!("this version of zypper cannot keep the vendors of packages");
    }
    newer
}

/// Removes packages; returns the changes.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.remove <package name>
///     salt '*' pkg.remove pkgs='["foo", "bar"]'
#[function]
fn remove(
    ctx: &Context,
    name: Option<String>,
    #[default(Value::Null)] pkgs: Value,
    root: Option<String>,
    kwargs: KwArgs,
) -> Result<Map> {
    let _ = kwargs;
    removed(ctx, name, pkgs, root)
}

/// The same: rpm keeps no settings of removed packages.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.purge <package name>
#[function]
fn purge(
    ctx: &Context,
    name: Option<String>,
    #[default(Value::Null)] pkgs: Value,
    root: Option<String>,
    kwargs: KwArgs,
) -> Result<Map> {
    let _ = kwargs;
    removed(ctx, name, pkgs, root)
}

fn removed(ctx: &Context, name: Option<String>, pkgs: Value, root: Option<String>) -> Result<Map> {
    let Targets::Packages(wanted) = common::parse_targets(ctx, vec![name.into(), pkgs], Map::new())? else {
        return Ok(Map::new());
    };
    let names: Vec<String> = wanted.text_keys().map(str::to_owned).collect();
    // SUSE's temporary fixes (PTF) hold each other, and only a special verb removes them.
    let fixes = temporary_fixes(ctx, &names, root.as_deref())?;
    let includes = kinds(&names);
    let listing = || Listing { root: root.clone(), ..Listing::default() };
    let old = reads::installed(ctx, listing(), &includes)?;
    let mut targets = Vec::new();
    for (name, version) in &wanted {
        let name = name.to_string();
        let Some(there) = old.get_str(&name).filter(|_| !fixes.contains(&name)) else { continue };
        if !version.truthy() {
            targets.push(name);
        } else if there.split(',').any(|other| other == version.to_string()) {
            targets.push(format!("{name}-{version}"));
        }
    }
    if targets.is_empty() && fixes.is_empty() {
        return Ok(Map::new());
    }
    let zypper = Zypper { scope: true, ..Zypper::at(root.as_deref()) };
    for batch in targets.chunks(BATCH) {
        zypper.call(ctx, &[&["remove".to_owned()], batch].concat())?;
    }
    for batch in fixes.chunks(BATCH) {
        zypper.call(ctx, &[&["removeptf".to_owned(), "--allow-downgrade".into()], batch].concat())?;
    }
    rpm::changed(ctx);
    Ok(common::differences(&old, &reads::installed(ctx, listing(), &includes)?))
}

/// Packages that are a "program temporary fix", which zypper removes by another command.
fn temporary_fixes(ctx: &Context, names: &[String], root: Option<&str>) -> Result<Vec<String>> {
    let mut words = vec!["rpm"];
    words.extend(root.iter().flat_map(|root| ["--root", root]));
    words.extend(["-q", "--qf", "%{NAME}: [%{PROVIDES} ]\n"]);
    words.extend(names.iter().map(String::as_str));
    let text = common::output(ctx, &words, true)?;
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    Ok(pairs.filter(|(_, provides)| provides.contains("ptf()")).map(|(name, _)| name.to_owned()).collect())
}
