//! The test command: format, lints and tests, ending with one line of counts.
//!
//! The short run is for everyone who changes something; `--full` adds what takes long, and judges changes.

use std::thread::JoinHandle;

use crate::run::{Failure, Step, cargo, checked_program, judged};
use crate::tally::Tally;
use crate::times::Times;
use crate::{fuzz, instructions, nats, packages, real_salt};

/// Storms of the simulation in a full run; the short one leaves the number to the test.
const STORMS: &str = "500";

/// Storms of masters that share in a full run: each takes three times as long as another one.
const SHARING_STORMS: &str = "60";

/// The number of random histories of shared records that a full run checks.
const HISTORIES: &str = "100000";

/// Storms of leases in a full run, of each mode.
const LEASE_STORMS: &str = "20000";

/// Clients of `salt-api` in a full run that give up while they wait.
const CANCELS: &str = "10000";

/// The extent of a test run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Short,
    Full,
}

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
    checks(&mut tally, &mut times);
    times.of("unit tests", || unit_tests(scope, &mut tally))?;
    let built = times.of("the program", || checked(cargo(&["build", "--package", "saltern-cli"])));
    tally.check("cargo build", built);
    if scope == Scope::Full {
        machine_tests(built, &mut tally, &mut times)?;
    }
    let installed = real_salt.and_then(|thread| thread.join().expect("the installation does not panic"));
    let interop = || interop(scope, built, installed, &mut tally);
    match scope {
        Scope::Short => times.of("interop", interop)?,
        Scope::Full => {
            let (outcome, beside) = times.of("interop, and beside it", || {
                let beside = std::thread::spawn(beside_interop);
                (interop(), beside.join().expect("what runs beside interop does not panic"))
            });
            outcome?;
            let (part, beside) = beside?;
            tally.add_all(part);
            print!("beside interop:\n{}all parts:\n", beside.parts());
        }
    }
    println!("{times}{tally}");
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

fn checks(tally: &mut Tally, times: &mut Times) {
    tally.check("cargo fmt", checked(cargo(&["fmt", "--all", "--check"])));
    let lints = [
        "--workspace",
        "--all-targets",
        "--features",
        "saltern-interop/bench,saltern-interop/attack",
        "--",
        "-D",
        "warnings",
    ];
    tally.check("cargo clippy", times.of("lints", || checked(cargo(&["clippy"]).args(lints))));
}

fn unit_tests(scope: Scope, tally: &mut Tally) -> Result<(), Failure> {
    let step = nats::known_to(cargo(&["test", "--workspace", "--exclude", "saltern-interop", "--no-fail-fast"]));
    let step = match scope {
        Scope::Short => step,
        Scope::Full => step
            .env("SALTERN_HISTORIES", HISTORIES)
            .env("SALTERN_LEASE_STORMS", LEASE_STORMS)
            .env("SALTERN_CANCELS", CANCELS),
    };
    follow(tally, step)
}

/// Tests that want the machine for themselves.
fn machine_tests(built: bool, tally: &mut Tally, times: &mut Times) -> Result<(), Failure> {
    if judged() {
        times.of("live tests", || live_tests(tally))?;
    }
    // The program with its assertions and checks for overflows: a wrong calculation becomes a crash that the attack
    // notices.
    if built {
        times.of("attacks", || follow(tally, crate::attack_step(checked_program())))?;
    }
    Ok(())
}

/// What depends on no clock, with a low priority: scenarios mostly wait, so this costs little time beside them.
fn beside_interop() -> Result<(Tally, Times), Failure> {
    let (mut tally, mut times) = (Tally::default(), Times::default());
    times.of("storms", || storms(&mut tally))?;
    tally.check("instructions", times.of("instructions", counted_instructions));
    let fuzzing = times.of("fuzzing", || fuzz::beside_others(fuzz::SECONDS))?;
    tally.add_all(fuzzing);
    Ok((tally, times))
}

/// All storms of a full run. The unit tests have run some already.
fn storms(tally: &mut Tally) -> Result<(), Failure> {
    // The whole workspace: for a part of it cargo would choose other features and build the crates again.
    let step = cargo(&["test", "--workspace", "--exclude", "saltern-interop", "--test", "storms"]);
    let step = step.env("SALTERN_STORMS", STORMS).env("SALTERN_SHARING_STORMS", SHARING_STORMS);
    follow(tally, step.low_priority())
}

/// Tests that need root and change packages, accounts and services of the machine.
fn live_tests(tally: &mut Tally) -> Result<(), Failure> {
    // Both name the whole workspace: for a part of it cargo would choose other features and build the crates again.
    follow(tally, cargo(&["test", "--workspace", "--exclude", "saltern-interop", "--lib", "--", "--ignored"]))?;
    let live = cargo(&["test", "--workspace", "--exclude", "saltern-interop", "--test", "live_debian"]);
    follow(tally, live.args(["--", "--ignored"]))
}

/// The comparison with the real Salt: all subjects, or in a short run those of the wire.
fn interop(scope: Scope, built: bool, installed: Result<(), Failure>, tally: &mut Tally) -> Result<(), Failure> {
    if let Err(failure) = installed {
        without_real_salt(&failure, tally);
        return Ok(());
    }
    if !built {
        println!("interop is not run: there is no program to run");
        return Ok(());
    }
    let step = cargo(&["test", "--package", "saltern-interop", "--no-fail-fast"]);
    let step = match scope {
        Scope::Short => step.args(["--", "matrix::"]),
        Scope::Full => step,
    };
    let step = step.env("SALTERN_BIN", checked_program()).env("SALTERN_SALT_DIR", real_salt::folder());
    follow(tally, nats::known_to(step).env("RUST_TEST_THREADS", scenarios_at_once().to_string()))
}

/// Scenarios wait for timeouts most of the time, so half as many again as there are processors run at once.
fn scenarios_at_once() -> usize {
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    (processors * 3 / 2).max(2)
}

/// A developer without valgrind may leave it to the judge.
fn counted_instructions() -> bool {
    if !judged() && !packages::are_there(packages::COUNTING) {
        println!("skipped the count of instructions: there is no valgrind");
        return true;
    }
    instructions::chore(&[]).inspect_err(|failure| println!("the hot paths take too much: {failure}")).is_ok()
}

/// A developer may work without the real Salt; the judge of a change may not.
fn without_real_salt(failure: &Failure, tally: &mut Tally) {
    if judged() {
        println!("interop failed: {failure}");
        tally.fail("the installation of the real Salt");
    } else {
        println!("skipped interop, the comparison with the real Salt: {failure}");
        let list = cargo(&["test", "--quiet", "--package", "saltern-interop", "--", "--list"]).output();
        // Each subject that is not compared is counted, so that the sum of a run without Salt is not a smaller one.
        tally.skipped += list.map_or(1, |text| text.lines().filter(|line| line.ends_with(": test")).count() as u64);
    }
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
