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
