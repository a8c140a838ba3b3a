//! Requests and notices between minions and masters of Saltern, so that no job is lost: which jobs were missed and
//! received, and what a master announces beside jobs.

mod receipts;

use std::sync::Arc;
use std::time::Duration;

use channel::client::MasterChannel;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::{debug, info, warn};
use value::{Map, Value, map};
use wire::loads::Ability;
use wire::msgpack::Decode;

use crate::masters::Link;
use crate::world::World;

pub use receipts::Receipts;

/// The field of a publication, or a whole publication, that only minions of Saltern read.
const OURS: &str = "saltern";

/// When a minion that has connected asks for missed jobs. The second request is for jobs that were published before
/// the master had noted the subscriber.
const ASK_AFTER: [Duration; 2] = [Duration::ZERO, Duration::from_millis(1500)];

/// The largest number of job ids that a master is told.
const KNOWN: usize = 10_000;

/// After this long the announced key is in use.
const SOON: Duration = Duration::from_millis(300);

/// Time for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The conditions under which a job starts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Terms {
    /// Not after this moment.
    pub deadline: Option<Instant>,
    /// Only after the master was told that it arrived.
    pub receipt: bool,
    /// It was asked for: it must not run again, whatever the options say.
    pub asked: bool,
}

impl Terms {
    /// Removes what a publication says to minions of Saltern, and returns it.
    pub fn take(load: &mut Map) -> Self {
        let Some(said) = load.remove(OURS) else { return Terms::default() };
        Terms { deadline: deadline(&said), receipt: said.get("receipt").is_some_and(Value::truthy), asked: false }
    }

    /// Returns for how long a master may offer the job again.
    pub fn left(&self) -> Duration {
        self.deadline.map_or(Duration::ZERO, |deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Returns whether it is too late to start.
    pub fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }
}

/// Masters send the time that is left, because clocks differ.
fn deadline(said: &Value) -> Option<Instant> {
    let left = Duration::try_from_secs_f64(said.get("left")?.as_f64()?).ok()?;
    Instant::now().checked_add(left)
}

/// A notice of a master to its minions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Word {
    /// It stops. Minions with nothing to deliver come back within this time.
    Goodbye(Duration),
    /// The key of publications changes. Minions sign in within this time.
    Rotated(Duration),
    /// Nothing that concerns us, or nothing that we know.
    Other,
}

impl Word {
    /// Reads a publication that is not a job.
    pub fn of(load: &Map) -> Option<Self> {
        if load.contains_key("jid") {
            return None;
        }
        let said = load.get(OURS)?;
        let is = |name: &str| said.get(name).is_some_and(Value::truthy);
        // Bounded: a strange number must not keep a minion away for long.
        let spread = said.get("spread").and_then(Value::as_f64).unwrap_or(0.0).clamp(0.0, 60.0);
        let spread = Duration::try_from_secs_f64(spread).unwrap_or_default();
        match (is("goodbye"), is("rotated")) {
            (true, _) => Some(Word::Goodbye(spread)),
            (_, true) => Some(Word::Rotated(spread)),
            _ => Some(Word::Other),
        }
    }
}

/// Requests missed jobs after a link has connected, as long as this connection lasts.
pub async fn ask(world: Arc<World>, link: Arc<Link>) {
    let Some(channel) = link.channel().filter(|channel| channel.master_can(Ability::Missed)) else { return };
    for pause in ASK_AFTER {
        tokio::time::sleep(pause).await;
        // Answers are bounded; more may be waiting.
        while is_current(&link, &channel) && ask_once(&world, &link, &channel).await {}
    }
}

/// Requests missed jobs whenever a publication could not be decrypted. Never returns.
pub async fn ask_whenever(world: &Arc<World>, link: &Arc<Link>, unread: &Notify) {
    loop {
        unread.notified().await;
        // In a task beside the link, which must go on reading.
        if let Err(panic) = world.rt.spawn(ask(world.clone(), link.clone())).await {
            warn!(master = %link.settings.address, "could not ask what was missed: {panic}");
        }
    }
}

fn is_current(link: &Link, channel: &Arc<MasterChannel>) -> bool {
    link.channel().is_some_and(|current| Arc::ptr_eq(&current, channel))
}

/// Sends one request. Returns whether to ask again at once.
async fn ask_once(world: &Arc<World>, link: &Arc<Link>, channel: &MasterChannel) -> bool {
    let load = map! { "cmd" => "saltern_missed", "known" => world.known_jids(KNOWN) };
    let answer = match channel.request(load, Some(PATIENCE), Decode::Default).await {
        Ok(answer) => answer,
        Err(reason) => {
            debug!(master = %link.settings.address, "the master did not say what was missed: {reason}");
            return false;
        }
    };
    let jobs = answer.get("jobs").and_then(Value::as_list).unwrap_or_default();
    let mut begun = 0;
    for job in jobs {
        let Some(load) = job.get("load").and_then(Value::as_map) else { continue };
        let receipt = job.get("receipt").is_some_and(Value::truthy);
        let terms = Terms { deadline: deadline(job), receipt, asked: true };
        begun += usize::from(world.start_job_on(link, load.clone(), terms));
    }
    if begun > 0 {
        info!(master = %link.settings.address, "{begun} jobs were missed and begin now");
    }
    begun > 0
}

/// Signs in for the master's new key, at a random time, so that not all minions do so at the next job.
pub async fn renew(world: Arc<World>, link: Arc<Link>, spread: Duration) {
    let Some(channel) = link.channel() else { return };
    let old = channel.credentials();
    tokio::time::sleep(SOON + world.rt.between(Duration::ZERO, spread)).await;
    if let Err(reason) = channel.renew(old.as_ref()).await {
        warn!(master = %link.settings.address, "failed to sign in for the master's new key: {reason}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_from_jobs() {
        let goodbye = map! { "saltern" => map! { "goodbye" => true, "spread" => 2.5 } };
        assert_eq!(Word::of(&goodbye), Some(Word::Goodbye(Duration::from_millis(2500))));
        // `Duration` panics on such a number.
        let rotated = map! { "saltern" => map! { "rotated" => true, "spread" => 1e300 } };
        assert_eq!(Word::of(&rotated), Some(Word::Rotated(Duration::from_secs(60))));
        assert_eq!(Word::of(&map! { "saltern" => map! { "renewed" => true } }), Some(Word::Other));
        // A job with such a field is still a job.
        assert_eq!(Word::of(&map! { "saltern" => map! { "goodbye" => true }, "jid" => "1" }), None);
        assert_eq!(Word::of(&map! { "jid" => "1" }), None);
    }

    #[test]
    fn terms_are_taken_out_of_a_publication() {
        let mut load = map! { "jid" => "1", "saltern" => map! { "left" => 100.5, "receipt" => true } };
        let terms = Terms::take(&mut load);
        assert_eq!((load, terms.receipt, terms.is_over()), (map! { "jid" => "1" }, true, false));
        assert!((100..=100).contains(&terms.left().as_secs()), "{:?}", terms.left());
        assert!(Terms::take(&mut map! { "saltern" => map! { "left" => 0 } }).is_over());
        // `Duration` panics on negative numbers.
        let mut odd = map! { "saltern" => map! { "left" => -1.0 } };
        assert_eq!(Terms::take(&mut odd), Terms::default());
        assert!(!Terms::take(&mut map! {}).is_over());
    }
}
