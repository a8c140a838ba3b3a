//! The storm: an hour of faults and jobs that follows from a seed, and its result.

use std::time::Duration;

use rt::sim::Sim;
use value::{Map, Value, map};

use crate::cluster::{Cluster, KEY_STATES, Mode, Plan};
use crate::ledger::{BOUND, Ledger, clock, disk, way};

/// How long a storm lasts.
const HOUR: Duration = Duration::from_secs(3600);

/// The time without faults at the beginning, in which minions find their masters.
const QUIET: Duration = Duration::from_secs(120);

/// The result of a storm.
#[derive(Debug)]
pub struct Outcome {
    /// Its seed.
    pub seed: u64,
    /// Violated invariants.
    pub wrongs: Vec<String>,
    /// Jobs that masters accepted.
    pub jobs: usize,
    /// Commands that minions began.
    pub begun: usize,
    /// Returns that can be read.
    pub returned: usize,
    /// Commands minions never began.
    pub missed: usize,
    /// The trace.
    pub trace: Vec<String>,
}

/// Something that goes wrong for a while.
#[derive(Clone, Debug)]
enum Fault {
    Partition(String, String),
    OneWay(String, String),
    Slow(String, String, u64),
    Lossy(String, String, u32),
    Pause(String),
    Kill(String),
    PowerOff(String),
    NoName(String),
    Clock(String, i64),
    /// The program is asked to stop, as with SIGTERM.
    Stop(String),
    DiskFull(String),
    /// A master creates a new AES key, even while minions are absent.
    Rotate(String),
}

/// A scheduled action of a storm.
enum Due {
    Begin(Fault),
    End(Fault),
    Publish,
    /// An operator decides about a key.
    Decide,
    Look(usize),
    LookAtRound(std::ops::Range<usize>),
}

/// Runs the storm of a seed, over masters that know nothing of each other.
pub fn storm(seed: u64) -> Outcome {
    run(seed, plan)
}

/// Runs the storm of a seed over masters that are one set.
pub fn sharing_storm(seed: u64) -> Outcome {
    run(seed, sharing_plan)
}

fn run(seed: u64, plan: fn(&Sim) -> Plan) -> Outcome {
    Sim::run(seed, async |sim| {
        let cluster = Cluster::new(sim.clone(), plan(&sim));
        let _ear = cluster.ear.listen();
        sim.note(format_args!("{:?}", cluster.plan));
        let mut storm = Storm { cluster, ledger: Ledger::default(), due: Vec::new(), number: 0 };
        storm.run().await;
        let Ledger { jobs, wrongs, begun, returned, missed, .. } = storm.ledger;
        Outcome { seed, wrongs, jobs: jobs.len(), begun, returned, missed, trace: sim.trace() }
    })
}

fn plan(sim: &Sim) -> Plan {
    Plan {
        masters: 2 + sim.below(2) as usize,
        minions: 1 + sim.below(3) as usize,
        mode: if sim.below(3) == 0 { Mode::Failover } else { Mode::Hot },
        transport: if sim.below(4) == 0 { "tcp" } else { "zeromq" },
        heartbeat: [1.5, 3.0, 6.0, 6.0][sim.below(4) as usize],
        minion_options: if sim.below(2) == 0 {
            Map::new()
        } else {
            map! { "master_failback" => true, "master_failback_interval" => 10 }
        },
        ..Plan::default()
    }
}

fn sharing_plan(sim: &Sim) -> Plan {
    Plan {
        masters: 2 + sim.below(3) as usize,
        mode: [Mode::Hot, Mode::Failover, Mode::Single][sim.below(3) as usize],
        sharing: true,
        ..plan(sim)
    }
}

struct Storm {
    cluster: Cluster,
    ledger: Ledger,
    due: Vec<(Duration, u64, Due)>,
    number: u64,
}

impl Storm {
    async fn run(&mut self) {
        self.cluster.start_all();
        self.schedule(QUIET);
        while let Some((at, what)) = self.next() {
            tokio::time::sleep(at.saturating_sub(self.now())).await;
            match what {
                Due::Begin(fault) => self.begin(fault),
                Due::End(fault) => self.end(fault),
                Due::Publish => self.publish().await,
                Due::Decide => self.decide(),
                Due::Look(number) => {
                    let job = self.ledger.jobs[number].clone();
                    self.ledger.check_calm(&self.cluster, &job);
                }
                Due::LookAtRound(jobs) => {
                    let jobs = self.ledger.jobs[jobs].to_vec();
                    self.ledger.check_round(&self.cluster, &jobs);
                }
            }
        }
        // Longer than any timeout, retry or failback interval in the plan: what is still undelivered then is lost.
        tokio::time::sleep(QUIET * 3).await;
        self.say_good_night().await;
        self.ledger.check_end(&self.cluster);
    }

    fn now(&self) -> Duration {
        self.cluster.sim.elapsed()
    }

    fn below(&self, bound: u64) -> u64 {
        self.cluster.sim.below(bound)
    }

    fn seconds(&self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.below((to - from) * 1000) + from * 1000)
    }

    fn put(&mut self, at: Duration, due: Due) {
        self.number += 1;
        // The number breaks ties, so that actions at the same moment have an order that follows from the seed.
        self.due.push((at, self.number, due));
    }

    fn next(&mut self) -> Option<(Duration, Due)> {
        let place = self.due.iter().enumerate().min_by_key(|(_, (at, number, _))| (*at, *number))?.0;
        let (at, _, due) = self.due.swap_remove(place);
        Some((at, due))
    }

    /// Draws all faults and jobs of the hour in advance.
    fn schedule(&mut self, start: Duration) {
        let mut at = start;
        while at < HOUR {
            let fault = self.fault();
            // Most faults are short, around the timeouts of heartbeats and requests; some outlast `job_grace` and the
            // key rotation.
            let long = if self.below(4) == 0 { self.seconds(60, 400) } else { self.seconds(1, 40) };
            self.put(at, Due::Begin(fault.clone()));
            // All faults end within the hour, so that the checks at the end may demand that everything has healed.
            self.put((at + long).min(HOUR), Due::End(fault));
            at += self.seconds(5, 180);
        }
        let mut at = start;
        while at < HOUR {
            self.put(at, Due::Publish);
            at += self.seconds(5, 75);
        }
        let mut at = start;
        while self.cluster.plan.sharing && at < HOUR {
            self.put(at, Due::Decide);
            at += self.seconds(10, 200);
        }
    }

    fn any(&self, names: Vec<String>) -> String {
        names[self.below(names.len() as u64) as usize].clone()
    }

    fn any_host(&self) -> String {
        let mut all = self.cluster.masters();
        all.extend(self.cluster.minions());
        self.any(all)
    }

    /// Returns a master, and a minion or another master.
    fn any_pair(&self) -> (String, String) {
        let (master, minion) = (self.any(self.cluster.masters()), self.any(self.cluster.minions()));
        if !self.cluster.plan.sharing || self.below(2) == 0 {
            return (master, minion);
        }
        let others = self.cluster.masters().into_iter().filter(|other| *other != master).collect();
        let other = self.any(others);
        (master, other)
    }

    fn fault(&self) -> Fault {
        let (master, minion) = self.any_pair();
        match self.below(12) {
            0 => Fault::Partition(master, minion),
            1 if self.below(2) == 0 => Fault::OneWay(master, minion),
            1 => Fault::OneWay(minion, master),
            2 => Fault::Slow(master, minion, 50 + self.below(1500)),
            3 => Fault::Lossy(master, minion, 5 + self.below(30) as u32),
            4 => Fault::Pause(self.any_host()),
            5 => Fault::Kill(self.any_host()),
            6 => Fault::PowerOff(self.any_host()),
            7 => Fault::NoName(master),
            8 => Fault::Stop(self.any_host()),
            9 => Fault::DiskFull(self.any_host()),
            10 => Fault::Rotate(master),
            _ => Fault::Clock(self.any_host(), [-3600, -60, 60, 3600][self.below(4) as usize]),
        }
    }

    fn begin(&mut self, fault: Fault) {
        let (now, sim) = (self.now(), self.cluster.sim.clone());
        sim.note(format_args!("begins: {fault:?}"));
        for what in fault.touches() {
            self.ledger.trouble(&what, now);
        }
        match &fault {
            Fault::Partition(one, other) => sim.partition(one, other),
            Fault::OneWay(from, to) => sim.cut(from, to),
            Fault::Slow(one, other, slow) => sim.weaken(one, other, Duration::from_millis(*slow), 0),
            Fault::Lossy(one, other, loss) => sim.weaken(one, other, Duration::ZERO, *loss),
            Fault::Pause(host) => sim.pause(host),
            Fault::Kill(host) => {
                self.ledger.death(host, now);
                sim.kill(host);
            }
            Fault::PowerOff(host) => {
                self.ledger.death(host, now);
                sim.power_off(host);
            }
            Fault::NoName(host) => sim.set_resolves(host, false),
            Fault::Clock(host, seconds) => sim.move_clock(host, *seconds),
            Fault::Stop(host) => {
                self.ledger.death(host, now);
                self.cluster.stop(host);
            }
            Fault::DiskFull(host) => self.cluster.set_disk_full(host, true),
            Fault::Rotate(host) => self.cluster.rotate(host),
        }
    }

    fn end(&mut self, fault: Fault) {
        let (now, sim) = (self.now(), self.cluster.sim.clone());
        sim.note(format_args!("is over: {fault:?}"));
        for what in fault.touches() {
            self.ledger.relief(&what, now);
        }
        match &fault {
            Fault::Partition(one, other) => sim.repair(one, other),
            Fault::OneWay(from, to) => sim.mend(from, to),
            Fault::Slow(one, other, _) | Fault::Lossy(one, other, _) => sim.weaken(one, other, Duration::ZERO, 0),
            Fault::Pause(host) => sim.resume(host),
            Fault::Kill(host) | Fault::Stop(host) => self.again(host),
            Fault::PowerOff(host) => {
                sim.power_on(host);
                self.again(host);
            }
            Fault::NoName(host) => sim.set_resolves(host, true),
            Fault::Clock(host, seconds) => sim.move_clock(host, -seconds),
            Fault::DiskFull(host) => self.cluster.set_disk_full(host, false),
            Fault::Rotate(_) => {}
        }
    }

    /// Starts the program of a host again, after killing what is left of the last one.
    fn again(&self, host: &str) {
        // A program that was asked to stop may still run: a paused host has not seen the signal.
        self.cluster.sim.kill(host);
        self.cluster.start(host);
    }

    async fn publish(&mut self) {
        if self.cluster.plan.mode == Mode::Failover && !self.cluster.plan.sharing {
            return self.publish_everywhere().await;
        }
        let master = self.any(self.cluster.masters());
        let text = Value::from(format!("word {}", self.below(1 << 32)));
        let (fun, arg) = match self.below(4) {
            0 => ("test.ping", Vec::new()),
            1 => ("test.sleep", vec![Value::from(self.below(5) as i64)]),
            _ => ("test.echo", vec![text]),
        };
        let hold = if self.below(4) == 0 { 300 } else { 0 };
        if let Some(job) = self.cluster.publish_held(&master, "web*", fun, arg, hold).await {
            self.put(job.accepted + BOUND, Due::Look(self.ledger.jobs.len()));
            self.ledger.jobs.push(job);
        }
    }

    /// Decides about the key of a minion that is never there, at a master that runs and can write.
    fn decide(&self) {
        let (master, id) = (self.any(self.cluster.masters()), format!("old{}", self.below(4)));
        let states = KEY_STATES.into_iter().map(Some).chain([None]).collect::<Vec<_>>();
        let state = states[self.below(states.len() as u64) as usize];
        if self.cluster.runs(&master) && self.ledger.works(&master, self.now()) {
            self.cluster.decide(&master, &id, state);
        }
    }

    /// Publishes a job at each master. A minion in failover mode receives one of them.
    async fn publish_everywhere(&mut self) {
        let before = self.ledger.jobs.len();
        for master in self.cluster.masters() {
            let published = self.cluster.publish(&master, "web*", "test.ping", Vec::new()).await;
            self.ledger.jobs.extend(published);
        }
        let round = before..self.ledger.jobs.len();
        self.put(self.now() + BOUND, Due::LookAtRound(round));
    }

    /// Checks at the end that each minion answers each master it follows.
    async fn say_good_night(&mut self) {
        if self.cluster.plan.mode == Mode::Failover && !self.cluster.plan.sharing {
            self.publish_everywhere().await;
            tokio::time::sleep(BOUND).await;
            let jobs: Vec<_> = self.due.drain(..).collect();
            for (_, _, due) in jobs {
                if let Due::LookAtRound(jobs) = due {
                    let jobs = self.ledger.jobs[jobs].to_vec();
                    self.ledger.check_round(&self.cluster, &jobs);
                }
            }
            return;
        }
        for master in self.cluster.masters() {
            match self.cluster.publish(&master, "web*", "test.ping", Vec::new()).await {
                Some(job) => {
                    tokio::time::sleep(BOUND).await;
                    self.ledger.check_calm(&self.cluster, &job);
                    self.ledger.jobs.push(job);
                }
                None => self.ledger.wrongs.push(format!("{master} takes no jobs though all is well again")),
            }
        }
    }
}

impl Fault {
    /// Returns the hosts, disks, clocks and paths that it affects.
    fn touches(&self) -> Vec<String> {
        match self {
            Fault::Partition(one, other)
            | Fault::OneWay(one, other)
            | Fault::Slow(one, other, _)
            | Fault::Lossy(one, other, _) => vec![way(one, other)],
            Fault::Pause(host)
            | Fault::Kill(host)
            | Fault::PowerOff(host)
            | Fault::NoName(host)
            | Fault::Stop(host) => vec![host.clone()],
            Fault::DiskFull(host) => vec![disk(host)],
            // The clock is a separate kind: a wrong one excuses only expiry after a restart, not a lost job or return.
            Fault::Clock(host, _) => vec![clock(host)],
            // A rotation is no excuse for anything: it must not be noticeable.
            Fault::Rotate(_) => Vec::new(),
        }
    }
}
