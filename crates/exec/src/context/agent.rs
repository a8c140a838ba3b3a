//! The interface between functions and the program that runs them.

use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use value::{Map, Value};

use super::Context;
use crate::registry::Registry;
use crate::{Call, Result};

/// The program a function runs in: the minion, `salt-call`, or a test.
///
/// Everything that reaches beyond this machine's own files goes through here, so that functions work alike with
/// one master, several, or none.
pub trait Agent: Send + Sync {
    /// All functions that exist here.
    fn registry(&self) -> &Registry<Context>;

    /// All state functions that exist here.
    fn states(&self) -> &Registry<Context>;

    /// Sends an encrypted request (`cmd` and its fields) to the master of the job and returns its answer. `id`,
    /// nonce, time and token are added on the way. Embedded bytes that are text have become text.
    fn request<'a>(&'a self, load: Map, timeout: Option<Duration>) -> BoxFuture<'a, Result<Value>>;

    /// Like [`Agent::request`], but bytes stay bytes in the answer's values (file chunks).
    fn request_raw<'a>(&'a self, load: Map) -> BoxFuture<'a, Result<Value>>;

    /// Sends a request to every connected master (events, mine) without waiting for a dead one. Returns whether some
    /// master got it.
    fn broadcast<'a>(&'a self, load: Map) -> BoxFuture<'a, Result<bool>>;

    /// Fires an event on the minion's own bus.
    fn fire_local<'a>(&'a self, tag: &'a str, data: Map) -> BoxFuture<'a, Result<bool>>;

    /// Fires an event on the bus of the minion that runs on this machine, and waits for the first event under the tag
    /// of the answer. `None` when there is no such minion, or no answer in time.
    fn ask_minion<'a>(
        &'a self,
        tag: &'a str,
        data: Map,
        answer: &'a str,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Option<Map>>> {
        // Agents without a minion beside them need not implement this.
        let _ = (tag, data, answer, patience);
        Box::pin(async { Ok(None) })
    }

    /// Returns the jobs that run now, the asking one included.
    fn running(&self) -> Vec<RunningJob>;

    /// Sends a signal to the child processes of a job; for `SIGTERM` and `SIGKILL` the job itself ends too. Returns
    /// false when there is no such job.
    fn signal_job(&self, jid: &str, signal: i32) -> bool;

    /// Makes the minion reload something. Jobs of the minion wait for it; `salt-call` notifies the minion that runs on
    /// the same machine and does not wait. Returns false if there is no such minion, or if something could not be
    /// loaded.
    fn refresh<'a>(&'a self, what: Refresh) -> BoxFuture<'a, Result<bool>>;

    /// Like [`Agent::refresh`], but `salt-call` waits too. `None` if the minion does not finish in time.
    fn refresh_within<'a>(&'a self, what: Refresh, patience: Duration) -> BoxFuture<'a, Result<Option<bool>>> {
        let refresh = self.refresh(what);
        Box::pin(async move { tokio::time::timeout(patience, refresh).await.ok().transpose() })
    }

    /// Returns the status of each configured master, in the configured order.
    fn masters(&self) -> Vec<MasterStatus>;

    /// Returns the names of the returners there are, in order.
    fn returners(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Compiles the pillar at the master of the job (or locally), without replacing the one in memory.
    fn compile_pillar<'a>(&'a self, request: Map) -> BoxFuture<'a, Result<Map>>;

    /// Asks a master named by its address whether it answers at all, within the time.
    fn ping_master<'a>(&'a self, master: &'a str, timeout: Duration) -> BoxFuture<'a, bool>;

    /// Ends or restarts the whole minion, after the job has returned.
    fn stop_minion(&self, restart: bool);
}

/// The kinds of data that can be reloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refresh {
    /// The grains, and then the pillar.
    Grains,
    /// The pillar of every connection.
    Pillar {
        /// True if masters compile it again even if they have it in their cache (option `pillar_cache`).
        clean: bool,
    },
    /// Modules, as far as there is something to reload.
    Modules,
    /// The beacons' settings.
    Beacons,
    /// The matchers.
    Matchers,
}

/// A job that runs on this minion.
#[derive(Clone, Debug)]
pub struct RunningJob {
    /// The publication's fields, as `saltutil.running` shows them, `pid` first.
    pub load: Map,
    /// When it began.
    pub since: SystemTime,
}

impl RunningJob {
    /// Returns the job's id.
    pub fn jid(&self) -> &str {
        self.load.get_str("jid").unwrap_or_default()
    }
}

/// The state of a connection to a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MasterState {
    /// Its name is being looked up.
    Resolving,
    /// A connection is being made.
    Connecting,
    /// Waiting for the master to accept the minion's key.
    Pending,
    /// Connected and signed in.
    Live,
    /// Lost; the next try is waited for.
    Backoff,
    /// Not followed now.
    Idle,
    /// Refused until an administrator changes something.
    Refused,
}

impl MasterState {
    /// All states.
    pub const ALL: [MasterState; 7] = [
        MasterState::Resolving,
        MasterState::Connecting,
        MasterState::Pending,
        MasterState::Live,
        MasterState::Backoff,
        MasterState::Idle,
        MasterState::Refused,
    ];

    /// Returns the name that operators see.
    pub fn word(self) -> &'static str {
        match self {
            MasterState::Resolving => "resolving",
            MasterState::Connecting => "connecting",
            MasterState::Pending => "pending",
            MasterState::Live => "live",
            MasterState::Backoff => "backoff",
            MasterState::Idle => "idle",
            MasterState::Refused => "refused",
        }
    }
}

/// The role of a master for its minion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MasterRole {
    /// One of several followed at the same time.
    Hot,
    /// The one that is followed, of several of which only one is.
    Active,
    /// Followed when the active one is lost.
    Standby,
    /// Like a standby, but the minion returns to it as soon as it is healthy.
    Preferred,
}

impl MasterRole {
    /// All roles.
    pub const ALL: [MasterRole; 4] = [MasterRole::Hot, MasterRole::Active, MasterRole::Standby, MasterRole::Preferred];

    /// Returns the name that operators see.
    pub fn word(self) -> &'static str {
        match self {
            MasterRole::Hot => "hot",
            MasterRole::Active => "active",
            MasterRole::Standby => "standby",
            MasterRole::Preferred => "preferred",
        }
    }
}

/// The status of one master, as its minion sees it.
#[derive(Clone, Debug)]
pub struct MasterStatus {
    /// The address as configured, host and port.
    pub address: String,
    /// The id of the master, if it sent one.
    pub id: Option<String>,
    /// Its role for this minion.
    pub role: MasterRole,
    /// The host alone, as Salt's option `master` of that connection.
    pub host: String,
    /// The resolved address, when known.
    pub ip: Option<std::net::IpAddr>,
    /// The state of the connection.
    pub state: MasterState,
    /// The time of the last change of `state`.
    pub since: SystemTime,
    /// When something was last received from it.
    pub last_heard: Option<SystemTime>,
    /// The time it recently took to answer.
    pub round_trip: Option<Duration>,
    /// The fingerprint of the key it proved to have.
    pub fingerprint: Option<String>,
    /// The number of jobs it has sent since the minion started.
    pub jobs: u64,
    /// The number of returns that wait to be delivered to it.
    pub returns_waiting: usize,
    /// True if this is the master of the asking job.
    pub asking: bool,
}

/// A call by name.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// The function, `module.function`.
    pub fun: String,
    /// Its arguments.
    pub call: Call,
}

impl Scope {
    /// Returns a call without arguments.
    pub fn of(fun: &str) -> Self {
        Scope { fun: fun.to_owned(), call: Call::default() }
    }
}

impl From<(&str, Vec<Value>)> for Scope {
    fn from((fun, args): (&str, Vec<Value>)) -> Self {
        Scope { fun: fun.to_owned(), call: Call { args, kwargs: Map::new() } }
    }
}
