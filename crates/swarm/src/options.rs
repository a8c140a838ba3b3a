//! The options of a swarm.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::Sources;

/// Which minions are imitated: what they announce in their sign-in, and how they keep their connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Salt's: a subscription without heartbeats, and a request connection that is closed when idle.
    #[default]
    Salt,
    /// Saltern's: heartbeats on both connections; the master may announce its stop and new keys.
    Saltern,
}

/// The options of a swarm.
#[derive(Clone, Debug)]
pub struct Options {
    /// The master's request address.
    pub master: SocketAddr,
    /// The master's publish port, if not the one it announces.
    pub publish_port: Option<u16>,
    /// The transport.
    pub transport: transport::Kind,
    /// The number of minions.
    pub minions: usize,
    /// The prefix of their ids; a number of five digits or more follows.
    pub prefix: String,
    /// The number of the first minion.
    pub first: usize,
    /// The seed of all randomness.
    pub seed: u64,
    /// How many minions start each second; `None` for all at once.
    pub ramp: Option<f64>,
    /// The source addresses, if not the system's choice.
    pub sources: Option<Sources>,
    /// The master's public key, if minions know it before their first sign-in.
    pub master_key: Option<String>,
    /// The number of jobs in the report.
    pub jobs_kept: usize,
    /// Processes whose resources are measured, each with its children.
    pub watch: Vec<i32>,
    /// What each minion does.
    pub behaviour: Behaviour,
}

/// What each minion of a swarm does.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// Which minions are imitated.
    pub kind: Kind,
    /// The approximate size of a made-up highstate return in bytes.
    pub return_size: usize,
    /// How long a job runs, from and to.
    pub return_delay: (Duration, Duration),
    /// True if there are as many grains as on a real machine.
    pub grains: bool,
    /// Request the pillar after a sign-in.
    pub pillar: bool,
    /// Paths of files to fetch after a sign-in.
    pub files: Vec<PathBuf>,
    /// The interval of repeated requests for pillar and files.
    pub repeat: Option<Duration>,
    /// True if minions send a start event.
    pub start_event: bool,
    /// The interval of repeated sign-ins.
    pub reauth: Option<Duration>,
    /// The share of all minions that leave each second, to return later.
    pub churn: f64,
    /// How long they stay away, from and to.
    pub away: (Duration, Duration),
    /// The percentage of publications and returns that are lost.
    pub loss: f64,
    /// The percentage of slow minions.
    pub slow: f64,
    /// The delay of a slow minion for each publication.
    pub slow_by: Duration,
    /// Check signatures of publications.
    pub check_signatures: bool,
    /// Sign requests.
    pub sign_requests: bool,
    /// The timeout of a sign-in.
    pub auth_timeout: Duration,
    /// The timeout of a request.
    pub request_timeout: Duration,
    /// How long a minion waits if its key is not accepted yet.
    pub acceptance_wait: Duration,
}

impl Options {
    /// Returns the options of a swarm with this number of minions that only answer.
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

    /// Returns the id of the minion at an index.
    pub fn id(&self, place: usize) -> String {
        // Zero-padded, so that ids sort by number in lists and globs such as `swarm-00*` select a contiguous part.
        format!("{}{:05}", self.prefix, self.first + place)
    }
}

impl Default for Behaviour {
    fn default() -> Self {
        Behaviour {
            kind: Kind::Salt,
            // The size of a highstate with about twenty states.
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
