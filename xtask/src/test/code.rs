//! What needs processors and no clock: lints, unit tests, storms, counted instructions and fuzz targets.

use std::path::Path;

use super::{Part, Scope, checked, follow};
use crate::run::{Failure, Step, cargo, judged, workspace};
use crate::tally::Tally;
use crate::times::Times;
use crate::{fuzz, instructions, nats, packages};

/// Storms of the simulation in a full run, and of masters that share; the short one leaves the numbers to the test.
const STORMS: &str = "500";

/// The number of random histories of shared records that a full run checks.
const HISTORIES: &str = "100000";

/// Storms of leases in a full run, of each mode.
const LEASE_STORMS: &str = "20000";

/// Clients of `salt-api` in a full run that give up while they wait.
const CANCELS: &str = "10000";

/// Arguments with which a test runner repeats what tests that passed have printed: why they returned early.
const SHOW_OUTPUT: [&str; 2] = ["--", "--show-output"];

/// Runs all of it but the storms, with a low priority.
pub fn run(scope: Scope) -> Part {
    let (mut tally, mut times) = (Tally::default(), Times::default());
    tally.check("cargo clippy", times.of("lints", lints));
    if scope == Scope::Full {
        tally.check("cargo check", times.of("the program without what only tests have", check_program));
    }
    times.of("unit tests", || unit_tests(scope, &mut tally))?;
    if scope == Scope::Full {
        tally.check("instructions", times.of("instructions", counted_instructions));
        let fuzzing = times.of("fuzz targets", || fuzz::beside_others(fuzz::SECONDS))?;
        tally.add_all(fuzzing);
    }
    Ok((tally, times))
}

fn lints() -> bool {
    let args = [
        "--workspace",
        "--all-targets",
        "--features",
        "saltern-interop/bench,saltern-interop/attack",
        "--",
        "-D",
        "warnings",
    ];
    checked(cargo(&["clippy"]).args(args).low_priority())
}

/// All other builds have the features that only tests have, so they do not notice that the program needs one of them.
fn check_program() -> bool {
    checked(cargo(&["check", "--package", "saltern-cli"]).low_priority())
}

fn unit_tests(scope: Scope, tally: &mut Tally) -> Result<(), Failure> {
    let step = nats::known_to(unit_test_step().arg("--no-fail-fast"));
    let step = match scope {
        Scope::Short => step,
        Scope::Full => step
            .env("SALTERN_HISTORIES", HISTORIES)
            .env("SALTERN_LEASE_STORMS", LEASE_STORMS)
            .env("SALTERN_CANCELS", CANCELS)
            // They run beside this.
            .env("SALTERN_STORMS", "0")
            .env("SALTERN_SHARING_STORMS", "0"),
    };
    follow(tally, step.args(SHOW_OUTPUT).low_priority())
}

/// The unit tests. Each command that runs some of them names the whole workspace: for a part of it cargo would choose other features and
/// build the crates again.
pub fn unit_test_step() -> Step {
    cargo(&["test", "--workspace", "--exclude", "saltern-interop"])
}

/// Runs all storms of a full run. What compiles leaves processors idle from time to time, and storms use them.
pub fn storms(program: &Path) -> Part {
    let (mut tally, mut times) = (Tally::default(), Times::default());
    let step = Step::new(program).arg("storms").arg("--show-output").dir(&workspace().join("sim"));
    let step = step.env("SALTERN_STORMS", STORMS).env("SALTERN_SHARING_STORMS", STORMS);
    times.of("storms", || follow(&mut tally, step.lowest_priority()))?;
    Ok((tally, times))
}

/// Tests that need root and change packages, accounts and services of the machine.
pub fn live_tests(tally: &mut Tally) -> Result<(), Failure> {
    follow(tally, unit_test_step().args(["--lib", "--", "--ignored"]))?;
    follow(tally, unit_test_step().args(["--test", "live_debian", "--", "--ignored"]))
}

/// A developer without valgrind may leave it to the judge.
fn counted_instructions() -> bool {
    if !judged() && !packages::are_there(packages::COUNTING) {
        println!("skipped the count of instructions: there is no valgrind");
        return true;
    }
    instructions::chore(&[]).inspect_err(|failure| println!("the hot paths take too much: {failure}")).is_ok()
}
