//! The faults, and the measurements for each.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nix::sys::signal::Signal;

use crate::cluster::{Cluster, Job, MASTERS, MINIONS, Role, other_address, time_until};
use crate::lab::Way;

/// The length of a fault.
const FAULT: Duration = Duration::from_secs(20);
/// The time limit for the minions' logs to show the loss of a master.
const NOTICE: Duration = Duration::from_secs(20);
/// The time limit for everything to come back.
const BACK: Duration = Duration::from_secs(120);
/// Between jobs that are published during a fault.
const PAUSE: Duration = Duration::from_secs(4);

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Kill,
    Stop,
    DropBoth,
    DropToMaster,
    DropFromMaster,
    LinkDown,
    Loss,
    Delay,
    NameGone,
    NameMoves,
    MasterDisk,
    MinionDisk,
    Clock,
    AllDown,
    Rotation,
}

/// The result of a fault.
pub struct Outcome {
    /// The time until every minion had noticed the loss of the first master; `None` if some did not.
    pub noticed: Option<Duration>,
    /// The time until all minions had answered another master.
    pub other: Option<Duration>,
    /// The time from the end of the fault until all minions answered the first master.
    pub back: Option<Duration>,
    /// Jobs that a master accepted.
    pub jobs: usize,
    /// Their returns that never arrived.
    pub lost: usize,
}

impl Fault {
    /// All faults.
    pub const ALL: [Fault; 15] = [
        Fault::Kill,
        Fault::Stop,
        Fault::DropBoth,
        Fault::DropToMaster,
        Fault::DropFromMaster,
        Fault::LinkDown,
        Fault::Loss,
        Fault::Delay,
        Fault::NameGone,
        Fault::NameMoves,
        Fault::MasterDisk,
        Fault::MinionDisk,
        Fault::Clock,
        Fault::AllDown,
        Fault::Rotation,
    ];

    /// Returns the name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Kill => "kill -9 of a master",
            Fault::Stop => "SIGSTOP of a master",
            Fault::DropBoth => "packets dropped both ways",
            Fault::DropToMaster => "packets to the master dropped",
            Fault::DropFromMaster => "packets from the master dropped",
            Fault::LinkDown => "the master's link down",
            Fault::Loss => "20 % loss at the master",
            Fault::Delay => "300 ms delay at the master",
            Fault::NameGone => "name gone, master restarted",
            Fault::NameMoves => "name moves to another address",
            Fault::MasterDisk => "the master's disk full",
            Fault::MinionDisk => "a minion's disk full",
            Fault::Clock => "the master's clock an hour on",
            Fault::AllDown => "all masters down",
            Fault::Rotation => "key rotation in a partition",
        }
    }

    /// Returns whether minions should lose their connection to the first master.
    pub fn is_loss(self) -> bool {
        !matches!(self, Fault::Loss | Fault::Delay | Fault::MasterDisk | Fault::MinionDisk | Fault::Clock)
    }

    /// Returns whether programs on the first master work during the fault.
    fn first_works(self) -> bool {
        !matches!(self, Fault::Kill | Fault::Stop | Fault::NameMoves | Fault::AllDown | Fault::NameGone)
    }

    fn others_work(self) -> bool {
        self != Fault::AllDown
    }

    fn begin(self, cluster: &mut Cluster) -> Result<()> {
        let host = cluster.masters[0].host.clone();
        let lab = cluster.lab;
        match self {
            Fault::Kill | Fault::NameMoves => cluster.masters[0].kill(),
            Fault::Stop => cluster.masters[0].signal(Signal::SIGSTOP),
            Fault::DropBoth => {
                lab.set(&host, Way::CUT, Way::CUT);
                Ok(())
            }
            Fault::DropToMaster => {
                lab.set(&host, Way::CUT, Way::default());
                Ok(())
            }
            Fault::DropFromMaster => {
                lab.set(&host, Way::default(), Way::CUT);
                Ok(())
            }
            Fault::LinkDown => lab.link(&host, false),
            Fault::Loss => {
                let lossy = Way { loss: 0.2, ..Way::default() };
                lab.set(&host, lossy, Way::default());
                Ok(())
            }
            Fault::Delay => {
                let slow = Way { delay: Duration::from_millis(300), ..Way::default() };
                lab.set(&host, slow, Way::default());
                Ok(())
            }
            Fault::NameGone => {
                names(cluster, None)?;
                cluster.masters[0].kill()
            }
            Fault::MasterDisk => cluster.masters[0].fill_disk(),
            Fault::MinionDisk => cluster.minions[0].fill_disk(),
            Fault::Clock => cluster.masters[0].set_clock("+3600"),
            Fault::AllDown => cluster.masters.iter_mut().try_for_each(|master| master.kill()),
            Fault::Rotation => {
                lab.set(&host, Way::CUT, Way::CUT);
                let pki = cluster.masters[0].pki().join("minions");
                // Deleting any key makes a master rotate its AES key. That of a made-up minion harms none of the ten.
                std::fs::copy(pki.join(&cluster.minions[0].host.name), pki.join("nobody"))?;
                cluster.program(0, "salt-key", &["-y", "-d", "nobody"]).map(drop)
            }
        }
    }

    fn end(self, cluster: &mut Cluster) -> Result<()> {
        let host = cluster.masters[0].host.clone();
        let lab = cluster.lab;
        match self {
            Fault::Kill => cluster.launch(Role::Master, 0),
            Fault::Stop => cluster.masters[0].signal(Signal::SIGCONT),
            Fault::LinkDown => lab.link(&host, true),
            Fault::NameGone => {
                names(cluster, Some(host.address))?;
                cluster.launch(Role::Master, 0)
            }
            Fault::NameMoves => {
                let moved = other_address(&host);
                lab.add_address(&host, moved)?;
                names(cluster, Some(moved))?;
                cluster.launch(Role::Master, 0)
            }
            Fault::MasterDisk => cluster.masters[0].free_disk(),
            Fault::MinionDisk => cluster.minions[0].free_disk(),
            Fault::Clock => cluster.masters[0].set_clock("+0"),
            Fault::AllDown => (0..MASTERS).try_for_each(|at| cluster.launch(Role::Master, at)),
            _ => {
                lab.set(&host, Way::default(), Way::default());
                Ok(())
            }
        }
    }
}

/// Makes the first master's name resolve to an address, or not at all.
fn names(cluster: &Cluster, first: Option<std::net::Ipv4Addr>) -> Result<()> {
    let rest = cluster.masters.iter().skip(1).map(|node| (node.host.name.as_str(), node.host.address));
    let all = first.map(|address| (cluster.masters[0].host.name.as_str(), address)).into_iter().chain(rest);
    cluster.lab.names(&all.collect::<Vec<_>>())
}

/// Parts of log messages by which minions report the loss of a master.
const SIGNS: [&str; 4] = ["Connection to master", "Cannot connect to master", "disconnected", "says goodbye"];

/// Causes a fault in a healthy cluster, and measures.
pub fn run(cluster: &mut Cluster, fault: Fault, length: Option<Duration>) -> Result<Outcome> {
    let mut jobs = Vec::new();
    // Their returns arrive during the fault.
    for at in [0, 1] {
        jobs.extend(cluster.send(at, &["cmd.run", "sleep 3; echo done"])?);
    }
    std::thread::sleep(Duration::from_millis(500));
    let places: Vec<u64> = (0..MINIONS).map(|at| cluster.log_len(at)).collect();
    let begun = Instant::now();
    fault.begin(cluster).with_context(|| format!("{} could not be brought about", fault.name()))?;
    let length = length.unwrap_or(FAULT);
    let (noticed, other) = watch(cluster, fault, &places, &mut jobs, begun, length)?;
    if let Some(rest) = length.checked_sub(begun.elapsed()) {
        std::thread::sleep(rest);
    }
    fault.end(cluster)?;
    let back = cluster.all_answer(0, BACK).ok();
    let lost = await_returns(cluster, &jobs)?;
    Ok(Outcome { noticed, other, back, jobs: jobs.len(), lost })
}

/// Watches the cluster during the fault: which minions notice, if other masters are answered, and jobs at all masters
/// that work.
fn watch(
    cluster: &Cluster,
    fault: Fault,
    places: &[u64],
    jobs: &mut Vec<Job>,
    begun: Instant,
    length: Duration,
) -> Result<(Option<Duration>, Option<Duration>)> {
    std::thread::scope(|scope| {
        let noticing = scope.spawn(|| {
            let seen = |at: usize| {
                let text = cluster.log_since(at, places[at]);
                SIGNS.iter().any(|sign| text.contains(sign))
            };
            time_until(NOTICE.min(length), || (0..MINIONS).all(seen))
        });
        let mut other = None;
        if fault.others_work() {
            other = cluster.all_answer(1, length).ok();
            while begun.elapsed() + PAUSE < length {
                jobs.extend(cluster.send(1, &["test.echo", "other"])?);
                if fault.first_works() {
                    jobs.extend(cluster.send(0, &["test.echo", "first"])?);
                }
                std::thread::sleep(PAUSE);
            }
        }
        let noticed = noticing.join().map_err(|_| anyhow::anyhow!("a thread has panicked"))?;
        Ok((noticed, other))
    })
}

/// Waits until all returns have arrived, and returns how many have not.
fn await_returns(cluster: &Cluster, jobs: &[Job]) -> Result<usize> {
    let begun = Instant::now();
    loop {
        let mut missing = 0;
        for job in jobs {
            missing += MINIONS.saturating_sub(cluster.returns(job)?);
        }
        if missing == 0 || begun.elapsed() > Duration::from_secs(45) {
            return Ok(missing);
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}
