//! Finds top modules of a crate that use each other in a circle.
//!
//! A circle means that none of its modules can be understood, tested or moved without the others. The sources are read as
//! text: `crate::name` in a file of module `a` makes `a` use `name`, or the module from which the crate's root re-exports
//! `name`. Unit tests inside a file may use anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Each top module with the top modules it uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Crates that still have a circle, each with what ties it. A line goes as soon as its circle is gone.
const KNOWN: [(&str, &str); 1] = [("jinja", "as in Python's Jinja, values call templates and templates make values")];

#[test]
fn no_top_modules_use_each_other_in_a_circle() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut folders: Vec<PathBuf> = fs::read_dir(&crates).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    assert!(folders.len() > 20, "the crates are elsewhere than in {}", crates.display());
    let mut wrong = Vec::new();
    for folder in folders {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let known = KNOWN.iter().any(|(krate, _)| *krate == name);
        match circle(&uses(&folder.join("src"))) {
            Some(circle) if !known => wrong.push(format!("{name}: {}", circle.join(", "))),
            None if known => wrong.push(format!("{name} has no circle any more: remove it from the list")),
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_circle_is_found_and_a_diamond_is_none() {
    let uses = |pairs: &[(&str, &[&str])]| -> Uses {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        pairs.iter().map(|(name, used)| ((*name).to_owned(), owned(used))).collect()
    };
    assert_eq!(circle(&uses(&[("a", &["b", "c"]), ("b", &["d"]), ("c", &["d"]), ("d", &[])])), None);
    let found = circle(&uses(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])]));
    assert_eq!(found, Some(vec!["b".to_owned(), "c".to_owned()]));
}

#[test]
fn names_in_braces_and_re_exports_are_followed() {
    let exports = re_exports("mod a;\npub use a::{First, inner::Second as Third};\npub(crate) use b::run;\n");
    assert_eq!(exports.get("First").map(String::as_str), Some("a"));
    assert_eq!(exports.get("Third").map(String::as_str), Some("a"));
    assert_eq!(exports.get("run").map(String::as_str), Some("b"));
    let text = "use crate::{a, b::{c, d}, First};\nfn f() { crate::e::g() } // crate::h\n";
    assert_eq!(used_names(text), ["a", "b", "First", "e"]);
}

/// Returns the modules of one circle, in alphabetical order.
fn circle(uses: &Uses) -> Option<Vec<String>> {
    let reach = |from: &str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(next) = open.pop() {
            for used in uses.get(next).into_iter().flatten() {
                if seen.insert(used.as_str()) {
                    open.push(used);
                }
            }
        }
        seen
    };
    let start = uses.keys().find(|name| reach(name).contains(name.as_str()))?;
    let from_start = reach(start);
    Some(
        uses.keys()
            .filter(|name| from_start.contains(name.as_str()) && reach(name).contains(start.as_str()))
            .cloned()
            .collect(),
    )
}

fn uses(src: &Path) -> Uses {
    let root = ["lib.rs", "main.rs"].iter().find_map(|name| fs::read_to_string(src.join(name)).ok()).unwrap();
    let modules: BTreeSet<String> = root.lines().filter_map(declared_module).collect();
    let exports = re_exports(&root);
    let target = |name: String| if modules.contains(&name) { Some(name) } else { exports.get(&name).cloned() };
    let used_by = |module: &String| {
        let texts = files_of(src, module).into_iter().map(|path| fs::read_to_string(path).unwrap());
        let names = texts.flat_map(|text| used_names(&text));
        names.filter_map(target).filter(|used| used != module && modules.contains(used)).collect()
    };
    modules.iter().map(|module| (module.clone(), used_by(module))).collect()
}

/// Returns the name in a line such as `pub mod name;`.
fn declared_module(line: &str) -> Option<String> {
    let (before, name) = line.strip_suffix(';')?.rsplit_once("mod ")?;
    let visible = before.is_empty() || before.starts_with("pub");
    (visible && name.chars().all(|letter| letter.is_alphanumeric() || letter == '_')).then(|| name.to_owned())
}

/// Returns the names that the root of a crate re-exports, each with the module it comes from.
fn re_exports(root: &str) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    for statement in code(root).split(';') {
        let Some((before, path)) = statement.rsplit_once("use ") else { continue };
        if !before.trim_end().rsplit(['\n', ']']).next().unwrap_or_default().trim_start().starts_with("pub") {
            continue;
        }
        let Some((module, names)) = path.split_once("::") else { continue };
        for item in names.split([',', '{', '}']) {
            // `inner::Name as Other` is seen as `Other`.
            let name = item.rsplit([':', ' ']).next().unwrap_or_default().trim();
            if !name.is_empty() {
                exports.insert(name.to_owned(), module.trim().to_owned());
            }
        }
    }
    exports
}

/// Returns the first name after each `crate::`, one for each item in braces.
fn used_names(text: &str) -> Vec<String> {
    let text = code(text);
    let mut names = Vec::new();
    for (place, _) in text.match_indices("crate::") {
        // Words such as `pub(in crate::a)` are part of another word only if a letter stands before.
        if text[..place].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':') {
            continue;
        }
        let rest = &text[place + "crate::".len()..];
        match rest.strip_prefix('{') {
            None => names.push(first_name(rest)),
            Some(list) => names.extend(items(list)),
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// Returns the first name of each item of a list, up to its closing brace.
fn items(list: &str) -> Vec<String> {
    let (mut depth, mut names, mut start) = (0, Vec::new(), 0);
    for (place, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.push(first_name(list[start..place].trim_start()));
                start = place + 1;
                if letter == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

fn first_name(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

/// Returns a source without its comments and its unit tests, which stand last in a file.
fn code(text: &str) -> String {
    // Tests in a file of their own may be declared above the code.
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn files_of(src: &Path, module: &str) -> Vec<PathBuf> {
    let mut files = vec![src.join(format!("{module}.rs"))];
    let mut folders = vec![src.join(module)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    let is_source = |path: &PathBuf| path.is_file() && path.extension().is_some_and(|ending| ending == "rs");
    // `tests.rs` is compiled for tests only.
    files
        .into_iter()
        .filter(|path| is_source(path) && path.file_name().is_some_and(|name| name != "tests.rs"))
        .collect()
}
