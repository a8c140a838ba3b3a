//! The order of rpm's versions.

use std::cmp::Ordering;

/// Epoch, version and release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evr<'a> {
    /// The epoch. It outweighs everything else.
    pub epoch: u64,
    /// The version.
    pub version: &'a str,
    /// The release; empty if it is not given.
    pub release: &'a str,
}

impl<'a> Evr<'a> {
    /// Reads `epoch:version-release`; an epoch that is not a number counts as none.
    pub fn parse(text: &'a str) -> Evr<'a> {
        let (epoch, rest) =
            text.split_once(':').map_or((0, text), |(epoch, rest)| (epoch.trim().parse().unwrap_or(0), rest));
        let (version, release) = rest.split_once('-').unwrap_or((rest, ""));
        Evr { epoch, version, release }
    }
}

/// Compares two versions; a release counts only when both have one.
pub fn compare(a: &str, b: &str, ignore_epoch: bool) -> Ordering {
    let bare = |text| if ignore_epoch { str::split_once(text, ':').map_or(text, |(_, rest)| rest) } else { text };
    let (mut a, mut b) = (Evr::parse(bare(a)), Evr::parse(bare(b)));
    // A version without a release means all releases.
    if a.release.is_empty() || b.release.is_empty() {
        (a.release, b.release) = ("", "");
    }
    compare_evr(a, b)
}

/// Compares epochs, versions and releases, in this order.
pub fn compare_evr(a: Evr, b: Evr) -> Ordering {
    a.epoch
        .cmp(&b.epoch)
        .then_with(|| compare_parts(a.version, b.version))
        .then_with(|| compare_parts(a.release, b.release))
}

/// Compares runs of digits by their value and runs of letters by their text; a tilde comes before everything, a caret
/// behind the end but before anything else.
fn compare_parts(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        // Separators part, but which ones makes no difference: `1.0` equals `1_0`.
        let separator = |c: char| !c.is_alphanumeric() && c != '~' && c != '^';
        (a, b) = (a.trim_start_matches(separator), b.trim_start_matches(separator));
        match (a.strip_prefix('~'), b.strip_prefix('~')) {
            (Some(rest_a), Some(rest_b)) => {
                (a, b) = (rest_a, rest_b);
                continue;
            }
            // `~` sorts before everything, even the end: `1.0~rc1` is older than `1.0`.
            (Some(_), None) => return Ordering::Less,
            (None, Some(_)) => return Ordering::Greater,
            (None, None) => {}
        }
        match (a.strip_prefix('^'), b.strip_prefix('^')) {
            (Some(rest_a), Some(rest_b)) => {
                (a, b) = (rest_a, rest_b);
                continue;
            }
            // `^` sorts behind the end but before anything else: `1.0^git1` is newer than `1.0` and
            // older than `1.0.1`.
            (Some(_), None) => return if b.is_empty() { Ordering::Greater } else { Ordering::Less },
            (None, Some(_)) => return if a.is_empty() { Ordering::Less } else { Ordering::Greater },
            (None, None) => {}
        }
        if a.is_empty() || b.is_empty() {
            return a.len().cmp(&b.len());
        }
        let numbers = a.starts_with(|c: char| c.is_numeric());
        let same_kind = |c: char| if numbers { c.is_numeric() } else { c.is_alphabetic() };
        let run = |text: &'_ str| text.find(|c| !same_kind(c)).unwrap_or(text.len());
        let (end_a, end_b) = (run(a), run(b));
        if end_b == 0 {
            // A number is newer than letters.
            return if numbers { Ordering::Greater } else { Ordering::Less };
        }
        let order = match numbers {
            true => compare_numbers(&a[..end_a], &b[..end_b]),
            false => a[..end_a].cmp(&b[..end_b]),
        };
        if order.is_ne() {
            return order;
        }
        (a, b) = (&a[end_a..], &b[end_b..]);
    }
}

fn compare_numbers(a: &str, b: &str) -> Ordering {
    // Dates as versions are longer than any integer type, so the digits are compared.
    let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order of Salt 3008.5 (`lowpkg.version_cmp`), recorded by `testdata/record_versions.py`.
    #[test]
    fn versions_are_ordered_as_salt_orders_them() {
        let recorded: value::Value = serde_json::from_str(include_str!("../../../testdata/rpm_versions.json")).unwrap();
        let recorded = recorded.into_list().unwrap();
        assert!(recorded.len() > 1000, "{} pairs", recorded.len());
        for case in recorded {
            let case = case.into_list().unwrap();
            let (a, b) = (case[0].to_string(), case[1].to_string());
            let ours = compare(&a, &b, case[2].truthy()) as i64;
            assert_eq!(Some(ours), case[3].as_i64(), "{a} {b} {}", case[2]);
        }
    }

    #[test]
    fn a_garbled_epoch_counts_as_none() {
        assert_eq!(Evr::parse("x:1-2"), Evr { epoch: 0, version: "1", release: "2" });
        assert_eq!(compare("1:1", "2", true), Ordering::Less);
    }
}
