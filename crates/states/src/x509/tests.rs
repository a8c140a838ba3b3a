//! The states one after the other in one directory, as the real Salt was recorded with the same keys and certificates
//! (`testdata/record_x509.py`). Files the real Salt made are among those that must not change.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use exec::{Call, Context};
use value::{Map, Value, map};

use crate::Ret;

const ROOT: &str = "/@root@";

/// Steps that differ on purpose, by the name of the file and a word of the arguments.
const DIFFERENT: &[(&str, &str)] = &[];

fn located(value: &Value, from: &str, to: &str) -> Value {
    match value {
        Value::Str(text) => text.replace(from, to).into(),
        Value::List(items) => items.iter().map(|item| located(item, from, to)).collect(),
        Value::Map(map) => {
            map.iter().map(|(key, value)| (located(key, from, to), located(value, from, to))).collect::<Map>().into()
        }
        other => other.clone(),
    }
}

fn write_files(folder: &Path, files: &Map) {
    for (name, content) in files {
        let (name, path) = (name.to_string(), folder.join(name.to_string()));
        std::fs::write(&path, BASE64_STANDARD.decode(content.to_string()).unwrap()).unwrap();
        let mode = if name.ends_with(".key") { 0o400 } else { 0o644 };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    std::os::unix::fs::symlink(folder.join("behind.crt"), folder.join("link.crt")).unwrap();
}

fn context(opts: Map, test: bool) -> Context {
    let mut opts = opts;
    opts.insert("test", test);
    let names = ["x509", "pillar", "config", "match", "file"];
    let modules: Vec<_> = modules::ALL.iter().copied().filter(|module| names.contains(&module.name)).collect();
    let states = [&super::MODULE, &crate::file::MODULE];
    exec::testing::with_states(&modules, &states, opts, Map::new(), Map::new()).0
}

fn difference(step: &Map, opts: &Map, root: &str) -> Option<String> {
    let step = located(&step.clone().into(), ROOT, root).into_map()?;
    let (fun, name) = (step.get_str("fun")?, step.get_str("name")?);
    let kwargs = step.get("kwargs").and_then(Value::as_map)?.clone();
    let title = format!("x509.{fun} {name} {}", Value::from(kwargs.clone()));
    let ctx = context(opts.clone(), step.get("test")?.truthy());
    let ours = ctx.call_state(&format!("x509.{fun}"), Call { args: vec![name.into()], kwargs });
    let salt = step.get("salt").and_then(|salt| salt.get("x509")).and_then(Value::as_map).cloned().unwrap_or_default();
    let mut wrong = match ours {
        Ok(ours) => {
            let ret = Ret::from_value(ours);
            let ours = map! { "result" => Value::from(ret.result), "changes" => ret.changes, "comment" => ret.comment };
            (ours != salt).then(|| format!("ours {}\n  Salt {}", Value::from(ours), Value::from(salt)))
        }
        Err(error) => {
            let told = salt.get("comment").map(Value::to_string).unwrap_or_default();
            // The recording wraps exceptions. Only the message has to be the same.
            let same = told.starts_with("exception: ") && told.contains(&error.to_string());
            (!same).then(|| format!("ours failed: {error}\n  Salt {}", Value::from(salt)))
        }
    };
    let mode = std::fs::metadata(name).ok().map(|meta| format!("0o{:o}", meta.permissions().mode() & 0o7777));
    if wrong.is_none() && mode.as_deref() != step.get_str("mode") {
        wrong = Some(format!("ours has mode {mode:?}, Salt {:?}", step.get_str("mode")));
    }
    let known = DIFFERENT.iter().any(|(of, word)| name.ends_with(of) && title.contains(word));
    wrong.filter(|_| !known).map(|wrong| format!("{title}\n  {wrong}"))
}

#[test]
fn all_comes_to_what_salt_comes_to() {
    let recording: Value = serde_json::from_str(include_str!("../../../modules/testdata/x509.json")).unwrap();
    let steps: Value = serde_json::from_str(include_str!("../../testdata/x509.json")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap();
    write_files(folder.path(), recording.get("files").and_then(Value::as_map).unwrap());
    let mut opts = located(recording.get("opts").unwrap(), ROOT, root).into_map().unwrap();
    opts.insert("cachedir", format!("{root}/cache"));
    let steps = steps.into_list().unwrap();
    let mut wrong = BTreeMap::new();
    for (number, step) in steps.iter().enumerate() {
        if let Some(text) = difference(step.as_map().unwrap(), &opts, root) {
            wrong.insert(number, text);
        }
    }
    // An empty recording would pass without checking anything.
    assert!(steps.len() > 150, "only {} steps were recorded", steps.len());
    let texts: Vec<String> = wrong.into_values().collect();
    assert!(texts.is_empty(), "{} of {} differ\n{}", texts.len(), steps.len(), texts.join("\n"));
}
