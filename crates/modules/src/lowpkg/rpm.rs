//! `lowpkg` on systems with rpm: its database.

use std::collections::BTreeMap;
use std::path::Path;

use exec::{Call, Context, Error, KwArgs, Module, Result, VarArgs, function};
use value::{Map, Value, map};

use super::rpm_info;
use crate::packages::common;
use crate::packages::rpm::{self as packages, FIELDS, Info};
use crate::subprocess::{Extra, Outcome};
use crate::util;

/// Registers the functions of `lowpkg`.
pub static MODULE: Module = Module::new(
    "lowpkg",
    "What rpm knows of packages.",
    &[
        &BIN_PKG_INFO,
        &CHECKSUM,
        &DIFF,
        &FILE_DICT,
        &FILE_LIST,
        &INFO,
        &LIST_PKGS,
        &MODIFIED,
        &OWNER,
        &VERIFY,
        &VERSION_CMP,
    ],
)
.only_if(has_rpm)
.provided_by("rpm_lowpkg");

fn has_rpm(grains: &Map) -> std::result::Result<(), String> {
    let start = "The rpm execution module failed to load:";
    if util::which("rpm").is_none() {
        return Err(format!("{start} rpm binary is not in the path."));
    }
    let suse = grains.get_str("os_family").is_some_and(|family| family.eq_ignore_ascii_case("suse"));
    if suse || packages::is_red_hat_relative(grains) {
        return Ok(());
    }
    Err(format!(
        "{start} only available on redhat/suse type systems or amazon, xcp, xenserver, virtuozzolinux, virtuozzo, issabel \
         pbx, openeuler or vmware photon os."
    ))
}

/// Runs rpm, in another root directory if `root` names one.
fn rpm(ctx: &Context, kwargs: &Map, words: &[&str], extra: Extra) -> Result<Outcome> {
    let root = kwargs.get("root").filter(|root| root.truthy()).map(Value::to_string);
    let mut all = vec!["rpm"];
    all.extend(root.iter().flat_map(|root| ["--root", root.as_str()]));
    all.extend(words);
    common::run(ctx, &all, extra)
}

fn names(packages: &VarArgs) -> Vec<String> {
    packages.0.iter().map(Value::to_string).collect()
}

fn both() -> Extra {
    Extra { merge: true, ..Extra::default() }
}

/// Returns name, version and architecture of the package in a file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' lowpkg.bin_pkg_info /root/salt-2015.5.1-2.el7.noarch.rpm
#[function]
fn bin_pkg_info(ctx: &Context, path: String, #[default("base")] saltenv: String) -> Result<Value> {
    let path = super::local_file(ctx, path, &saltenv)?;
    let shown = |info: Info| {
        map! {
            "install_date" => info.install_date(), "install_date_time_t" => info.installed, "name" => info.name,
            "version" => info.version, "arch" => info.arch, "repoid" => info.repoid,
        }
    };
    Ok(info_of_file(ctx, &path)?.map(shown).map(Value::from).unwrap_or_default())
}

/// Reads the package in a file; `None` when it is not one.
pub(crate) fn info_of_file(ctx: &Context, path: &str) -> Result<Option<Info>> {
    let format = FIELDS.replace("%{REPOID}", "none");
    let text = common::output(ctx, &["rpm", "-qp", "--queryformat", &format, path], false)?;
    Ok(Info::parse(&text, packages::osarch(ctx)))
}

/// Packages with their versions.
type Versions = Vec<(String, String)>;

/// Returns lines of name and version, and lines that report missing packages.
fn versions(ctx: &Context, packages: &VarArgs, kwargs: &Map) -> Result<(Versions, Vec<String>)> {
    let names = names(packages);
    let mut words = vec![if names.is_empty() { "-qa" } else { "-q" }, "--queryformat", "%{NAME} %{VERSION}\\n"];
    words.extend(names.iter().map(String::as_str));
    let text = rpm(ctx, kwargs, &words, both())?.stdout;
    // rpm prints its complaints among the answers; the words are English because commands run with LC_ALL=C.
    let (missing, there): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.contains("is not installed"));
    let pairs = there.iter().filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.to_owned()))
    });
    Ok((pairs.collect(), missing.into_iter().map(str::to_owned).collect()))
}

/// Returns installed packages and their versions.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' lowpkg.list_pkgs
///     salt '*' lowpkg.list_pkgs httpd
#[function]
fn list_pkgs(ctx: &Context, packages: VarArgs, kwargs: KwArgs) -> Result<Map> {
    Ok(versions(ctx, &packages, &kwargs.0)?.0.into_iter().collect())
}

/// Returns the files of packages, or of all.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' lowpkg.file_list httpd postfix
#[function]
pub(crate) fn file_list(ctx: &Context, packages: VarArgs, kwargs: KwArgs) -> Result<Map> {
    let names = names(&packages);
    let mut words = vec![if names.is_empty() { "-qla" } else { "-ql" }];
    words.extend(names.iter().map(String::as_str));
    let text = rpm(ctx, &kwargs.0, &words, both())?.stdout;
    Ok(map! { "errors" => Vec::<String>::new(), "files" => text.lines().collect::<Value>() })
}

/// Returns the files of packages, by package.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' lowpkg.file_dict httpd postfix
#[function]
pub(crate) fn file_dict(ctx: &Context, packages: VarArgs, kwargs: KwArgs) -> Result<Map> {
    let (there, errors) = versions(ctx, &packages, &kwargs.0)?;
    let mut found = Map::new();
    for (name, _) in there {
        let text = rpm(ctx, &kwargs.0, &["-ql", &name], both())?.stdout;
        found.insert(name, text.lines().collect::<Value>());
    }
    Ok(map! { "errors" => errors, "packages" => found })
}

/// Returns the package that owns a file; for several a map.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' lowpkg.owner /usr/bin/apachectl /etc/httpd/conf/httpd.conf
#[function]
pub(crate) fn owner(ctx: &Context, paths: VarArgs, kwargs: KwArgs) -> Result<Value> {
    let mut found = Map::new();
    for path in names(&paths) {
        let said = rpm(ctx, &kwargs.0, &["-qf", "--queryformat", "%{name}", &path], Extra::default())?;
        // rpm reports that on stdout; its message about a file that does not exist is on stderr, so stdout is empty.
        let owned = !said.stdout.to_lowercase().contains("not owned");
        found.insert(path, if owned { said.stdout } else { String::new() });
    }
    Ok(match found.len() {
        0 => "".into(),
        // One path gives its owner, several give a map, as in Salt.
        1 => found.values().next().cloned().unwrap_or_default(),
        _ => found.into(),
    })
}

/// The meaning of the letters before a file.
const KINDS: [(&str, &str); 5] = [("c", "config"), ("d", "doc"), ("g", "ghost"), ("l", "license"), ("r", "readme")];

/// The positions of a line of `rpm -V`: the letter, and what differs.
const MISMATCHES: [(&str, &str); 9] = [
    ("S", "size"),
    ("M", "mode"),
    ("5", "md5sum"),
    ("D", "device major/minor number"),
    ("L", "readlink path"),
    ("U", "user"),
    ("G", "group"),
    ("T", "mtime"),
    ("P", "capabilities"),
];

/// Returns the differences between packages and the disk, by file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' lowpkg.verify
///     salt '*' lowpkg.verify httpd postfix ignore_types='["config", "doc"]'
#[function]
pub(crate) fn verify(ctx: &Context, packages: VarArgs, kwargs: KwArgs) -> Result<Map> {
    let words_of = |name: &str| match kwargs.0.get(name) {
        None => Ok(Vec::new()),
        Some(given @ (Value::Str(_) | Value::List(_))) => Ok(util::split_input(given)),
        Some(_) => Err(Error::invocation(format!("{name} must be a list or a comma-separated string"))),
    };
    let (ignored, options) = (words_of("ignore_types")?, words_of("verify_options")?);
    let options: Vec<String> = options.iter().map(|option| format!("--{option}")).collect();
    let names = names(&packages);
    let mut words: Vec<&str> = options.iter().map(String::as_str).collect();
    words.push(if names.is_empty() { "-Va" } else { "-V" });
    words.extend(names.iter().map(String::as_str));
    let said = rpm(ctx, &kwargs.0, &words, Extra::default())?;
    // rpm exits with 1 when it finds a difference; only without output is that a failure.
    if said.stdout.trim().is_empty() && said.retcode != Some(0) {
        let why = if said.stderr.is_empty() { String::new() } else { format!(": {}", said.stderr) };
        return Err(Error::execution(format!("Failed to verify package(s){why}")));
    }
    let lines = said.stdout.lines().filter_map(verified);
    let wanted = |entry: &Map| entry.get_str("type").is_none_or(|kind| !ignored.iter().any(|other| other == kind));
    Ok(lines.filter(|(_, entry)| wanted(entry)).collect())
}

/// Reads a line such as `S.5....T.  c /etc/ssh/sshd_config`.
fn verified(line: &str) -> Option<(String, Map)> {
    let missing = line.contains("missing");
    // Behind the word `missing` rpm prints the rest one column further left than behind the nine letters.
    let line = if missing { format!(" {line}") } else { line.to_owned() };
    let at = |place: usize| line.get(place..place + 1).unwrap_or_default();
    let mut entry = Map::new();
    let differs = MISMATCHES.iter().enumerate().filter(|(place, (letter, _))| at(*place) == *letter);
    let differs: Vec<&str> = differs.map(|(_, (_, meaning))| *meaning).collect();
    if missing {
        entry.insert("missing", true);
    } else {
        entry.insert("mismatch", differs);
    }
    if let Some((_, kind)) = KINDS.iter().find(|(letter, _)| at(11) == *letter) {
        entry.insert("type", *kind);
    }
    let name = line.get(13..).filter(|name| !name.is_empty())?;
    Some((name.to_owned(), entry))
}

/// The words of `modified` for the positions of a line.
const CHANGES: [&str; 9] = ["size", "mode", "checksum", "device", "symlink", "owner", "group", "time", "capabilities"];

/// Returns modified files with their differences; ``size=True`` and similar arguments select the checks.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' lowpkg.modified httpd
///     salt '*' lowpkg.modified httpd mode=True
#[function]
pub(crate) fn modified(ctx: &Context, packages: VarArgs, flags: KwArgs) -> Result<Map> {
    let names = names(&packages);
    let mut words = vec!["-Va"];
    words.extend(names.iter().map(String::as_str));
    let said = rpm(ctx, &flags.0, &words, Extra::default())?;
    match said.retcode {
        Some(0) => return Ok(Map::new()),
        Some(1) => {}
        _ => {
            let mut whole = said.into_map();
            // Salt returns the rest of the result, so the caller sees the error.
            whole.remove("stdout");
            return Ok(whole);
        }
    }
    let mut found: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for line in said.stdout.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (changes, config, name) = match words[..] {
            [changes, _, name] => (changes, true, name),
            [changes, name] => (changes, false, name),
            _ => continue,
        };
        let letters = changes.chars().zip(CHANGES);
        let mut stats: Vec<&str> = letters.filter(|(letter, _)| *letter != '.').map(|(_, change)| change).collect();
        stats.extend(config.then_some("config"));
        found.insert(name.to_owned(), stats);
    }
    let chosen: Vec<(String, bool)> = flags
        .given()
        .iter()
        .map(|(name, wanted)| (name.to_string(), wanted.truthy()))
        .filter(|(name, _)| name != "root" && !name.starts_with('_'))
        .collect();
    let fits = |stats: &[&str]| chosen.iter().all(|(name, wanted)| stats.contains(&name.as_str()) == *wanted);
    Ok(found.into_iter().filter(|(_, stats)| fits(stats)).collect())
}

/// Returns the differences between a file and the one in a package file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' lowpkg.diff /path/to/package.rpm /etc/sudoers
#[function]
pub(crate) fn diff(ctx: &Context, package_path: String, path: String) -> Result<String> {
    for program in ["rpm2cpio", "cpio", "diff"] {
        if util::which(program).is_none() {
            return Err(Error::CommandNotFound(format!("{program} is needed for lowpkg.diff")));
        }
    }
    // The line needs pipes and thus a shell; both paths come from the caller.
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    let line = format!(
        "rpm2cpio {} | cpio -i --quiet --to-stdout {} | diff -u --label {} --from-file=- --label {} {}",
        quoted(&package_path),
        quoted(&format!(".{path}")),
        quoted(&format!("A {path}")),
        quoted(&format!("B {path}")),
        quoted(&path)
    );
    let call = Call { args: vec![line.into()], kwargs: map! { "output_loglevel" => "trace" } };
    let text = ctx.call_with("cmd.shell", call)?.to_string();
    if text.starts_with("Binary file") {
        return Ok(format!("File '{path}' is binary and its content has been modified."));
    }
    Ok(text)
}

/// Returns the information of rpm about packages, by package; of several versions the newest, or with
/// ``all_versions=True`` each.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' lowpkg.info apache2 bash
///     salt '*' lowpkg.info apache2 bash attr=version,build_date_time_t
#[function]
pub(crate) fn info(ctx: &Context, packages: VarArgs, kwargs: KwArgs) -> Result<Map> {
    let attr = kwargs.0.get("attr").filter(|attr| attr.truthy()).map(util::split_input);
    let tags = common::output(ctx, &["rpm", "--querytags"], false)?;
    // Old versions of rpm have only SIZE, which overflows at 4 GiB.
    let long = tags.lines().any(|tag| tag == "LONGSIZE");
    let query = rpm_info::query(attr.as_deref(), long)?;
    let names = names(&packages);
    let mut words = vec![if names.is_empty() { "-qa" } else { "-q" }];
    words.extend(names.iter().map(String::as_str));
    words.extend(["--queryformat", &query]);
    // The times are compared across machines.
    let extra = Extra { env: vec![("TZ".to_owned(), "UTC".to_owned())], ..Extra::default() };
    let text = rpm(ctx, &kwargs.0, &words, extra)?.stdout;
    let described = attr.is_none_or(|attr| attr.iter().any(|name| name == "description"));
    let all = kwargs.0.get("all_versions").is_some_and(Value::truthy);
    Ok(rpm_info::parsed(&text, described, all))
}

/// Compares two versions as rpm does: -1, 0 or 1.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' lowpkg.version_cmp '0.2-001' '0.2.0.1-002'
#[function]
fn version_cmp(ver1: Value, ver2: Value, #[default(false)] ignore_epoch: bool) -> Result<i64> {
    Ok(packages::compare(&ver1.to_string(), &ver2.to_string(), ignore_epoch) as i64)
}

/// Returns whether the signatures of package files are valid.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' lowpkg.checksum /path/to/package1.rpm
#[function]
pub(crate) fn checksum(ctx: &Context, paths: VarArgs, kwargs: KwArgs) -> Result<Map> {
    let paths = names(&paths);
    if paths.is_empty() {
        return Err(Error::execution("No package files has been specified."));
    }
    let mut found = Map::new();
    for path in paths {
        let right = Path::new(&path).is_file()
            && rpm(ctx, &kwargs.0, &["-K", "--quiet", &path], Extra::default())?.retcode == Some(0);
        found.insert(path, right);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    #[test]
    fn lines_of_a_verification_are_read() {
        let (name, entry) = verified("S.5....T.  c /etc/ssh/sshd config").unwrap();
        assert_eq!(name, "/etc/ssh/sshd config");
        assert_eq!(entry, map! { "mismatch" => list!["size", "md5sum", "mtime"], "type" => "config" });
        let (name, entry) = verified("missing     /usr/share/doc/x").unwrap();
        assert_eq!((name.as_str(), entry), ("/usr/share/doc/x", map! { "missing" => true }));
        assert_eq!(verified("odd"), None);
    }
}
