//! The faults of a storm: what goes wrong for a while, and how it is put right.

use std::time::Duration;

use value::map;

use crate::cluster::Cluster;
use crate::ledger::{Ledger, clock, disk, way};

/// Something that goes wrong for a while.
#[derive(Clone, Debug)]
pub enum Fault {
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
    /// A master loses its disk. It is set up again with another member key, after an operator has removed the lost member.
    EmptyDisk(String),
    /// At the end the directory of a master comes back as it was at the beginning.
    OldDisk(String),
    /// An operator removes a master from the set. At the end it joins with another member key.
    Removed(String),
    /// The accepted keys of a master vanish, until an operator has them written again.
    KeysWiped(String),
}

/// The kinds of faults that hit any cluster.
const COMMON: u64 = 12;

/// The seconds of a day.
const DAY: i64 = 86_400;

fn any(cluster: &Cluster, names: Vec<String>) -> String {
    names[cluster.sim.below(names.len() as u64) as usize].clone()
}

/// Returns a host that runs a master or a minion.
fn any_host(cluster: &Cluster) -> String {
    any(cluster, cluster.members().into_iter().chain(cluster.minions()).collect())
}

/// Returns a master, and a minion or another member of the set.
fn any_pair(cluster: &Cluster) -> (String, String) {
    let (master, minion) = (any(cluster, cluster.masters()), any(cluster, cluster.minions()));
    if !cluster.plan.sharing || cluster.sim.below(2) == 0 {
        return (master, minion);
    }
    let others = cluster.members().into_iter().filter(|other| *other != master).collect();
    let other = any(cluster, others);
    (master, other)
}

impl Fault {
    /// Draws a fault from the seed.
    pub fn draw(cluster: &Cluster) -> Fault {
        let below = |bound| cluster.sim.below(bound);
        let (master, other) = any_pair(cluster);
        // The seeds of masters that do not share were kept when there were no others.
        let kinds = if cluster.plan.sharing { COMMON + 2 } else { COMMON };
        match below(kinds) {
            0 => Fault::Partition(master, other),
            1 if below(2) == 0 => Fault::OneWay(master, other),
            1 => Fault::OneWay(other, master),
            2 => Fault::Slow(master, other, 50 + below(1500)),
            3 => Fault::Lossy(master, other, 5 + below(30) as u32),
            4 => Fault::Pause(any_host(cluster)),
            5 => Fault::Kill(any_host(cluster)),
            6 => Fault::PowerOff(any_host(cluster)),
            7 => Fault::NoName(master),
            8 => Fault::Stop(any_host(cluster)),
            9 => Fault::DiskFull(any_host(cluster)),
            10 => Fault::Rotate(master),
            11 => Fault::Clock(any_host(cluster), [-3600, -60, 60, 3600][below(4) as usize]),
            12 => Fault::KeysWiped(master),
            _ => Fault::Clock(any(cluster, cluster.members()), [-2 * DAY, 2 * DAY][below(2) as usize]),
        }
    }

    /// Draws a fault that occurs at most once in a storm. Two at the same time could leave no majority of voters, or no copy of a
    /// record.
    pub fn draw_rare(cluster: &Cluster) -> Fault {
        let master = any(cluster, cluster.masters());
        match cluster.sim.below(3) {
            0 => Fault::EmptyDisk(master),
            1 => Fault::OldDisk(master),
            _ => Fault::Removed(master),
        }
    }

    /// Returns whether this fault makes a master new in the set, and the other one has a clock days wrong that nobody contradicts: that
    /// of the new one, or that of the only other member, which is alone meanwhile.
    pub fn confuses(&self, other: &Fault, cluster: &Cluster) -> bool {
        match (self, other) {
            (Fault::EmptyDisk(new) | Fault::Removed(new), Fault::Clock(host, seconds)) => {
                (new == host || cluster.members().len() == 2) && seconds.abs() >= DAY
            }
            _ => false,
        }
    }

    /// It goes wrong.
    pub async fn begin(&self, cluster: &Cluster, ledger: &mut Ledger) {
        let (now, sim) = (cluster.sim.elapsed(), &cluster.sim);
        sim.note(format_args!("begins: {self:?}"));
        for what in self.touches() {
            ledger.trouble(&what, now);
        }
        match self {
            Fault::Partition(one, other) => sim.partition(one, other),
            Fault::OneWay(from, to) => sim.cut(from, to),
            Fault::Slow(one, other, slow) => sim.weaken(one, other, Duration::from_millis(*slow), 0),
            Fault::Lossy(one, other, loss) => sim.weaken(one, other, Duration::ZERO, *loss),
            Fault::Pause(host) => sim.pause(host),
            Fault::Kill(host) => {
                ledger.death(host, now);
                sim.kill(host);
            }
            Fault::PowerOff(host) => {
                ledger.death(host, now);
                sim.power_off(host);
            }
            Fault::NoName(host) => sim.set_resolves(host, false),
            Fault::Clock(host, seconds) => sim.move_clock(host, *seconds),
            Fault::Stop(host) => {
                ledger.death(host, now);
                cluster.stop(host);
            }
            Fault::DiskFull(host) => cluster.set_disk_full(host, true),
            Fault::Rotate(host) => cluster.rotate(host),
            Fault::EmptyDisk(host) => {
                ledger.death(host, now);
                ledger.lose_disk(host, now);
                cluster.kill(host).await;
                cluster.empty(host);
            }
            Fault::OldDisk(host) => {
                ledger.back_up(host, now);
                cluster.back_up(host);
            }
            // Done at the end as well if nobody can do it now.
            Fault::Removed(host) => {
                ledger.remove(host, now);
                remove(cluster, host).await;
            }
            Fault::KeysWiped(host) => {
                ledger.wipe_keys(host, now);
                cluster.wipe_keys(host);
            }
        }
    }

    /// It is put right. Returns false if that is to be tried again a while later.
    pub async fn end(&self, cluster: &Cluster, ledger: &mut Ledger) -> bool {
        let (now, sim) = (cluster.sim.elapsed(), &cluster.sim);
        match self {
            Fault::Partition(one, other) => sim.repair(one, other),
            Fault::OneWay(from, to) => sim.mend(from, to),
            Fault::Slow(one, other, _) | Fault::Lossy(one, other, _) => sim.weaken(one, other, Duration::ZERO, 0),
            Fault::Pause(host) => sim.resume(host),
            Fault::Kill(host) | Fault::Stop(host) => again(cluster, host),
            Fault::PowerOff(host) => {
                sim.power_on(host);
                again(cluster, host);
            }
            Fault::NoName(host) => sim.set_resolves(host, true),
            Fault::Clock(host, seconds) => sim.move_clock(host, -seconds),
            Fault::DiskFull(host) => cluster.set_disk_full(host, false),
            Fault::Rotate(_) => {}
            Fault::EmptyDisk(host) => match remove(cluster, host).await {
                true => {
                    // Another fault may have started it since.
                    ledger.death(host, sim.elapsed());
                    again(cluster, host);
                }
                false => return false,
            },
            Fault::OldDisk(host) => {
                let wiped = ledger.is_copy_wiped(host);
                if ledger.has_backup(host) {
                    ledger.death(host, now);
                    ledger.lose_disk(host, now);
                    cluster.kill(host).await;
                    cluster.restore(host);
                    cluster.start(host);
                    if wiped {
                        ledger.trouble(host, now);
                        ledger.wipe_keys(host, now);
                    }
                }
                if wiped {
                    if !restore_keys(cluster, ledger, host).await {
                        return false;
                    }
                    ledger.relief(host, sim.elapsed());
                }
            }
            Fault::Removed(host) => {
                if !remove(cluster, host).await {
                    return false;
                }
                ledger.death(host, sim.elapsed());
                ledger.join_again(host, sim.elapsed());
                cluster.kill(host).await;
                cluster.set_up_master(host, 1);
                cluster.start(host);
            }
            Fault::KeysWiped(host) => {
                if !restore_keys(cluster, ledger, host).await {
                    return false;
                }
            }
        }
        sim.note(format_args!("ends: {self:?}"));
        for what in self.touches() {
            ledger.relief(&what, sim.elapsed());
        }
        if let Fault::DiskFull(host) = self {
            start_ended(cluster, ledger, host);
        }
        true
    }

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
            | Fault::Stop(host)
            | Fault::EmptyDisk(host)
            | Fault::Removed(host)
            | Fault::KeysWiped(host) => vec![host.clone()],
            Fault::DiskFull(host) => vec![disk(host)],
            // The clock is a separate kind: a wrong one excuses only expiry after a restart, not a lost job or return.
            Fault::Clock(host, _) => vec![clock(host)],
            // Nothing is wrong until the directory comes back. A rotation is no excuse for anything: it must not be noticeable.
            Fault::OldDisk(_) | Fault::Rotate(_) => Vec::new(),
        }
    }
}

/// Starts the program of a host again, after killing what is left of the last one.
fn again(cluster: &Cluster, host: &str) {
    // A program that was asked to stop may still run: a paused host has not seen the signal.
    cluster.sim.kill(host);
    cluster.start(host);
}

/// Starts a member that has ended because its disk was full, as systemd does again and again.
fn start_ended(cluster: &Cluster, ledger: &Ledger, host: &str) {
    let is_member = cluster.plan.sharing && cluster.members().iter().any(|member| member == host);
    if is_member && ledger.works(host, cluster.sim.elapsed()) && !cluster.runs(host) {
        cluster.start(host);
    }
}

/// Has a master write its lost keys again. Returns whether it has.
pub async fn restore_keys(cluster: &Cluster, ledger: &mut Ledger, host: &str) -> bool {
    let restored = cluster.ask_set(host, map! { "what" => "restore_keys" }).await.is_ok();
    if restored {
        ledger.restore_keys(host, cluster.sim.elapsed());
    }
    restored
}

/// Removes a master from the set, on any other member. Returns whether it is removed.
async fn remove(cluster: &Cluster, host: &str) -> bool {
    let node = cluster.first_node(host);
    for other in cluster.members().into_iter().filter(|other| other != host) {
        match cluster.ask_set(&other, map! { "what" => "remove", "name" => node.as_str() }).await {
            Ok(_) => return true,
            Err(reason) if reason.contains("is removed already") => return true,
            Err(_) => {}
        }
    }
    false
}
