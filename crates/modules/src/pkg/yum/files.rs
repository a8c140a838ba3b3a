//! The files of packages, and packages as files.

use std::path::Path;

use exec::{Call, Context, Error, KwArgs, Result, VarArgs, function};
use value::{Map, Value};

use super::Manager;
use crate::lowpkg::rpm as lowpkg;
use crate::packages::common;
use crate::util;

/// Returns the files of packages, or of all.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.file_list httpd postfix
#[function]
fn file_list(ctx: &Context, packages: VarArgs, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    lowpkg::file_list(ctx, packages, KwArgs::default())
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
    let _ = kwargs;
    lowpkg::file_dict(ctx, packages, KwArgs::default())
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
    let _ = kwargs;
    lowpkg::owner(ctx, paths, KwArgs::default())
}

/// Returns the differences between packages and the disk, by file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.verify httpd
///     salt '*' pkg.verify httpd ignore_types='["config", "doc"]'
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
///     salt '*' pkg.modified httpd
///     salt '*' pkg.modified httpd size=True
#[function]
fn modified(ctx: &Context, packages: VarArgs, flags: KwArgs) -> Result<Map> {
    lowpkg::modified(ctx, packages, flags)
}

/// Downloads packages without installing them and returns their files; under ``_error`` those that failed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.download httpd
#[function]
fn download(ctx: &Context, packages: VarArgs, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    if util::which("yumdownloader").is_none() {
        return Err(Error::execution("'yumdownloader' command not available"));
    }
    let names: Vec<String> = packages.0.iter().map(Value::to_string).collect();
    if names.is_empty() {
        return Err(Error::invocation("No packages were specified"));
    }
    let folder = format!("/var/cache/{}/packages", Manager::of(ctx)?.name());
    std::fs::create_dir_all(&folder).map_err(|error| Error::io("make", &folder, &error))?;
    // Older downloads of the same packages would be taken for the new ones.
    for file in file_names(&folder)?.iter().filter(|file| names.iter().any(|name| is_of(file, name))) {
        let path = format!("{folder}/{file}");
        std::fs::remove_file(&path).map_err(|error| Error::io("remove", &path, &error))?;
    }
    let target = format!("--destdir={folder}");
    let mut words = vec!["yumdownloader", "-q", &target];
    words.extend(names.iter().map(String::as_str));
    common::output(ctx, &words, true)?;
    let files = file_names(&folder)?;
    let mut found = Map::new();
    for name in &names {
        let file = files.iter().find(|file| file.ends_with(".rpm") && is_of(file, name));
        found.extend(file.map(|file| (name.as_str(), format!("{folder}/{file}"))));
    }
    if found.is_empty() {
        let text = format!("Unable to download any of the following packages: {}", names.join(", "));
        return Err(Error::execution(text));
    }
    let failed: Vec<&str> = names.iter().map(String::as_str).filter(|name| !found.contains_key(name)).collect();
    if !failed.is_empty() {
        found.insert("_error", format!("The following package(s) failed to download: {}", failed.join(", ")));
    }
    Ok(found)
}

fn is_of(file: &str, package: &str) -> bool {
    // The dash keeps `python` from matching `python3-…`, though not `python-devel-…`. Salt has the
    // same weakness.
    file.strip_prefix(package).is_some_and(|rest| rest.starts_with('-'))
}

fn file_names(folder: &str) -> Result<Vec<String>> {
    let read = || -> std::io::Result<Vec<String>> {
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    };
    let mut names = read().map_err(|error| Error::io("read", folder, &error))?;
    names.sort();
    Ok(names)
}

/// Returns the differences between files and those of their packages.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.diff /etc/apache2/httpd.conf /etc/sudoers
#[function]
fn diff(ctx: &Context, paths: VarArgs, kwargs: KwArgs) -> Result<Map> {
    let _ = kwargs;
    let mut found = Map::new();
    let mut owned: Vec<(String, String)> = Vec::new();
    for path in paths.0.iter().map(Value::to_string) {
        let package = lowpkg::owner(ctx, VarArgs(vec![path.as_str().into()]), KwArgs::default())?.to_string();
        if package.is_empty() {
            found.insert(path.as_str(), if Path::new(&path).exists() { "Not managed" } else { "N/A" });
        } else {
            owned.push((package, path));
        }
    }
    if owned.is_empty() {
        return Ok(found);
    }
    let mut names: Vec<Value> = owned.iter().map(|(package, _)| package.as_str().into()).collect();
    names.dedup();
    let files = ctx.call_with("pkg.download", Call { args: names, kwargs: Map::new() })?;
    for (package, path) in owned {
        let Some(file) = files.get(&package).map(Value::to_string) else {
            found.insert(path, format!("{package} could not be downloaded"));
            continue;
        };
        let text = lowpkg::diff(ctx, file, path.clone())?;
        found.insert(path, if text.is_empty() { "Unchanged".to_owned() } else { text });
    }
    Ok(found)
}
