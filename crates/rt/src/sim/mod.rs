//! A simulated world (feature `sim`): hosts in one process whose network, clocks and randomness follow from a seed. Only for
//! tests.
//!
//! All hosts are on one runtime with paused time, which jumps to the next timer when all tasks are idle, so an hour in which
//! nothing happens costs nothing. A [`Sim`] creates hosts, gives their programs an [`Rt`], and injects faults: it cuts, slows and
//! restores links between hosts, kills and stops programs, cuts the power of hosts, and moves clocks.

mod life;
mod net;
mod world;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::{Clock, Rt, SeededRandom};
use net::SimNet;
use world::World;

pub(crate) use life::Life;
pub use life::{LiveTask, current_host};

/// The time of day at which every simulation starts: 2020-01-01.
pub const EPOCH: Duration = Duration::from_secs(1_577_836_800);

/// A simulated world. It is cheap to clone.
#[derive(Clone)]
pub struct Sim {
    world: Arc<World>,
    seed: u64,
}

struct SimClock {
    world: Arc<World>,
    host: usize,
}

impl Clock for SimClock {
    fn now(&self) -> SystemTime {
        // In microseconds, so that clocks of hosts differ as little as real ones do.
        let skew = self.world.state().hosts[self.host].skew;
        let shown = (EPOCH + self.world.elapsed()).as_micros() as i64 + skew;
        SystemTime::UNIX_EPOCH + Duration::from_micros(shown.max(0) as u64)
    }
}

impl Sim {
    /// Runs a simulation to its end and returns its result.
    ///
    /// # Panics
    /// If the runtime cannot be created.
    pub fn run<F: Future>(seed: u64, scenario: impl FnOnce(Sim) -> F) -> F::Output {
        // One thread and paused time: what runs next depends on nothing but the seed.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime of one thread needs nothing").block_on(async {
            let world = World::new(seed);
            tokio::spawn(world.clone().carry());
            let result = scenario(Sim { world: world.clone(), seed }).await;
            // Packets in flight and the world refer to each other, so clear them.
            drop(world.empty());
            result
        })
    }

    /// Adds a host. The addresses are assigned in order: 10.0.0.1, 10.0.0.2 and so on. Clocks differ by up to 50 ms.
    ///
    /// # Panics
    /// With more than 254 hosts, or if the name exists.
    pub fn add_host(&self, name: &str) {
        use rand::Rng;
        let mut state = self.world.state();
        assert!(state.host(name).is_none(), "{name} is there already");
        let last = u8::try_from(state.hosts.len() + 1).expect("there are few hosts");
        let number = state.add_host(name, IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)));
        state.hosts[number].skew = state.random.random_range(-50_000..50_000);
    }

    /// Returns the handle of the outside world for the current program of a host.
    ///
    /// # Panics
    /// If there is no such host; this is true for all methods with a host's name.
    pub fn rt(&self, host: &str) -> Rt {
        let number = self.number(host);
        let life = self.world.state().hosts[number].life.clone();
        // Each run of each host has randomness of its own, so that a change in one program does not disturb the
        // others.
        let random = SeededRandom::new(self.seed ^ (number as u64 + 1) << 40 ^ (life.number + 1) << 52);
        let net = SimNet { world: self.world.clone(), life: life.clone() };
        let clock = SimClock { world: self.world.clone(), host: number };
        Rt { life: Some(life), ..Rt::new(net, clock, random) }
    }

    /// Returns the address of a host, whether or not its name resolves.
    pub fn address(&self, host: &str) -> IpAddr {
        let number = self.number(host);
        self.world.state().hosts[number].ip
    }

    /// Runs a future as a task of the program on a host.
    pub fn spawn<T: Send + 'static>(
        &self,
        host: &str,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.rt(host).spawn(task)
    }

    /// Kills the program of a host as by SIGKILL: its kernel closes the connections.
    pub fn kill(&self, host: &str) {
        let number = self.number(host);
        self.bury(number);
    }

    /// Cuts the power of a host: it falls silent, and its program is gone.
    pub fn power_off(&self, host: &str) {
        let number = self.number(host);
        // Power before the program: what the program's destructors send must not leave the host.
        self.world.state().set_power(number, false, Instant::now());
        self.bury(number);
    }

    /// Restores the power. The program has to be started again.
    pub fn power_on(&self, host: &str) {
        let number = self.number(host);
        self.world.state().set_power(number, true, Instant::now());
        self.world.wake_courier();
    }

    fn bury(&self, number: usize) {
        let (life, listeners) = {
            let mut state = self.world.state();
            let life = state.hosts[number].life.clone();
            (life, state.bury(number))
        };
        life.end();
        // Dropped without the lock: listeners close the connections that wait in them.
        drop(listeners);
        self.world.wake_courier();
    }

    /// Stops the program of a host as by SIGSTOP: its kernel still accepts bytes and connections.
    pub fn pause(&self, host: &str) {
        let number = self.number(host);
        self.world.state().hosts[number].life.pause();
    }

    /// Continues the program of a host.
    pub fn resume(&self, host: &str) {
        let number = self.number(host);
        self.world.state().hosts[number].life.resume();
    }

    /// Cuts the link from one host to another: packets vanish.
    pub fn cut(&self, from: &str, to: &str) {
        let (from, to) = (self.number(from), self.number(to));
        self.world.state().cut(from, to, Instant::now());
    }

    /// Restores the link from one host to another: what was sent meanwhile is sent again.
    pub fn mend(&self, from: &str, to: &str) {
        let (from, to) = (self.number(from), self.number(to));
        self.world.state().mend(from, to, Instant::now());
        self.world.wake_courier();
    }

    /// Cuts the link between two hosts in both directions.
    pub fn partition(&self, one: &str, other: &str) {
        self.cut(one, other);
        self.cut(other, one);
    }

    /// Restores the link between two hosts in both directions.
    pub fn repair(&self, one: &str, other: &str) {
        self.mend(one, other);
        self.mend(other, one);
    }

    /// Makes the link between two hosts slower and lossy in both directions; lost packets (in percent) arrive late.
    pub fn weaken(&self, one: &str, other: &str, slow: Duration, loss: u32) {
        let (one, other) = (self.number(one), self.number(other));
        let mut state = self.world.state();
        state.weaken(one, other, slow, loss);
        state.weaken(other, one, slow, loss);
    }

    /// Sets whether the name of a host resolves.
    pub fn set_resolves(&self, host: &str, resolves: bool) {
        let number = self.number(host);
        self.world.state().hosts[number].resolves = resolves;
    }

    /// Moves the clock of a host by this many seconds. Timers do not notice.
    pub fn move_clock(&self, host: &str, seconds: i64) {
        let number = self.number(host);
        self.world.state().hosts[number].skew += seconds * 1_000_000;
    }

    /// Returns a number from 0 to below `bound`, generated from the seed.
    pub fn below(&self, bound: u64) -> u64 {
        use rand::Rng;
        if bound == 0 { 0 } else { self.world.state().random.random_range(0..bound) }
    }

    /// Returns the time since the start.
    pub fn elapsed(&self) -> Duration {
        self.world.elapsed()
    }

    /// Writes a line with the time into the trace.
    pub fn note(&self, text: impl std::fmt::Display) {
        let line = format!("{:>11.3} {text}", self.elapsed().as_secs_f64());
        self.world.state().trace.push(line);
    }

    /// Returns all lines of the trace so far.
    pub fn trace(&self) -> Vec<String> {
        self.world.state().trace.clone()
    }

    /// Returns the number of tasks of a host's program.
    pub fn tasks(&self, host: &str) -> usize {
        let number = self.number(host);
        self.world.state().hosts[number].life.count()
    }

    /// Returns how many bytes the programs of a host have sent to those of another one.
    pub fn sent(&self, from: &str, to: &str) -> u64 {
        let ends = (self.number(from), self.number(to));
        self.world.state().sent.get(&ends).copied().unwrap_or_default()
    }

    /// Returns a description of both directions of all connections.
    pub fn directions(&self) -> Vec<String> {
        self.world.state().directions()
    }

    fn number(&self, host: &str) -> usize {
        self.world.state().host(host).unwrap_or_else(|| panic!("there is no host {host}"))
    }
}
