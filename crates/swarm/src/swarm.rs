//! All minions together: started one after the other, sampled every second, and ended at once.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crypto::PrivateKey;
use rt::Rt;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::task::AbortOnDropHandle;
use wire::{InvalidId, MinionId};

use crate::minion::{Minion, Shared};
use crate::report::{Report, Timeline};
use crate::stats::{Counts, Stats};
use crate::{Kind, LimitError, Options, Watch, raise_open_files};

/// An error when a swarm starts.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The limit of open files is too low.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The prefix does not give valid ids.
    #[error(transparent)]
    Id(#[from] InvalidId),
    /// A key is unusable.
    #[error(transparent)]
    Key(#[from] crypto::RsaError),
    /// There are no minions, or no keys.
    #[error("a swarm needs at least one minion and one key")]
    Nobody,
    /// There are too few source addresses for the minions.
    #[error("there are not enough source addresses for {0} minions")]
    Sources(usize),
    /// The source addresses and the master's address are of different families.
    #[error("connections to {0} cannot come from addresses of the other family")]
    Family(IpAddr),
}

/// A running swarm. It ends when dropped.
pub struct Swarm {
    minions: usize,
    stats: Arc<Stats>,
    seen: Arc<Mutex<Seen>>,
    _tasks: [AbortOnDropHandle<()>; 2],
}

/// What is sampled once a second.
struct Seen {
    timeline: Timeline,
    watch: Option<Watch>,
}

impl Swarm {
    /// Starts a swarm. If there are fewer keys than minions, the minions share them in turn.
    ///
    /// # Errors
    /// If the options cannot be met.
    pub fn start(options: Options, keys: &[PrivateKey]) -> Result<Self, StartError> {
        if options.minions == 0 || keys.is_empty() {
            return Err(StartError::Nobody);
        }
        let from = sources(&options)?;
        // Everything that can be refused is checked before the first minion starts: a swarm with half its minions would
        // measure something else.
        raise_open_files(connections(&options))?;
        let stats = Arc::new(Stats::new(options.jobs_kept));
        let minions = options.minions;
        let watch = (!options.watch.is_empty()).then(|| Watch::new(options.watch.clone()));
        let seen = Arc::new(Mutex::new(Seen { timeline: Timeline::default(), watch }));
        let ids = (0..minions).map(|place| MinionId::new(options.id(place))).collect::<Result<Vec<_>, _>>()?;
        let ramp = options.ramp;
        let shared = Arc::new(Shared::new(options, Rt::real(), stats.clone()));
        let all = ids
            .into_iter()
            .enumerate()
            .map(|(place, id)| Minion::new(shared.clone(), place, id, keys[place % keys.len()].clone()));
        let all = all.collect::<Result<Vec<_>, _>>()?;
        let lives = AbortOnDropHandle::new(tokio::spawn(live(all, from, ramp)));
        let looks = AbortOnDropHandle::new(tokio::spawn(look(stats.clone(), seen.clone())));
        Ok(Swarm { minions, stats, seen, _tasks: [lives, looks] })
    }

    /// Returns how long it has run. The times of a report count from its start.
    pub fn elapsed(&self) -> Duration {
        self.stats.began.elapsed()
    }

    /// Sets the time at which a job was published, counted from the start, so that its returns are timed from there.
    pub fn published(&self, jid: &str, at: Duration) {
        self.stats.jobs().published(jid, self.stats.began + at);
    }

    /// Returns the state of the swarm.
    pub fn counts(&self) -> Counts {
        self.stats.now()
    }

    /// Waits until a condition holds, and returns the state of the swarm then.
    pub async fn until(&self, holds: impl FnMut(&Counts) -> bool) -> Counts {
        let mut counts: watch::Receiver<Counts> = self.stats.counts();
        // Fails only if the sender is gone, which lives as long as `self`.
        counts.wait_for(holds).await.map_or_else(|_| self.counts(), |counts| *counts)
    }

    /// Returns the report up to now.
    pub fn report(&self) -> Report {
        let mut seen = lock(&self.seen);
        if let Some(watch) = &mut seen.watch {
            watch.look();
        }
        Report::new(self.minions, &self.stats, &seen.timeline, seen.watch.as_ref())
    }
}

/// Returns the number of sockets of this process when all minions are connected.
fn connections(options: &Options) -> u64 {
    // A subscription and a request connection, for Saltern also the watch on the request port; and a tenth of the
    // minions with one more request at a time.
    let each = match options.behaviour.kind {
        Kind::Salt => 2,
        Kind::Saltern => 3,
    };
    (options.minions * each + options.minions / 10) as u64
}

/// Returns the source address of each minion.
fn sources(options: &Options) -> Result<Vec<Option<SocketAddr>>, StartError> {
    let Some(sources) = &options.sources else { return Ok(vec![None; options.minions]) };
    let address = |place| {
        let address = sources.address(place).ok_or(StartError::Sources(options.minions))?;
        if address.is_ipv4() != options.master.is_ipv4() {
            return Err(StartError::Family(options.master.ip()));
        }
        // Port 0: the system chooses one.
        Ok(Some(SocketAddr::new(address, 0)))
    };
    (0..options.minions).map(address).collect()
}

async fn live(minions: Vec<Minion>, from: Vec<Option<SocketAddr>>, ramp: Option<f64>) {
    let began = Instant::now();
    let mut lives = JoinSet::new();
    for (place, (minion, from)) in minions.into_iter().zip(from).enumerate() {
        if let Some(per_second) = ramp.filter(|per_second| *per_second > 0.0) {
            // Counted from the beginning: a sleep between each two minions would add up the delays of the scheduler.
            sleep_until(began + Duration::from_secs_f64(place as f64 / per_second)).await;
        }
        lives.spawn(minion.live(from));
    }
    while lives.join_next().await.is_some() {}
}

/// Samples the swarm every second.
async fn look(stats: Arc<Stats>, seen: Arc<Mutex<Seen>>) {
    let mut seconds = interval(Duration::from_secs(1));
    // An overloaded machine would otherwise make up for missed samples with several at once, which distorts the rates
    // per second.
    seconds.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        seconds.tick().await;
        let (stats, seen) = (stats.clone(), seen.clone());
        // `/proc` is read with blocking calls, and the files of a large master take milliseconds.
        let looked = tokio::task::spawn_blocking(move || {
            let mut seen = lock(&seen);
            let watched = seen.watch.as_mut().map(|watch| {
                watch.look();
                watch.latest()
            });
            seen.timeline.push(stats.began.elapsed(), stats.now(), watched);
        });
        if looked.await.is_err() {
            return;
        }
    }
}

fn lock(seen: &Mutex<Seen>) -> std::sync::MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(minions: usize) -> Options {
        Options::new("127.0.0.1:4506".parse().unwrap(), minions)
    }

    #[test]
    fn impossible_options_are_refused() {
        let key = [PrivateKey::generate(1024).unwrap()];
        let refused = |options: Options| Swarm::start(options, &key).err().unwrap().to_string();
        assert!(refused(options(0)).contains("at least one minion"));
        let few = Options { sources: Some("127.0.0.9".parse().unwrap()), ..options(10_000) };
        assert!(refused(few).contains("not enough source addresses"));
        let other = Options { sources: Some("fd00::/64".parse().unwrap()), ..options(1) };
        assert!(refused(other).contains("other family"));
        assert!(refused(Options { prefix: "a/b".into(), ..options(1) }).contains("a/b"));
    }

    #[test]
    fn ids_have_five_digits() {
        assert_eq!((options(1).id(0), options(1).id(123_456)), ("swarm-00001".into(), "swarm-123457".into()));
    }
}
