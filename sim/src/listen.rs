//! Listening to what the programs say: their own log, with the time and the host, is the trace of a storm, and tells which
//! jobs were begun.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rt::sim::{Sim, current_host};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// What a minion says when it begins a job.
const BEGUN: &str = "Starting a new job ";

/// What a minion says when it has done a job.
const DONE: &str = "Returning information for job: ";

/// What a minion says when it starts.
const STARTING: &str = "The Salt Minion is starting up";

/// What a minion says when it begins a scheduled job.
const SCHEDULED: &str = "Running scheduled job: ";

/// What a master says when it tells of a return.
const TOLD: &str = "Got return from ";

/// Hears what the programs of a simulation say.
pub struct Ear {
    sim: Sim,
    /// Where the directories are, which no seed decides.
    root: String,
    /// When a minion began a job, by job and minion.
    begun: Mutex<Times>,
    /// When a minion had done a job.
    done: Mutex<Times>,
    /// The scheduled jobs of each minion that were begun: their ids, and when.
    scheduled: Mutex<BTreeMap<String, Vec<(String, Duration)>>>,
    /// When each minion started.
    started: Mutex<BTreeMap<String, Vec<Duration>>>,
    /// Which masters told of a return as new, and when, by job and minion.
    told: Mutex<BTreeMap<(String, String), Told>>,
}

/// Who told of something, and when.
pub type Told = Vec<(String, Duration)>;

type Times = BTreeMap<(String, String), Vec<Duration>>;

struct Listener(Arc<Ear>);

#[derive(Default)]
struct Said {
    message: String,
    fields: String,
}

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

impl Ear {
    pub(crate) fn new(sim: Sim, root: &Path) -> Arc<Self> {
        let root = root.display().to_string();
        Arc::new(Ear {
            sim,
            root,
            begun: Mutex::default(),
            done: Mutex::default(),
            scheduled: Mutex::default(),
            started: Mutex::default(),
            told: Mutex::default(),
        })
    }

    /// Listens on this thread for as long as the guard lives.
    pub fn listen(self: &Arc<Self>) -> tracing::subscriber::DefaultGuard {
        let subscriber = tracing_subscriber::registry().with(Listener(self.clone()));
        tracing::subscriber::set_default(subscriber)
    }

    /// When a minion began a job: once, if all is well.
    pub fn begun(&self, jid: &str, minion: &str) -> Vec<Duration> {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.get(&(jid.to_owned(), minion.to_owned())).cloned().unwrap_or_default()
    }

    /// All jobs that were begun more than once by the same minion.
    pub fn begun_twice(&self) -> Vec<(String, String)> {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.iter().filter(|(_, times)| times.len() > 1).map(|(key, _)| key.clone()).collect()
    }

    /// When a minion had done a job, if it came so far.
    pub fn done(&self, jid: &str, minion: &str) -> Option<Duration> {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.get(&(jid.to_owned(), minion.to_owned()))?.first().copied()
    }

    /// The scheduled jobs a minion began: their ids, and when.
    pub fn scheduled(&self, minion: &str) -> Vec<(String, Duration)> {
        self.scheduled.lock().unwrap_or_else(PoisonError::into_inner).get(minion).cloned().unwrap_or_default()
    }

    /// Says whether a minion started in this time.
    pub fn started(&self, minion: &str, from: Duration, to: Duration) -> bool {
        let started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        started.get(minion).is_some_and(|times| times.iter().any(|at| (from..=to).contains(at)))
    }

    /// All returns that masters told of as new more than once, by job and minion, with the masters and the times.
    pub fn told_twice(&self) -> Vec<((String, String), Told)> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.iter().filter(|(_, times)| times.len() > 1).map(|(key, times)| (key.clone(), times.clone())).collect()
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
        // What is kept in place of another master is told in other words.
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
        *metadata.level() <= Level::INFO
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let Some(host) = current_host() else { return };
        let mut said = Said::default();
        event.record(&mut said);
        self.0.note(&host, &said.message);
        // The number of this process is the one thing in it that no seed decides.
        let message = said.message.split(" with PID ").next().unwrap_or_default();
        let line = format!("{host} {} {message}{}", event.metadata().level(), said.fields);
        match line.contains(&self.0.root) {
            true => self.0.sim.note(line.replace(&self.0.root, "")),
            false => self.0.sim.note(line),
        }
    }
}
