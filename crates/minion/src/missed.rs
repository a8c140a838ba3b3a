//! Requests and notices between Saltern minions and masters, so that no job is lost: missed and received jobs, and
//! notices that are not jobs.

use std::sync::Arc;
use std::time::Duration;

use channel::client::MasterChannel;
use rt::Rt;
use tokio::sync::Notify;
use tracing::{debug, info, warn};
use value::{Map, Value};
use wire::loads::{Ability, MissedJobs};
use wire::msgpack::Decode;

use crate::jobs::{Jobs, SALTERN_FIELD, Terms};
use crate::masters::Link;

/// When a newly connected minion requests missed jobs. The second request is for jobs that were published before the
/// master had registered the subscriber.
const ASK_AFTER: [Duration; 2] = [Duration::ZERO, Duration::from_millis(1500)];

/// The largest number of known job ids in a request.
const KNOWN: usize = 10_000;

/// The time after which an announced key is in use.
const SOON: Duration = Duration::from_millis(300);

/// Time for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A notice of a master to its minions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Notice {
    /// It stops. Minions with nothing to deliver reconnect within this time.
    Goodbye(Duration),
    /// The key of publications changes. Minions sign in within this time.
    Rotated(Duration),
    /// A notice that is unknown or not for this minion.
    Other,
}

impl Notice {
    /// Reads a publication that is not a job.
    pub fn of(load: &Map) -> Option<Self> {
        if load.contains_key("jid") {
            return None;
        }
        let said = load.get(SALTERN_FIELD)?;
        let is = |name: &str| said.get(name).is_some_and(Value::truthy);
        // Bounded: a strange number must not keep a minion away for long.
        let spread = said.get("spread").and_then(Value::as_f64).unwrap_or(0.0).clamp(0.0, 60.0);
        let spread = Duration::try_from_secs_f64(spread).unwrap_or_default();
        match (is("goodbye"), is("rotated")) {
            (true, _) => Some(Notice::Goodbye(spread)),
            (_, true) => Some(Notice::Rotated(spread)),
            _ => Some(Notice::Other),
        }
    }
}

/// Requests missed jobs after a link has connected, as long as this connection lasts.
pub async fn ask(jobs: Arc<Jobs>, link: Arc<Link>) {
    let Some(channel) = link.channel().filter(|channel| channel.master_can(Ability::Missed)) else { return };
    for pause in ASK_AFTER {
        tokio::time::sleep(pause).await;
        // Answers are bounded; more may be waiting.
        while is_current(&link, &channel) && ask_once(&jobs, &link, &channel).await {}
    }
}

/// Requests missed jobs whenever a publication could not be decrypted. Never returns.
pub async fn ask_whenever(jobs: &Arc<Jobs>, link: &Arc<Link>, unread: &Notify) {
    loop {
        unread.notified().await;
        // In a task beside the link, which must go on reading.
        if let Err(panic) = jobs.machine.rt.spawn(ask(jobs.clone(), link.clone())).await {
            warn!(master = %link.settings.address, "could not ask what was missed: {panic}");
        }
    }
}

fn is_current(link: &Link, channel: &Arc<MasterChannel>) -> bool {
    link.channel().is_some_and(|current| Arc::ptr_eq(&current, channel))
}

/// Sends one request. Returns whether to ask again at once.
async fn ask_once(jobs: &Arc<Jobs>, link: &Arc<Link>, channel: &MasterChannel) -> bool {
    let request = MissedJobs { known: jobs.known_jids(KNOWN).into_iter().collect(), extra: Map::new() };
    let answer = match channel.request(request.into_map(), Some(PATIENCE), Decode::Default).await {
        Ok(answer) => answer,
        Err(reason) => {
            debug!(master = %link.settings.address, "the master did not say what was missed: {reason}");
            return false;
        }
    };
    let missed = answer.get("jobs").and_then(Value::as_list).unwrap_or_default();
    let mut begun = 0;
    for job in missed {
        let Some(load) = job.get("load").and_then(Value::as_map) else { continue };
        begun += usize::from(jobs.start_on(link, load.clone(), Terms::of_missed(job)));
    }
    if begun > 0 {
        info!(master = %link.settings.address, "{begun} jobs were missed and begin now");
    }
    begun > 0
}

/// Signs in to get the master's new key, at a random time, so that not all minions do so at the next job.
pub async fn renew(rt: Rt, link: Arc<Link>, spread: Duration) {
    let Some(channel) = link.channel() else { return };
    let old = channel.credentials();
    tokio::time::sleep(SOON + rt.between(Duration::ZERO, spread)).await;
    if let Err(reason) = channel.renew(old.as_ref()).await {
        warn!(master = %link.settings.address, "failed to sign in for the master's new key: {reason}");
    }
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    #[test]
    fn words_are_told_from_jobs() {
        let goodbye = map! { "saltern" => map! { "goodbye" => true, "spread" => 2.5 } };
        assert_eq!(Notice::of(&goodbye), Some(Notice::Goodbye(Duration::from_millis(2500))));
        // `Duration` panics on such a number.
        let rotated = map! { "saltern" => map! { "rotated" => true, "spread" => 1e300 } };
        assert_eq!(Notice::of(&rotated), Some(Notice::Rotated(Duration::from_secs(60))));
        assert_eq!(Notice::of(&map! { "saltern" => map! { "renewed" => true } }), Some(Notice::Other));
        // A job with such a field is still a job.
        assert_eq!(Notice::of(&map! { "saltern" => map! { "goodbye" => true }, "jid" => "1" }), None);
        assert_eq!(Notice::of(&map! { "jid" => "1" }), None);
    }
}
