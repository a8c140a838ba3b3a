//! `ps` — processes that run, or do not.

use std::collections::BTreeSet;

use value::{Map, Value, map};

use crate::config::{flat, list};
use crate::{Found, Kind, looking};

pub const KIND: Kind =
    Kind { name: "ps", validate: |config, _| validate(config), watch: |config| looking(config, look) };

fn validate(config: &Value) -> Result<(), String> {
    match list(config, "ps")?.get("processes") {
        None => Err("Configuration for ps beacon requires processes.".to_owned()),
        Some(Value::Map(_)) => Ok(()),
        Some(_) => Err("Processes for ps beacon must be a dictionary.".to_owned()),
    }
}

fn look(config: &Value, (): &mut ()) -> Found {
    Ok(judge(&flat(config), &names()?))
}

/// Returns the names of all processes. The kernel knows 15 characters of a name; the command line has the rest.
fn names() -> Result<BTreeSet<String>, String> {
    let entries = std::fs::read_dir("/proc").map_err(|error| format!("/proc: {error}"))?;
    let mut names = BTreeSet::new();
    for entry in entries.flatten() {
        let path = entry.path();
        if !entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        // A process may end in the meantime.
        let Ok(name) = std::fs::read_to_string(path.join("comm")) else { continue };
        let name = name.trim_end_matches('\n').to_owned();
        let command = std::fs::read(path.join("cmdline")).unwrap_or_default();
        // The first argument may contain the path, which does not belong to the name.
        let first = String::from_utf8_lossy(command.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
        // A program may give itself any name, so the longer one must begin with the kernel's.
        let long = first.rsplit('/').next().filter(|long| name.len() >= 15 && long.starts_with(&name));
        names.insert(long.map_or(name.clone(), str::to_owned));
    }
    Ok(names)
}

fn judge(config: &Map, names: &BTreeSet<String>) -> Vec<Map> {
    let Some(processes) = config.get("processes").and_then(Value::as_map) else { return Vec::new() };
    let tell = |(name, wanted): (&Value, &Value)| {
        let name = name.to_string();
        let runs = names.contains(&name);
        let told: Value = match (wanted.as_str(), runs) {
            (Some("running"), true) => "Running".into(),
            (Some("stopped"), false) => "Stopped".into(),
            // Any other word than these two reports only that the process is missing.
            (Some("running" | "stopped"), _) | (_, true) => return None,
            (_, false) => false.into(),
        };
        Some(map! { name => told })
    };
    processes.iter().filter_map(tell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_reported_as_configured() {
        let config = map! { "processes" => map! { "a" => "running", "b" => "running", "c" => "stopped", "d" => "x", "e" => "stopped" } };
        let names = ["a", "e"].map(str::to_owned).into();
        assert_eq!(
            judge(&config, &names),
            [map! { "a" => "Running" }, map! { "c" => "Stopped" }, map! { "d" => false }]
        );
        assert!(!super::names().unwrap().is_empty());
    }
}
