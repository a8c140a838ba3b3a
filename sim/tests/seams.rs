//! Tests the assumptions of simulations, beyond the methods that `clippy.toml` disallows: the seed decides in which
//! order a `select!` polls its branches.

use std::fs;
use std::path::{Path, PathBuf};

/// The crates that run on simulated hosts.
const SIMULATED: [&str; 7] = ["channel", "event", "links", "master", "minion", "peers", "transport"];

/// Files that are never simulated: `salt-call`, and the check of the process at the other end of a Unix socket.
const APART: [&str; 2] = ["minion/src/call.rs", "event/src/peer.rs"];

fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

#[test]
fn nothing_leaves_the_order_to_chance() {
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
            if line.contains("select! {") && !next.is_some_and(|next| next.contains("biased;")) {
                found.push(format!("{}:{}", path.display(), number + 1));
            }
        }
    }
    assert!(found.is_empty(), "not `biased`:\n{}", found.join("\n"));
}

#[test]
fn simulated_crates_turn_the_lint_on() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    for name in SIMULATED {
        let text = fs::read_to_string(crates.join(name).join("src/lib.rs")).unwrap();
        assert!(text.contains("#![cfg_attr(not(test), warn(clippy::disallowed_methods))]"), "{name}");
    }
}
