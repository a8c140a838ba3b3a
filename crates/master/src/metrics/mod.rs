//! The master's metrics, counted where the events happen. The module `exporter` exports them.

pub mod figures;
mod functions;
pub mod set;
pub mod text;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use figures::{Counter, Named, Times};
use functions::FunctionLabels;

/// The metrics.
#[derive(Debug)]
pub struct Metrics {
    /// When the master started.
    pub started: Instant,
    /// The labels of functions.
    pub functions: FunctionLabels,
    /// Sign-ins by result; `dropped` ones were never handled.
    pub sign_ins: Named,
    /// The time from the arrival of a sign-in to its answer.
    pub sign_in_times: Times,
    /// The time of requests, by command.
    pub requests: BTreeMap<&'static str, Times>,
    /// Requests with an unknown command, and requests that fail the checks.
    pub refused: Counter,
    /// Jobs by function.
    pub published: Named,
    /// Returns by function.
    pub completed: Named,
    /// Publications that were dropped by a full queue at first.
    pub slow: Counter,
    /// The time to store a return.
    pub store_times: Times,
    /// Returns that could not be written to disk.
    pub not_stored: Counter,
    /// How many other masters of the set differ from this one, by what differs. Only with a set.
    pub drift: Drifted,
    /// Which entries of the schedule this master runs for the set. Only with a set.
    pub leases: HeldLeases,
    /// What else a set says of itself.
    pub set: set::SetSource,
}

/// Whether each lease is held.
#[derive(Debug, Default)]
pub struct HeldLeases(Mutex<BTreeMap<String, bool>>);

impl HeldLeases {
    /// Takes note of whether a lease is held.
    pub fn set(&self, lease: &str, is_held: bool) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get_mut(lease) {
            Some(held) => *held = is_held,
            None => drop(all.insert(lease.to_owned(), is_held)),
        }
    }

    /// Returns all.
    pub fn all(&self) -> BTreeMap<String, bool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// How many masters differ in something.
#[derive(Debug, Default)]
pub struct Drifted(Mutex<BTreeMap<&'static str, usize>>);

impl Drifted {
    /// Takes note of how many masters differ in this.
    pub fn set(&self, kind: &'static str, masters: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(kind, masters);
    }

    /// Returns all.
    pub fn all(&self) -> BTreeMap<&'static str, usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Metrics {
    /// Creates metrics for these commands and functions.
    pub fn new(commands: impl Iterator<Item = &'static str>, catalogue: exec::Catalogue) -> Self {
        Metrics {
            started: Instant::now(),
            functions: FunctionLabels::of(catalogue),
            sign_ins: Named::default(),
            sign_in_times: Times::default(),
            requests: commands.map(|command| (command, Times::default())).collect(),
            refused: Counter::default(),
            published: Named::default(),
            completed: Named::default(),
            slow: Counter::default(),
            store_times: Times::default(),
            not_stored: Counter::default(),
            drift: Drifted::default(),
            leases: HeldLeases::default(),
            set: set::SetSource::default(),
        }
    }

    /// Notes a handled request.
    pub fn request(&self, command: &str, took: Duration) {
        // Only known commands have a metric: a peer can send any text.
        match self.requests.get(command) {
            Some(times) => times.note(took),
            None => self.refused.count(),
        }
    }
}
