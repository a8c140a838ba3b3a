//! `diskusage` — how full file systems are.

use fancy_regex::Regex;
use nix::sys::statvfs::statvfs;
use value::{Value, map};

use crate::config::{list, percent, tenth, without_options};
use crate::{Found, Kind, looking};

pub const KIND: Kind = Kind {
    name: "diskusage",
    validate: |config, _| list(config, "diskusage").map(drop),
    watch: |config| looking(config, look),
};

fn look(config: &Value, (): &mut ()) -> Found {
    let mounts = std::fs::read_to_string("/proc/self/mounts").map_err(|error| format!("/proc/self/mounts: {error}"))?;
    let mut found = Vec::new();
    // Two patterns that match one mount give two events, as in Salt.
    for (pattern, bound) in without_options(config) {
        let bound = percent(&bound).ok_or_else(|| format!("could not convert string to float: {bound}"))?;
        // Salt makes the pattern match the whole path: `/` must not match `/home`.
        let whole = if pattern.ends_with('$') { pattern.clone() } else { format!("{pattern}$") };
        let regex = Regex::new(&format!("^(?:{whole})")).map_err(|error| error.to_string())?;
        for mount in mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(unescape) {
            if regex.is_match(&mount).unwrap_or(false)
                // A mount may go away between the list and the question.
                && let Some(usage) = usage(&mount)
                && usage >= bound
            {
                found.push(map! { "diskusage" => usage, "mount" => mount });
            }
        }
    }
    Ok(found)
}

/// Blanks in paths are written as `\040`.
fn unescape(name: &str) -> String {
    let mut rest = name;
    let mut plain = Vec::new();
    while let Some(at) = rest.find('\\') {
        plain.extend_from_slice(&rest.as_bytes()[..at]);
        // A backslash that begins no octal number is an ordinary character.
        match rest.get(at + 1..at + 4).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                plain.push(byte);
                rest = &rest[at + 4..];
            }
            None => {
                plain.push(b'\\');
                rest = &rest[at + 1..];
            }
        }
    }
    plain.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&plain).into_owned()
}

/// Returns the used part of the space that ordinary users may use.
fn usage(mount: &str) -> Option<f64> {
    let facts = statvfs(mount).ok()?;
    // Blocks reserved for root are neither used nor usable, as for `df`.
    let used = facts.blocks().saturating_sub(facts.blocks_free()) as f64;
    let usable = used + facts.blocks_available() as f64;
    Some(if usable > 0.0 { tenth(used / usable * 100.0) } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    #[test]
    fn mounts_are_selected_by_pattern_and_usage() {
        let found = |config: Value| -> Vec<value::Map> { look(&config, &mut ()).unwrap() };
        let all = found(list![map! { "/" => "0%" }, map! { "interval" => 5 }]);
        assert_eq!(all.len(), 1, "{all:?}");
        assert_eq!(all[0].get_str("mount"), Some("/"));
        assert_eq!(found(list![map! { "/" => 101 }]), []);
        // Salt's documentation uses such look-aheads, which the usual regex crate refuses.
        assert!(!found(list![map! { "^/(?!home).*$" => 0 }]).is_empty());
        assert!(look(&list![map! { "/" => "much" }], &mut ()).is_err());
        assert_eq!(unescape("/mnt/a\\040b"), "/mnt/a b");
    }
}
