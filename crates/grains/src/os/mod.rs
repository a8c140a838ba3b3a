//! The distribution: `os`, `os_family`, `osfullname`, `osrelease`, `oscodename`, `osfinger`, `osarch`, `lsb_distrib_*`.
//!
//! As in Salt, os-release is read first, and then rules from before os-release existed override it. Both steps are kept, since
//! people target by their results.

mod quirks;
mod release_file;
mod tables;

use value::{Map, Value, map};

use crate::Machine;
pub use release_file::{OsRelease, os_release};
use release_file::{ReleaseLine, lsb_release};

/// Returns the grains that name the distribution.
pub fn distribution(machine: &Machine) -> Map {
    let mut grains: Map = lsb_release(machine).into_iter().collect();
    let release = os_release(machine);
    if let Some(release) = &release {
        grains.update(from_os_release(release));
    }
    // The older rules look for the release again, so that `osrelease` stays what it was before os-release.
    grains.remove("osrelease");
    older_rules(machine, &mut grains, release.as_ref());
    grains
}

/// Returns what depends only on the release: `osrelease_info`, `osmajorrelease`, `osfinger`.
pub fn release_parts(grains: &Map) -> Map {
    let text = |key| grains.get_str(key).unwrap_or_default();
    let (os, release) = (text("os"), text("osrelease"));
    if release.is_empty() {
        return Map::new();
    }
    let parts: Vec<Value> = release.split('.').map(number_or_text).collect();
    let major = parts[0].as_i64().or_else(|| parts[0].as_str()?.trim().parse().ok());
    // For these, Salt uses the short name in `osfinger`; formulas compare it as text.
    let named_short = ["AlmaLinux", "Debian", "FreeBSD", "Mac", "NetBSD", "OpenBSD", "Raspbian"].contains(&os);
    let name = if named_short { os } else { text("osfullname") };
    let whole_release = ["NixOS", "Pop", "Ubuntu"].contains(&os);
    let finger = if whole_release { release.to_owned() } else { parts[0].to_string() };
    let mut found = map! { "osrelease_info" => parts };
    if let Some(major) = major {
        found.insert("osmajorrelease", major);
    }
    found.insert("osfinger", format!("{name}-{finger}"));
    found
}

fn number_or_text(part: &str) -> Value {
    let digits = !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    part.parse::<i64>().ok().filter(|_| digits).map_or_else(|| Value::from(part), Value::Int)
}

/// Returns the architecture of packages.
pub fn arch(machine: &Machine, family: &str, cpu: &str) -> Value {
    match family {
        "Debian" => {
            // `ask` caches the answer until dpkg is replaced: it would be the same.
            machine.ask("dpkg", &["--print-architecture"]).map_or(Value::from(cpu), |said| said.stdout.trim().into())
        }
        "RedHat" | "Suse" => {
            let said = machine.run("rpm", &["--eval", "%{_host_cpu}"]).map(|said| said.stdout.trim().to_owned());
            Value::from(said.filter(|arch| !arch.is_empty()).unwrap_or_else(|| cpu.to_owned()))
        }
        "NILinuxRT" | "Poky" => machine
            .run("opkg", &["print-architecture"])
            .map_or_else(|| Value::List(Vec::new()), |said| opkg_architectures(&said.stdout)),
        _ => Value::from(cpu),
    }
}

/// Sorts lines such as `arch all 1` by their priority, highest first.
fn opkg_architectures(text: &str) -> Value {
    let mut found: Vec<(i64, &str)> = text
        .lines()
        .filter_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["arch", arch, priority] => Some((priority.parse().ok()?, arch)),
            _ => None,
        })
        .collect();
    found.sort_by_key(|(priority, _)| std::cmp::Reverse(*priority));
    found.into_iter().map(|(_, arch)| arch).collect()
}

fn from_os_release(release: &OsRelease) -> Map {
    let field = |name: &str| release.get(name).map(String::as_str).filter(|text| !text.is_empty());
    let id = field("ID").unwrap_or_default();
    let name = release.get("NAME").map_or("", String::as_str);
    let entries = [
        ("os", Some(short_name(name, Some(id)))),
        ("os_family", Some(pretty_family(&family_id(id, field("ID_LIKE"))))),
        ("oscodename", field("VERSION_CODENAME").map(str::to_owned).or_else(|| quirks::codename(release))),
        ("osfullname", Some(name.trim().to_owned())),
    ];
    entries.into_iter().filter_map(|(key, value)| Some((key, value.filter(|value| !value.is_empty())?))).collect()
}

/// Returns the grain `os` for the full name of a distribution.
pub fn short_name(full: &str, id: Option<&str>) -> String {
    // Exact pairs come first: the shortened name would lead to another entry.
    let by_id = tables::NAMES_BY_ID.iter().find(|(of, name, _)| Some(*of) == id && *name == full);
    if let Some((_, _, os)) = by_id {
        return (*os).to_owned();
    }
    let name = without_linux(full);
    let name = name.trim();
    // Salt compares the first ten letters, without blanks.
    let key: String = name.replace(' ', "").to_lowercase().chars().take(10).collect();
    tables::look_up(tables::NAMES, &key).map_or_else(|| name.to_owned(), str::to_owned)
}

/// Removes "Linux" and "GNU/Linux" with the character before them, whatever their case.
fn without_linux(name: &str) -> String {
    let mut left = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        // Salt's pattern wants a separator before the word, so `AlmaLinux` keeps its name.
        let word = first.is_alphanumeric() || first == '_';
        let ended =
            strip_word(after, "gnu/").and_then(|after| strip_word(after, "linux")).or(strip_word(after, "linux"));
        rest = match ended {
            Some(end) if !word => end,
            _ => {
                left.push(first);
                after
            }
        };
    }
    left
}

/// Strips an ASCII prefix, whatever its case.
fn strip_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (start, rest) = text.split_at_checked(word.len())?;
    start.eq_ignore_ascii_case(word).then_some(rest)
}

/// Returns the id of the oldest ancestor of a distribution.
fn family_id(id: &str, like: Option<&str>) -> String {
    let Some(like) = like else { return id.to_owned() };
    let mut ids: Vec<&str> = vec![id];
    ids.extend(like.split_whitespace());
    // As in Salt: Linux Mint 20.3 names Ubuntu only, but its family is Debian.
    if ids.contains(&"debian") || ids.contains(&"ubuntu") {
        return "debian".into();
    }
    ids.last().map_or_else(String::new, |id| (*id).to_owned())
}

fn pretty_family(id: &str) -> String {
    if id == "fedora" {
        return "RedHat".into();
    }
    let mut chars = id.chars();
    chars
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(chars.flat_map(char::to_lowercase)).collect())
}

/// Applies the rules from before os-release.
fn older_rules(machine: &Machine, grains: &mut Map, release: Option<&OsRelease>) {
    let described = grains.get_str("lsb_distrib_description").unwrap_or_default().to_lowercase();
    if described.starts_with("antergos") {
        // According to its lsb-release it is Arch.
        grains.insert("osfullname", "Antergos Linux");
    } else if !grains.contains_key("lsb_distrib_id") {
        match release {
            Some(release) => quirks::lsb_from_os_release(grains, release),
            None => quirks::lsb_from_named_files(machine, grains),
        }
    }
    decide(grains, &WholeMachine::of(machine, release));
    if let Some(release) = release {
        quirks::suse_product(grains, release);
    }
    let os = grains.get_str("os").unwrap_or_default().to_owned();
    // The table takes precedence over os-release.
    grains.insert("os_family", tables::look_up(tables::FAMILIES, &os).map_or(os, str::to_owned));
}

/// Decides on the grains, from the `lsb_distrib_*` found and the merged release files.
fn decide(grains: &mut Map, whole: &WholeMachine) {
    let lsb = |grains: &Map, key: &str| grains.get_str(&format!("lsb_distrib_{key}")).map(str::to_owned);
    if !grains.contains_key("osfullname") {
        let id = lsb(grains, "id");
        let nilrt = id.as_deref().is_some_and(|id| id.to_lowercase().starts_with("nilrt"));
        let name = if nilrt { "nilrt".into() } else { id.unwrap_or_else(|| whole.name.clone()).trim().to_owned() };
        grains.insert("osfullname", name);
    }
    if !grains.contains_key("osrelease") {
        let codename = lsb(grains, "codename").unwrap_or_default();
        if codename.contains("CentOS Linux 7") || codename.contains("CentOS Linux 8") {
            // Its os-release lacks the minor number.
            grains.remove("lsb_distrib_release");
        }
        let release = lsb(grains, "release").unwrap_or_else(|| whole.version.clone());
        grains.insert("osrelease", release.trim());
    }
    quirks::codename_in_brackets(grains);
    let codename = lsb(grains, "codename").unwrap_or_default();
    let codename = codename.trim();
    // A codename with "Red Hat" in it is the product's name.
    let own = if codename.is_empty() || codename.contains("Red Hat") { whole.codename.as_str() } else { codename };
    grains.insert("oscodename", own.to_owned());
    if !grains.contains_key("os") {
        let os = short_name(grains.get_str("osfullname").unwrap_or_default(), None);
        grains.insert("os", os);
    }
}

/// Merges all release files, as Python's package `distro` does.
struct WholeMachine {
    name: String,
    version: String,
    codename: String,
}

impl WholeMachine {
    fn of(machine: &Machine, release: Option<&OsRelease>) -> Self {
        let line = ReleaseLine::of(machine);
        let field = |name: &str| release.and_then(|release| release.get(name)).map_or("", String::as_str);
        let pretty = ReleaseLine::parse(if release.is_some() { field("PRETTY_NAME") } else { "" });
        let mut versions = vec![field("VERSION_ID").to_owned(), line.version.clone(), pretty.version];
        // Debian's os-release has no point release; this file has.
        if field("ID") == "debian" || field("ID_LIKE").split_whitespace().any(|id| id == "debian") {
            versions.push(machine.read_trimmed("/etc/debian_version").unwrap_or_default());
        }
        let codename = ["VERSION_CODENAME", "UBUNTU_CODENAME"].iter().find_map(|name| release?.get(*name));
        let name = if field("NAME").is_empty() { line.name } else { field("NAME").to_owned() };
        WholeMachine { name, version: most_precise(versions), codename: codename.cloned().unwrap_or(line.codename) }
    }
}

/// Returns the first version with the most dots.
fn most_precise(versions: Vec<String>) -> String {
    let dots = |version: &str| version.matches('.').count();
    versions.into_iter().fold(String::new(), |best, version| {
        // The first of equals stays: sources come in order of trust.
        if best.is_empty() || dots(&version) > dots(&best) { version } else { best }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each directory of `testdata/os` has the files of a distribution and the grains of the real minion.
    #[test]
    fn linux_is_removed_from_names() {
        let cases = [
            ("Debian GNU/Linux", "Debian"),
            ("Rocky Linux", "Rocky"),
            ("Oracle LINUX Server", "Oracle Server"),
            ("AlmaLinux", "AlmaLinux"),
            ("Über-gnu/linux linux", "Über"),
            ("Gnu/hurd", "Gnu/hurd"),
            ("", ""),
        ];
        for (name, expected) in cases {
            assert_eq!(without_linux(name), expected, "{name}");
        }
    }

    #[test]
    fn distributions_get_the_grains_of_the_real_minion() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/os");
        let mut seen = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let folder = entry.unwrap().path();
            let expected: serde_json::Value =
                serde_json::from_str(&std::fs::read_to_string(folder.join("grains.json")).unwrap()).unwrap();
            let mut grains = distribution(&Machine::recorded(&folder, &[]));
            grains.update(release_parts(&grains));
            let found: serde_json::Value = serde_json::to_value(Value::from(grains)).unwrap();
            assert_eq!(found, expected, "{}", folder.display());
            seen += 1;
        }
        // An empty or moved directory would make the test pass without looking at anything.
        assert!(seen > 20, "only {seen} distributions were looked at");
    }

    #[test]
    fn a_non_numeric_release_has_no_major_version() {
        let parts = release_parts(&map! { "os" => "Arch", "osfullname" => "Arch", "osrelease" => "rolling" });
        assert_eq!(parts, map! { "osrelease_info" => vec!["rolling"], "osfinger" => "Arch-rolling" });
        assert!(release_parts(&map! { "os" => "Arch", "osrelease" => "" }).is_empty());
    }

    #[test]
    fn opkg_architectures_come_in_order_of_priority() {
        let text = "arch all 1\narch any 6\narch core2-64 21\nnonsense\n";
        assert_eq!(opkg_architectures(text), value::list!["core2-64", "any", "all"]);
    }
}
