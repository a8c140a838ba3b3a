//! The foundation of the simulation: daemons start tasks through `rt`, and use no other source of time, randomness or
//! order.

use std::fs;
use std::path::{Path, PathBuf};

/// The crates that run on simulated hosts.
const SIMULATED: [&str; 5] = ["channel", "event", "master", "minion", "transport"];

/// Files that are never simulated: `salt-call`, and the check of the process at the other end of a Unix socket.
const APART: [&str; 2] = ["minion/src/call.rs", "event/src/peer.rs"];

fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// Returns what is wrong with a line, given the next line that is not a comment.
fn wrong(line: &str, next: &str) -> Option<&'static str> {
    if ["tokio::spawn(", "spawn_blocking(", "std::thread::spawn("].iter().any(|call| line.contains(call)) {
        return Some("starts a task past rt");
    }
    // Without `biased` tokio polls the branches in an order from its own random number generator, which no seed
    // controls.
    if line.contains("select! {") && !next.contains("biased;") {
        return Some("leaves the order to chance");
    }
    ["SystemTime::now()", "rand::rng()"].iter().any(|call| line.contains(call)).then_some("asks the machine")
}

#[test]
fn daemons_reach_the_outside_through_rt_alone() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut found = Vec::new();
    for path in SIMULATED.iter().flat_map(|name| sources(&crates.join(name).join("src"))) {
        if APART.iter().any(|apart| path.ends_with(apart)) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().take_while(|line| !line.contains("#[cfg(test)]")).collect();
        for (number, line) in lines.iter().enumerate() {
            let next = lines[number + 1..].iter().find(|line| !line.trim_start().starts_with("//"));
            if let Some(what) = wrong(line, next.unwrap_or(&"")) {
                found.push(format!("{}:{}: {what}", path.display(), number + 1));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
