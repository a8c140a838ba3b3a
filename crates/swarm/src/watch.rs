//! The resources that the processes of a master use, from `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use nix::unistd::{SysconfVar, sysconf};

/// Proportional memory is measured with every fifth sample only, because the kernel walks the page tables of the
/// watched process for it.
const PSS_EVERY: u64 = 5;

/// A sample of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ProcessSample {
    /// Ticks of processor time, without children.
    ticks: u64,
    threads: u64,
    rss: u64,
    files: u64,
    parent: i32,
}

/// Processes with their children, sampled repeatedly.
#[derive(Debug)]
pub struct Watch {
    roots: Vec<i32>,
    /// Ticks of each process in the first and the latest sample. Ended processes stay.
    ticks: BTreeMap<i32, (u64, u64)>,
    looks: u64,
    peaks: Peaks,
    latest: Sample,
}

/// The resources of all processes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub(crate) struct Sample {
    /// Processor time since the first sample, in seconds.
    pub(crate) cpu_seconds: f64,
    pub(crate) processes: u64,
    pub(crate) rss_bytes: u64,
    pub(crate) files: u64,
    pub(crate) threads: u64,
}

/// The peak of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub(crate) struct Peaks {
    /// The number of processes.
    pub(crate) processes: u64,
    /// Resident memory of all processes; a shared page counts once per process.
    pub(crate) rss_bytes: u64,
    /// Proportional memory of all processes; 0 if this process may not read it.
    pub(crate) pss_bytes: u64,
    /// Open files including sockets; 0 if this process may not read them.
    pub(crate) files: u64,
    /// The number of threads.
    pub(crate) threads: u64,
}

impl Watch {
    /// Returns a watch over these processes and their descendants, without a sample.
    pub fn new(roots: Vec<i32>) -> Self {
        Watch { roots, ticks: BTreeMap::new(), looks: 0, peaks: Peaks::default(), latest: Sample::default() }
    }

    /// Takes a sample now. Reads `/proc` with blocking calls, so it must not run in an async task.
    pub fn look(&mut self) {
        let looks = looks();
        let family = family(&self.roots, &looks);
        for (pid, look) in &family {
            // All that a process has used counts if it appeared after the first sample.
            let before = if self.looks == 0 { look.ticks } else { 0 };
            self.ticks.entry(*pid).or_insert((before, 0)).1 = look.ticks;
        }
        let sum = |of: fn(&ProcessSample) -> u64| family.iter().map(|(_, look)| of(look)).sum::<u64>();
        let ticks: u64 = self.ticks.values().map(|(first, last)| last.saturating_sub(*first)).sum();
        self.latest = Sample {
            cpu_seconds: ticks as f64 / ticks_per_second(),
            processes: family.len() as u64,
            rss_bytes: sum(|look| look.rss),
            files: sum(|look| look.files),
            threads: sum(|look| look.threads),
        };
        if self.looks.is_multiple_of(PSS_EVERY) {
            let pss: u64 = family.iter().filter_map(|(pid, _)| kibibytes(*pid, "smaps_rollup", "Pss:")).sum();
            self.peaks.pss_bytes = self.peaks.pss_bytes.max(pss * 1024);
        }
        self.peaks.processes = self.peaks.processes.max(self.latest.processes);
        self.peaks.rss_bytes = self.peaks.rss_bytes.max(self.latest.rss_bytes);
        self.peaks.files = self.peaks.files.max(self.latest.files);
        self.peaks.threads = self.peaks.threads.max(self.latest.threads);
        self.looks += 1;
    }

    pub(crate) fn latest(&self) -> Sample {
        self.latest
    }

    pub(crate) fn peaks(&self) -> Peaks {
        self.peaks
    }
}

fn ticks_per_second() -> f64 {
    sysconf(SysconfVar::CLK_TCK).ok().flatten().map_or(100.0, |ticks| ticks as f64)
}

/// Returns all processes of the machine, without memory and files: these are read for watched processes only.
fn looks() -> BTreeMap<i32, ProcessSample> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))).collect()
}

/// Parses a line of `/proc/*/stat`.
fn stat(line: &str) -> Option<ProcessSample> {
    // The command name before the last parenthesis may itself contain spaces and parentheses.
    let fields: Vec<&str> = line.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |place: usize| fields.get(place)?.parse::<u64>().ok();
    Some(ProcessSample {
        parent: fields.get(1)?.parse().ok()?,
        ticks: number(11)? + number(12)?,
        // The third field of the line is the first after the name, so these are `utime` (14), `stime` (15) and
        // `num_threads` (20) of proc(5).
        threads: number(17)?,
        ..ProcessSample::default()
    })
}

/// Returns the running roots and all their descendants, with memory and files.
fn family(roots: &[i32], looks: &BTreeMap<i32, ProcessSample>) -> Vec<(i32, ProcessSample)> {
    let mut found: Vec<i32> = roots.iter().copied().filter(|root| looks.contains_key(root)).collect();
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        let children = looks.iter().filter(|(_, look)| look.parent == parent).map(|(pid, _)| *pid);
        // A root may be the child of another root, and must not count twice.
        let children: Vec<i32> = children.filter(|child| !found.contains(child)).collect();
        found.extend(children);
        next += 1;
    }
    found.into_iter().map(|pid| (pid, filled(pid, looks[&pid]))).collect()
}

fn filled(pid: i32, look: ProcessSample) -> ProcessSample {
    ProcessSample { rss: kibibytes(pid, "status", "VmRSS:").unwrap_or(0) * 1024, files: open_files(pid), ..look }
}

fn kibibytes(pid: i32, file: &str, field: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
    let line = text.lines().find(|line| line.starts_with(field))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Returns the number of open files. Since Linux 6.2 the size of the directory is that number, which saves reading it.
fn open_files(pid: i32) -> u64 {
    let path = PathBuf::from(format!("/proc/{pid}/fd"));
    match fs::metadata(&path).map(|data| data.len()) {
        Ok(0) => fs::read_dir(&path).map_or(0, |entries| entries.count() as u64),
        Ok(count) => count,
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_proc_is_read_whatever_the_name_is() {
        let line = "42 (a) b (c) S 7 42 42 0 -1 4194304 1 0 0 0 250 50 0 0 20 0 9 0 100 1000 200";
        assert_eq!(stat(line), Some(ProcessSample { parent: 7, ticks: 300, threads: 9, ..ProcessSample::default() }));
        assert_eq!(stat("42 (x) S"), None);
    }

    #[test]
    fn a_process_is_watched_with_its_children() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut watch = Watch::new(vec![std::process::id() as i32]);
        watch.look();
        child.kill().unwrap();
        child.wait().unwrap();
        let (latest, peaks) = (watch.latest(), watch.peaks());
        assert!(peaks.processes >= 2 && latest.rss_bytes > 1 << 20 && peaks.pss_bytes > 0 && latest.files > 3);
        assert_eq!(latest.cpu_seconds, 0.0, "nothing was used since the first look");
        let mut gone = Watch::new(vec![child.id() as i32]);
        gone.look();
        assert_eq!(gone.latest(), Sample::default());
    }
}
