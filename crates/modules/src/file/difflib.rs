//! Differences of two texts as Python's `difflib.unified_diff` shows them, since users and tests compare those.
//!
//! The longest block both have in common is found first, then the parts before and behind it, and so on; very common
//! lines of long texts are ignored.

use std::collections::HashMap;

/// In texts of at least 200 lines, a line that makes up more than 1 % is too popular to start a block.
const POPULAR_FROM: usize = 200;

/// The number of equal lines that are shown around a change.
const CONTEXT: usize = 3;

/// A block of equal lines: where it begins on both sides, and its length.
type Block = (usize, usize, usize);

/// A stretch of lines on both sides, equal or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    equal: bool,
    a: (usize, usize),
    b: (usize, usize),
}

/// Returns the unified difference between lines (with their ends) without names and dates; nothing if they are equal.
pub fn unified<T: AsRef<str>>(a: &[T], b: &[T]) -> String {
    unified_named(a, b, "", "")
}

/// The same, with names for both sides.
pub fn unified_named<T: AsRef<str>>(a: &[T], b: &[T], name_a: &str, name_b: &str) -> String {
    unified_lines(a, b, name_a, name_b).concat()
}

/// Like [`unified_named`], but as lines. Headers end with a line feed; the other lines keep the ends they have.
pub fn unified_lines<T: AsRef<str>>(a: &[T], b: &[T], name_a: &str, name_b: &str) -> Vec<String> {
    let a: Vec<&str> = a.iter().map(AsRef::as_ref).collect();
    let b: Vec<&str> = b.iter().map(AsRef::as_ref).collect();
    let mut out = Vec::new();
    for group in groups(&a, &b) {
        if out.is_empty() {
            out.extend([format!("--- {name_a}\n"), format!("+++ {name_b}\n")]);
        }
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        out.push(format!("@@ -{} +{} @@\n", range(first.a.0, last.a.1), range(first.b.0, last.b.1)));
        for step in &group {
            if step.equal {
                out.extend(a[step.a.0..step.a.1].iter().map(|line| format!(" {line}")));
            } else {
                out.extend(a[step.a.0..step.a.1].iter().map(|line| format!("-{line}")));
                out.extend(b[step.b.0..step.b.1].iter().map(|line| format!("+{line}")));
            }
        }
    }
    out
}

fn range(start: usize, end: usize) -> String {
    match end - start {
        // diff(1) leaves the length out when it is 1.
        1 => format!("{}", start + 1),
        // An empty range names the line before it.
        0 => format!("{start},0"),
        length => format!("{},{length}", start + 1),
    }
}

/// The steps in groups, each with a few equal lines around the changes.
fn groups(a: &[&str], b: &[&str]) -> Vec<Vec<Step>> {
    let mut steps = steps(a, b);
    // Equal lines at both ends of the text are cut to the context; no change stands beyond them.
    if let Some(first) = steps.first_mut().filter(|step| step.equal) {
        first.a.0 = first.a.0.max(first.a.1.saturating_sub(CONTEXT));
        first.b.0 = first.b.0.max(first.b.1.saturating_sub(CONTEXT));
    }
    if let Some(last) = steps.last_mut().filter(|step| step.equal) {
        last.a.1 = last.a.1.min(last.a.0 + CONTEXT);
        last.b.1 = last.b.1.min(last.b.0 + CONTEXT);
    }
    let mut groups = Vec::new();
    let mut group: Vec<Step> = Vec::new();
    for step in steps {
        // A gap longer than the context on both sides splits the difference into two hunks.
        if step.equal && step.a.1 - step.a.0 > 2 * CONTEXT {
            group.push(Step { a: (step.a.0, step.a.0 + CONTEXT), b: (step.b.0, step.b.0 + CONTEXT), ..step });
            groups.push(std::mem::take(&mut group));
            group.push(Step { a: (step.a.1 - CONTEXT, step.a.1), b: (step.b.1 - CONTEXT, step.b.1), ..step });
        } else {
            group.push(step);
        }
    }
    groups.push(group);
    groups.retain(|group| group.iter().any(|step| !step.equal));
    groups
}

fn steps(a: &[&str], b: &[&str]) -> Vec<Step> {
    let (mut i, mut j) = (0, 0);
    let mut steps = Vec::new();
    for (start_a, start_b, length) in blocks(a, b) {
        if i < start_a || j < start_b {
            steps.push(Step { equal: false, a: (i, start_a), b: (j, start_b) });
        }
        (i, j) = (start_a + length, start_b + length);
        if length > 0 {
            steps.push(Step { equal: true, a: (start_a, i), b: (start_b, j) });
        }
    }
    steps
}

/// All blocks in order, adjacent ones joined, with an empty one at the end.
fn blocks(a: &[&str], b: &[&str]) -> Vec<Block> {
    let places = places(b);
    // A list of remaining parts instead of a recursion: the depth would grow with the number of differences.
    let mut open = vec![(0, a.len(), 0, b.len())];
    let mut found: Vec<Block> = Vec::new();
    while let Some((a_from, a_to, b_from, b_to)) = open.pop() {
        let (i, j, length) = longest(a, b, &places, (a_from, a_to, b_from, b_to));
        if length > 0 {
            found.push((i, j, length));
            open.push((a_from, i, b_from, j));
            open.push((i + length, a_to, j + length, b_to));
        }
    }
    found.sort_unstable();
    let mut joined: Vec<Block> = Vec::new();
    for block in found {
        match joined.last_mut() {
            Some(last) if last.0 + last.2 == block.0 && last.1 + last.2 == block.1 => last.2 += block.2,
            _ => joined.push(block),
        }
    }
    joined.push((a.len(), b.len(), 0));
    joined
}

/// Indexes the lines of the second side, without the popular ones.
fn places<'a>(b: &[&'a str]) -> HashMap<&'a str, Vec<usize>> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, line) in b.iter().enumerate() {
        places.entry(line).or_default().push(place);
    }
    if b.len() >= POPULAR_FROM {
        let most = b.len() / 100 + 1;
        places.retain(|_, at| at.len() <= most);
    }
    places
}

/// Finds the longest block within bounds. Of several, the first on the first side wins, then the first on the second.
fn longest(a: &[&str], b: &[&str], places: &HashMap<&str, Vec<usize>>, bounds: (usize, usize, usize, usize)) -> Block {
    let (a_from, a_to, b_from, b_to) = bounds;
    let mut best = (a_from, b_from, 0);
    // For each place of the second side the length of the equal run that ends there with the line before.
    let mut lengths: HashMap<usize, usize> = HashMap::new();
    for (i, line) in a.iter().enumerate().take(a_to).skip(a_from) {
        let mut longer = HashMap::new();
        for &j in places.get(line).map_or(&[][..], Vec::as_slice) {
            if j < b_from {
                continue;
            }
            if j >= b_to {
                break;
            }
            let length = j.checked_sub(1).and_then(|before| lengths.get(&before)).unwrap_or(&0) + 1;
            longer.insert(j, length);
            // Strictly longer, so that the first of equal blocks is kept, as in Python.
            if length > best.2 {
                best = (i + 1 - length, j + 1 - length, length);
            }
        }
        lengths = longer;
    }
    // Common lines at both ends belong to it after all.
    let (mut i, mut j, mut length) = best;
    while i > a_from && j > b_from && a[i - 1] == b[j - 1] {
        (i, j, length) = (i - 1, j - 1, length + 1);
    }
    while i + length < a_to && j + length < b_to && a[i + length] == b[j + length] {
        length += 1;
    }
    (i, j, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<&str> {
        text.split_inclusive('\n').collect()
    }

    /// `testdata/difflib.json` holds texts and the differences Python 3.11 finds between them.
    #[test]
    fn differences_are_those_python_finds() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/difflib.json");
        let cases: Vec<[String; 3]> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert!(cases.len() >= 40);
        for [a, b, expected] in &cases {
            assert_eq!(&unified(&lines(a), &lines(b)), expected, "{a:?} {b:?}");
        }
    }
}
