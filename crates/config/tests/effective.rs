//! The options we arrive at against those of the real Salt (`testdata/make_fixtures.py`).

use std::collections::BTreeMap;

use saltern_config::{LoadOptions, Master, Minion, Source};
use serde_json::Value as Json;
use value::python::repr;
use value::{Map, Value};

/// The options that depend on the user who runs the test, the directory of the main file, which Salt's programs add
/// themselves, and those that differ on purpose.
const OURS: [&str; 5] = ["config_dir", "__cli", "ssh_config_file", "user", "master_job_cache"];

/// The options that Salt does not have.
const ADDED: [&str; 2] =
    [include_str!("../src/options/ours-minion.txt"), include_str!("../src/options/ours-master.txt")];

fn is_ours(option: &str) -> bool {
    let mut added = ADDED.iter().flat_map(|table| table.lines()).filter(|line| !line.starts_with('#'));
    OURS.contains(&option) || added.any(|line| line.split_whitespace().next() == Some(option))
}

#[test]
fn options_are_those_of_salt() {
    let mut bases: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut different = Vec::new();
    let mut rows = 0;
    for line in include_str!("../testdata/effective.jsonl").lines() {
        let row: Json = serde_json::from_str(line).expect("a row of JSON");
        let (role, options) = (row["role"].as_str().unwrap(), row["options"].as_str().unwrap());
        let theirs = expected(&row, bases.get(role));
        bases.entry(role.to_owned()).or_insert_with(|| theirs.clone());
        let ours = ours(role, options);
        for key in theirs.keys().chain(ours.keys()).collect::<std::collections::BTreeSet<_>>() {
            if theirs.get(key) != ours.get(key) && !is_ours(key) {
                different.push(format!(
                    "{role} {options} {key}\n  salt {:?}\n  ours {:?}",
                    theirs.get(key),
                    ours.get(key)
                ));
            }
        }
        rows += 1;
    }
    // An empty fixture would pass without comparing anything.
    assert!(rows > 60, "the fixture is nearly empty");
    assert!(
        different.is_empty(),
        "{} differences:\n{}",
        different.len(),
        different[..different.len().min(40)].join("\n")
    );
}

#[test]
fn files_become_the_options_of_salt() {
    let mut different = Vec::new();
    let mut rows = 0;
    for line in include_str!("../testdata/files.jsonl").lines() {
        let row: Json = serde_json::from_str(line).expect("a row of JSON");
        let role = row["role"].as_str().unwrap();
        let base = ours(role, "{}");
        let theirs = row["result"].as_object().unwrap();
        let found = from_files(role, row["files"].as_object().unwrap());
        for (key, value) in &found {
            let expected = theirs.get(key).and_then(Json::as_str).or(base.get(key).map(String::as_str));
            let machine = key == "id" && theirs.get("id").is_some_and(|id| id == "''");
            if expected != Some(value) && !machine {
                different.push(format!("{} {key}\n  salt {expected:?}\n  ours {value:?}", row["files"]));
            }
        }
        different.extend(theirs.keys().filter(|key| !found.contains_key(*key)).map(|key| format!("{line}: no {key}")));
        rows += 1;
    }
    assert!(rows > 10, "the fixture is nearly empty");
    assert!(different.is_empty(), "{}", different.join("\n"));
}

fn from_files(role: &str, files: &serde_json::Map<String, Json>) -> BTreeMap<String, String> {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().display().to_string();
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text.as_str().unwrap().replace("@DIR@", &root)).unwrap();
    }
    let load = LoadOptions::default();
    let raw = match role {
        "master" => Master::load(&Source { path: dir.path().join("master") }, &load).unwrap().raw,
        _ => Minion::load(&Source { path: dir.path().join("minion") }, &load).unwrap().raw,
    };
    // The default of `user` is the user who runs the test; only a value from a file is comparable.
    let kept = files[role].as_str().unwrap().contains("user");
    let shown = raw.iter().filter(|(key, _)| !is_ours(&key.to_string()) || kept && key.as_str() == Some("user"));
    shown.map(|(key, value): (&Value, &Value)| (key.to_string(), repr(value).replace(&root, "@DIR@"))).collect()
}

fn expected(row: &Json, base: Option<&BTreeMap<String, String>>) -> BTreeMap<String, String> {
    let mut all = base.cloned().unwrap_or_default();
    for (key, value) in row["result"].as_object().expect("a map") {
        all.insert(key.clone(), value.as_str().expect("text").to_owned());
    }
    all
}

fn ours(role: &str, options: &str) -> BTreeMap<String, String> {
    // Python's form of a map of plain values is YAML too, but for three words.
    let text = options.replace("True", "true").replace("False", "false").replace("None", "null");
    let mut options: Map = yaml::load(&text, "options").unwrap().into_map().unwrap();
    options.insert("id", "m");
    let raw = match role {
        "master" => Master::from_options(options).unwrap_or_else(|error| panic!("{text}: {error}")).raw,
        _ => Minion::from_options(options).unwrap_or_else(|error| panic!("{text}: {error}")).raw,
    };
    let shown = raw.iter().filter(|(key, _)| !is_ours(&key.to_string()));
    shown.map(|(key, value): (&Value, &Value)| (key.to_string(), repr(value))).collect()
}
