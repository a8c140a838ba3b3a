//! Checks that the documents for contributors agree with the tree.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn text(document: &str) -> String {
    fs::read_to_string(root().join(document)).unwrap_or_else(|error| panic!("{document}: {error}"))
}

/// The text in back-quotes on the lines of a document.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    // The odd parts between back-quotes are the quoted ones.
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// The files that a document names, relative to the root. The walks of `ARCHITECTURE.md` leave `crates/` out.
fn named_files(text: &str) -> BTreeSet<String> {
    let is_file = |name: &&str| name.contains('/') && name.ends_with(".rs") && !name.contains(['<', '*']);
    // The walks name files from the crate's directory on, other passages from the root on.
    let full = |name: &str| match root().join("crates").join(name.split('/').next().unwrap_or_default()).is_dir() {
        true => format!("crates/{name}"),
        false => name.to_owned(),
    };
    quoted(text).filter(is_file).map(full).collect()
}

/// Each crate below `crates/`, by the name of its directory, with the directories of the crates it depends on.
fn crates() -> BTreeMap<String, BTreeSet<String>> {
    // Two crates have another name in code than their directory.
    let folder = |name: &str| match name {
        "targeting" => "target".to_owned(),
        "logging" => "log".to_owned(),
        name => name.to_owned(),
    };
    let folders = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let manifests: BTreeMap<String, String> = folders
        .filter_map(|path| {
            let manifest = fs::read_to_string(path.join("Cargo.toml")).ok()?;
            Some((path.file_name()?.to_str()?.to_owned(), manifest))
        })
        .collect();
    // Development dependencies do not count: tests may look upwards.
    let depends = |manifest: &str| {
        let section = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
        let section = section.split("\n[").next().unwrap_or_default();
        let names = section.lines().filter_map(|line| line.split(['.', ' ', '=']).next()).map(folder);
        names.filter(|name| manifests.contains_key(name)).collect()
    };
    manifests.iter().map(|(name, manifest)| (name.clone(), depends(manifest))).collect()
}

#[test]
fn files_that_documents_name_exist() {
    for document in ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/testing.md"] {
        let names = named_files(&text(document));
        let gone: Vec<&String> = names.iter().filter(|name| !root().join(name).exists()).collect();
        assert!(gone.is_empty(), "{document} names files that do not exist: {gone:?}");
    }
    // A changed layout of the document must not make the test pass without looking at anything.
    assert!(named_files(&text("ARCHITECTURE.md")).len() > 50, "the walks are not found");
}

#[test]
fn the_diagram_of_the_crates_agrees_with_their_manifests() {
    let architecture = text("ARCHITECTURE.md");
    let diagram = architecture.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let crates = crates();
    let row = |line: &str| -> BTreeSet<String> {
        // Two blanks or more end the name of the row and separate the crates.
        line.trim().split("  ").map(str::trim).skip(1).filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    let rows: Vec<BTreeSet<String>> = diagram.lines().map(row).collect();
    let drawn: BTreeSet<&String> = rows.iter().flatten().collect();
    // Both ways: a crate that is not drawn, and one that is drawn but gone.
    assert_eq!(drawn, crates.keys().collect(), "the diagram and the directories below crates/ differ");
    for (index, row) in rows.iter().enumerate() {
        for name in row {
            let below = rows[index + 1..].iter().flatten().collect::<BTreeSet<_>>();
            let above: Vec<&String> = crates[name].iter().filter(|dependency| !below.contains(dependency)).collect();
            assert!(above.is_empty(), "{name} depends on {above:?}, which the diagram does not show below it");
        }
    }
    let rows = architecture.lines().filter(|line| line.starts_with("| `")).collect::<Vec<_>>().join("\n");
    let described: BTreeSet<&str> = quoted(&rows).collect();
    let missing: Vec<&String> = crates.keys().filter(|name| !described.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md does not describe {missing:?}");
}

/// All files of Rust below a directory.
fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()) {
        match path.is_dir() {
            true => sources(&path, found),
            false if path.extension().is_some_and(|extension| extension == "rs") => found.push(path),
            false => {}
        }
    }
}

/// The names of the tests in a text.
fn tests(text: &str) -> BTreeSet<&str> {
    let (mut names, mut marked) = (BTreeSet::new(), false);
    for line in text.lines().map(str::trim_start) {
        let function = line.trim_start_matches("pub ").trim_start_matches("async ").strip_prefix("fn ");
        match function.and_then(|rest| rest.split_once('(')) {
            Some((name, _)) if std::mem::take(&mut marked) => drop(names.insert(name)),
            Some(_) => {}
            None => marked |= line.starts_with("#[test]") || line.starts_with("#[tokio::test"),
        }
    }
    names
}

#[test]
fn each_attack_has_a_test_that_exists() {
    let document = text("docs/attacks.md");
    let attacks = text("interop/src/bin/attack/main.rs");
    let mut known: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut rows = BTreeSet::new();
    for line in document.lines() {
        let cells: Vec<&str> = line.split(" | ").collect();
        let [number, _, _, named] = cells.as_slice() else { continue };
        let named: Vec<(&str, &str)> = quoted(named).filter_map(|name| name.split_once("::")).collect();
        let number = number.trim_start_matches("| ");
        if number == "attack" {
            continue;
        }
        assert!(!named.is_empty(), "docs/attacks.md: {number} has no test");
        for (folder, name) in named {
            let exists = match folder {
                "attack" => attacks.contains(&format!("(\"{name}\", ")),
                _ => known.entry(folder).or_insert_with(|| tests_of(folder)).contains(name),
            };
            assert!(exists, "docs/attacks.md: the test {folder}::{name} of {number} does not exist");
        }
        rows.insert(number.to_owned());
    }
    let numbered = |kind: char, most: usize| (1..=most).map(move |n| format!("{kind}{n}"));
    let expected = numbered('A', 33).chain(numbered('R', 18)).chain(numbered('L', 6)).collect();
    assert_eq!(rows, expected, "docs/attacks.md has a row for each attack");
}

fn tests_of(folder: &str) -> BTreeSet<String> {
    let mut files = Vec::new();
    sources(&root().join("crates").join(folder), &mut files);
    let texts = files.iter().map(|file| fs::read_to_string(file).unwrap());
    texts.flat_map(|text| tests(&text).into_iter().map(str::to_owned).collect::<Vec<_>>()).collect()
}
