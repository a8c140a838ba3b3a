//! Distributions whose files say something other than what Salt calls them.

use value::Map;

use super::release_file::OsRelease;
use crate::Machine;

/// Returns the codename if `VERSION_CODENAME` is missing.
pub fn codename(release: &OsRelease) -> Option<String> {
    match release.get("ID").map(String::as_str) {
        Some("astra") => release.get("VARIANT_ID").cloned(),
        Some("almalinux" | "rocky") => bracketed(release.get("VERSION")?),
        _ => None,
    }
}

/// Extracts "Green Obsidian" from "8.4 (Green Obsidian)".
fn bracketed(version: &str) -> Option<String> {
    let (number, rest) = version.split_once(" (")?;
    let close = rest.rfind(')')?;
    let numeric = number.starts_with(|c: char| c.is_ascii_digit())
        && number.chars().all(|c| c.is_ascii_digit() || c.is_ascii_lowercase() || ".+-".contains(c));
    (numeric && close > 0).then(|| rest[..close].to_owned())
}

/// Sets `lsb_distrib_*` from os-release if there is no lsb-release.
pub fn lsb_from_os_release(grains: &mut Map, release: &OsRelease) {
    let field = |name: &str| release.get(name).map(String::as_str);
    if let Some(name) = field("NAME") {
        grains.insert("lsb_distrib_id", name.trim());
    }
    if let Some(version) = field("VERSION_ID") {
        grains.insert("lsb_distrib_release", version);
    }
    if let Some(codename) = field("VERSION_CODENAME").or(field("PRETTY_NAME")) {
        grains.insert("lsb_distrib_codename", codename);
    }
    if let Some(cpe) = field("CPE_NAME") {
        suse(grains, release, cpe);
    }
    if field("ID").map(str::trim) == Some("mendel") {
        let version = field("PRETTY_NAME").and_then(|name| name.split_whitespace().nth(2));
        if let Some(version) = version {
            grains.insert("lsb_distrib_release", version);
        }
    }
}

fn suse(grains: &mut Map, release: &OsRelease, cpe: &str) {
    let Some((vendor, version)) = cpe_parts(cpe) else {
        tracing::error!("Broken CPE_NAME format in /etc/os-release!");
        // A broken name is logged, not fatal: the other fields are good.
        return;
    };
    if !["suse", "opensuse"].contains(&vendor.to_lowercase().as_str()) {
        return;
    }
    grains.insert("os", "SUSE");
    if release.get("NAME").is_some_and(|name| name == "openSUSE Leap") {
        grains.insert("osfullname", "Leap");
    } else if release.get("VERSION").is_some_and(|version| version == "Tumbleweed") {
        grains.insert("osfullname", "Tumbleweed");
    }
    if vendor == "opensuse" && !version.is_empty() {
        grains.insert("lsb_distrib_release", version);
    }
}

/// Returns vendor and version of a Common Platform Enumeration name, in its URI form (`cpe:/o:opensuse:leap:15.5`) or
/// as a formatted string (`cpe:2.3:o:amazon:amazon_linux:2`).
fn cpe_parts(cpe: &str) -> Option<(&str, &str)> {
    let parts: Vec<&str> = cpe.split(':').collect();
    let known = |text| if text == "*" { "" } else { text };
    if parts.len() <= 4 || parts[0] != "cpe" {
        return None;
    }
    if parts[1].starts_with('/') {
        return Some((parts[2], parts[4]));
    }
    let formatted = parts[1] == "2.3" && (parts.len() == 6 || (8..=13).contains(&parts.len()));
    formatted.then(|| (known(parts[3]), known(parts[5])))
}

/// Sets `lsb_distrib_*` from the files of distributions before os-release.
pub fn lsb_from_named_files(machine: &Machine, grains: &mut Map) {
    if let Some(text) = machine.read("/etc/SuSE-release") {
        suse_release(grains, &text);
    } else if let Some(text) = machine.read("/etc/altlinux-release") {
        altlinux_release(grains, &text);
    } else if let Some(text) = machine.read("/etc/centos-release") {
        centos_release(grains, &text);
    } else if machine.is_file("/etc.defaults/synoinfo.conf") {
        synology(grains, &machine.read("/etc.defaults/VERSION").unwrap_or_default());
    }
}

fn suse_release(grains: &mut Map, text: &str) {
    let digits = |line: &str| line.chars().filter(char::is_ascii_digit).collect::<String>();
    let (mut id, mut codename, mut version, mut patch) = ("SUSE", String::new(), String::new(), String::new());
    for line in text.lines() {
        let lower = line.to_lowercase();
        if lower.contains("enterprise") {
            id = "SLES";
            codename = without_brackets(line);
        } else if lower.contains("version") {
            version = digits(line);
        } else if lower.contains("patchlevel") {
            patch = digits(line);
        }
    }
    if !patch.is_empty() {
        version = format!("{version}.{patch}");
        // SLES 11 names its service pack in a separate file only.
        if !codename.is_empty() && !codename.contains(&format!("SP{patch}")) {
            codename = format!("{codename} SP{patch}");
        }
    }
    grains.insert("lsb_distrib_id", id);
    grains.insert("lsb_distrib_release", version);
    grains.insert("lsb_distrib_codename", if codename.is_empty() { "n.a".to_owned() } else { codename });
}

fn without_brackets(line: &str) -> String {
    match (line.find('('), line.rfind(')')) {
        (Some(open), Some(close)) if open < close => {
            format!("{}{}", &line[..open], &line[close + 1..]).trim().to_owned()
        }
        _ => line.trim().to_owned(),
    }
}

fn altlinux_release(grains: &mut Map, text: &str) {
    grains.insert("lsb_distrib_id", "altlinux");
    for line in text.lines() {
        if let ["ALT", _, release, codename, ..] = line.split_whitespace().collect::<Vec<_>>()[..] {
            grains.insert("lsb_distrib_release", release);
            grains.insert("lsb_distrib_codename", codename.replace(['(', ')'], ""));
        }
    }
}

fn centos_release(grains: &mut Map, text: &str) {
    grains.insert("lsb_distrib_id", "CentOS");
    for line in text.lines() {
        if let Some(release) = two_numbers(line) {
            grains.insert("lsb_distrib_release", release);
        }
        if let (Some(open), Some(close)) = (line.find('('), line.find(')'))
            && open < close
        {
            grains.insert("lsb_distrib_codename", &line[open + 1..close]);
        }
    }
}

/// Returns the first "6.10" of a line.
fn two_numbers(line: &str) -> Option<&str> {
    let pattern = regex::Regex::new(r"[0-9]+\.[0-9]+").ok()?;
    pattern.find(line).map(|found| found.as_str())
}

fn synology(grains: &mut Map, text: &str) {
    grains.insert("osfullname", "Synology");
    let field = |wanted: &str| {
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        pairs.filter(|(name, _)| *name == wanted).map(|(_, value)| value.trim_matches('"')).next_back()
    };
    match (field("majorversion"), field("minorversion"), field("buildnumber")) {
        (Some(major), Some(minor), Some(build)) => drop(grains.insert("osrelease", format!("{major}.{minor}-{build}"))),
        _ => tracing::warn!("Unable to determine Synology version info."),
    }
}

/// Keeps only the text in brackets of "Rocky Linux 8.4 (Green Obsidian)".
pub fn codename_in_brackets(grains: &mut Map) {
    let os = grains.get_str("os").unwrap_or_default().to_owned();
    let codename = grains.get_str("lsb_distrib_codename").unwrap_or_default();
    if !["Rocky", "AlmaLinux", "AstraLinuxSE"].iter().any(|name| os.contains(name)) {
        return;
    }
    let Some((_, rest)) = codename.split_once('(') else { return };
    let inside = rest.split(')').next().unwrap_or(rest);
    // Astra's is 'Smolensk 1.6'.
    let first_word = || inside.split_whitespace().next().unwrap_or_default().to_lowercase();
    let codename = if os == "AstraLinuxSE" { first_word() } else { inside.to_owned() };
    grains.insert("lsb_distrib_codename", codename);
}

/// SL Micro calls itself SLES, and has its own name only in these fields.
pub fn suse_product(grains: &mut Map, release: &OsRelease) {
    let Some(product) = release.get("SUSE_SUPPORT_PRODUCT") else { return };
    let version = release.get("SUSE_SUPPORT_PRODUCT_VERSION").map_or("", String::as_str);
    let pretty = release.get("SUSE_PRETTY_NAME").cloned().unwrap_or_else(|| format!("{product} {version}"));
    grains.insert("oscodename", pretty);
    grains.insert("osrelease", version);
    if product == "SUSE Linux Micro" {
        grains.insert("osfullname", "SL-Micro");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::map;

    #[test]
    fn files_from_before_os_release_are_read() {
        let mut grains = Map::new();
        suse_release(&mut grains, "SUSE Linux Enterprise Server 11 (x86_64)\nVERSION = 11\nPATCHLEVEL = 4\n");
        let expected = map! {
            "lsb_distrib_id" => "SLES",
            "lsb_distrib_release" => "11.4",
            "lsb_distrib_codename" => "SUSE Linux Enterprise Server 11 SP4",
        };
        assert_eq!(grains, expected);
        let mut grains = Map::new();
        centos_release(&mut grains, "CentOS release 6.10 (Final)\n");
        let expected = map! {
            "lsb_distrib_id" => "CentOS", "lsb_distrib_release" => "6.10", "lsb_distrib_codename" => "Final"
        };
        assert_eq!(grains, expected);
    }

    #[test]
    fn platform_names_are_read_in_both_forms() {
        assert_eq!(cpe_parts("cpe:/o:opensuse:leap:15.5"), Some(("opensuse", "15.5")));
        assert_eq!(cpe_parts("cpe:2.3:o:amazon:amazon_linux:2"), Some(("amazon", "2")));
        assert_eq!(cpe_parts("cpe:2.3:o:a:b:*:c:d"), Some(("a", "")));
        assert_eq!(cpe_parts("nonsense"), None);
    }
}
