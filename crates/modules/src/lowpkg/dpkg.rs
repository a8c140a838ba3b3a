//! `lowpkg` on Debian and its relatives: the database of dpkg, without apt.

use std::path::Path;

use exec::{Call, Context, Error, KwArgs, Module, Result, VarArgs, function};
use value::{Map, Value, map};

use crate::subprocess;

/// Registers the functions of `lowpkg`.
pub static MODULE: Module = Module::new(
    "lowpkg",
    "What dpkg knows of packages.",
    &[&BIN_PKG_INFO, &FILE_DICT, &FILE_LIST, &INFO, &LIST_PKGS, &UNPURGE],
)
.only_if(|grains| match grains.get_str("os_family") {
    Some("Debian") => Ok(()),
    _ => Err("The dpkg execution module cannot be loaded: only works on Debian family systems.".into()),
})
.provided_by("dpkg_lowpkg");

/// Returns name, version and architecture of the package in a file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' lowpkg.bin_pkg_info /root/foo-1.2.3-1ubuntu1_all.deb
#[function]
fn bin_pkg_info(ctx: &Context, path: String, #[default("base")] saltenv: String) -> Result<Map> {
    let path = local_file(ctx, path, &saltenv)?;
    let said = subprocess::quiet(ctx, &["dpkg", "-I", &path])?;
    if said.retcode != Some(0) {
        let why = if said.stderr.is_empty() { String::new() } else { format!(": {}", said.stderr.trim_end()) };
        return Err(Error::execution(format!("Unable to get info for {path}{why}")));
    }
    let own = |name: &str| ctx.grains.get_str(name).unwrap_or_default();
    // Salt compares architectures on this one kind of machine only.
    let foreign = own("cpuarch") == "x86_64" && own("osarch") == "amd64";
    file_info(&said.stdout, foreign.then_some("amd64"))
        .map_err(|missing| Error::execution(format!("Unable to get {missing} for {path}")))
}

/// Returns the local path of a file, after fetching it if necessary.
pub(crate) fn local_file(ctx: &Context, path: String, saltenv: &str) -> Result<String> {
    if path.contains("://") {
        let call = Call { args: vec![path.clone().into(), saltenv.into()], kwargs: Map::new() };
        let cached = ctx.call_with("cp.cache_file", call)?;
        let missing = || Error::execution(format!("Unable to retrieve {path} from saltenv '{saltenv}'"));
        return cached.as_str().filter(|path| !path.is_empty()).map(str::to_owned).ok_or_else(missing);
    }
    if !Path::new(&path).exists() {
        return Err(Error::execution(format!("{path} does not exist on minion")));
    }
    // The second check has the message of the first, as in Salt.
    if !Path::new(&path).is_absolute() {
        return Err(Error::invocation(format!("{path} does not exist on minion")));
    }
    Ok(path)
}

fn file_info(text: &str, own: Option<&str>) -> std::result::Result<Map, String> {
    let field = |wanted: &str| {
        let lines = text.lines().filter_map(|line| line.trim().split_once(':'));
        let mut found = lines.filter(|(name, _)| name.trim_end() == wanted);
        // The control file stands below a summary of the archive, whose lines look alike.
        found.next_back().and_then(|(_, value)| value.split_whitespace().last()).map(str::to_owned)
    };
    let found = [("name", field("Package")), ("version", field("Version")), ("arch", field("Architecture"))];
    let missing: Vec<&str> = found.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| *name).collect();
    if !missing.is_empty() {
        return Err(missing.join(", "));
    }
    let mut info: Map = found.into_iter().collect();
    let arch = info.get_str("arch").unwrap_or_default().to_owned();
    if arch != "all" && own.is_some_and(|own| own != arch) {
        let name = format!("{}:{arch}", info.get_str("name").unwrap_or_default());
        info.insert("name", name);
    }
    Ok(info)
}

/// Returns the installed packages with their versions, or the text of the failure.
fn query(ctx: &Context, packages: &VarArgs) -> Result<std::result::Result<Vec<(String, String)>, String>> {
    let names: Vec<String> = packages.0.iter().map(Value::to_string).collect();
    let mut words = vec!["dpkg-query", "-f=${db:Status-Status}\t${binary:Package}\t${Version}\n", "-W"];
    words.extend(names.iter().map(String::as_str));
    let said = subprocess::counted(ctx, &words)?;
    if said.retcode != Some(0) {
        return Ok(Err(format!("Error:  {}", said.stderr.trim_end())));
    }
    // dpkg also lists packages of which only the configuration is left.
    let lines = said.stdout.lines().filter_map(|line| line.strip_prefix("installed\t")?.split_once('\t'));
    Ok(Ok(lines.map(|(name, version)| (name.to_owned(), version.to_owned())).collect()))
}

fn files_of(ctx: &Context, package: &str) -> Result<Vec<String>> {
    let said = subprocess::quiet(ctx, &["dpkg", "-L", package])?;
    Ok(said.stdout.lines().map(str::to_owned).collect())
}

/// Returns the files of packages, by package.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' lowpkg.file_dict hostname mount
#[function]
fn file_dict(ctx: &Context, packages: VarArgs, kwargs: KwArgs) -> Result<Value> {
    let _ = kwargs;
    let names = match query(ctx, &packages)? {
        Ok(names) => names,
        Err(text) => return Ok(text.into()),
    };
    let mut found = Map::new();
    for (name, _) in names {
        let files = files_of(ctx, &name)?;
        found.insert(name, files);
    }
    Ok(map! { "errors" => Vec::<String>::new(), "packages" => found }.into())
}

/// Returns the files of packages.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' lowpkg.file_list hostname mount
#[function]
fn file_list(ctx: &Context, packages: VarArgs, kwargs: KwArgs) -> Result<Value> {
    let _ = kwargs;
    let names = match query(ctx, &packages)? {
        Ok(names) => names,
        Err(text) => return Ok(text.into()),
    };
    let mut files = std::collections::BTreeSet::new();
    for (name, _) in names {
        files.extend(files_of(ctx, &name)?);
    }
    let files: Vec<String> = files.into_iter().collect();
    Ok(map! { "errors" => Vec::<String>::new(), "files" => files }.into())
}

/// The fields of a package and their formats for `dpkg-query`, one per line.
const FIELDS: [(&str, &str); 17] = [
    ("package", "${Package}"),
    ("revision", "${binary:Revision}"),
    ("architecture", "${Architecture}"),
    ("maintainer", "${Maintainer}"),
    ("summary", "${Summary}"),
    ("source", "${source:Package}"),
    ("version", "${Version}"),
    ("section", "${Section}"),
    ("size", "${Size}"),
    ("MD5", "${MD5sum}"),
    ("SHA1", "${SHA1}"),
    ("SHA256", "${SHA256}"),
    ("origin", "${Origin}"),
    ("homepage", "${Homepage}"),
    ("status", "${db:Status-Abbrev}"),
    ("install_date", "${db-fsys:Last-Modified}"),
    ("description", "${Description}"),
];

/// Returns the information of dpkg about packages, by package.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' lowpkg.info apache2 bash
#[function]
fn info(ctx: &Context, packages: VarArgs, kwargs: KwArgs) -> Result<Map> {
    let names: Vec<String> = packages.0.iter().map(Value::to_string).collect();
    // dpkg-query has no format for programs, so each field gets a line and each package a mark that no description
    // holds.
    let fields: String = FIELDS.iter().map(|(name, field)| format!("{name}:{field}\\n")).collect();
    let format = format!("-f={fields}\\n*/~^\\\\*\\n");
    let mut words = vec!["dpkg-query", "-W", &format];
    words.extend(names.iter().map(String::as_str));
    let said = subprocess::counted(ctx, &words)?;
    if said.retcode != Some(0) {
        // By default Salt fails here, while the other functions of this module answer with text.
        if kwargs.0.get("failhard").is_none_or(Value::truthy) {
            let text = format!("Error getting packages information: {}", said.stderr.trim_end());
            return Err(Error::execution(text));
        }
        return Ok(Map::new());
    }
    Ok(said.stdout.split("\n*/~^\\*\n").filter_map(package).collect())
}

fn package(text: &str) -> Option<(String, Map)> {
    // The description is the only field of several lines, and therefore the last.
    let (fields, description) = text.trim_start_matches('\n').split_once("\ndescription:")?;
    let mut info = Map::new();
    for (key, value) in fields.lines().filter_map(|line| line.trim().split_once(':')) {
        let value = match key {
            "install_date" => value.parse().map(utc).unwrap_or_default(),
            _ => value.to_owned(),
        };
        if !value.is_empty() {
            info.insert(key, value);
        }
    }
    info.insert("description", description);
    let name = info.get_str("package")?.to_owned();
    info.extend(license(&name).map(|license| ("license", license)));
    Some((name, info))
}

/// Writes seconds since 1970 as `2025-05-20T00:00:00Z`.
pub(crate) fn utc(seconds: i64) -> String {
    format!("{}Z", python::calendar::iso(seconds))
}

/// The licences the package's copyright file names.
pub(crate) fn license(name: &str) -> Option<String> {
    let bytes = std::fs::read(format!("/usr/share/doc/{name}/copyright")).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    // The machine-readable format of Debian's copyright files. Free text yields nothing.
    let mut names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("License:")).map(str::trim).collect();
    names.sort_unstable();
    names.dedup();
    Some(names.join(", ")).filter(|names| !names.is_empty())
}

/// Returns installed packages and their versions.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' lowpkg.list_pkgs
///     salt '*' lowpkg.list_pkgs hostname mount
#[function]
fn list_pkgs(ctx: &Context, packages: VarArgs, kwargs: KwArgs) -> Result<Value> {
    let _ = kwargs;
    Ok(match query(ctx, &packages)? {
        Ok(found) => found.into_iter().collect::<Map>().into(),
        Err(text) => text.into(),
    })
}

/// Cancels the purge of packages; returns the changes.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' lowpkg.unpurge bzip2
#[function]
fn unpurge(ctx: &Context, packages: VarArgs) -> Result<Map> {
    if packages.0.is_empty() {
        return Ok(Map::new());
    }
    let leaving = || {
        let call = Call { args: Vec::new(), kwargs: map! { "purge_desired" => true } };
        Ok::<Map, Error>(ctx.call_with("pkg.list_pkgs", call)?.into_map().unwrap_or_default())
    };
    // dpkg does not report its changes, so the list is read twice.
    let old = leaving()?;
    let lines: String = packages.0.iter().map(|name| format!("{name} install\n")).collect();
    subprocess::fed(ctx, &["dpkg", "--set-selections"], lines.into_bytes())?;
    let new = leaving()?;
    let text = |packages: &Map, name: &Value| packages.get_value(name).cloned().unwrap_or("".into());
    let mut changes = Map::new();
    for name in old.keys().chain(new.keys()).filter(|name| old.get_value(name) != new.get_value(name)) {
        changes.insert(name.clone(), map! { "new" => text(&new, name), "old" => text(&old, name) });
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_a_file_are_read() {
        let text = " new Debian package, version 2.0.\n size 1 bytes\n Package: hello\n Version : 2.10-3\n Architecture: i386\n";
        let info = file_info(text, Some("amd64")).unwrap();
        // The architecture belongs to the name where it is not that of the machine.
        assert_eq!(info, map! { "name" => "hello:i386", "version" => "2.10-3", "arch" => "i386" });
        assert_eq!(file_info(text, None).unwrap().get_str("name"), Some("hello"));
        assert_eq!(file_info("Package: x\n", None).unwrap_err(), "version, arch");
    }

    #[test]
    fn all_of_a_package_is_read() {
        let text = "package:x\nrevision:\nsize:3\nstatus:ii \ninstall_date:1747699200\ndescription:A\n b\n";
        let (name, info) = package(text).unwrap();
        assert_eq!(name, "x");
        assert_eq!(info.get_str("install_date"), Some("2025-05-20T00:00:00Z"));
        assert_eq!(info.get_str("status"), Some("ii"));
        assert!(!info.contains_key("revision"));
    }
}
