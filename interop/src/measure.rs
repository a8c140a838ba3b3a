//! Memory of process trees, from `/proc`.

use std::collections::HashMap;
use std::fs;

use anyhow::{Context as _, Result};
use nix::unistd::Pid;

/// Lists a process and all its descendants.
pub fn tree(root: Pid) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        if let Some(parent) = parent(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = vec![root.as_raw()];
    let mut next = 0;
    while next < found.len() {
        found.extend(children.get(&found[next]).into_iter().flatten());
        next += 1;
    }
    found.into_iter().map(Pid::from_raw).collect()
}

/// Returns whether a process runs. A zombie, which has ended but was not yet waited for, does not.
pub fn runs(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The command name before the last bracket may hold spaces and brackets.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Proportional set size of a process tree in bytes: memory shared by several processes is counted once.
pub fn pss(root: Pid) -> Result<u64> {
    sum(root, "smaps_rollup", "Pss:")
}

/// Returns the memory of a process and its child processes in bytes that is no page of a file, such as the program.
pub fn anonymous(root: Pid) -> Result<u64> {
    sum(root, "smaps_rollup", "Pss_Anon:")
}

/// Resident set size of a process tree in bytes; shared memory is counted in each process.
pub fn rss(root: Pid) -> Result<u64> {
    sum(root, "status", "VmRSS:")
}

fn sum(root: Pid, file: &str, field: &str) -> Result<u64> {
    // A descendant may end during the measurement. Only the first process must exist.
    let first = kibibytes(root, file, field).with_context(|| format!("failed to read {field} of process {root}"))?;
    let rest: u64 = tree(root).into_iter().skip(1).filter_map(|pid| kibibytes(pid, file, field)).sum();
    Ok((first + rest) * 1024)
}

fn kibibytes(pid: Pid, file: &str, field: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
    let line = text.lines().find(|line| line.starts_with(field))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command name before the last bracket may hold spaces and brackets.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
