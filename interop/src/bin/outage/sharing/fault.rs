//! Faults of one member of a set, the first one.

use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::sys::signal::Signal;

use super::servers::Servers;
use crate::cluster::{Cluster, MASTERS, Role, other_address};
use crate::config::Carrier;
use crate::lab::Way;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Kill,
    Stop,
    Cut,
    CutPeers,
    ToPeers,
    FromPeers,
    LinkDown,
    Slow,
    Loss,
    NameMoves,
    Disk,
    DiskRestart,
    Clock,
    AllDown,
    Rotation,
    KeysWiped,
    Backup,
    Empty,
    Witness,
    WitnessCut,
    Server,
    Servers,
}

impl Fault {
    /// All faults.
    pub const ALL: [Fault; 22] = [
        Fault::Kill,
        Fault::Stop,
        Fault::Cut,
        Fault::CutPeers,
        Fault::ToPeers,
        Fault::FromPeers,
        Fault::LinkDown,
        Fault::Slow,
        Fault::Loss,
        Fault::NameMoves,
        Fault::Disk,
        Fault::DiskRestart,
        Fault::Clock,
        Fault::AllDown,
        Fault::Rotation,
        Fault::KeysWiped,
        Fault::Backup,
        Fault::Empty,
        Fault::Witness,
        Fault::WitnessCut,
        Fault::Server,
        Fault::Servers,
    ];

    /// Returns the name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Kill => "kill -9 of a master",
            Fault::Stop => "SIGSTOP of a master",
            Fault::Cut => "a master cut off from all",
            Fault::CutPeers => "cut off from masters only",
            Fault::ToPeers => "packets to the masters dropped",
            Fault::FromPeers => "packets from the masters dropped",
            Fault::LinkDown => "the master's link down",
            Fault::Slow => "200 ms and 1 % loss",
            Fault::Loss => "20 % loss between masters",
            Fault::NameMoves => "name moves to another address",
            Fault::Disk => "a master's disk full",
            Fault::DiskRestart => "restart with a full disk",
            Fault::Clock => "a clock two days ahead",
            Fault::AllDown => "all masters killed",
            Fault::Rotation => "key rotation while cut off",
            Fault::KeysWiped => "rsync wipes the keys",
            Fault::Backup => "an old backup restored",
            Fault::Empty => "a master with an empty disk",
            Fault::Witness => "kill -9, two and a witness",
            Fault::WitnessCut => "cut off, two and a witness",
            Fault::Server => "kill -9 of a NATS server",
            Fault::Servers => "all NATS servers killed",
        }
    }

    /// Returns whether the last master is a witness.
    pub fn with_witness(self) -> bool {
        matches!(self, Fault::Witness | Fault::WitnessCut)
    }

    /// Returns whether there is such a thing with what takes the messages.
    pub fn is_of(self, carrier: Carrier) -> bool {
        carrier != Carrier::Links || !matches!(self, Fault::Server | Fault::Servers)
    }

    /// Returns whether nobody can hold a lease.
    pub fn stops_leases(self) -> bool {
        matches!(self, Fault::AllDown | Fault::Servers)
    }

    /// Returns whether there is such a thing with masters that have one file system.
    pub fn is_of_salt(self) -> bool {
        use Fault::*;
        matches!(
            self,
            Kill | Stop | Cut | CutPeers | ToPeers | FromPeers | LinkDown | Slow | Loss | NameMoves | AllDown
        )
    }

    /// Returns whether the others see that the first member is away.
    pub fn is_seen(self) -> bool {
        use Fault::*;
        // Over a bus a master goes on with another server.
        !matches!(self, Slow | Loss | Disk | Clock | KeysWiped | AllDown | Server)
    }

    /// Returns whether programs on the first master work during the fault. Without keys it knows no minions to publish to.
    pub fn first_works(self) -> bool {
        use Fault::*;
        !matches!(self, Kill | Stop | NameMoves | DiskRestart | AllDown | KeysWiped | Backup | Empty | Witness)
    }

    /// Returns whether the others go on.
    pub fn others_work(self) -> bool {
        self != Fault::AllDown
    }

    /// Returns whether the others reach all minions: those of the first member stay with it as long as it answers them.
    pub fn leaves_minions(self) -> bool {
        use Fault::*;
        self.others_work() && !matches!(self, CutPeers | ToPeers | FromPeers | Disk | Servers)
    }

    /// Causes it.
    pub fn begin(self, cluster: &mut Cluster) -> Result<()> {
        let host = cluster.masters[0].host.clone();
        let lab = cluster.lab;
        match self {
            Fault::Kill | Fault::Witness | Fault::NameMoves | Fault::Backup => cluster.masters[0].kill(),
            Fault::Stop => cluster.masters[0].signal(Signal::SIGSTOP),
            Fault::Cut | Fault::WitnessCut => {
                lab.set(&host, Way::CUT, Way::CUT);
                Ok(())
            }
            Fault::CutPeers => between(cluster, Way::CUT, Way::CUT),
            Fault::ToPeers => between(cluster, Way::CUT, Way::default()),
            Fault::FromPeers => between(cluster, Way::default(), Way::CUT),
            Fault::LinkDown => lab.link(&host, false),
            Fault::Slow => {
                let slow = Way { loss: 0.01, delay: Duration::from_millis(200) };
                between(cluster, slow, slow)
            }
            Fault::Loss => {
                let lossy = Way { loss: 0.2, ..Way::default() };
                between(cluster, lossy, lossy)
            }
            Fault::Disk => cluster.masters[0].fill_disk(),
            Fault::DiskRestart => {
                cluster.masters[0].fill_disk()?;
                cluster.restart(0)
            }
            Fault::Clock => cluster.masters[0].set_clock("+172800"),
            Fault::AllDown => cluster.masters.iter_mut().try_for_each(|master| master.kill()),
            Fault::Rotation => {
                lab.set(&host, Way::CUT, Way::CUT);
                cluster.decide(0, "-d", "x09")
            }
            Fault::KeysWiped => {
                let keys = cluster.key_dir(0).join("minions");
                for entry in std::fs::read_dir(&keys)?.flatten() {
                    std::fs::remove_file(entry.path()).context("failed to remove a key")?;
                }
                Ok(())
            }
            Fault::Empty => {
                cluster.masters[0].kill()?;
                cluster.empty(0)
            }
            Fault::Server => servers(cluster)?.kill(0),
            Fault::Servers => (0..MASTERS).try_for_each(|at| servers(cluster)?.kill(at)),
        }
    }

    /// Ends it.
    pub fn end(self, cluster: &mut Cluster) -> Result<()> {
        let host = cluster.masters[0].host.clone();
        let lab = cluster.lab;
        match self {
            Fault::Kill | Fault::Witness => cluster.launch(Role::Master, 0),
            Fault::Empty => {
                // Its new member key is refused as long as the old one has its name.
                cluster.program(1, "salt-run", &["saltern.remove", &host.name])?;
                cluster.launch(Role::Master, 0)
            }
            Fault::Backup => {
                cluster.restore(0)?;
                cluster.launch(Role::Master, 0)
            }
            Fault::Stop => cluster.masters[0].signal(Signal::SIGCONT),
            Fault::LinkDown => lab.link(&host, true),
            Fault::NameMoves => {
                let moved = other_address(&host);
                lab.add_address(&host, moved)?;
                let rest = cluster.masters[1..].iter().map(|node| (node.host.name.as_str(), node.host.address));
                let names: Vec<_> = std::iter::once((host.name.as_str(), moved)).chain(rest).collect();
                lab.names(&names)?;
                cluster.launch(Role::Master, 0)
            }
            Fault::Disk | Fault::DiskRestart => cluster.masters[0].free_disk(),
            Fault::Clock => cluster.masters[0].set_clock("+0"),
            Fault::AllDown => (0..MASTERS).try_for_each(|at| cluster.launch(Role::Master, at)),
            Fault::KeysWiped => cluster.program(0, "salt-run", &["saltern.keys", "restore"]).map(drop),
            Fault::Cut | Fault::WitnessCut | Fault::Rotation => {
                lab.set(&host, Way::default(), Way::default());
                Ok(())
            }
            Fault::CutPeers | Fault::ToPeers | Fault::FromPeers | Fault::Slow | Fault::Loss => {
                between(cluster, Way::default(), Way::default())
            }
            Fault::Server => servers(cluster)?.launch(0),
            Fault::Servers => (0..MASTERS).try_for_each(|at| servers(cluster)?.launch(at)),
        }
    }
}

fn servers<'a, 'lab>(cluster: &'a mut Cluster<'lab>) -> Result<&'a mut Servers<'lab>> {
    cluster.servers.as_mut().context("the masters share without servers")
}

/// Sets the ways between the first master and all others. Minions are not concerned.
fn between(cluster: &Cluster, to_others: Way, from_others: Way) -> Result<()> {
    let first = &cluster.masters[0].host;
    for other in &cluster.masters[1..] {
        cluster.lab.set_between(first, &other.host, to_others);
        cluster.lab.set_between(&other.host, first, from_others);
    }
    Ok(())
}
