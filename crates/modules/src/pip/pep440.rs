//! Versions and version conditions of Python packages (PEP 440), and requirements (PEP 508).

use std::cmp::Ordering;
use std::sync::LazyLock;

use regex::Regex;

static VERSION: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?i)^\s*v?(?:(\d+)!)?(\d+(?:\.\d+)*)(?:[-_.]?(alpha|beta|preview|pre|a|b|c|rc)[-_.]?(\d*))?(?:-(\d+)|[-_.]?(post|rev|r)[-_.]?(\d*))?(?:[-_.]?(dev)[-_.]?(\d*))?(?:\+([a-z0-9]+(?:[-_.][a-z0-9]+)*))?\s*$";
    Regex::new(pattern).expect("the pattern is fixed")
});

static NAME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(\[[^\]]*\])?\s*(.*)$").expect("fixed")
});
static CONDITION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(===|==|~=|!=|<=|>=|<|>)\s*(\S+)$").expect("the pattern is fixed"));
static WHEEL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?:\S*/)?([^\s/-]+)-([^\s/-]+)(?:-\d[^\s/-]*)?-[^\s/-]+-[^\s/-]+-[^\s/-]+\.whl$").expect("fixed")
});
static EGG: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"[#&]egg=([^&\[]*)").expect("the pattern is fixed"));

/// A version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    epoch: u64,
    release: Vec<u64>,
    pre: Option<(char, u64)>,
    post: Option<u64>,
    dev: Option<u64>,
    local: Vec<String>,
}

/// Pre-release, post-release and development release, to be compared in this order.
type Rest = ((i8, char, u64), (i8, u64), (i8, u64));

impl Version {
    /// Reads a version. Returns None for anything else.
    pub fn parse(text: &str) -> Option<Version> {
        let found = VERSION.captures(text)?;
        let part = |place: usize| found.get(place).map(|part| part.as_str().to_lowercase());
        let number = |place: usize| part(place).map(|text| text.parse::<u64>().unwrap_or(0));
        let pre = part(3).map(|kind| match kind.as_str() {
            "a" | "alpha" => 'a',
            "b" | "beta" => 'b',
            _ => 'r',
        });
        Some(Version {
            epoch: number(1).unwrap_or(0),
            // A number too large for the type counts as the largest, so nothing panics on a hostile
            // version.
            release: part(2)?.split('.').map(|part| part.parse().unwrap_or(u64::MAX)).collect(),
            pre: pre.map(|kind| (kind, number(4).unwrap_or(0))),
            post: number(5).or_else(|| part(6).map(|_| number(7).unwrap_or(0))),
            dev: part(8).map(|_| number(9).unwrap_or(0)),
            local: part(10).map(|text| text.split(['-', '_', '.']).map(str::to_owned).collect()).unwrap_or_default(),
        })
    }

    /// Returns whether this is a pre-release.
    pub fn is_prerelease(&self) -> bool {
        self.pre.is_some() || self.dev.is_some()
    }

    fn bare_release(&self) -> &[u64] {
        // 1.0 and 1.0.0 are equal.
        let end = self.release.iter().rposition(|part| *part != 0).map_or(0, |place| place + 1);
        &self.release[..end]
    }

    /// The key for versions of the same release: dev, then pre-release, final and post-release.
    fn rest(&self) -> Rest {
        let pre = match (self.pre, self.post, self.dev) {
            (Some((kind, number)), ..) => (0, kind, number),
            // A development release without another suffix comes before all pre-releases.
            (None, None, Some(_)) => (-1, ' ', 0),
            (None, ..) => (1, ' ', 0),
        };
        // No post release comes before the first one; no development release comes after all of
        // them.
        let post = self.post.map_or((-1, 0), |number| (0, number));
        let dev = self.dev.map_or((1, 0), |number| (0, number));
        (pre, post, dev)
    }

    fn public_order(&self, other: &Version) -> Ordering {
        let own = (self.epoch, self.bare_release(), self.rest());
        own.cmp(&(other.epoch, other.bare_release(), other.rest()))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Version) -> Ordering {
        // In local versions numbers sort above words.
        let key = |part: &String| part.parse::<u64>().map_or((0, 0, part.clone()), |number| (1, number, String::new()));
        let local = |version: &Version| version.local.iter().map(key).collect::<Vec<_>>();
        self.public_order(other).then_with(|| local(self).cmp(&local(other)))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Version) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Compares two versions. Returns None if one of them is none.
pub fn compare(a: &str, b: &str) -> Option<Ordering> {
    Some(Version::parse(a)?.cmp(&Version::parse(b)?))
}

/// A sign and a version.
pub type Condition = (String, String);

/// Returns whether a version fulfils all conditions. As in PEP 440, pre-releases only do if a condition names one.
pub fn fulfils(version: &str, conditions: &[Condition]) -> bool {
    let Some(parsed) = Version::parse(version) else { return false };
    let early = |(_, text): &Condition| Version::parse(text.trim_end_matches(".*")).is_some_and(|v| v.is_prerelease());
    if parsed.is_prerelease() && !conditions.is_empty() && !conditions.iter().any(early) {
        return false;
    }
    conditions.iter().all(|(sign, text)| one(&parsed, version, sign, text))
}

/// Returns whether a version fulfils a condition; early versions count as others do.
pub fn meets(version: &str, (sign, text): &Condition) -> bool {
    Version::parse(version).is_some_and(|parsed| one(&parsed, version, sign, text))
}

fn one(version: &Version, text: &str, sign: &str, wanted: &str) -> bool {
    if sign == "===" {
        return text.eq_ignore_ascii_case(wanted);
    }
    if let Some(start) = wanted.strip_suffix(".*") {
        let starts = Version::parse(start).is_some_and(|start| begins(version, &start));
        return if sign == "!=" { !starts } else { starts };
    }
    let Some(wanted) = Version::parse(wanted) else { return false };
    // A condition without a local part matches any.
    let order = if wanted.local.is_empty() { version.public_order(&wanted) } else { version.cmp(&wanted) };
    match sign {
        "==" => order.is_eq(),
        "!=" => order.is_ne(),
        "<=" => order.is_le(),
        ">=" => order.is_ge(),
        // Pre-releases and post-releases of the same release do not count.
        "<" => order.is_lt() && !(version.is_prerelease() && !wanted.is_prerelease() && same_release(version, &wanted)),
        ">" => order.is_gt() && !(version.post.is_some() && wanted.post.is_none() && same_release(version, &wanted)),
        "~=" => {
            let mut start = Version { pre: None, post: None, dev: None, ..wanted.clone() };
            // `~=1.4.2` means at least 1.4.2, and 1.4.*.
            start.release.pop();
            order.is_ge() && begins(version, &start)
        }
        _ => false,
    }
}

fn same_release(a: &Version, b: &Version) -> bool {
    a.epoch == b.epoch && a.bare_release() == b.bare_release()
}

fn begins(version: &Version, start: &Version) -> bool {
    let part = |place: usize| version.release.get(place).copied().unwrap_or(0);
    version.epoch == start.epoch && start.release.iter().enumerate().all(|(place, wanted)| part(place) == *wanted)
}

/// Makes names of packages alike.
pub fn normalize(name: &str) -> String {
    let mut text = String::new();
    for c in name.to_lowercase().chars() {
        match c {
            '-' | '_' | '.' if text.ends_with('-') => {}
            '-' | '_' | '.' => text.push('-'),
            c => text.push(c),
        }
    }
    text
}

/// A requirement such as `name[extra]>=1.0`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirement {
    /// The name; `None` for addresses and paths that do not contain it.
    pub name: Option<String>,
    /// The conditions on the version.
    pub conditions: Vec<Condition>,
}

/// Reads a requirement: `name[extra]>=1,<2 ; marker`, `name @ address`, an address or a path.
///
/// # Errors
/// When it is none.
pub fn requirement(text: &str) -> Result<Requirement, String> {
    let text = text.trim();
    if let Some(found) = WHEEL.captures(text) {
        let conditions = vec![("==".to_owned(), found[2].to_owned())];
        return Ok(Requirement { name: Some(found[1].to_owned()), conditions });
    }
    if text.contains("://") && !text.contains(" @ ") || text.starts_with(['.', '/']) {
        let name = EGG.captures(text).map(|found| found[1].to_owned()).filter(|name| !name.is_empty());
        if let Some(egg) = name.as_deref().filter(|egg| egg.contains(['=', '<', '>', '~'])) {
            return requirement(egg);
        }
        return Ok(Requirement { name, conditions: Vec::new() });
    }
    let invalid = || format!("Invalid requirement: '{text}'");
    // Behind the semicolon stand conditions on the environment.
    let bare = text.split(';').next().unwrap_or_default().trim();
    let found = NAME.captures(bare).ok_or_else(invalid)?;
    let name = Some(found[1].to_owned());
    let rest = found[3].trim().trim_start_matches('(').trim_end_matches(')');
    if rest.is_empty() || rest.starts_with('@') {
        return Ok(Requirement { name, conditions: Vec::new() });
    }
    let mut conditions = Vec::new();
    for part in rest.split(',') {
        let found = CONDITION.captures(part.trim()).ok_or_else(invalid)?;
        conditions.push((found[1].to_owned(), found[2].to_owned()));
    }
    Ok(Requirement { name, conditions })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered() {
        let sorted = ["1.0.dev1", "1.0a1", "1.0b2", "1.0rc1", "1.0", "1.0+local", "1.0.post1", "1.1", "1.10", "1!0.1"];
        for pair in sorted.windows(2) {
            assert_eq!(compare(pair[0], pair[1]), Some(Ordering::Less), "{pair:?}");
        }
        assert_eq!(compare("1.0", "1.0.0"), Some(Ordering::Equal));
        assert_eq!(compare("1.0-1", "1.0.post1"), Some(Ordering::Equal));
        assert_eq!(compare("x", "1"), None);
    }

    #[test]
    fn conditions_are_fulfilled() {
        let fits = |version: &str, text: &str| fulfils(version, &requirement(&format!("x{text}")).unwrap().conditions);
        assert!(fits("1.5", ">=1.0,<2"));
        assert!(!fits("2.0", ">=1.0,<2"));
        assert!(fits("1.4.9", "~=1.4.2") && !fits("1.5", "~=1.4.2"));
        assert!(fits("1.4.9", "==1.4.*") && !fits("1.4.9", "!=1.4.*"));
        assert!(!fits("2.0b1", ">=1.0") && fits("2.0b1", ">=2.0a1"));
        assert!(!fits("1.0.post1", ">1.0") && fits("1.0+x", "==1.0"));
    }

    #[test]
    fn requirements_are_read() {
        let name = |text: &str| requirement(text).unwrap().name;
        assert_eq!(name("Django[argon2] >= 4 ; python_version > '3'").as_deref(), Some("Django"));
        assert_eq!(name("git+https://x/y.git@main#egg=thing").as_deref(), Some("thing"));
        assert_eq!(name("https://x/y.tar.gz"), None);
        let wheel = requirement("https://x/some_thing-1.2-py3-none-any.whl").unwrap();
        assert_eq!(wheel.conditions, [("==".to_owned(), "1.2".to_owned())]);
        assert_eq!(wheel.name.as_deref(), Some("some_thing"));
        assert_eq!(name("thing @ https://x").as_deref(), Some("thing"));
        assert!(requirement("a b").is_err() && requirement("a=1").is_err() && requirement("").is_err());
        assert_eq!(normalize("Zope._Interface"), "zope-interface");
    }
}
