//! The storm: an hour of faults and jobs that follows from a seed, and its result.

use std::time::Duration;

use rt::sim::Sim;
use value::{Map, Value, list, map};

use crate::cluster::{Cluster, KEY_STATES, Mode, Plan};
use crate::decisions::{self, KeyDecision};
use crate::faults::{Fault, restore_keys};
use crate::leases;
use crate::ledger::{BOUND, LINKED, Ledger};
use crate::shared;
use crate::traffic::Traffic;

/// How long a storm lasts.
const HOUR: Duration = Duration::from_secs(3600);

/// The time without faults at the beginning, in which minions find their masters.
const QUIET: Duration = Duration::from_secs(120);

/// How long an operator waits before another attempt to put something right.
const AGAIN: Duration = Duration::from_secs(10);

/// How many bytes a second two members may send each other in the end.
const MOST_TRAFFIC: u64 = 2_000;

/// Until when the faults begin that befall a set once at most, in seconds.
const LATEST_RARE: u64 = 3_000;

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
    run(seed, move |sim| sharing_plan(sim, seed))
}

fn run(seed: u64, plan: impl Fn(&Sim) -> Plan) -> Outcome {
    Sim::run(seed, async |sim| {
        let cluster = Cluster::new(sim.clone(), plan(&sim));
        let _ear = cluster.ear.listen();
        sim.note(format_args!("{:?}", cluster.plan));
        let mut storm = Storm { cluster, ledger: Ledger::default(), decisions: Vec::new(), due: Vec::new(), number: 0 };
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

fn sharing_plan(sim: &Sim, seed: u64) -> Plan {
    let drawn = 2 + sim.below(3) as usize;
    Plan {
        // Four masters take three times as long as two, so there are fewer such sets. The seed decides and not another draw, which
        // would make other storms of the kept seeds.
        masters: if drawn == 4 && seed.is_multiple_of(2) { 2 } else { drawn },
        mode: [Mode::Hot, Mode::Failover, Mode::Single][sim.below(3) as usize],
        sharing: true,
        witness: sim.below(4) == 0,
        master_options: map! {
            "schedule" => duties(),
            // Idle members do little but beat and renew leases, so most storms have longer times than the default ones.
            "cluster_heartbeat" => [0.5, 3.0, 3.0, 3.0][sim.below(4) as usize],
            "cluster_lease_time" => [6, 20, 20, 20][sim.below(4) as usize],
        },
        ..plan(sim)
    }
}

/// For how many seconds after its begin nobody else begins what programs run once.
pub const NIGHTLY_WITHIN: i64 = 200;

/// What the set does once: at times of day, which are the same on all masters, and at intervals, which each counts from its own start.
fn duties() -> Map {
    map! {
        "report" => map! { "function" => "test.metasyntactic", "cron" => "*/3 * * * *" },
        "tidy" => map! { "function" => "test.sleep", "args" => list![3], "seconds" => 90 },
        // As cron starts it on each master.
        "nightly" => map! {
            "function" => "saltern.once", "args" => list!["nightly", "test.sleep", 2], "kwargs" => map! { "within" => NIGHTLY_WITHIN },
            "cron" => "*/4 * * * *", "on" => "all",
        },
    }
}

struct Storm {
    cluster: Cluster,
    ledger: Ledger,
    decisions: Vec<KeyDecision>,
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
                Due::Begin(fault) => fault.begin(&self.cluster, &mut self.ledger).await,
                Due::End(fault) => {
                    if !fault.end(&self.cluster, &mut self.ledger).await {
                        self.put(self.now() + AGAIN, Due::End(fault));
                    }
                }
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
        self.restore_lost_keys().await;
        // Longer than any timeout, retry or failback interval in the plan: what is still undelivered then is lost.
        tokio::time::sleep(QUIET * 2).await;
        let before = Traffic::count(&self.cluster);
        tokio::time::sleep(QUIET).await;
        self.check_traffic(&before);
        self.say_good_night().await;
        self.check_deletions();
        self.ledger.check_end(&self.cluster);
        if self.cluster.plan.sharing {
            self.await_rest().await;
            // All at one moment: one that ends a moment later may write something that the others never hear of.
            self.cluster.members().iter().for_each(|member| self.cluster.sim.kill(member));
            for member in self.cluster.members() {
                self.cluster.kill(&member).await;
            }
            self.ledger.wrongs.extend(shared::record_differences(&self.cluster));
        }
    }

    /// Has masters restore the keys that they report as lost: the file of the last key in a directory may have been removed just before
    /// its master was stopped, and then an operator has to say what was meant.
    async fn restore_lost_keys(&mut self) {
        for host in self.cluster.members() {
            let lost = self.cluster.ear.lost_keys(&host);
            if self.ledger.is_silent(&host, &lost, self.now()) {
                restore_keys(&self.cluster, &mut self.ledger, &host).await;
            }
        }
    }

    /// Waits until what began last is known everywhere: a run of the schedule may have begun a moment ago.
    async fn await_rest(&self) {
        while leases::last_claim(&self.cluster).is_some_and(|last| self.now() < last + LINKED) {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Checks what members have sent each other since then, in which nothing happened but what their schedules, their minions' and the
    /// programs beside them do.
    fn check_traffic(&mut self, before: &Traffic) {
        let pairs = Traffic::count(&self.cluster).since(before);
        self.cluster.sim.note(format_args!("bytes a second between members: {pairs:?}"));
        let loud = pairs.into_iter().filter(|(_, bytes)| *bytes > MOST_TRAFFIC);
        let words = |(pair, bytes)| format!("{pair} send each other {bytes} bytes a second although nothing happens");
        self.ledger.wrongs.extend(loud.map(words));
    }

    fn check_deletions(&mut self) {
        self.ledger.wrongs.extend(decisions::wrongs(&self.cluster, &self.ledger, &self.decisions));
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
            let fault = Fault::draw(&self.cluster);
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
        if !self.cluster.plan.sharing {
            return;
        }
        while at < HOUR {
            self.put(at, Due::Decide);
            at += self.seconds(10, 200);
        }
        if self.below(2) == 0 {
            let at = self.seconds(start.as_secs(), LATEST_RARE);
            let (fault, long) = (Fault::draw_rare(&self.cluster), self.seconds(1, 400));
            // Masters that know no other time believe a clock that is days wrong.
            let cluster = &self.cluster;
            let confused = |other: &Fault| fault.confuses(other, cluster);
            self.due.retain(|(_, _, due)| !matches!(due, Due::Begin(other) | Due::End(other) if confused(other)));
            self.put(at, Due::Begin(fault.clone()));
            self.put(at + long, Due::End(fault));
        }
    }

    fn any_master(&self) -> String {
        let masters = self.cluster.masters();
        masters[self.below(masters.len() as u64) as usize].clone()
    }

    async fn publish(&mut self) {
        if self.cluster.plan.mode == Mode::Failover && !self.cluster.plan.sharing {
            return self.publish_everywhere().await;
        }
        let master = self.any_master();
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
    fn decide(&mut self) {
        self.check_deletions();
        let (master, id) = (self.any_master(), format!("old{}", self.below(4)));
        let states = KEY_STATES.into_iter().map(Some).chain([None]).collect::<Vec<_>>();
        let state = states[self.below(states.len() as u64) as usize];
        let at = self.now();
        if self.cluster.runs(&master) && self.ledger.works(&master, at) && self.cluster.decide(&master, &id, state) {
            self.decisions.push(KeyDecision { id, master, at, deleted: state.is_none() });
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
