//! Reads the log of the programs. With times and hosts it is the trace of a storm, and shows which jobs were begun.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rt::sim::{Sim, current_host};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// A minion's message when it begins a job.
const BEGUN: &str = "Starting a new job ";

/// A minion's message when it has finished a job.
const DONE: &str = "Returning information for job: ";

/// A minion's message when it starts.
const STARTING: &str = "Starting up the Salt Minion";

/// A minion's message when it begins a scheduled job.
const SCHEDULED: &str = "Running scheduled job: ";

/// A master's message when it reports a return.
const TOLD: &str = "Got return from ";

/// A part of a master's message when it tells no other member that key files are gone, until an operator has decided.
const LOST: &str = "vanished at once, which other masters are not told";

/// The parts of the master whose debug messages are heard as well: which leases it holds, and what it does once in the set.
const HELD: &str = "sharing::held";
const ONCE: &str = "sharing::once";

/// Returns whether a message is of this part, whatever the name of its crate.
fn is_of(part: &str, message: &tracing::Metadata<'_>) -> bool {
    message.target().split_once("::").is_some_and(|(_, path)| path == part)
}

/// Receives the log messages of all programs of a simulation.
pub struct Ear {
    sim: Sim,
    /// The path of the directories. It differs from run to run, so it must not appear in a trace.
    root: String,
    /// The masters are one set.
    sharing: bool,
    /// The times at which a minion began a job, by job and minion.
    begun: Mutex<Times>,
    /// The times at which a minion had finished a job.
    done: Mutex<Times>,
    /// The scheduled jobs that each minion began: ids and times.
    scheduled: Mutex<BTreeMap<String, Vec<(String, Duration)>>>,
    /// The times at which each minion started.
    started: Mutex<BTreeMap<String, Vec<Duration>>>,
    /// The masters that reported a return as new, with the times, by job and minion.
    told: Mutex<BTreeMap<(String, String), Reports>>,
    /// What masters said of leases and claims.
    leases: Mutex<Vec<Said>>,
    /// The times at which each master reported that key files are lost.
    lost: Mutex<BTreeMap<String, Vec<Duration>>>,
}

/// Something that a master said.
#[derive(Clone, Debug)]
pub struct Said {
    /// The master.
    pub host: String,
    /// When.
    pub at: Duration,
    /// The message.
    pub text: String,
}

/// Masters that reported something, with the times.
pub type Reports = Vec<(String, Duration)>;

type Times = BTreeMap<(String, String), Vec<Duration>>;

struct Listener(Arc<Ear>);

#[derive(Default)]
struct Fields {
    message: String,
    fields: String,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

impl Ear {
    pub(crate) fn new(sim: Sim, root: &Path, sharing: bool) -> Arc<Self> {
        let root = root.display().to_string();
        Arc::new(Ear {
            sim,
            root,
            sharing,
            begun: Mutex::default(),
            done: Mutex::default(),
            scheduled: Mutex::default(),
            started: Mutex::default(),
            told: Mutex::default(),
            leases: Mutex::default(),
            lost: Mutex::default(),
        })
    }

    /// Receives the messages of this thread while the guard exists.
    pub fn listen(self: &Arc<Self>) -> tracing::subscriber::DefaultGuard {
        let subscriber = tracing_subscriber::registry().with(Listener(self.clone()));
        // For this thread only: storms run in parallel, one per thread, and each has its own trace.
        tracing::subscriber::set_default(subscriber)
    }

    /// Returns the times at which a minion began a job: one, if all is well.
    pub fn begun(&self, jid: &str, minion: &str) -> Vec<Duration> {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.get(&(jid.to_owned(), minion.to_owned())).cloned().unwrap_or_default()
    }

    /// Returns all jobs that the same minion began more than once.
    pub fn begun_twice(&self) -> Vec<(String, String)> {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.iter().filter(|(_, times)| times.len() > 1).map(|(key, _)| key.clone()).collect()
    }

    /// Returns the time at which a minion had finished a job, if it did.
    pub fn done(&self, jid: &str, minion: &str) -> Option<Duration> {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.get(&(jid.to_owned(), minion.to_owned()))?.first().copied()
    }

    /// Returns the scheduled jobs that a minion began: ids and times.
    pub fn scheduled(&self, minion: &str) -> Vec<(String, Duration)> {
        self.scheduled.lock().unwrap_or_else(PoisonError::into_inner).get(minion).cloned().unwrap_or_default()
    }

    /// Returns whether a minion started during a time.
    pub fn started(&self, minion: &str, from: Duration, to: Duration) -> bool {
        let started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        started.get(minion).is_some_and(|times| times.iter().any(|at| (from..=to).contains(at)))
    }

    /// Returns all returns that masters reported as new more than once, by job and minion, with the masters and the
    /// times.
    ///
    /// Masters of a set report each return, each of them once.
    pub fn told_twice(&self) -> Vec<((String, String), Reports)> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_twice = |reports: &Reports| match self.sharing {
            true => reports.iter().map(|(master, _)| master).collect::<BTreeSet<_>>().len() < reports.len(),
            false => reports.len() > 1,
        };
        told.iter().filter(|(_, times)| is_twice(times)).map(|(key, times)| (key.clone(), times.clone())).collect()
    }

    /// Returns the times at which a master reported that key files are lost.
    pub fn lost_keys(&self, master: &str) -> Vec<Duration> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).get(master).cloned().unwrap_or_default()
    }

    /// Returns what masters said of leases and claims, in its order.
    pub fn leases(&self) -> Vec<Said> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note_lease(&self, host: &str, message: &str) {
        let said = Said { host: host.to_owned(), at: self.sim.elapsed(), text: message.to_owned() };
        self.leases.lock().unwrap_or_else(PoisonError::into_inner).push(said);
    }

    fn note(&self, host: &str, message: &str) {
        if let Some(jid) = message.strip_prefix(BEGUN).and_then(|rest| rest.split(' ').next()) {
            self.enter(&self.begun, jid, host);
        }
        if let Some(jid) = message.strip_prefix(SCHEDULED).and_then(|rest| rest.rsplit(' ').next()) {
            let mut scheduled = self.scheduled.lock().unwrap_or_else(PoisonError::into_inner);
            scheduled.entry(host.to_owned()).or_default().push((jid.to_owned(), self.sim.elapsed()));
        }
        if message == STARTING {
            let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
            started.entry(host.to_owned()).or_default().push(self.sim.elapsed());
        }
        if message.contains(LOST) {
            let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
            lost.entry(host.to_owned()).or_default().push(self.sim.elapsed());
        }
        // A return that a master stores for another one has a longer message, which does not count.
        if let Some((id, jid)) = message.strip_prefix(TOLD).and_then(|rest| rest.split_once(" for job "))
            && !jid.contains(' ')
        {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            told.entry((jid.to_owned(), id.to_owned())).or_default().push((host.to_owned(), self.sim.elapsed()));
        }
        if let Some(jid) = message.strip_prefix(DONE) {
            self.enter(&self.done, jid, host);
        }
    }

    fn enter(&self, times: &Mutex<Times>, jid: &str, minion: &str) {
        let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
        times.entry((jid.to_owned(), minion.to_owned())).or_default().push(self.sim.elapsed());
    }
}

impl<S: Subscriber> Layer<S> for Listener {
    fn enabled(&self, metadata: &tracing::Metadata<'_>, _: Context<'_, S>) -> bool {
        // All debug messages would make traces too large to keep and to compare.
        *metadata.level() <= Level::INFO || [HELD, ONCE].iter().any(|part| is_of(part, metadata))
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let Some(host) = current_host() else { return };
        let mut said = Fields::default();
        event.record(&mut said);
        if [HELD, ONCE].iter().any(|part| is_of(part, event.metadata())) {
            self.0.note_lease(&host, &said.message);
        }
        if is_of(HELD, event.metadata()) {
            // Each renewal is one.
            return;
        }
        self.0.note(&host, &said.message);
        // The process id is the only part that differs from run to run.
        let message = said.message.split(" with PID ").next().unwrap_or_default();
        let line = format!("{host} {} {message}{}", event.metadata().level(), said.fields);
        match line.contains(&self.0.root) {
            true => self.0.sim.note(without_random_names(line.replace(&self.0.root, ""))),
            false => self.0.sim.note(line),
        }
    }
}

/// Replaces the names of temporary files, which no seed controls, in the path of an error.
fn without_random_names(line: String) -> String {
    const NAMED: [&str; 2] = ["/.key-", "/.tmp"];
    const RANDOM: usize = 6;
    let mut line = line;
    for name in NAMED {
        let parts: Vec<_> = line.match_indices(name).map(|(place, _)| place + name.len()).collect();
        for place in parts {
            if line.get(place..place + RANDOM).is_some_and(|random| random.bytes().all(|b| b.is_ascii_alphanumeric())) {
                line.replace_range(place..place + RANDOM, "RANDOM");
            }
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_temporary_files_do_not_differ() {
        let line =
            |key: &str| without_random_names(format!("cannot write /pki/a: (os error 2) at path \"/pki/.key-{key}\""));
        assert_eq!(line("VVgFDV"), line("PBNYSr"));
        assert!(line("VVgFDV").ends_with("at path \"/pki/.key-RANDOM\""));
        assert_eq!(without_random_names("see /a/.tmp".into()), "see /a/.tmp");
    }
}
