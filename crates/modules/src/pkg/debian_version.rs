//! Comparing versions as Debian's policy orders them (section 5.6.12): epoch, upstream version, revision.

use std::cmp::Ordering;

/// Compares two versions.
pub fn compare(a: &str, b: &str) -> Ordering {
    let (a, b) = (split(a), split(b));
    a.0.cmp(&b.0).then_with(|| part(a.1, b.1)).then_with(|| part(a.2, b.2))
}

/// Splits `1:2.3-4` into epoch, upstream version and revision.
fn split(version: &str) -> (u64, &str, &str) {
    let version = version.trim();
    let (epoch, rest) = version.split_once(':').unwrap_or(("0", version));
    // The last dash: upstream versions may contain others.
    let (upstream, revision) = rest.rsplit_once('-').unwrap_or((rest, ""));
    (epoch.parse().unwrap_or(0), upstream, revision)
}

/// Letters come before other signs, and a tilde even before the end.
fn weight(c: Option<char>) -> i32 {
    match c {
        Some('~') => -1,
        None => 0,
        Some(c) if c.is_ascii_digit() => 0,
        Some(c) if c.is_ascii_alphabetic() => c as i32,
        Some(c) => c as i32 + 256,
    }
}

/// Compares stretches without digits and stretches of digits in turn.
fn part(mut a: &str, mut b: &str) -> Ordering {
    while !a.is_empty() || !b.is_empty() {
        loop {
            let (first, second) = (a.chars().next(), b.chars().next());
            let open = |c: Option<char>| c.is_some_and(|c| !c.is_ascii_digit());
            if !open(first) && !open(second) {
                break;
            }
            let order = weight(first).cmp(&weight(second));
            if order.is_ne() {
                return order;
            }
            a = &a[first.map_or(0, char::len_utf8)..];
            b = &b[second.map_or(0, char::len_utf8)..];
        }
        let (left, right) = (take_number(&mut a), take_number(&mut b));
        // Without leading zeros the longer number is the greater one. Comparing text has no limit
        // of size.
        let order = left.len().cmp(&right.len()).then_with(|| left.cmp(right));
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

/// Takes the digits off the front and returns them without leading zeros.
fn take_number<'a>(text: &mut &'a str) -> &'a str {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    *text = rest;
    number.trim_start_matches('0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_dpkg_orders_them() {
        for (a, order, b) in [
            ("1.0", "=", "1.00"),
            ("1.0", "<", "1.1"),
            ("1.9", "<", "1.10"),
            ("1:0.1", ">", "9.9"),
            ("0:1.0", "=", "1.0"),
            ("1.0~rc1", "<", "1.0"),
            ("1.0~~", "<", "1.0~"),
            ("1.0-1", ">", "1.0"),
            ("1.0-0", "=", "1.0"),
            ("1.0a", ">", "1.0"),
            ("1.0a", "<", "1.0+"),
            ("5.2.15-2+b13", ">", "5.2.15-2+b8"),
            ("2.7.4+reloaded2-13ubuntu1", ">", "2.7.4+reloaded2-13"),
            ("1.2.3-4-5", ">", "1.2.3-4"),
        ] {
            let expected = match order {
                "<" => Ordering::Less,
                ">" => Ordering::Greater,
                _ => Ordering::Equal,
            };
            assert_eq!(compare(a, b), expected, "{a} {order} {b}");
            assert_eq!(compare(b, a), expected.reverse(), "{b} {a}");
        }
    }
}
