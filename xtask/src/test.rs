//! The test command: everything that can be checked, ending with one line of counts.

use crate::run::{Failure, Step, cargo, checked_program, judged};
use crate::tally::Tally;
use crate::{fuzz, instructions, packages, real_salt};

/// Runs all checks and tests.
pub fn run(args: &[String]) -> Result<(), Failure> {
    let fuzzing = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => true,
        ["--no-fuzz"] => false,
        other => return Err(Failure::new(format!("cargo xtask test knows only --no-fuzz, not {}", other.join(" ")))),
    };
    packages::ensure(&[packages::BUILD, packages::FUZZ])?;
    let mut tally = Tally::default();
    // Installing waits for the network most of the time, so the rest need not wait for it.
    let real_salt = packages::ensure(&[packages::REAL_SALT]).map(|()| std::thread::spawn(install_real_salt));
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
    tally.check("cargo clippy", checked(cargo(&["clippy"]).args(lints)));
    follow(&mut tally, cargo(&["test", "--workspace", "--exclude", "saltern-interop", "--no-fail-fast"]))?;
    tally.check("instructions", counted_instructions());
    if judged() {
        // This machine may be changed: packages, accounts, services.
        // Of the whole workspace, as before: with other packages the crates would have other features and be built anew.
        let live = cargo(&["test", "--workspace", "--exclude", "saltern-interop", "--test", "live_debian"]);
        let live = live.args(["--", "--ignored"]);
        follow(&mut tally, live)?;
    }
    // Whole runs use the program with its checks for overflows and assertions; it is built already, in most parts.
    let built = checked(cargo(&["build", "--package", "saltern-cli"]));
    tally.check("cargo build", built);
    if built {
        follow(&mut tally, crate::attack_step(checked_program()))?;
    }
    if fuzzing {
        fuzz::all(fuzz::SECONDS, &mut tally)?;
    }
    match real_salt.and_then(|thread| thread.join().expect("the installation does not panic")) {
        Ok(()) if built => interop(&mut tally)?,
        Ok(()) => println!("interop is not run: there is no program to run"),
        Err(failure) => without_real_salt(&failure, &mut tally),
    }
    println!("{tally}");
    if tally.failed == 0 { Ok(()) } else { Err(Failure::new("some checks failed")) }
}

fn install_real_salt() -> Result<(), Failure> {
    real_salt::RELEASES.iter().try_for_each(|release| real_salt::ensure(release))
}

fn interop(tally: &mut Tally) -> Result<(), Failure> {
    let step = cargo(&["test", "--package", "saltern-interop", "--no-fail-fast"]);
    follow(tally, step.env("SALTERN_BIN", checked_program()).env("SALTERN_SALT_DIR", real_salt::folder()))
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
