//! Queries of installed packages.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use exec::{Context, KwArgs, Result, VarArgs, function};
use value::{Map, Value, map};

use super::Manager;
use crate::lowpkg::rpm as lowpkg;
use crate::packages::rpm::{self, Listing};
use crate::{pkg_resource, util};

/// Returns installed packages with their versions.
///
/// With ``attr`` (``epoch``, ``version``, ``release``, ``arch``, ``install_date``, ``install_date_time_t`` or ``all``) a
/// list of maps of each.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_pkgs
///     salt '*' pkg.list_pkgs attr='["version", "arch"]'
#[function]
pub(super) fn list_pkgs(ctx: &Context, #[default(false)] versions_as_list: Value, kwargs: KwArgs) -> Result<Map> {
    // These belong to apt. Rpm leaves nothing behind, so nothing is in such a state.
    if ["removed", "purge_desired"].iter().any(|name| super::is_on(&kwargs.0, name, false)) {
        return Ok(Map::new());
    }
    let anew = kwargs.0.get("use_context").is_some_and(|on| !on.truthy());
    let wanted = Listing { as_list: util::is_true(&versions_as_list), anew, ..Listing::default() };
    rpm::list(ctx, wanted.with(kwargs.0.get("attr")))
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
    let as_list = kwargs.0.get("versions_as_list").is_some_and(Value::truthy);
    let installed = match names.0.is_empty() {
        true => Map::new(),
        false => list_pkgs(ctx, true.into(), kwargs)?,
    };
    Ok(pkg_resource::versions_of(&installed, &names.0, as_list))
}

/// Compares two versions as rpm does: -1, 0 or 1.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.version_cmp '0.2-001' '0.2.0.1-002'
#[function]
fn version_cmp(pkg1: Value, pkg2: Value, #[default(false)] ignore_epoch: bool, kwargs: KwArgs) -> Result<i64> {
    let _ = kwargs;
    Ok(rpm::compare(&pkg1.to_string(), &pkg2.to_string(), ignore_epoch) as i64)
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
    Ok(rpm::normalize_name(&name, rpm::osarch(ctx)))
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
///     salt '*' pkg.info_installed <package1> attr=version,vendor
#[function]
pub(crate) fn info_installed(ctx: &Context, names: VarArgs, kwargs: KwArgs) -> Result<Map> {
    let mut found = lowpkg::info(ctx, names, kwargs)?;
    let renamed = |entry: &mut Value| {
        if let Value::Map(entry) = entry {
            let pairs = std::mem::take(entry).into_iter();
            *entry = pairs
                // `pkg.info_installed` has the same keys on every system, `lowpkg` has those of
                // rpm.
                .map(|(key, value)| (if key.as_str() == Some("source_rpm") { "source".into() } else { key }, value))
                .collect();
        }
    };
    for (_, entry) in found.iter_mut() {
        match entry {
            Value::List(versions) => versions.iter_mut().for_each(renamed),
            single => renamed(single),
        }
    }
    Ok(found)
}

/// Returns packages that were downloaded but not installed, by name and version.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_downloaded
#[function]
pub(super) fn list_downloaded(ctx: &Context, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    let folder = PathBuf::from("/var/cache").join(Manager::of(ctx)?.name());
    downloaded(ctx, &folder)
}

/// The packages in files below a directory.
pub(crate) fn downloaded(ctx: &Context, folder: &Path) -> Result<Map> {
    let mut found = Map::new();
    for path in files_below(folder)? {
        let text = path.to_string_lossy().into_owned();
        let Some(info) = lowpkg::info_of_file(ctx, &text)? else {
            tracing::warn!("{text} is not a package");
            continue;
        };
        let meta = path.metadata()?;
        let time = jiff::Timestamp::from_second(meta.ctime()).map_err(|error| exec::Error::Other(error.to_string()))?;
        // Python's `fromtimestamp` without a zone gives local time.
        let local = time.to_zoned(jiff::tz::TimeZone::system());
        let entry = map! {
            "path" => text, "size" => meta.size() as i64, "creation_date_time_t" => meta.ctime(),
            "creation_date_time" => local.strftime("%Y-%m-%dT%H:%M:%S").to_string(),
        };
        if let Value::Map(versions) = found.entry_or_insert_with(info.name, || Value::Map(Map::new())) {
            versions.insert(info.version, entry);
        }
    }
    Ok(found)
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(exec::Error::io("read", &folder, &error)),
        };
        for entry in entries {
            let entry = entry.map_err(|error| exec::Error::io("read", &folder, &error))?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && entry.path().extension().is_some_and(|end| end == "rpm") {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}
