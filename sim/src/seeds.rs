//! Runs many storms on all processors, beginning with those that once failed.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Outcome;

/// Seeds of [`storm`](crate::storm) that once revealed a mistake, each with a short description. They run before all others.
pub const KEPT: &str = include_str!("../seeds.txt");

/// The same for [`sharing_storm`](crate::sharing_storm).
pub const KEPT_SHARING: &str = include_str!("../sharing-seeds.txt");

/// The results of many storms.
#[derive(Debug, Default)]
pub struct Tally {
    /// Storms that were run.
    pub storms: u64,
    /// Jobs that masters accepted.
    pub jobs: usize,
    /// Commands that minions began.
    pub begun: usize,
    /// Returns that could be read in the end.
    pub returned: usize,
    /// Commands that no minion ever began.
    pub missed: usize,
    /// The storms in which something was wrong, by seed.
    pub failed: BTreeMap<u64, Outcome>,
}

/// Returns the seeds of a file of kept ones.
///
/// # Panics
/// If the file contains anything else.
pub fn kept(file: &str) -> Vec<u64> {
    let lines = file.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number")).collect()
}

/// Runs storms with these seeds on all processors, in any order.
///
/// # Panics
/// If a storm panics.
pub fn run(seeds: &[u64], storm: fn(u64) -> Outcome) -> Tally {
    let (next, tally) = (AtomicU64::new(0), Mutex::new(Tally::default()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    // The lock is taken after the storm, so that other storms run at the same time.
                    let outcome = storm(*seed);
                    tally.lock().expect("adding does not panic").add(outcome);
                }
            });
        }
    });
    tally.into_inner().expect("adding does not panic")
}

/// Runs the storm of a seed twice. Returns where the traces differ first, with both lines.
///
/// # Panics
/// If a storm panics.
pub fn difference(seed: u64, storm: fn(u64) -> Outcome) -> Option<String> {
    let (one, other) = (storm(seed).trace, storm(seed).trace);
    let place = (0..one.len().max(other.len())).find(|place| one.get(*place) != other.get(*place))?;
    let line = |trace: &[String]| trace.get(place).map_or("the end", String::as_str).to_owned();
    Some(format!("seed {seed}, line {}:\n  {}\n  {}", place + 1, line(&one), line(&other)))
}

impl Tally {
    fn add(&mut self, outcome: Outcome) {
        self.storms += 1;
        self.jobs += outcome.jobs;
        self.begun += outcome.begun;
        self.returned += outcome.returned;
        self.missed += outcome.missed;
        if !outcome.wrongs.is_empty() {
            self.failed.insert(outcome.seed, outcome);
        }
    }

    /// Returns the violations of all failed storms, and the trace of the first.
    pub fn report(&self) -> String {
        let mut text = String::new();
        for (seed, outcome) in &self.failed {
            text += &format!("seed {seed}:\n  {}\n", outcome.wrongs.join("\n  "));
        }
        if let Some((seed, outcome)) = self.failed.first_key_value() {
            text += &format!("the trace of seed {seed}:\n{}\n", outcome.trace.join("\n"));
        }
        text
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tally { storms, jobs, begun, returned, missed, failed } = self;
        write!(
            f,
            "{storms} storms, {} failed: {jobs} jobs accepted, {begun} commands begun, {returned} returns readable, \
             {missed} commands not begun",
            failed.len()
        )
    }
}
