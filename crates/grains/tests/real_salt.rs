//! Compares all grains of this machine, key by key, with those the real minion finds here.
//!
//! `SALTERN_REAL_SALT` names the virtual environment of a real Salt (the directory above `bin`). Without it there is
//! nothing to compare with, and the test says so.

use std::path::Path;
use std::process::Command;

use serde_json::Value as Json;
use value::{Value, map};

/// Grains of which only the presence is compared, since they describe the process and not the machine.
const PROCESS: [&str; 9] = [
    "ca_truststore",
    // Depends on the environment that each program was started with.
    "locale_info",
    "pid",
    "pythonexecutable",
    "pythonpath",
    "pythonversion",
    "saltpath",
    "saltversion",
    "saltversioninfo",
];

/// Grains only the real minion has: there is no libzmq here.
const THEIRS: [&str; 1] = ["zmqversion"];

/// Grains that not all lines of Salt have, and one of our own.
const OURS: [&str; 6] =
    ["ca_truststore", "fibre_channel_host", "package", "salternversion", "zfs_feature_flags", "zfs_support"];

#[test]
fn the_real_minion_finds_the_same() {
    let Ok(salt) = std::env::var("SALTERN_REAL_SALT") else {
        eprintln!("skipped: SALTERN_REAL_SALT names no real Salt to compare with");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let theirs = real_grains(Path::new(&salt), folder.path());
    let ours = our_grains(folder.path());
    let differences = differences(&theirs, &ours);
    assert!(differences.is_empty(), "grains differ:\n{}", differences.join("\n"));
}

fn real_grains(salt: &Path, folder: &Path) -> serde_json::Map<String, Json> {
    std::fs::write(folder.join("minion"), format!("root_dir: {}\nid: compared\n", folder.display())).unwrap();
    let output = Command::new(salt.join("bin/salt-call"))
        .args(["--local", "grains.items", "--out=json", "-c"])
        .arg(folder)
        .output()
        .unwrap();
    let said: Json = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    said["local"].as_object().unwrap().clone()
}

fn our_grains(folder: &Path) -> serde_json::Map<String, Json> {
    let conf = folder.join("minion");
    let opts = map! { "id" => "compared", "master" => "salt", "conf_file" => conf.to_str().unwrap() };
    let grains = serde_json::to_value(Value::Map(saltern_grains::collect(&opts))).unwrap();
    grains.as_object().unwrap().clone()
}

fn differences(theirs: &serde_json::Map<String, Json>, ours: &serde_json::Map<String, Json>) -> Vec<String> {
    let mut found = Vec::new();
    for (key, value) in theirs {
        match ours.get(key) {
            None if THEIRS.contains(&key.as_str()) => {}
            None => found.push(format!("{key}: missing here, there {value}")),
            Some(_) if PROCESS.contains(&key.as_str()) => {}
            Some(own) if sorted(own) == sorted(value) => {}
            Some(own) => found.push(format!("{key}: here {own}, there {value}")),
        }
    }
    let more = ours.keys().filter(|key| !theirs.contains_key(*key) && !OURS.contains(&key.as_str()));
    found.extend(more.map(|key| format!("{key}: only here, {}", ours[key])));
    found
}

/// The real minion keeps some of these lists in no order.
fn sorted(value: &Json) -> Json {
    match value {
        Json::Array(items) => {
            let mut items = items.clone();
            items.sort_by_key(ToString::to_string);
            Json::Array(items)
        }
        other => other.clone(),
    }
}
