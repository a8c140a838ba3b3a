//! Maintains the jobs that may still be delivered: ends them when they expire, and resends those that were lost to full
//! queues.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::Receiver;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};
use value::map;
use wire::{Jid, MinionId};

use super::publish;
use crate::Shared;

/// The delay after a publication before its recipients are noted, so that a burst of jobs is handled once.
const LOOK: Duration = Duration::from_millis(500);

/// Does so until told to stop. `drained` yields connections that lost jobs to a full queue, when the queue is empty.
pub async fn run(shared: Arc<Shared>, mut drained: Receiver<u64>, stop: CancellationToken) {
    let mut look = None;
    loop {
        let next_end = shared.open_jobs.next_end();
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Some(connection) = drained.recv() => {
                blocking(&shared, move |shared| publish::send_lost(shared, connection)).await;
            }
            () = at(look) => {
                look = None;
                blocking(&shared, check_now).await;
            }
            () = at(next_end) => blocking(&shared, expire).await,
            () = shared.open_jobs.changed() => {
                if look.is_none() && shared.open_jobs.has_unseen() {
                    look = Some(Instant::now() + LOOK);
                }
            }
        }
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Notes which minions are connected here and thus get the latest jobs. Those that other masters deliver are noted when these are
/// told.
pub fn check_now(shared: &Shared) {
    if shared.open_jobs.has_unseen() {
        shared.open_jobs.sent_to(&shared.connected());
        shared.open_jobs.forget_connections(|number| shared.publisher.is_there(number));
    }
}

fn expire(shared: &Shared) {
    for jid in shared.open_jobs.expire() {
        info!("the time to hold the job {jid} is over");
        ended(shared, &jid, "expired");
    }
}

/// Notes a return that was stored. A held job ends with the last one.
pub fn returned(shared: &Shared, jid: &str, id: &MinionId) {
    if shared.open_jobs.returned(jid, id.as_str())
        && let Ok(jid) = Jid::new(jid)
    {
        end(shared, &jid, "complete");
    }
}

/// Ends a held job and fires the event for programs that wait for it. Returns whether the job was held.
pub fn end(shared: &Shared, jid: &Jid, why: &'static str) -> bool {
    let held = shared.open_jobs.end(jid);
    if held {
        info!("the job {jid} is not held any more: {why}");
        ended(shared, jid, why);
    }
    held
}

fn ended(shared: &Shared, jid: &Jid, why: &'static str) {
    shared.fire(format!("salt/job/{jid}/held"), map! { "jid" => jid, "ended" => why });
}

async fn blocking(shared: &Arc<Shared>, work: impl FnOnce(&Shared) + Send + 'static) {
    let (shared, rt) = (shared.clone(), &shared.stores.rt);
    if let Err(failure) = rt.blocking(move || work(&shared)).await {
        error!("looking after jobs failed: {failure}");
    }
}
