//! What a swarm is to do.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::Sources;

/// Whose minions these are: what they say of themselves when they sign in, and how they keep their connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Salt's: a subscription without heartbeats, and a connection for requests that is closed when idle.
    #[default]
    Salt,
    /// Ours: heartbeats on both connections; the master may say goodbye and announce new keys.
    Saltern,
}

/// A swarm that is to be started.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the master takes requests.
    pub master: SocketAddr,
    /// Where it publishes, if not where it says itself.
    pub publish_port: Option<u16>,
    /// How it is spoken to.
    pub transport: transport::Kind,
    /// How many minions there are.
    pub minions: usize,
    /// What their ids begin with; a number with five digits or more follows.
    pub prefix: String,
    /// The number of the first one.
    pub first: usize,
    /// What chance follows from.
    pub seed: u64,
    /// How many minions begin each second; `None` for all at once.
    pub ramp: Option<f64>,
    /// Where they come from, if not from wherever the system likes.
    pub sources: Option<Sources>,
    /// The master's public key, if minions know it before they sign in for the first time.
    pub master_key: Option<String>,
    /// Jobs the report tells of each.
    pub jobs_kept: usize,
    /// Processes whose cost is measured meanwhile, each with its children.
    pub watch: Vec<i32>,
    /// What each minion does.
    pub behaviour: Behaviour,
}

/// What each minion of a swarm does.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// Whose minions these are.
    pub kind: Kind,
    /// Bytes of a made-up highstate return, about.
    pub return_size: usize,
    /// How long a job runs, from and to.
    pub return_delay: (Duration, Duration),
    /// Whether there are as many grains as on a real machine.
    pub grains: bool,
    /// Whether the pillar is asked for after signing in.
    pub pillar: bool,
    /// Paths of files that are fetched after signing in.
    pub files: Vec<PathBuf>,
    /// How often pillar and files are asked for again.
    pub repeat: Option<Duration>,
    /// Whether minions say that they have started.
    pub start_event: bool,
    /// How often a minion signs in anew.
    pub reauth: Option<Duration>,
    /// How many of all minions leave each second, to come back after a while.
    pub churn: f64,
    /// How long they are away, from and to.
    pub away: (Duration, Duration),
    /// Of a hundred publications and returns, how many are lost on the way.
    pub loss: f64,
    /// Of a hundred minions, how many are slow.
    pub slow: f64,
    /// How long a slow minion takes for each publication.
    pub slow_by: Duration,
    /// Whether signatures of publications are checked.
    pub check_signatures: bool,
    /// Whether requests are signed.
    pub sign_requests: bool,
    /// Time for one sign-in.
    pub auth_timeout: Duration,
    /// Time for one request.
    pub request_timeout: Duration,
    /// How long a minion waits whose key is not accepted yet.
    pub acceptance_wait: Duration,
}

impl Options {
    /// A swarm of so many minions that answer and do nothing else.
    pub fn new(master: SocketAddr, minions: usize) -> Self {
        Options {
            master,
            publish_port: None,
            transport: transport::Kind::Zeromq,
            minions,
            prefix: "swarm-".to_owned(),
            first: 1,
            seed: 1,
            ramp: None,
            sources: None,
            master_key: None,
            jobs_kept: 100,
            watch: Vec::new(),
            behaviour: Behaviour::default(),
        }
    }

    /// The id of the minion at a place.
    pub fn id(&self, place: usize) -> String {
        format!("{}{:05}", self.prefix, self.first + place)
    }
}

impl Default for Behaviour {
    fn default() -> Self {
        Behaviour {
            kind: Kind::Salt,
            return_size: 10_000,
            return_delay: (Duration::ZERO, Duration::ZERO),
            grains: false,
            pillar: false,
            files: Vec::new(),
            repeat: None,
            start_event: true,
            reauth: None,
            churn: 0.0,
            away: (Duration::from_secs(1), Duration::from_secs(5)),
            loss: 0.0,
            slow: 0.0,
            slow_by: Duration::from_secs(2),
            check_signatures: false,
            sign_requests: false,
            auth_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(60),
            acceptance_wait: Duration::from_secs(10),
        }
    }
}
