//! The interface to the outside world: clock, randomness, names, connections.
//!
//! Daemons receive an [`Rt`] and use nothing else for the time of day, random bytes or network connections, so a whole cluster
//! can run in one deterministic process with other implementations behind it. Durations and timers come from tokio's clock, which
//! a simulation controls directly.

mod behind_others;
mod clock;
mod complain;
pub mod disk;
mod net;
pub mod owned;
pub mod panics;
mod random;
#[cfg(feature = "sim")]
pub mod sim;
mod tokio_net;
pub mod umask;

use std::sync::Arc;
use std::time::SystemTime;

use tokio::task::JoinHandle;

pub use clock::{Clock, WallClock};
pub use net::{BoxStream, Connect, Connection, Keepalive, Listen, Listener, Net, Stream};
pub use random::{OsRandom, Random, SeededRandom};
pub use tokio_net::TokioNet;

/// The handle of the outside world. It is cheap to clone.
#[derive(Clone)]
pub struct Rt {
    net: Arc<dyn Net>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    #[cfg(feature = "sim")]
    life: Option<Arc<sim::Life>>,
}

impl Rt {
    /// Returns the real world: the operating system's sockets, clock and randomness.
    pub fn real() -> Self {
        Rt::new(TokioNet, WallClock, OsRandom)
    }

    /// Creates a world from these parts.
    pub fn new(net: impl Net + 'static, clock: impl Clock + 'static, random: impl Random + 'static) -> Self {
        Rt {
            net: Arc::new(net),
            clock: Arc::new(clock),
            random: Arc::new(random),
            #[cfg(feature = "sim")]
            life: None,
        }
    }

    /// Starts a task of this program. Daemons start all tasks like this, or [wrap](Rt::task) them, because a simulated host may be
    /// stopped or lose power at any time.
    pub fn spawn<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        tokio::spawn(self.task(task))
    }

    /// Wraps a future as a task of this program.
    #[cfg(not(feature = "sim"))]
    pub fn task<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = T> + Send + 'static {
        task
    }

    /// Wraps a future as a task of this program.
    #[cfg(feature = "sim")]
    pub fn task<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = T> + Send + 'static {
        use futures_util::future::Either;
        match &self.life {
            // Only a simulation wraps tasks: real daemons pay nothing for it.
            None => Either::Left(task),
            Some(life) => Either::Right(sim::LiveTask::new(life.clone(), task)),
        }
    }

    /// Runs blocking work on a blocking thread; in a simulation, directly.
    pub fn blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        if self.is_simulated() {
            // A simulation has one thread and must decide alone what runs when.
            return self.spawn(async move { work() });
        }
        tokio::task::spawn_blocking(work)
    }

    /// Runs long blocking work on a thread of lower priority; in a simulation, directly.
    pub fn behind_others(&self, work: impl FnOnce() + Send + 'static) {
        if self.is_simulated() {
            self.spawn(async move { work() });
        } else {
            behind_others::behind_others(work);
        }
    }

    /// Returns whether this world is simulated: then there are no sockets of the system, and no notifications of the kernel.
    pub fn is_simulated(&self) -> bool {
        #[cfg(feature = "sim")]
        return self.life.is_some();
        #[cfg(not(feature = "sim"))]
        false
    }

    /// Returns the id of this process; in a simulation, one that is the same in each run: ids are part of messages, whose sizes decide
    /// what a lossy link loses.
    pub fn process_id(&self) -> u32 {
        if self.is_simulated() { 4_711 } else { std::process::id() }
    }

    /// Returns the network.
    pub fn net(&self) -> &dyn Net {
        self.net.as_ref()
    }

    /// Returns the time of day.
    pub fn now(&self) -> SystemTime {
        self.clock.now()
    }

    /// Returns the time of day in whole seconds since 1970.
    pub fn unix_seconds(&self) -> i64 {
        // A clock before 1970 is a machine without a battery that has not asked for the time yet.
        self.now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
    }

    /// Fills a buffer with random bytes that are suitable for keys.
    pub fn fill(&self, buffer: &mut [u8]) {
        self.random.fill(buffer);
    }

    /// Returns random bytes that are suitable for keys.
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut buffer = [0; N];
        self.fill(&mut buffer);
        buffer
    }

    /// Returns a uniformly distributed number from 0 to below `bound`; 0 if `bound` is 0.
    pub fn below(&self, bound: u64) -> u64 {
        // The remainder favours small numbers, but for bounds that occur by less than one in a billion.
        if bound == 0 { 0 } else { u64::from_le_bytes(self.bytes()) % bound }
    }

    /// Returns a random duration between two, in steps of a millisecond, for jitter. Their order does not matter.
    pub fn between(&self, a: std::time::Duration, b: std::time::Duration) -> std::time::Duration {
        let (low, high) = (a.min(b), a.max(b));
        low + std::time::Duration::from_millis(self.below((high - low).as_millis() as u64 + 1))
    }

    /// Returns a nonce in the form of Salt's peers: the 32 hexadecimal digits of a random (version 4) UUID.
    pub fn nonce(&self) -> String {
        let mut bytes: [u8; 16] = self.bytes();
        // The fixed bits of a version 4 UUID, so that the nonce looks like those of Salt's peers.
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        hex::encode(bytes)
    }
}

impl std::fmt::Debug for Rt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rt")
    }
}
