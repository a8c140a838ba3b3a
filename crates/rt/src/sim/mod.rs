//! A simulated world (feature `sim`): hosts of one process whose network, clocks and randomness follow from a seed. Only for
//! tests.
//!
//! All hosts live on one runtime with paused time, which jumps to the next timer when nobody has anything to do; an hour in
//! which nothing happens costs nothing. A [`Sim`] makes hosts, gives their programs an [`Rt`], and is the storm: it cuts,
//! slows and mends ways between hosts, ends and freezes programs, takes the power of machines, moves clocks.

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
pub use life::{Living, current_host};

/// The time of day at which every simulation begins: 2020-01-01.
pub const EPOCH: Duration = Duration::from_secs(1_577_836_800);

/// A simulated world. Cheap to clone.
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
        let skew = self.world.state().hosts[self.host].skew;
        let shown = (EPOCH + self.world.elapsed()).as_micros() as i64 + skew;
        SystemTime::UNIX_EPOCH + Duration::from_micros(shown.max(0) as u64)
    }
}

impl Sim {
    /// Runs a simulation to its end and returns its result.
    ///
    /// # Panics
    /// When the runtime cannot be made.
    pub fn run<F: Future>(seed: u64, scenario: impl FnOnce(Sim) -> F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime of one thread needs nothing").block_on(async {
            let world = World::new(seed);
            tokio::spawn(world.clone().carry());
            let result = scenario(Sim { world: world.clone(), seed }).await;
            // What is still on its way holds the world, and the world holds it.
            drop(world.empty());
            result
        })
    }

    /// Adds a host. Its address follows from the order: 10.0.0.1, 10.0.0.2 and so on. Clocks differ by up to 50 ms.
    ///
    /// # Panics
    /// With more than 254 hosts, or when the name is taken.
    pub fn add_host(&self, name: &str) {
        use rand::Rng;
        let mut state = self.world.state();
        assert!(state.host(name).is_none(), "{name} is there already");
        let last = u8::try_from(state.hosts.len() + 1).expect("there are few hosts");
        let number = state.add_host(name, IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)));
        state.hosts[number].skew = state.random.random_range(-50_000..50_000);
    }

    /// The handle to the outside for the program that runs on a host now.
    ///
    /// # Panics
    /// When there is no such host; so do all methods that take its name.
    pub fn rt(&self, host: &str) -> Rt {
        let number = self.number(host);
        let life = self.world.state().hosts[number].life.clone();
        let random = SeededRandom::new(self.seed ^ (number as u64 + 1) << 40 ^ (life.number + 1) << 52);
        let net = SimNet { world: self.world.clone(), life: life.clone() };
        let clock = SimClock { world: self.world.clone(), host: number };
        Rt { life: Some(life), ..Rt::new(net, clock, random) }
    }

    /// The address of a host, whether its name resolves or not.
    pub fn address(&self, host: &str) -> IpAddr {
        let number = self.number(host);
        self.world.state().hosts[number].ip
    }

    /// Runs something as a task of the program on a host.
    pub fn spawn<T: Send + 'static>(
        &self,
        host: &str,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.rt(host).spawn(task)
    }

    /// Ends the program of a host as SIGKILL does: its kernel closes the connections.
    pub fn kill(&self, host: &str) {
        let number = self.number(host);
        self.bury(number);
    }

    /// Takes the power of a machine: it falls silent, and its program is gone.
    pub fn power_off(&self, host: &str) {
        let number = self.number(host);
        self.world.state().set_power(number, false, Instant::now());
        self.bury(number);
    }

    /// Gives the power back. Its program has to be started again.
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
        drop(listeners);
        self.world.wake_courier();
    }

    /// Stops the program of a host as SIGSTOP does: its kernel goes on taking bytes and connections.
    pub fn pause(&self, host: &str) {
        let number = self.number(host);
        self.world.state().hosts[number].life.pause();
    }

    /// Lets the program of a host go on.
    pub fn resume(&self, host: &str) {
        let number = self.number(host);
        self.world.state().hosts[number].life.resume();
    }

    /// Cuts the way from one host to another: packets vanish.
    pub fn cut(&self, from: &str, to: &str) {
        let (from, to) = (self.number(from), self.number(to));
        self.world.state().cut(from, to, Instant::now());
    }

    /// Mends the way from one host to another: what was sent meanwhile is sent again.
    pub fn mend(&self, from: &str, to: &str) {
        let (from, to) = (self.number(from), self.number(to));
        self.world.state().mend(from, to, Instant::now());
        self.world.wake_courier();
    }

    /// Cuts both ways between two hosts.
    pub fn partition(&self, one: &str, other: &str) {
        self.cut(one, other);
        self.cut(other, one);
    }

    /// Mends both ways between two hosts.
    pub fn repair(&self, one: &str, other: &str) {
        self.mend(one, other);
        self.mend(other, one);
    }

    /// Makes both ways between two hosts slower, and lossy: packets lost, in percent, come late.
    pub fn weaken(&self, one: &str, other: &str, slow: Duration, loss: u32) {
        let (one, other) = (self.number(one), self.number(other));
        let mut state = self.world.state();
        state.weaken(one, other, slow, loss);
        state.weaken(other, one, slow, loss);
    }

    /// Says whether the name of a host resolves.
    pub fn set_resolves(&self, host: &str, resolves: bool) {
        let number = self.number(host);
        self.world.state().hosts[number].resolves = resolves;
    }

    /// Moves the clock of a host by so many seconds. Timers do not notice.
    pub fn move_clock(&self, host: &str, seconds: i64) {
        let number = self.number(host);
        self.world.state().hosts[number].skew += seconds * 1_000_000;
    }

    /// A number from 0 to below `bound` that follows from the seed.
    pub fn below(&self, bound: u64) -> u64 {
        use rand::Rng;
        if bound == 0 { 0 } else { self.world.state().random.random_range(0..bound) }
    }

    /// The time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.world.elapsed()
    }

    /// Writes a line into the trace, with the time.
    pub fn note(&self, text: impl std::fmt::Display) {
        let line = format!("{:>11.3} {text}", self.elapsed().as_secs_f64());
        self.world.state().trace.push(line);
    }

    /// All lines of the trace so far.
    pub fn trace(&self) -> Vec<String> {
        self.world.state().trace.clone()
    }

    /// How many tasks the program of a host has.
    pub fn tasks(&self, host: &str) -> usize {
        let number = self.number(host);
        self.world.state().hosts[number].life.count()
    }

    /// Both directions of all connections, each in words.
    pub fn directions(&self) -> Vec<String> {
        self.world.state().directions()
    }

    fn number(&self, host: &str) -> usize {
        self.world.state().host(host).unwrap_or_else(|| panic!("there is no host {host}"))
    }
}
