//! Keeping packages at the version they have, with the plug-in `versionlock`.

use std::sync::LazyLock;

use exec::{Context, Error, KwArgs, Result, function};
use regex::Regex;
use value::{Map, Value, map};

use super::{Manager, call};
use crate::packages::common;
use crate::packages::rpm::{self, Listing};

/// Matches the name and version of an entry in the list of locks. It is the default of Salt's `pattern`.
const PATTERN: &str = r"[\w+]+(?:[.-][^-]+)*";

/// The file in which dnf5 keeps its locks.
const LOCKS: &str = "/etc/dnf/versionlock.toml";

/// The package the plug-in comes in.
fn plugin(ctx: &Context, manager: Manager) -> Result<&'static str> {
    let number = |name: &str| ctx.grains.get(name).and_then(|value| value.to_string().parse::<i64>().ok());
    Ok(match manager {
        Manager::Tdnf => return Err(Error::invocation("Cannot proceed, no versionlock for tdnf")),
        // The name of the package with the plug-in changed with nearly every release.
        Manager::Yum => "yum-plugin-versionlock",
        _ if ctx.grains.get_str("os").is_some_and(|os| os.eq_ignore_ascii_case("fedora")) => {
            match number("osrelease").is_none_or(|release| release >= 26) {
                true => "python3-dnf-plugin-versionlock",
                false => "python3-dnf-plugins-extras-versionlock",
            }
        }
        _ if number("osmajorrelease").is_none_or(|release| release >= 8) => "python3-dnf-plugin-versionlock",
        _ => "python2-dnf-plugin-versionlock",
    })
}

fn check_plugin(ctx: &Context) -> Result<()> {
    let plugin = plugin(ctx, Manager::of(ctx)?)?;
    if rpm::list(ctx, Listing::default())?.contains_key(plugin) {
        return Ok(());
    }
    Err(Error::invocation(format!("Cannot proceed, {plugin} is not installed.")))
}

/// Holds packages at their current version.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.hold <package name>
///     salt '*' pkg.hold pkgs='["foo", "bar"]'
#[function]
fn hold(
    ctx: &Context,
    name: Option<String>,
    #[default(Value::Null)] pkgs: Value,
    #[default(Value::Null)] sources: Value,
    #[default(true)] normalize: Value,
    kwargs: KwArgs,
) -> Result<Map> {
    let _ = (normalize, kwargs);
    check_plugin(ctx)?;
    change(ctx, &common::targets(name.as_deref(), &pkgs, &sources)?, true)
}

/// Unholds packages, so that they can be upgraded again.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.unhold <package name>
#[function]
fn unhold(
    ctx: &Context,
    name: Option<String>,
    #[default(Value::Null)] pkgs: Value,
    #[default(Value::Null)] sources: Value,
    kwargs: KwArgs,
) -> Result<Map> {
    let _ = kwargs;
    check_plugin(ctx)?;
    change(ctx, &common::targets(name.as_deref(), &pkgs, &sources)?, false)
}

/// Holds or unholds packages, and returns the result of each.
pub(super) fn change(ctx: &Context, targets: &[String], held: bool) -> Result<Map> {
    let manager = Manager::of(ctx)?;
    // Yum deletes a lock only by its full entry with epoch and version. Dnf takes the name.
    let whole = !held && manager == Manager::Yum;
    let locks = locks(ctx, PATTERN, whole)?;
    let mut report = Map::new();
    for target in targets {
        let own: Vec<String> = match whole {
            false => locks.iter().filter(|lock| *lock == target).cloned().collect(),
            true => {
                let is_own = |lock: &&String| {
                    // The cheap test comes first, since the other one compiles a pattern for every
                    // lock.
                    lock.contains(target.as_str()) && lock_in(lock, PATTERN, false, manager).as_ref() == Some(target)
                };
                locks.iter().filter(is_own).cloned().collect()
            }
        };
        report.insert(target.as_str(), one(ctx, target, own, held)?);
    }
    Ok(report)
}

fn one(ctx: &Context, target: &str, locks: Vec<String>, held: bool) -> Result<Map> {
    let entry = |result: Value, changes: Map, comment: &str| {
        let comment = format!("Package {target} {comment}");
        map! { "name" => target, "changes" => changes, "result" => result, "comment" => comment }
    };
    // Holding a held package or unholding a free one is not a change.
    if locks.is_empty() != held {
        let text = if held { "is already set to be held." } else { "is not being held." };
        return Ok(entry(true.into(), Map::new(), text));
    }
    if ctx.is_test() {
        let text = if held { "is set to be held." } else { "is set to be unheld." };
        return Ok(entry(Value::Null, Map::new(), text));
    }
    let mut words = vec!["versionlock".to_owned(), if held { "add" } else { "delete" }.into()];
    words.extend(if held { vec![target.to_owned()] } else { locks });
    let said = call(ctx, &words, false)?;
    let (old, new) = if held { ("", "hold") } else { ("hold", "") };
    Ok(match (said.retcode == Some(0), held) {
        (true, true) => entry(true.into(), map! { "new" => new, "old" => old }, "is now being held."),
        (true, false) => entry(true.into(), map! { "new" => new, "old" => old }, "is no longer held."),
        (false, true) => entry(false.into(), Map::new(), "was unable to be held."),
        (false, false) => entry(false.into(), Map::new(), "was unable to be unheld."),
    })
}

/// Returns the locks; with ``full=False`` the names of the packages alone.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.list_holds
///     salt '*' pkg.list_holds full=False
///     salt '*' pkg.get_locked_packages
#[function]
fn list_holds(ctx: &Context, #[default(PATTERN)] pattern: String, #[default(true)] full: bool) -> Result<Vec<String>> {
    check_plugin(ctx)?;
    locks(ctx, &pattern, full)
}

/// The names of held packages.
pub(super) fn names(ctx: &Context) -> Result<Vec<String>> {
    check_plugin(ctx)?;
    locks(ctx, PATTERN, false)
}

fn locks(ctx: &Context, pattern: &str, full: bool) -> Result<Vec<String>> {
    let manager = Manager::of(ctx)?;
    // Dnf5 prints its locks in a human-readable form, so its file is read.
    if manager == Manager::Dnf5 {
        return locks_of_dnf5(ctx, full);
    }
    let text = common::output(ctx, &[manager.name(), "versionlock", "list"], true)?;
    // A wrong pattern is reported once.
    Regex::new(pattern).map_err(|error| Error::invocation(format!("pattern '{pattern}': {error}")))?;
    Ok(text.lines().filter_map(|line| lock_in(line, pattern, full, manager)).collect())
}

/// The lock in a line such as `bash-0:5.1.8-6.el9.*` (dnf) or `0:bash-4.2.46-34.el7.*` (yum), or its package.
fn lock_in(line: &str, pattern: &str, full: bool, manager: Manager) -> Option<String> {
    let pattern = match (manager.is_dnf(), full) {
        (true, _) => format!(r"({pattern}-\S+)"),
        (false, true) => format!(r"(\d+:{pattern}-\S+)"),
        (false, false) => format!(r"\d+:({pattern}-\S+)"),
    };
    let found = Regex::new(&pattern).ok()?.captures(line)?.get(1)?.as_str().to_owned();
    if full {
        return Some(found);
    }
    let before = |text: &str, sign: char| text.rsplit_once(sign).map_or(text.to_owned(), |(bare, _)| bare.to_owned());
    // `name-version-release.arch`: the parts behind the last dot and the last two dashes are cut off.
    Some(before(&before(&before(&found, '.'), '-'), '-'))
}

static KEY: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"(\w+)\s*=\s*(?:"([^"]*)"|'([^']*)')"#).expect("the pattern is fixed"));

fn locks_of_dnf5(ctx: &Context, full: bool) -> Result<Vec<String>> {
    #[cfg(test)]
    let path = format!("{}{LOCKS}", ctx.opts.get_str("__root").unwrap_or_default());
    #[cfg(not(test))]
    let path = LOCKS.to_owned();
    let _ = ctx;
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("read", &path, &error)),
    };
    let packages = locked(&text);
    let mut found = Vec::new();
    for (name, version) in packages {
        match version {
            _ if !full && !found.contains(&name) => found.push(name),
            Some(version) if full => {
                // The other managers always show an epoch, also the usual 0.
                let epoch = if version.contains(':') { "" } else { "0:" };
                found.push(format!("{name}-{epoch}{version}.*"));
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Reads names and exact versions from the tables `[[packages]]` and `[[packages.conditions]]` of a file of locks.
fn locked(text: &str) -> Vec<(String, Option<String>)> {
    let mut packages: Vec<(String, Option<String>)> = Vec::new();
    let mut condition = Map::new();
    // Just enough TOML for this file: tables of packages, each with conditions as tables or inline.
    let mut in_condition = false;
    let keys = |line: &str| -> Vec<(String, String)> {
        let pairs = KEY.captures_iter(line).map(|found| {
            let value = found.get(2).or_else(|| found.get(3)).map_or("", |text| text.as_str());
            (found[1].to_owned(), value.to_owned())
        });
        pairs.collect()
    };
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if line.starts_with("[[") {
            in_condition = line.contains("conditions");
            condition = Map::new();
            if line.replace(' ', "") == "[[packages]]" {
                packages.push((String::new(), None));
            }
            continue;
        }
        for (key, value) in keys(line) {
            let Some(package) = packages.last_mut() else { continue };
            if !in_condition && !line.starts_with('{') && key == "name" {
                package.0 = value;
                continue;
            }
            condition.insert(key, value);
            let is = |name: &str, wanted: &str| condition.get_str(name) == Some(wanted);
            // Only a condition "is exactly this version" makes a hold of one version.
            if is("key", "evr") && is("comparator", "=") && package.1.is_none() {
                package.1 = condition.get_str("value").map(str::to_owned);
            }
        }
    }
    packages.retain(|(name, _)| !name.is_empty());
    packages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_read() {
        let dnf = |full| lock_in("bash-0:5.1.8-6.el9.*", PATTERN, full, Manager::Dnf);
        assert_eq!((dnf(true), dnf(false)), (Some("bash-0:5.1.8-6.el9.*".into()), Some("bash".into())));
        let yum = |full| lock_in("0:python-libs-2.7.5-90.el7.*", PATTERN, full, Manager::Yum);
        let expected = (Some("0:python-libs-2.7.5-90.el7.*".into()), Some("python-libs".into()));
        assert_eq!((yum(true), yum(false)), expected);
        assert_eq!(lock_in("Last metadata", PATTERN, true, Manager::Dnf), None);
    }

    #[test]
    fn locks_of_dnf5_are_read() {
        let text = "version = \"1.0\"\n\n[[packages]]\nname = \"bash\"\ncomment = \"why\"\n[[packages.conditions]]\n\
                    key = \"evr\"\ncomparator = \"=\"\nvalue = \"0:5.2.26-3.fc40\"\n\n[[packages]]\nname = \"vim\"\n\
                    [[packages.conditions]]\nkey = \"evr\"\ncomparator = \"<\"\nvalue = \"9\"\n";
        let expected = [("bash".to_owned(), Some("0:5.2.26-3.fc40".to_owned())), ("vim".to_owned(), None)];
        assert_eq!(locked(text), expected);
    }
}
