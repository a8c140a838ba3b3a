//! The benchmark: the real Salt and Saltern in the same run on the same machine, in turn.
//!
//! `cargo xtask bench` prints a table; each row has the median of both sides, their ratio, and the target. The exit
//! code is 1 when a row misses its target. `cargo xtask bench states` measures state runs instead, `cargo xtask bench
//! scale` each master with hundreds and thousands of minions, `cargo xtask bench sign-ins` how many can sign in, `cargo xtask bench
//! sharing` what two masters that share cost, `cargo xtask bench api` salt-api under load. `cargo xtask bench [states] --before
//! PROGRAM` has that program of an earlier version in place of the real Salt; nothing may be more than 3 % worse than there.

mod api;
mod cost;
mod local;
mod pillars;
mod scale;
mod sharing;
mod side;
mod sign_ins;
mod states;
mod table;

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use interop::{Salt, Sandbox, Slot};
use side::Side;
use table::{Row, Table, Unit};

/// Whole turns of starting, idling and stopping.
const TURNS: usize = 3;
/// Runs of `salt '*' test.ping`, and jobs in process.
const RUNS: usize = 15;
/// Jobs in process.
const JOBS: usize = 40;
/// Files fetched by each side.
const FETCHES: usize = 3;
/// Size of the file, in bytes.
const FILE: usize = 200 << 20;
/// Rest before idle memory is measured.
const REST: Duration = Duration::from_secs(5);

fn main() -> Result<()> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let before = before(&mut args)?;
    let measure = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => bench,
        ["states"] => states::bench,
        _ if before.is_some() && !matches!(args.first().map(String::as_str), None | Some("states")) => {
            bail!("--before is only for `bench` and `bench states`")
        }
        ["api"] => api::bench,
        [pillars::MARK, conf] => return pillars::compile(std::path::Path::new(conf)),
        [cost::MARK, ..] => return cost::tell(&args[1..]),
        ["scale", ..] => return scale::main(&args[1..]),
        ["sign-ins"] => return sign_ins::main(),
        ["sharing", ..] => return sharing::main(&args[1..]),
        _ => bail!("usage: bench [--before PROGRAM] [states | api | sign-ins | sharing [PART...] | scale [--help]]"),
    };
    let real =
        Salt::real("3008.5").context("the real Salt 3008.5 is not installed; `cargo xtask bench` installs it")?;
    let other = before.as_ref().unwrap_or(&real);
    let ours = Salt::ours()?;
    ours.read_from_disk_again()?;
    // No other test or benchmark runs at the same time.
    let _alone = Slot::all()?;
    let sandbox = Sandbox::new()?;
    let result = measure(&sandbox, other, &ours);
    if result.is_err() {
        sandbox.show_logs();
    }
    let mut table = result?;
    if before.is_some() {
        table.compare_with_earlier_version();
    }
    print!("{table}");
    if table.misses() > 0 { bail!("{} rows miss what is wanted", table.misses()) } else { Ok(()) }
}

/// Takes the program of an earlier version out of the arguments.
fn before(args: &mut Vec<String>) -> Result<Option<Salt>> {
    let Some(place) = args.iter().position(|arg| arg == "--before") else { return Ok(None) };
    let program = args.get(place + 1).context("--before needs a program")?;
    let salt = Salt::of_program(std::path::Path::new(program))?;
    args.drain(place..=place + 1);
    salt.read_from_disk_again()?;
    Ok(Some(salt))
}

fn bench(sandbox: &Sandbox, real: &Salt, ours: &Salt) -> Result<Table> {
    let mut sides = [Side::new(sandbox, real, "real")?, Side::new(sandbox, ours, "ours")?];
    for turn in 1..=TURNS {
        // The sides take turns, so that a slow phase of the machine hits both.
        eprintln!("turn {turn} of {TURNS}: start, rest, stop");
        for side in &mut sides {
            side.start(sandbox)?;
            side.rest(REST)?;
            // The last turn leaves the daemons running for the measurements that follow.
            if turn < TURNS {
                side.stop()?;
            }
        }
    }
    eprintln!("commands");
    for _ in 0..RUNS {
        sides.iter_mut().try_for_each(Side::ping)?;
    }
    eprintln!("jobs in process");
    let [their, our] = &mut sides;
    their.in_process_python(real, JOBS)?;
    // The same Python client on both masters: this row compares the masters alone.
    our.in_process_python(real, JOBS)?;
    for (side, salt) in [(their, real), (our, ours)] {
        if salt.is_ours() {
            side.in_process_rust(JOBS)?;
        }
    }
    eprintln!("files");
    for number in 0..FETCHES {
        sides.iter_mut().try_for_each(|side| side.fetch(FILE, number))?;
    }
    sides.iter_mut().try_for_each(Side::stop)?;
    let [their, our] = sides;
    Ok(rows(&their, &our))
}

fn rows(real: &Side, ours: &Side) -> Table {
    let mut table = Table::new(real.name(), ours.name());
    let row = |what, unit, get: fn(&Side) -> &Vec<f64>| Row::new(what, unit, get(real), get(ours));
    table.add(row("salt '*' test.ping, whole process", Unit::Milliseconds, |s| &s.samples.ping).faster(20.0));
    table.add(row("master: start to ready", Unit::Milliseconds, |s| &s.samples.master_start).faster(10.0));
    table.add(
        row("minion of three masters: start to ready", Unit::Milliseconds, |s| &s.samples.minion_start).faster(10.0),
    );
    table.add(row("master: idle memory (PSS)", Unit::Mebibytes, |s| &s.samples.master_memory).faster(10.0));
    table.add(
        row("minion of three masters: idle memory (PSS)", Unit::Mebibytes, |s| &s.samples.minion_memory).faster(8.0),
    );
    table.add(row("publish to first return, in process", Unit::Milliseconds, |s| s.in_process()).faster(20.0));
    table.add(row("the same, Python's LocalClient on both", Unit::Milliseconds, |s| &s.samples.python));
    table.add(row("cp.get_file of 200 MB", Unit::MebibytesPerSecond, |s| &s.samples.fetch).more(10.0));
    table.add(row("master: SIGTERM to gone", Unit::Milliseconds, |s| &s.samples.master_stop).below(1000.0));
    table.add(row("minion: SIGTERM to gone", Unit::Milliseconds, |s| &s.samples.minion_stop).below(1000.0));
    table
}
