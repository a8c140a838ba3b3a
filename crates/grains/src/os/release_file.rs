//! Files that name the distribution: os-release, lsb-release, and the older `/etc/*-release` with one line of words.

use std::collections::BTreeMap;

use crate::Machine;

/// Names and values of an os-release file.
pub type OsRelease = BTreeMap<String, String>;

/// Files of `/etc` that look like release files but are not.
const IGNORED: [&str; 9] = [
    "board-release",
    "debian_version",
    "ec2_version",
    "iredmail-release",
    "lsb-release",
    "oem-release",
    "os-release",
    "plesk-release",
    "system-release",
];

/// Reads os-release from its two paths. `None` if there is neither.
pub fn os_release(machine: &Machine) -> Option<OsRelease> {
    let text = machine.read("/etc/os-release").or_else(|| machine.read("/usr/lib/os-release"))?;
    Some(parse_os_release(&text))
}

/// Parses `NAME="value"` lines as freedesktop.org specifies, with its defaults for the three required names.
pub fn parse_os_release(text: &str) -> OsRelease {
    let defaults = [("NAME", "Linux"), ("ID", "linux"), ("PRETTY_NAME", "Linux")];
    // The specification's defaults, which `distro` applies as well.
    let mut release: OsRelease = defaults.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    for (name, value) in text.lines().filter_map(|line| line.trim().split_once('=')) {
        if !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_') {
            release.insert(name.to_owned(), unescape(unquote(value)));
        }
    }
    release
}

fn unquote(value: &str) -> &str {
    // Quotes need not match, as in Salt's parser.
    let value = value.strip_prefix(['"', '\'']).unwrap_or(value);
    value.strip_suffix(['"', '\'']).unwrap_or(value)
}

fn unescape(value: &str) -> String {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars().peekable();
    while let Some(c) = chars.next() {
        match chars.peek() {
            Some('$' | '"' | '\'' | '\\' | '`') if c == '\\' => plain.extend(chars.next()),
            _ => plain.push(c),
        }
    }
    plain
}

/// Parses `/etc/lsb-release` into names such as `lsb_distrib_id`.
pub fn lsb_release(machine: &Machine) -> Vec<(String, String)> {
    machine.read("/etc/lsb-release").map_or_else(Vec::new, |text| text.lines().filter_map(lsb_line).collect())
}

fn lsb_line(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once('=')?;
    // Other keys are vendors' own.
    let known = ["DISTRIB_ID", "DISTRIB_RELEASE", "DISTRIB_CODENAME", "DISTRIB_DESCRIPTION"];
    let value = value.strip_prefix(['"', '\'']).unwrap_or(value);
    let allowed = |c: char| c.is_alphanumeric() || c.is_whitespace() || "._-".contains(c);
    // Salt's pattern stops at the first other character, for example a trailing quote.
    let end = value.find(|c| !allowed(c)).unwrap_or(value.len());
    (known.contains(&name) && end > 0).then(|| (format!("lsb_{}", name.to_lowercase()), value[..end].trim_end().into()))
}

/// The parts of a line such as "CentOS Linux release 7.9.2009 (Core)".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReleaseLine {
    /// The name before the version.
    pub name: String,
    /// The version, or empty.
    pub version: String,
    /// The text in brackets after it, or empty.
    pub codename: String,
}

impl ReleaseLine {
    /// Reads the first of the files `/etc/*-release` and `/etc/*_version` that names a distribution.
    pub fn of(machine: &Machine) -> Self {
        let candidates = machine.names("/etc").into_iter().filter(|name| is_release_file(name));
        let texts = candidates.filter_map(|name| machine.read(&format!("/etc/{name}")));
        texts
            .map(|text| Self::parse(text.lines().next().unwrap_or_default()))
            .find(|line| !line.name.is_empty())
            .unwrap_or_default()
    }

    /// Splits a line: the last word that ends with a digit, before an optional codename in brackets, is the version; the words
    /// "release" and "LTS" around it are dropped.
    pub fn parse(line: &str) -> Self {
        let line = line.trim();
        let (rest, codename) = split_codename(line);
        match split_version(rest) {
            Some((name, version)) => {
                ReleaseLine { name: name.to_owned(), version: version.to_owned(), codename: codename.to_owned() }
            }
            None => ReleaseLine { name: line.to_owned(), ..ReleaseLine::default() },
        }
    }
}

fn is_release_file(name: &str) -> bool {
    let stem = ["-release", "_release", "-version", "_version"].iter().find_map(|end| name.strip_suffix(end));
    let word = |stem: &str| !stem.is_empty() && stem.chars().all(|c| c.is_alphanumeric() || c == '_');
    !IGNORED.contains(&name) && stem.is_some_and(word)
}

/// Splits "… (Core)" at the first bracket of the last pair.
fn split_codename(line: &str) -> (&str, &str) {
    let Some(close) = line.rfind(')') else { return (line, "") };
    match line[..close].find('(') {
        Some(open) => (&line[..open], &line[open + 1..close]),
        None => (line, ""),
    }
}

fn split_version(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_end();
    let text = text.strip_suffix("LTS").unwrap_or(text).trim_end();
    let start = text.rfind(|c: char| !(c.is_ascii_digit() || c.is_ascii_lowercase() || ".+-".contains(c)));
    // The version starts after the last character that cannot be in it. That character may be longer than one byte.
    let start = start.map_or(0, |place| place + text[place..].chars().next().map_or(1, char::len_utf8));
    // A version begins with a digit.
    let start = start + text[start..].find(|c: char| c.is_ascii_digit())?;
    let name = text[..start].trim_end();
    let name = name.strip_suffix("release").unwrap_or(name).trim_end();
    (!name.is_empty()).then(|| (name, &text[start..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_lines_are_split() {
        for (line, name, version, codename) in [
            ("CentOS Linux release 7.9.2009 (Core)", "CentOS Linux", "7.9.2009", "Core"),
            ("Red Hat Enterprise Linux release 8.4 (Ootpa)", "Red Hat Enterprise Linux", "8.4", "Ootpa"),
            ("Ubuntu 22.04.3 LTS", "Ubuntu", "22.04.3", ""),
            ("Fedora release 38 (Thirty Eight)", "Fedora", "38", "Thirty Eight"),
            ("Slackware 15.0", "Slackware", "15.0", ""),
            ("Gentoo Base System release 2.14", "Gentoo Base System", "2.14", ""),
            ("Arch Linux", "Arch Linux", "", ""),
            ("", "", "", ""),
        ] {
            let expected = ReleaseLine { name: name.into(), version: version.into(), codename: codename.into() };
            assert_eq!(ReleaseLine::parse(line), expected, "{line}");
        }
    }

    #[test]
    fn os_release_values_lose_quotes_and_escapes() {
        let release = parse_os_release("NAME='A \\\"B\\\"'\nVERSION_ID=\"12\"\n# comment\nID=debian\nbroken line\n");
        assert_eq!(release["NAME"], "A \"B\"");
        assert_eq!(release["VERSION_ID"], "12");
        assert_eq!(release["ID"], "debian");
        assert_eq!(release["PRETTY_NAME"], "Linux");
    }

    #[test]
    fn lsb_values_end_at_strange_characters() {
        assert_eq!(lsb_line("DISTRIB_ID=Ubuntu"), Some(("lsb_distrib_id".into(), "Ubuntu".into())));
        assert_eq!(
            lsb_line("DISTRIB_DESCRIPTION=\"Ubuntu 10.10 \""),
            Some(("lsb_distrib_description".into(), "Ubuntu 10.10".into()))
        );
        assert_eq!(lsb_line("SOMETHING=else"), None);
    }
}
