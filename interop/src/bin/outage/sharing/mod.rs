//! Masters that share, under faults: keys, jobs, returns and leases that are lost or happen twice, and the time until all members
//! agree again.

mod beats;
mod fault;
mod servers;
mod set;
mod soak;
mod trial;

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use interop::{Salt, Transport};

pub use fault::Fault;
pub use servers::Servers;
use trial::Outcome;

use crate::cluster::{Cluster, MINIONS};
use crate::config::{Carrier, Shape};
use crate::within;

/// What is wanted of a set.
pub struct Wish {
    pub sides: Vec<Salt>,
    pub transports: Vec<Transport>,
    pub carriers: Vec<Carrier>,
    pub faults: Vec<Fault>,
    /// The number of jobs of a soak instead of the table, and its seed.
    pub soak: Option<usize>,
    pub seed: u64,
    /// The programs of an earlier version.
    pub previous: Option<Salt>,
}

/// Finds the faults whose names contain a word.
pub fn named(word: &str) -> Result<Vec<Fault>> {
    let found: Vec<_> = Fault::ALL.into_iter().filter(|fault| fault.name().contains(word)).collect();
    if found.is_empty() {
        bail!("no fault of a set has a name that contains {word:?}");
    }
    Ok(found)
}

/// Prints the table or the result of the soak, and returns how many of Saltern's rows miss their goals.
pub fn run(wish: &Wish) -> Result<usize> {
    if let Some(jobs) = wish.soak {
        return soaks(wish, jobs);
    }
    let mut bad = 0;
    println!(
        "| {:<31} | {:<6} | {:<6} | {:<9} | {:>7} | {:>7} | {:>7} | {:>7} | {:>4} | {:>4} | {:>4} | {:>7} | {:>5} | {:>6} |",
        "fault",
        "side",
        "wire",
        "carrier",
        "noticed",
        "other",
        "agree",
        "no run",
        "jobs",
        "keys",
        "lost",
        "returns",
        "twice",
        "leases"
    );
    println!(
        "|{:-<33}|{:-<8}|{:-<8}|{:-<11}|{:->9}|{:->9}|{:->9}|{:->9}|{:->6}|{:->6}|{:->6}|{:->9}|{:->7}|{:->8}|",
        "", "", "", "", "", "", "", "", "", "", "", "", "", ""
    );
    for transport in &wish.transports {
        for fault in &wish.faults {
            for side in wish.sides.iter().filter(|side| side.is_ours() || fault.is_of_salt()) {
                for carrier in wish.carriers.iter().filter(|carrier| fault.is_of(**carrier)) {
                    // A cluster of Salt knows one way between its masters.
                    if !side.is_ours() && *carrier != Carrier::Links {
                        continue;
                    }
                    let row = Row { side, transport: *transport, carrier: *carrier, fault: *fault };
                    bad += row.print(&row.run());
                }
            }
        }
    }
    Ok(bad)
}

/// One trial.
struct Row<'a> {
    side: &'a Salt,
    transport: Transport,
    carrier: Carrier,
    fault: Fault,
}

impl Row<'_> {
    fn run(&self) -> Result<Outcome> {
        let Row { side, transport, carrier, fault } = *self;
        let shape = Shape::Set { witness: fault.with_witness(), carrier };
        let trial = |cluster: &mut Cluster, root: &std::path::Path| {
            if fault == Fault::Clock && !cluster.has_clock() {
                bail!("libfaketime is not installed");
            }
            trial::run(cluster, fault, root)
        };
        within(side, transport, shape, trial, |outcome| outcome.lost() > 0 && side.is_ours())
    }

    /// Prints it, and returns 1 if it is one of Saltern's that misses its goals.
    fn print(&self, outcome: &Result<Outcome>) -> usize {
        let Row { side, transport, carrier, fault } = *self;
        let (wire, over) = (transport.name(), if side.is_ours() { carrier.name() } else { "-" });
        let head = format!("| {:<31} | {:<6} | {wire:<6} | {over:<9} |", fault.name(), side.name());
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                println!("{head} {error:#} |");
                return usize::from(side.is_ours());
            }
        };
        let seconds = |time: Option<Duration>, none: &str| {
            time.map_or_else(|| none.to_owned(), |time| format!("{:.1} s", time.as_secs_f64()))
        };
        let noticed = seconds(outcome.noticed, if fault.is_seen() && side.is_ours() { "never" } else { "-" });
        let other = seconds(outcome.other, if fault.leaves_minions() { "never" } else { "-" });
        let agree = seconds(outcome.agree, "never");
        let of_schedule = |text: String| if side.is_ours() { text } else { "-".to_owned() };
        let gap = of_schedule(format!("{:.1} s", outcome.leases.gap));
        let leases = of_schedule(outcome.leases.doubled.to_string());
        println!(
            "{head} {noticed:>7} | {other:>7} | {agree:>7} | {gap:>7} | {:>4} | {:>4} | {:>4} | {:>7} | {:>5} | {:>6} |",
            outcome.jobs, outcome.decisions, outcome.keys_lost, outcome.returns_lost, outcome.not_once, leases
        );
        let unseen = fault.is_seen() && outcome.noticed.is_none();
        let bad = outcome.lost() > 0 || outcome.agree.is_none() || unseen || !outcome.has_lease(fault);
        usize::from(side.is_ours() && bad)
    }
}

/// One soak for each transport.
fn soaks(wish: &Wish, jobs: usize) -> Result<usize> {
    let ours = wish.sides.iter().find(|side| side.is_ours()).context("only masters of Saltern share")?;
    let mut bad = 0;
    let both =
        wish.transports.iter().flat_map(|transport| wish.carriers.iter().map(move |carrier| (transport, carrier)));
    for (transport, carrier) in both {
        let shape = Shape::Set { witness: false, carrier: *carrier };
        let before = wish.previous.as_ref();
        let soak =
            |cluster: &mut Cluster, root: &std::path::Path| soak::run(cluster, jobs, wish.seed, before, ours, root);
        let side = before.unwrap_or(ours);
        let soak = within(side, *transport, shape, soak, |soak| !soak.is_clean())?;
        println!(
            "{} over {}: {} of {jobs} jobs accepted, {} faults, {} restarts with the other program (seed {}); on {MINIONS} minions {} did \
             not run, {} ran twice; {} returns are missing on some master; leases held twice: {}; all was read after {}",
            transport.name(),
            carrier.name(),
            soak.accepted,
            soak.faults,
            soak.upgrades,
            wish.seed,
            soak.not_run,
            soak.twice,
            soak.unreadable,
            soak.leases.doubled,
            soak.agree.map_or_else(|| "never".to_owned(), |time| format!("{:.1} s", time.as_secs_f64())),
        );
        bad += usize::from(!soak.is_clean());
    }
    Ok(bad)
}
