//! Shell patterns for files, expanded as in Python's `glob`.

use std::path::{Path, PathBuf};

/// Returns whether a text has wildcards.
pub fn has_magic(pattern: &str) -> bool {
    pattern.contains(['*', '?', '['])
}

/// Returns the paths that a pattern matches, sorted. A `*` never matches a leading dot or a slash.
pub fn glob(pattern: &str) -> Vec<PathBuf> {
    let (mut found, rest) = match pattern.strip_prefix('/') {
        Some(rest) => (vec![PathBuf::from("/")], rest),
        None => (vec![PathBuf::new()], pattern),
    };
    for part in rest.split('/').filter(|part| !part.is_empty()) {
        found = found.iter().flat_map(|base| step(base, part)).collect();
    }
    // The file system's order differs between machines, and a later file overrides an earlier one.
    found.sort();
    found
}

fn step(base: &Path, part: &str) -> Vec<PathBuf> {
    if !has_magic(part) {
        let path = base.join(part);
        // A dangling link matches, as in Python: reading it then gives an error that names it.
        return if path.symlink_metadata().is_ok() { vec![path] } else { Vec::new() };
    }
    let directory = if base.as_os_str().is_empty() { Path::new(".") } else { base };
    // A directory that cannot be read matches nothing, as in Python.
    let Ok(entries) = directory.read_dir() else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let wanted = names.filter(|name| (part.starts_with('.') || !name.starts_with('.')) && matches(part, name));
    wanted.map(|name| base.join(name)).collect()
}

/// Returns whether a pattern with `*`, `?`, `[abc]` and `[!abc]` matches a whole name.
pub fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    // The last star and what it has matched, for backtracking.
    // Only the last star needs backtracking, so matching takes quadratic time at worst, not exponential.
    let mut star: Option<(usize, usize)> = None;
    let (mut p, mut n) = (0, 0);
    loop {
        if n == name.len() && pattern[p..].iter().all(|&letter| letter == '*') {
            return true;
        }
        if pattern.get(p) == Some(&'*') {
            star = Some((p + 1, n));
            p += 1;
        } else if let Some(next) = name.get(n).and_then(|&letter| one(&pattern, p, letter)) {
            p = next;
            n += 1;
        } else if let Some((after, taken)) = star.filter(|&(_, taken)| taken < name.len()) {
            star = Some((after, taken + 1));
            (p, n) = (after, taken + 1);
        } else {
            return false;
        }
    }
}

/// Matches one character, and returns the position after its piece of the pattern.
fn one(pattern: &[char], place: usize, letter: char) -> Option<usize> {
    match pattern.get(place)? {
        '?' => Some(place + 1),
        '[' => match class_end(pattern, place) {
            Some(end) => in_class(&pattern[place + 1..end], letter).then_some(end + 1),
            // A class that is never closed is an ordinary bracket.
            None => (letter == '[').then_some(place + 1),
        },
        &plain => (plain == letter).then_some(place + 1),
    }
}

/// Returns the position of the bracket that closes a class; one right at its start belongs to it.
fn class_end(pattern: &[char], start: usize) -> Option<usize> {
    let negated = usize::from(pattern.get(start + 1) == Some(&'!'));
    let first = start + 1 + negated;
    // `first` is skipped, since `[]]` is a class with a closing bracket in it.
    (first + 1..pattern.len()).find(|&place| pattern[place] == ']')
}

fn in_class(class: &[char], letter: char) -> bool {
    let (class, negated) = match class {
        ['!', rest @ ..] => (rest, true),
        _ => (class, false),
    };
    let mut rest = class;
    let mut found = false;
    while let Some((&first, after)) = rest.split_first() {
        if let ['-', last, tail @ ..] = after {
            found |= (first..=*last).contains(&letter);
            rest = tail;
        } else {
            found |= first == letter;
            rest = after;
        }
    }
    found != negated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, name, expected) in [
            ("*.conf", "a.conf", true),
            ("*.conf", "a.conf.bak", false),
            ("a*b*c", "a-b-b-c", true),
            ("a?c", "abc", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]x]", "]", true),
            ("[", "[", true),
            ("", "", true),
            ("*", "", true),
            ("**a", "bba", true),
            ("a", "b", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn files_are_sorted_without_hidden_ones() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b.conf", "a.conf", ".c.conf", "d.txt"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let found = glob(&format!("{}/*.conf", dir.path().display()));
        let names: Vec<_> = found.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["a.conf", "b.conf"]);
    }
}
