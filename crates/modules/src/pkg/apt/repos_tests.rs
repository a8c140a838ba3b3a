//! Replays what the real module did to the same trees (`testdata/record_apt_repos.py`).

use std::path::Path;

use value::{Map, Value};

use super::*;

fn plant(root: &Path, tree: &Map) {
    std::fs::create_dir_all(root.join("etc/apt/sources.list.d")).unwrap();
    for (name, text) in tree {
        std::fs::write(root.join("etc/apt").join(name.to_string()), text.to_string()).unwrap();
    }
}

fn harvest(root: &Path) -> Map {
    let mut files = Vec::new();
    let main = root.join("etc/apt/sources.list");
    files.extend(main.is_file().then_some(main));
    files.extend(std::fs::read_dir(root.join("etc/apt/sources.list.d")).unwrap().map(|entry| entry.unwrap().path()));
    files.sort();
    let name = |path: &Path| format!("/{}", path.strip_prefix(root).unwrap().display());
    files.iter().map(|path| (name(path), std::fs::read_to_string(path).unwrap())).collect()
}

/// Runs the case; returns the result and, after a change, the files.
fn act(root: &Path, case: &Map) -> std::result::Result<(Value, Option<Map>), String> {
    let definition = case.get_str("definition").unwrap();
    let settings = case.get("settings").and_then(Value::as_map).unwrap();
    let sources = SourcesList::read(root);
    Ok(match case.get_str("operation").unwrap() {
        "list" => (listed(&sources).into(), None),
        "get" => (found(&sources, definition)?.into(), None),
        "expand" => {
            let facts = Facts { os: "Debian", codename: "bookworm" };
            (definition::expanded(&facts, definition, settings)?.into(), None)
        }
        "mod" => {
            let entry = definition::split(definition)?;
            if entry.invalid {
                return Err(format!(
                    "Name {definition} is not valid. This must be the complete repo entry as seen in the sources file"
                ));
            }
            let mut settings = settings.clone();
            settings.insert("signedby", entry.signedby.as_str());
            changed(root, definition, &entry, &settings, false).map_err(|error| error.to_string())?;
            (found(&SourcesList::read(root), definition)?.into(), Some(harvest(root)))
        }
        _ => {
            let text = removed(root, definition, false).map_err(|error| error.to_string())?;
            (text.into(), Some(harvest(root)))
        }
    })
}

#[test]
fn sources_are_read_and_changed_as_salt_does_it() {
    let text = include_str!("../../../testdata/apt_repos.json");
    let recorded: Value = serde_json::from_str(text).unwrap();
    let mut wrong = Vec::new();
    let cases = recorded.get("cases").and_then(Value::as_list).unwrap();
    for case in cases.iter().filter_map(Value::as_map) {
        let root = tempfile::tempdir().unwrap();
        plant(
            root.path(),
            recorded.get("trees").unwrap().get(case.get_str("tree").unwrap()).unwrap().as_map().unwrap(),
        );
        let ours = act(root.path(), case);
        let same = match (&ours, case.get("error")) {
            (Err(reason), Some(salt)) => salt.to_string() == *reason,
            (Ok((result, files)), None) => {
                case.get("result") == Some(result) && case.get("files").and_then(Value::as_map) == files.as_ref()
            }
            _ => false,
        };
        if !same {
            let asked = |name: &str| case.get(name).cloned().unwrap_or_default();
            wrong.push(format!(
                "{} {} {} {}\n  ours {ours:?}\n  Salt {:?} {:?} {:?}",
                asked("operation"),
                asked("tree"),
                asked("definition"),
                asked("settings"),
                asked("result"),
                asked("files"),
                asked("error"),
            ));
        }
    }
    let count = wrong.len();
    // Enough to see the problem without flooding the terminal.
    wrong.truncate(15);
    assert!(count == 0, "{count} of {} differ:\n{}", cases.len(), wrong.join("\n"));
}
