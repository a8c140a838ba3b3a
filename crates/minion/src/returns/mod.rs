//! The returns of jobs, from the end of the job until a master has acknowledged them.
//!
//! A return is on disk before it is first sent and stays there until its publisher has it, whatever happens to the
//! connection, the master or the minion. [`plan`] decides what goes where and when, [`delivery`] does it; both belong
//! to the minion and not to a link.

mod delivery;
mod plan;

pub use delivery::start;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rt::Rt;
use store::returns::{Publisher, ReturnSpool, Spooled};
use tokio::sync::{mpsc, oneshot};
use tracing::{error, info};
use value::Map;
use value::error::chain;
use wire::loads::Ability;

use crate::masters::Link;

/// The largest return, in bytes, that is written and removed on the current thread, because switching threads takes
/// longer.
const SMALL: usize = 64 * 1024;

/// How long the disk may take to store a larger return before it is sent anyway.
const SLOW_DISK: Duration = Duration::from_secs(2);

/// The number of new returns that may wait for the delivery task.
const QUEUE: usize = 64;

/// Fields of the publication that a return lacks. A peer that never saw the job needs them.
const JOB_FIELDS: [&str; 3] = ["tgt", "tgt_type", "ret"];

/// Takes the returns of jobs.
pub struct Returns {
    spool: Arc<ReturnSpool>,
    /// True if the last return could not be written.
    disk_failing: AtomicBool,
    queue: mpsc::Sender<New>,
    inbox: Mutex<Option<mpsc::Receiver<New>>>,
    /// The publishers by address, as they were when last connected.
    known: Mutex<BTreeMap<String, Publisher>>,
}

/// A new return.
struct New {
    returned: Arc<Spooled>,
    /// Its file, or `None` if it could not be written.
    name: Option<String>,
    size: u64,
    /// Notified when it was sent for the first time, or has to wait.
    settled: oneshot::Sender<()>,
}

impl Returns {
    /// Creates the queue. The delivery is not started yet.
    pub fn new(config: &config::Minion) -> Self {
        let (queue, inbox) = mpsc::channel(QUEUE);
        Returns {
            spool: Arc::new(ReturnSpool::new(&config.paths.cachedir)),
            disk_failing: AtomicBool::new(false),
            queue,
            inbox: Mutex::new(Some(inbox)),
            known: Mutex::default(),
        }
    }

    /// Stores the return of a published job, and has it delivered to the master of the job. Waits until it was sent once, or has to wait
    /// for its master.
    pub async fn post(&self, rt: &Rt, link: &Link, job: &Map, load: Map) {
        let jid = job.get_str("jid").unwrap_or_default();
        info!("Returning information for job: {jid}");
        let returned = Arc::new(Spooled {
            minion: load.get_str("id").unwrap_or_default().to_owned(),
            created: rt.now(),
            publisher: self.publisher(link),
            job: JOB_FIELDS.iter().filter_map(|name| Some((*name, job.get(name)?.clone()))).collect(),
            load,
        });
        let content = returned.to_bytes();
        let size = content.len() as u64;
        let name = self.write(rt, &returned, content).await;
        let kept = name.is_some();
        let (settled, settling) = oneshot::channel();
        // A full queue makes the job wait, which bounds what is in memory.
        if self.queue.send(New { returned, name, size, settled }).await.is_err() {
            if !kept {
                error!("The minion failed to return the job information for job {jid}: it stops, and the disk is full");
            }
            return;
        }
        // An error means that the minion stops; the return is on disk.
        let _ = settling.await;
    }

    fn publisher(&self, link: &Link) -> Publisher {
        let status = link.status(false);
        let address = status.address;
        match link.channel() {
            Some(channel) => Publisher {
                address,
                id: status.id,
                fingerprint: status.fingerprint,
                has_peers: channel.master_can(Ability::PeerReturns),
            },
            // Its peers may get copies while it is away, so what is known of it is kept.
            None => {
                let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&address).cloned();
                known.unwrap_or_else(|| Publisher { address, ..Publisher::default() })
            }
        }
    }

    /// Writes a return to the disk. Logs only the first failure in a row.
    async fn write(&self, rt: &Rt, returned: &Arc<Spooled>, content: Vec<u8>) -> Option<String> {
        let directory = self.spool.directory().display();
        match self.try_to_write(rt, returned, content).await {
            Ok(name) => {
                if self.disk_failing.swap(false, Ordering::Relaxed) {
                    info!("returns are kept in {directory} again");
                }
                Some(name)
            }
            Err(reason) => {
                if !self.disk_failing.swap(true, Ordering::Relaxed) {
                    error!(
                        "{reason}: returns cannot be kept in {directory}, they wait in memory until their masters take them"
                    );
                }
                None
            }
        }
    }

    async fn try_to_write(&self, rt: &Rt, returned: &Arc<Spooled>, content: Vec<u8>) -> Result<String, String> {
        if content.len() <= SMALL {
            return self.spool.write(returned, &content).map_err(|error| chain(&error));
        }
        // A timeout leaves the thread running. The file it may still write is found at the next start.
        let (spool, inside) = (self.spool.clone(), returned.clone());
        let writing = rt.blocking(move || spool.write(&inside, &content));
        match tokio::time::timeout(SLOW_DISK, writing).await {
            Ok(Ok(written)) => written.map_err(|error| chain(&error)),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("the disk does not answer within {} s", SLOW_DISK.as_secs())),
        }
    }
}
