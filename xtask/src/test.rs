//! The test command: format, lints and tests, ending with one line of counts.
//!
//! The short run is for everyone who changes something; `--full` adds what takes long, and judges changes.
//!
//! Scenarios mostly wait for timeouts, so their programs are built first, and everything that needs only processors runs beside them
//! with a low priority: `programs` and `code` are these two parts. In a full run the storms are a third one, with the lowest priority.

mod code;
mod programs;

use std::thread::JoinHandle;

use crate::run::{Failure, Step, cargo, judged};
use crate::tally::Tally;
use crate::times::Times;
use crate::{nats, packages, real_salt};
use programs::Programs;

/// The extent of a test run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Short,
    Full,
}

/// What a part of the run counted, and how long its own parts took.
type Part = Result<(Tally, Times), Failure>;

/// Runs the checks and tests of `cargo xtask test`, or all of them with `--full`.
pub fn run(args: &[String]) -> Result<(), Failure> {
    let scope = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => Scope::Short,
        ["--full"] => Scope::Full,
        other => return Err(Failure::new(format!("cargo xtask test knows only --full, not {}", other.join(" ")))),
    };
    let (mut tally, mut times) = (Tally::default(), Times::default());
    // Begun first: it waits for the network while everything else compiles.
    let real_salt = times.of("packages of the system", || prepare(scope))?;
    tally.check("cargo fmt", checked(cargo(&["fmt", "--all", "--check"])));
    let built = times.of("the programs", || Programs::build(scope));
    let built = built.inspect_err(|failure| println!("{failure}"));
    tally.check("cargo build", built.is_ok());
    let all = times.of("scenarios, and beside them what needs no clock", || {
        let beside = std::thread::spawn(move || code::run(scope));
        let storms = built.as_ref().ok().filter(|_| scope == Scope::Full).map(|built| built.storms().to_owned());
        let storms = storms.map(|storms| std::thread::spawn(move || code::storms(&storms)));
        let installed = real_salt.and_then(|thread| thread.join().expect("the installation does not panic"));
        let programs = built.map_or_else(|_| Ok(Default::default()), |built| built.run(scope, &installed));
        let threads = [Some(beside), storms].into_iter().flatten();
        let others = threads.map(|thread| thread.join().expect("what runs beside the scenarios does not panic"));
        [programs].into_iter().chain(others).collect::<Vec<Part>>()
    });
    let mut parts = String::new();
    for part in all {
        let (counted, times) = part?;
        tally.add_all(counted);
        parts += &times.parts();
    }
    // These change accounts, packages and services of the machine, which the others use.
    if scope == Scope::Full && judged() {
        times.of("live tests", || code::live_tests(&mut tally))?;
    }
    println!("scenarios, and beside them:\n{parts}all parts:\n{times}{tally}");
    if tally.failed == 0 { Ok(()) } else { Err(Failure::new("some checks failed")) }
}

/// Installs packages, and begins to install the real Salt: that waits for the network most of the time, so the rest need
/// not wait for it.
fn prepare(scope: Scope) -> Result<Result<JoinHandle<Result<(), Failure>>, Failure>, Failure> {
    packages::ensure(&[packages::BUILD])?;
    if scope == Scope::Full {
        packages::ensure(&[packages::FUZZ])?;
    }
    // A developer's machine is left without services that nobody asked for; the tests say that they are skipped.
    if judged() {
        packages::ensure(&[packages::SERVERS])?;
    }
    let python = packages::ensure(&[packages::REAL_SALT]);
    if judged() && python.is_ok() {
        // Unit tests use it, so it cannot be waited for later.
        nats::ensure()?;
    }
    Ok(python.map(|()| std::thread::spawn(install_real_salt)))
}

fn install_real_salt() -> Result<(), Failure> {
    real_salt::RELEASES.iter().try_for_each(|release| real_salt::ensure(release))?;
    real_salt::ensure_clients()
}

/// Runs a test runner and adds up its summaries; one that fails without counting a failure counts as one.
fn follow(tally: &mut Tally, step: Step) -> Result<(), Failure> {
    let before = tally.failed;
    let name = step.line().to_owned();
    let succeeded = step.follow(|line| tally.line(line))?;
    if !succeeded && tally.failed == before {
        tally.fail(&name);
    }
    Ok(())
}

fn checked(step: Step) -> bool {
    step.run().inspect_err(|failure| println!("{failure}")).is_ok()
}
