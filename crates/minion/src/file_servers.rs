//! Chooses the master that serves files and mine data to a job while the job's own master is not connected.
//!
//! Hot masters serve the same trees, so a state run continues when its master dies. All chunks of a file are read from
//! one master.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use channel::client::Error as ChannelError;
use exec::{Error, Result};
use tracing::warn;
use value::{Map, Value};
use wire::msgpack::Decode;

use crate::masters::Link;

/// Requests that only read data that all masters of a minion have.
const READS: [&str; 10] = [
    "_dir_list",
    "_file_envs",
    "_file_find",
    "_file_hash",
    "_file_hash_and_stat",
    "_file_list",
    "_file_list_emptydirs",
    "_master_opts",
    "_mine_get",
    "_symlink_list",
];

/// The request for a chunk of a file.
const PIECE: &str = "_serve_file";

/// The masters to which a job may send requests.
pub struct Servers {
    own: Arc<Link>,
    /// Files (environment and path) whose first chunk came from another master.
    elsewhere: Mutex<HashMap<(String, String), Arc<Link>>>,
    told: AtomicBool,
}

/// Why there was no answer.
enum Failure {
    /// The master cannot be reached.
    Away(Error),
    /// It answered with an error, or the request was wrong.
    Other(Error),
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Away(error) | Failure::Other(error) => error,
        }
    }
}

impl Servers {
    /// Creates the servers of a job: its own master, and others while that is not connected.
    pub fn of(own: Arc<Link>) -> Self {
        Servers { own, elsewhere: Mutex::default(), told: AtomicBool::new(false) }
    }

    /// Sends a request to the job's master. A request that only reads goes to another of `links` if that master is not
    /// connected.
    ///
    /// # Errors
    /// If none of the permitted masters answers.
    pub async fn ask(
        &self,
        links: &[Arc<Link>],
        load: Map,
        timeout: Option<Duration>,
        decode: Decode,
    ) -> Result<Value> {
        let file = file_of(&load);
        if file.is_none() && !load.get_str("cmd").is_some_and(|cmd| READS.contains(&cmd)) {
            return Ok(ask(&self.own, load, timeout, decode).await?);
        }
        // A later piece: from where the first one came, or the file could be mixed from two versions.
        if let Some(file) = file.as_ref().filter(|_| load.get("loc").and_then(Value::as_i64) != Some(0)) {
            let server = self.elsewhere().get(file).cloned().unwrap_or_else(|| self.own.clone());
            return Ok(ask(&server, load, timeout, decode).await?);
        }
        let others = links.iter().filter(|link| !Arc::ptr_eq(link, &self.own) && link.is_live());
        let mut reason = None;
        for server in std::iter::once(&self.own).chain(others) {
            match ask(server, load.clone(), timeout, decode).await {
                Err(Failure::Away(error)) => drop(reason.get_or_insert(error)),
                answer => {
                    self.note(file, server);
                    return Ok(answer?);
                }
            }
        }
        Err(reason.unwrap_or_else(|| away(&self.own)))
    }

    fn elsewhere(&self) -> std::sync::MutexGuard<'_, HashMap<(String, String), Arc<Link>>> {
        self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers which master sent the first chunk of a file.
    fn note(&self, file: Option<(String, String)>, server: &Arc<Link>) {
        let is_own = Arc::ptr_eq(server, &self.own);
        if !is_own && !self.told.swap(true, Ordering::Relaxed) {
            let (own, other) = (&self.own.settings.address, &server.settings.address);
            warn!("the master {own} of a job is away, its files and mines come from {other}");
        }
        let Some(file) = file else { return };
        match is_own {
            true => drop(self.elsewhere().remove(&file)),
            false => drop(self.elsewhere().insert(file, server.clone())),
        }
    }
}

fn file_of(load: &Map) -> Option<(String, String)> {
    let part = |name: &str| load.get(name).map(Value::to_string).unwrap_or_default();
    (load.get_str("cmd") == Some(PIECE)).then(|| (part("saltenv"), part("path")))
}

/// The error for a master that is not connected.
pub fn away(link: &Link) -> Error {
    Error::execution(format!("not connected to the master {}", link.settings.address))
}

async fn ask(link: &Link, load: Map, timeout: Option<Duration>, decode: Decode) -> std::result::Result<Value, Failure> {
    let channel = link.channel().ok_or_else(|| Failure::Away(away(link)))?;
    channel.request(load, timeout, decode).await.map_err(|error| {
        let text = Error::execution(error.to_string());
        match error {
            ChannelError::Transport(_) | ChannelError::Timeout(_) => Failure::Away(text),
            _ => Failure::Other(text),
        }
    })
}
