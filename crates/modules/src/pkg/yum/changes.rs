//! Upgrading and removing packages.

use exec::{Context, Error, KwArgs, Result, function};
use value::{Map, Value, map};

use super::available::refresh;
use super::install::split;
use super::{Manager, all_options, call};
use crate::packages::common::{self, Targets};
use crate::packages::rpm::{self, Listing};
use crate::util::is_true;

/// Upgrades all packages, or those named; returns the changes. Additional arguments are options of the same name:
/// ``security=True``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.upgrade
///     salt '*' pkg.upgrade pkgs='["foo", "bar"]'
#[function]
fn upgrade(
    ctx: &Context,
    name: Option<String>,
    #[default(Value::Null)] pkgs: Value,
    #[default(true)] refresh: Value,
    #[default(false)] skip_verify: bool,
    #[default(true)] normalize: bool,
    #[default(false)] minimal: bool,
    #[default(true)] obsoletes: bool,
    #[default(Value::Null)] diff_attr: Value,
    kwargs: KwArgs,
) -> Result<Map> {
    let how = How { refresh: is_true(&refresh), skip_verify, normalize, minimal, obsoletes, diff_attr };
    upgraded(ctx, name, pkgs, how, kwargs.given())
}

/// The same, without packages that replace others.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.update
#[function]
fn update(
    ctx: &Context,
    name: Option<String>,
    #[default(Value::Null)] pkgs: Value,
    #[default(true)] refresh: Value,
    #[default(false)] skip_verify: bool,
    #[default(true)] normalize: bool,
    #[default(false)] minimal: bool,
    #[default(false)] obsoletes: bool,
    kwargs: KwArgs,
) -> Result<Map> {
    let mut kwargs = kwargs.given();
    let diff_attr = kwargs.remove("diff_attr").unwrap_or_default();
    let how = How { refresh: is_true(&refresh), skip_verify, normalize, minimal, obsoletes, diff_attr };
    upgraded(ctx, name, pkgs, how, kwargs)
}

struct How {
    refresh: bool,
    skip_verify: bool,
    normalize: bool,
    minimal: bool,
    obsoletes: bool,
    diff_attr: Value,
}

fn upgraded(ctx: &Context, name: Option<String>, pkgs: Value, how: How, mut kwargs: Map) -> Result<Map> {
    let dnf = Manager::of(ctx)?.is_dnf();
    if dnf && !how.obsoletes {
        let mut settings = common::texts(kwargs.get("setopt"));
        // Dnf has no verb for "without what replaces them" and does it with a setting. Yum has
        // `update` for it.
        settings.retain(|setting| !setting.starts_with("obsoletes="));
        settings.push("obsoletes=False".into());
        kwargs.insert("setopt", settings);
    }
    if how.refresh {
        refresh(ctx, &kwargs, true)?;
    }
    let listing = || Listing::default().with(Some(&how.diff_attr));
    let old = rpm::list(ctx, listing())?;
    let mut words = vec!["--quiet".to_owned(), "-y".into()];
    words.extend(all_options(&kwargs));
    words.extend(how.skip_verify.then(|| "--nogpgcheck".to_owned()));
    let verb = if how.obsoletes || dnf { "upgrade" } else { "update" };
    words.push(if how.minimal { format!("{verb}-minimal") } else { verb.to_owned() });
    if name.is_some() || pkgs.truthy() {
        let mut more = map! { "normalize" => how.normalize };
        more.update(kwargs.clone());
        words.extend(names(common::parse_targets(ctx, vec![name.into(), pkgs, Value::Null], more)?));
    }
    let said = call(ctx, &words, false)?;
    rpm::changed(ctx);
    let changes = common::differences(&old, &rpm::list(ctx, listing())?);
    if said.retcode != Some(0) {
        let info = map! { "changes" => changes, "result" => said.into_map() };
        // Part of an upgrade may have happened, and the changes must not get lost.
        return Err(Error::detailed("Problem encountered upgrading packages", info));
    }
    Ok(changes)
}

fn names(targets: Targets) -> Vec<String> {
    match targets {
        Targets::Packages(packages) => packages.text_keys().map(str::to_owned).collect(),
        Targets::Files(names) | Targets::Advisories(names) => names,
        Targets::None => Vec::new(),
    }
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
fn remove(ctx: &Context, name: Option<String>, #[default(Value::Null)] pkgs: Value, kwargs: KwArgs) -> Result<Map> {
    removed(ctx, name, pkgs, kwargs.0.get("split_arch").is_none_or(Value::truthy))
}

/// The same: rpm keeps no settings of removed packages.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.purge <package name>
#[function]
fn purge(ctx: &Context, name: Option<String>, #[default(Value::Null)] pkgs: Value, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    removed(ctx, name, pkgs, true)
}

fn removed(ctx: &Context, name: Option<String>, pkgs: Value, splits: bool) -> Result<Map> {
    let targets = common::parse_targets(ctx, vec![name.into(), pkgs], Map::new())?;
    let wanted = match targets {
        Targets::Packages(packages) => packages,
        _ => return Ok(Map::new()),
    };
    let old = rpm::list(ctx, Listing::default())?;
    let mut words = vec!["-y".to_owned(), "remove".into()];
    // Patterns such as `php*` match installed packages.
    for (name, version) in common::widened(&old, wanted) {
        let name = name.to_string();
        let Some(there) = old.get_str(&name) else { continue };
        if !version.truthy() {
            words.push(name);
            continue;
        }
        let version = version.to_string();
        if there.split(',').any(|other| other == version) {
            let (bare, arch) = split(ctx, &name, splits);
            // Yum takes no epoch in this place.
            let version = version.split_once(':').map_or(version.as_str(), |(_, rest)| rest);
            words.push(format!("{bare}-{version}{arch}"));
        }
    }
    // Only "-y remove". Without names yum would complain.
    if words.len() == 2 {
        return Ok(Map::new());
    }
    let said = call(ctx, &words, false)?;
    // As in Salt, a bad code without a message counts as success.
    let failed = said.retcode != Some(0) && !said.stderr.is_empty();
    rpm::changed(ctx);
    let changes = common::differences(&old, &rpm::list(ctx, Listing::default())?);
    let errors = if failed { vec![said.stderr] } else { Vec::new() };
    common::outcome("Error occurred removing package(s)", errors, changes)
}
