//! Faults in a cluster of three masters and ten minions, each in its own network namespace: how soon they are noticed,
//! how soon commands are answered again, and what is lost, for Saltern and the real Salt.
//!
//! `cargo xtask outage [--side ours|real] [--transport zeromq|tcp] [--fault WORD] [--down SECONDS]` prints one table. It needs
//! to be root on Linux, for the namespaces. `--soak JOBS` instead publishes that many jobs from random masters while one after
//! the other is killed, stopped or cut off, and counts what was lost or ran twice. `--latency COMMANDS` times that many commands
//! through the second master while the first is well, silent and dead.
//!
//! With `--sharing` the masters are one set, and the faults are those that matter to sets; `--soak JOBS --seed NUMBER` runs them as
//! above, over links between them, over three NATS servers, and over NATS servers with leases (`--carrier links|nats|jetstream`), and with `--previous PROGRAM` restarts the masters one after the other with that earlier version and with this one.

mod cluster;
mod config;
mod lab;
mod latency;
mod sharing;
mod soak;
mod trial;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use cluster::{Cluster, MASTERS, MINIONS};
use config::{Carrier, Shape};
use interop::{Salt, Sandbox, Slot, Transport};
use lab::Lab;
use trial::{Fault, Outcome};

/// The command line.
struct Wish {
    sides: Vec<Salt>,
    transports: Vec<Transport>,
    /// What takes the messages of masters that share.
    carriers: Vec<Carrier>,
    faults: Vec<Fault>,
    /// The time for which all masters stay down.
    down: Duration,
    /// The number of jobs of a soak instead of the table.
    soak: Option<usize>,
    /// The number of commands to time instead of the table.
    latency: Option<usize>,
    /// The masters share.
    sharing: bool,
    /// Words in the names of faults.
    words: Vec<String>,
    seed: u64,
    /// The program of an earlier version.
    previous: Option<Salt>,
}

fn main() -> ExitCode {
    match outages() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(bad) => {
            println!("{bad} rows of ours are not as wanted");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the table, and returns how many of Saltern's rows miss their goals.
fn outages() -> Result<usize> {
    let wish = wish(std::env::args().skip(1).collect())?;
    if !nix::unistd::geteuid().is_root() {
        bail!("network namespaces need root");
    }
    let _alone = Slot::all()?;
    if wish.sharing {
        return sharing::run(&wish.of_set()?);
    }
    if let Some(jobs) = wish.soak {
        return soaks(&wish, jobs);
    }
    if let Some(count) = wish.latency {
        return latencies(&wish, count);
    }
    let mut bad = 0;
    println!(
        "| {:<32} | {:<12} | {:<8} | {:>10} | {:>10} | {:>10} | {:>5} | {:>5} |",
        "fault", "side", "wire", "noticed", "other", "back", "jobs", "lost"
    );
    println!("|{:-<34}|{:-<14}|{:-<10}|{:->12}|{:->12}|{:->12}|{:->7}|{:->7}|", "", "", "", "", "", "", "", "");
    for transport in &wish.transports {
        for fault in &wish.faults {
            for side in &wish.sides {
                let outcome = one(side, *transport, *fault, wish.down);
                bad += print(side, *transport, *fault, &outcome);
            }
        }
    }
    Ok(bad)
}

/// One soak for each side and transport.
fn soaks(wish: &Wish, jobs: usize) -> Result<usize> {
    let mut bad = 0;
    for transport in &wish.transports {
        for side in &wish.sides {
            let soak =
                within(side, *transport, Shape::Hot, |cluster, _| soak::run(cluster, jobs), |soak| !soak.is_clean())?;
            let soak::Soak { accepted, faults, not_run, twice, unreadable } = soak;
            println!(
                "{} over {}: {accepted} of {jobs} jobs accepted, {faults} faults; on {MINIONS} minions {not_run} did not run, \
                 {twice} ran twice, {unreadable} returns are unreadable",
                side.name(),
                transport.name()
            );
            bad += usize::from(side.is_ours() && not_run + twice + unreadable > 0);
        }
    }
    Ok(bad)
}

/// Measures commands through one master while another is unreachable.
fn latencies(wish: &Wish, count: usize) -> Result<usize> {
    println!(
        "| {:<12} | {:<8} | {:<10} | {:>10} | {:>10} | {:>12} |",
        "side", "wire", "masters", "median", "p99", "minion start"
    );
    println!("|{:-<14}|{:-<10}|{:-<12}|{:->12}|{:->12}|{:->14}|", "", "", "", "", "", "");
    for transport in &wish.transports {
        for side in &wish.sides {
            for latency in within(side, *transport, Shape::Hot, |cluster, _| latency::run(cluster, count), |_| false)? {
                let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1000.0);
                let (name, wire, what) = (side.name(), transport.name(), latency.what);
                let (median, slow, start) = (ms(latency.median), ms(latency.slow), ms(latency.start));
                println!("| {name:<12} | {wire:<8} | {what:<10} | {median:>10} | {slow:>10} | {start:>12} |");
            }
        }
    }
    Ok(0)
}

/// One row.
fn one(side: &Salt, transport: Transport, fault: Fault, down: Duration) -> Result<Outcome> {
    let trial = |cluster: &mut Cluster, _: &Path| {
        if fault == Fault::Clock && !cluster.has_clock() {
            bail!("libfaketime is not installed");
        }
        trial::run(cluster, fault, (fault == Fault::AllDown).then_some(down))
    };
    within(side, transport, Shape::Hot, trial, |outcome| outcome.lost > 0 && side.is_ours())
}

/// Runs something with a fresh cluster, so that no earlier fault has an effect on it.
fn within<T>(
    side: &Salt,
    transport: Transport,
    shape: Shape,
    what: impl FnOnce(&mut Cluster, &Path) -> Result<T>,
    puzzling: impl Fn(&T) -> bool,
) -> Result<T> {
    let sandbox = Sandbox::new()?;
    let mut lab = Lab::new();
    let masters = (1..=MASTERS).map(|number| format!("m{number}"));
    let names = masters.chain((1..=MINIONS).map(|number| format!("n{number:02}")));
    let hosts = names.map(|name| lab.host(&name)).collect::<Result<Vec<_>>>()?;
    let known: Vec<_> = hosts.iter().map(|host| (host.name.as_str(), host.address)).collect();
    lab.names(&known)?;
    let mut cluster = Cluster::prepare(&lab, &hosts, side, transport, shape, sandbox.root())?;
    let outcome = cluster.start().and_then(|()| what(&mut cluster, sandbox.root()));
    let puzzling = outcome.as_ref().map_or(true, puzzling);
    if let (true, Ok(dir)) = (puzzling, std::env::var("SALTERN_OUTAGE_LOGS")) {
        keep_logs(sandbox.root(), &dir);
    }
    outcome
}

fn keep_logs(root: &Path, to: &str) {
    let script = format!(
        "mkdir -p {to}; for h in {0}/*/; do n=$(basename $h); cp $h/log {to}/$n.log; cp $h/out {to}/$n.out; done",
        root.display()
    );
    let _ = std::process::Command::new("sh").args(["-c", &script]).stderr(std::process::Stdio::null()).status();
}

/// Prints a row, and returns 1 if it is one of Saltern's that misses its goals.
fn print(side: &Salt, transport: Transport, fault: Fault, outcome: &Result<Outcome>) -> usize {
    let (name, wire) = (side.name(), transport.name());
    let head = format!("| {:<32} | {name:<12} | {wire:<8} |", fault.name());
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
    let noticed = seconds(outcome.noticed, if fault.is_loss() { "never" } else { "-" });
    let (other, back) = (seconds(outcome.other, "-"), seconds(outcome.back, "never"));
    println!("{head} {noticed:>10} | {other:>10} | {back:>10} | {:>5} | {:>5} |", outcome.jobs, outcome.lost);
    // A dead master must be noticed within this time, whatever the kind of fault.
    let bound = Duration::from_secs(5);
    let late = fault.is_loss() && outcome.noticed.is_none_or(|time| time > bound);
    let bad = outcome.lost > 0 || outcome.back.is_none() || late;
    usize::from(side.is_ours() && bad)
}

fn wish(args: Vec<String>) -> Result<Wish> {
    let real = || Salt::real("3008.5").context("the real Salt 3008.5 is not installed; `cargo xtask salt` installs it");
    let mut wish = Wish {
        sides: Vec::new(),
        transports: Vec::new(),
        carriers: Vec::new(),
        faults: Vec::new(),
        down: Duration::from_secs(300),
        soak: None,
        latency: None,
        sharing: false,
        words: Vec::new(),
        seed: rand::random(),
        previous: None,
    };
    let mut args = args.into_iter();
    while let Some(flag) = args.next() {
        if flag == "--sharing" {
            wish.sharing = true;
            continue;
        }
        let value = args.next().with_context(|| format!("{flag} needs a value"))?;
        match (flag.as_str(), value.as_str()) {
            ("--side", "ours") => wish.sides.push(Salt::ours()?),
            ("--side", "real") => wish.sides.push(real()?),
            ("--transport", "zeromq") => wish.transports.push(Transport::Zeromq),
            ("--transport", "tcp") => wish.transports.push(Transport::Tcp),
            ("--carrier", name) => {
                let carrier = Carrier::ALL.into_iter().find(|carrier| carrier.name() == name);
                wish.carriers.push(carrier.context("--carrier takes links, nats or jetstream")?);
            }
            ("--fault", word) => wish.words.push(word.to_owned()),
            ("--seed", seed) => wish.seed = seed.parse().context("--seed takes a number")?,
            ("--previous", program) => wish.previous = Some(Salt::of_program(Path::new(program))?),
            ("--soak", jobs) => wish.soak = Some(jobs.parse().context("--soak takes a number of jobs")?),
            ("--latency", count) => wish.latency = Some(count.parse().context("--latency takes a number of commands")?),
            ("--down", seconds) => wish.down = Duration::from_secs(seconds.parse().context("--down takes seconds")?),
            _ => bail!("what is {flag} {value}?"),
        }
    }
    if wish.sides.is_empty() {
        wish.sides = vec![Salt::ours()?, real()?];
    }
    if wish.transports.is_empty() {
        wish.transports = vec![Transport::Zeromq, Transport::Tcp];
    }
    if wish.carriers.is_empty() {
        wish.carriers = Carrier::ALL.to_vec();
    }
    if !wish.sharing {
        wish.faults = faults(&wish.words)?;
    }
    Ok(wish)
}

/// Returns the faults whose names contain one of the words; all if there is none.
fn faults(words: &[String]) -> Result<Vec<Fault>> {
    if words.is_empty() {
        return Ok(Fault::ALL.to_vec());
    }
    let mut all = Vec::new();
    for word in words {
        let before = all.len();
        all.extend(Fault::ALL.into_iter().filter(|fault| fault.name().contains(word)));
        if all.len() == before {
            bail!("no fault's name contains {word:?}");
        }
    }
    Ok(all)
}

impl Wish {
    fn of_set(self) -> Result<sharing::Wish> {
        let Wish { sides, transports, carriers, words, soak, seed, previous, .. } = self;
        let faults = match words.is_empty() {
            true => sharing::Fault::ALL.to_vec(),
            false => words.iter().map(|word| sharing::named(word)).collect::<Result<Vec<_>>>()?.concat(),
        };
        Ok(sharing::Wish { sides, transports, carriers, faults, soak, seed, previous })
    }
}
