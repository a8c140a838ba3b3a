//! Queries of installed packages.

use exec::{Context, KwArgs, Result, VarArgs, function};
use value::{Map, Value, map};

use super::{patches, products, search};
use crate::lowpkg::rpm as lowpkg;
use crate::packages::rpm::{self, Listing};
use crate::pkg::yum;
use crate::{pkg_resource, util};

/// Returns installed packages with their versions; with ``includes`` patterns, patches and products, too.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_pkgs
///     salt '*' pkg.list_pkgs attr='["version", "arch"]'
#[function]
pub(super) fn list_pkgs(
    ctx: &Context,
    #[default(false)] versions_as_list: Value,
    root: Option<String>,
    #[default(Value::Null)] includes: Value,
    kwargs: KwArgs,
) -> Result<Map> {
    let on = |name: &str| kwargs.0.get(name).is_some_and(util::is_true);
    if on("removed") || on("purge_desired") {
        return Ok(Map::new());
    }
    let anew = kwargs.0.get("use_context").is_some_and(|on| !on.truthy());
    let wanted = Listing { as_list: util::is_true(&versions_as_list), root, anew, ..Listing::default() };
    let includes: Vec<String> = util::split_input(&includes);
    installed(ctx, wanted.with(kwargs.0.get("attr")), &includes)
}

/// Returns the installed packages together with the patterns, patches or products of `includes`.
pub(super) fn installed(ctx: &Context, wanted: Listing, includes: &[String]) -> Result<Map> {
    let root = wanted.root.clone();
    let wanted = Listing { suse: true, ..wanted };
    let mut packages = rpm::entries(ctx, &wanted)?;
    for kind in includes {
        for (name, entry) in others(ctx, kind, root.as_deref())? {
            packages.insert(format!("{kind}:{name}"), Value::List(vec![entry.into()]));
        }
    }
    pkg_resource::format_pkg_list(ctx, packages, wanted.as_list.into(), wanted.attr)
}

/// Installed products, patterns or patches, as entries of a list of packages.
fn others(ctx: &Context, kind: &str, root: Option<&str>) -> Result<Vec<(String, Map)>> {
    let part = |map: &Map, name: &str| map.get(name).cloned().unwrap_or_default();
    let entry = |epoch: Value, version: Value, release: Value, arch: Value| {
        map! {
            "epoch" => epoch, "version" => version, "release" => release, "arch" => arch, "install_date" => (),
            "install_date_time_t" => (),
        }
    };
    if kind == "product" {
        let products = products::products(ctx, false, root)?;
        let entries = products.iter().map(|product| {
            let part = |name| part(product, name);
            (part("name").to_string(), entry(part("epoch"), part("version"), part("release"), part("arch")))
        });
        return Ok(entries.collect());
    }
    let names = match kind {
        "pattern" => patches::installed_patterns(ctx, root)?,
        "patch" => patches::patches(ctx, true, root)?,
        _ => return Ok(Vec::new()),
    };
    let mut found = Vec::new();
    for name in names.text_keys() {
        // Patterns and patches have no entry in rpm's database, so zypper is asked for their versions.
        let info = search::available(ctx, &[format!("{kind}:{name}")], root)?;
        let info = info.get(name).and_then(Value::as_map).cloned().unwrap_or_default();
        found.push((name.to_owned(), entry(Value::Null, part(&info, "version"), Value::Null, part(&info, "arch"))));
    }
    Ok(found)
}

/// Returns the version of an installed package; for several a map.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.version <package name>
///     salt '*' pkg.version <package1> <package2> <package3>
#[function]
fn version(ctx: &Context, names: VarArgs, kwargs: KwArgs) -> Result<Value> {
    let mut kwargs = kwargs.given();
    let as_list = kwargs.remove("versions_as_list").is_some_and(|on| on.truthy());
    if names.0.is_empty() {
        return Ok(Map::new().into());
    }
    let root = super::root_of(&kwargs);
    let installed = list_pkgs(ctx, true.into(), root, Value::Null, KwArgs(kwargs))?;
    let found = pkg_resource::versions_of(&installed, &names.0, as_list);
    // On SUSE Salt answers with an empty map where other systems have an empty text.
    Ok(if found.truthy() { found } else { Map::new().into() })
}

/// Compares two versions as rpm does: -1, 0 or 1.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.version_cmp '0.2-001' '0.2.0.1-002'
#[function]
fn version_cmp(ver1: Value, ver2: Value, #[default(false)] ignore_epoch: bool, kwargs: KwArgs) -> Result<i64> {
    let _ = kwargs;
    Ok(rpm::compare(&ver1.to_string(), &ver2.to_string(), ignore_epoch) as i64)
}

/// Returns the name of a package in lists: without the architecture, if that is the machine's.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.normalize_name zsh.x86_64
#[function]
fn normalize_name(ctx: &Context, name: String) -> Result<String> {
    let osarch = rpm::osarch(ctx);
    Ok(match rpm::split_arch(&name) {
        (bare, Some(arch)) if [osarch, "noarch"].contains(&arch) || rpm::both_32(arch, osarch) => bare.to_owned(),
        _ => name,
    })
}

/// Returns name and architecture of a name such as ``zsh.x86_64``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.parse_arch zsh.x86_64
#[function]
fn parse_arch(name: String) -> Result<Map> {
    let (bare, arch) = rpm::split_arch(&name);
    Ok(map! { "name" => bare, "arch" => arch })
}

/// Returns the information of rpm about packages, by package.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.info_installed <package1> <package2>
#[function]
fn info_installed(ctx: &Context, names: VarArgs, kwargs: KwArgs) -> Result<Map> {
    yum::info_installed(ctx, names, kwargs)
}

/// Returns the files of packages, or of all.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.file_list httpd postfix
#[function]
fn file_list(ctx: &Context, packages: VarArgs, kwargs: KwArgs) -> Result<Map> {
    lowpkg::file_list(ctx, packages, kwargs)
}

/// Returns the files of packages, by package.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.file_dict httpd postfix
#[function]
fn file_dict(ctx: &Context, packages: VarArgs, kwargs: KwArgs) -> Result<Map> {
    lowpkg::file_dict(ctx, packages, kwargs)
}

/// Returns the package that owns a file; for several a map.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.owner /usr/bin/apachectl
#[function]
fn owner(ctx: &Context, paths: VarArgs, kwargs: KwArgs) -> Result<Value> {
    lowpkg::owner(ctx, paths, kwargs)
}

/// Returns the differences between packages and the disk, by file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.verify httpd
#[function]
fn verify(ctx: &Context, names: VarArgs, kwargs: KwArgs) -> Result<Map> {
    lowpkg::verify(ctx, names, kwargs)
}

/// Returns modified files with their differences; ``size=True`` and similar arguments select the checks.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.modified httpd size=True
#[function]
fn modified(ctx: &Context, packages: VarArgs, flags: KwArgs) -> Result<Map> {
    lowpkg::modified(ctx, packages, flags)
}
