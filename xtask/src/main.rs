//! Chores of the project: `cargo xtask test`, `demo`, `release`, `bench`, `attack`, `outage`, `fuzz`.
//!
//! Each sets up its requirements on a Debian or Ubuntu machine that has cargo, git, Python with pip, and apt. Only the
//! standard library is used, so the chores themselves are built quickly.

#[cfg(test)]
mod circles;
#[cfg(test)]
mod documents;
mod fuzz;
#[cfg(test)]
mod hardening;
mod instructions;
mod nats;
mod packages;
mod real_salt;
mod release;
mod run;
mod tally;
mod test;
mod times;

use std::process::ExitCode;

use run::{Failure, cargo, optimised_program};

const HELP: &str = "\
Usage: cargo xtask <CHORE>

  test [--full]              install what the tests need, check format and lints, run the unit tests, 50 storms and the
                             comparison of the wire, print the counts; --full runs all tests
  demo [--keep]              build, then show two masters and three minions at work; --keep leaves them running
  release [--portable]       build the optimised program with its code ordered by first use, so that less of it is
                             in memory; --portable supports a glibc older than 2.36
  bench [states | scale | sign-ins | sharing | api]
                             measure Saltern and the real Salt on this machine: three masters and a minion, state
                             runs, hundreds and thousands of minions (scale --help), sign-ins,
                             masters that share, or salt-api
  outage [ARGUMENTS]         inject faults in network namespaces, for Saltern and the real Salt; needs root;
                             --sharing for masters of one set
  attack [WORD]              attack a running master and its minions: all attacks, or those whose names contain WORD
  storm [--sharing] [--twice] [--seeds N] [--from S]
                             run N simulated clusters through random faults, with --sharing of masters that share;
                             --trace SEED prints the trace of one, --twice runs each twice and compares the traces
  fuzz [TARGET] [SECONDS]    run the fuzz targets, 60 seconds each by default
  instructions [--record]    count the instructions of the hot paths and compare them with the recorded figures;
                             --record writes new figures
  salt                       install the releases of the real Salt that the tests compare with
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.split_first() {
        Some((chore, rest)) => chore_of(chore, rest),
        None => Err(Failure::new(HELP)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn chore_of(chore: &str, rest: &[String]) -> Result<(), Failure> {
    match chore {
        "test" => test::run(rest),
        "demo" => demo(rest),
        "release" => release::run(rest),
        "bench" => {
            release::run(&[])?;
            measured("bench", &["--features", "bench"], rest)
        }
        "outage" => {
            packages::ensure(&[packages::OUTAGE])?;
            if rest.iter().any(|arg| arg == "--sharing") {
                nats::ensure()?;
            }
            build_optimised()?;
            measured("outage", &[], rest)
        }
        "attack" => attack(rest),
        "storm" => storm(rest),
        "fuzz" => fuzz::chore(rest),
        "instructions" => instructions::chore(rest),
        "salt" => {
            real_salt::RELEASES.iter().try_for_each(|release| real_salt::ensure(release))?;
            real_salt::ensure_clients()?;
            nats::ensure()
        }
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        _ => Err(Failure::new(format!("no such chore: {chore}\n\n{HELP}"))),
    }
}

/// Floods are measured, so the program is the optimised one.
fn attack(rest: &[String]) -> Result<(), Failure> {
    build_optimised()?;
    attack_step("run", &["--"]).env("SALTERN_BIN", optimised_program()).args(rest).run()
}

/// Builds or runs the program that attacks; it reaches the master as its own library would not.
fn attack_step(verb: &str, rest: &[&str]) -> run::Step {
    let step = cargo(&[verb, "--quiet", "--package", "saltern-interop", "--features", "attack", "--bin", "attack"]);
    step.args(rest)
}

/// Thousands of storms are worth optimising for.
fn storm(rest: &[String]) -> Result<(), Failure> {
    packages::ensure(&[packages::BUILD])?;
    cargo(&["run", "--quiet", "--release", "--package", "saltern-sim", "--bin", "storm", "--"]).args(rest).run()
}

fn demo(rest: &[String]) -> Result<(), Failure> {
    build_optimised()?;
    run::Step::new(optimised_program()).arg("demo").args(rest).run()
}

fn build_optimised() -> Result<(), Failure> {
    packages::ensure(&[packages::BUILD])?;
    cargo(&["build", "--release", "--package", "saltern-cli"]).run()
}

/// Runs a program of `interop` that measures the real Salt and ours.
fn measured(name: &str, features: &[&str], rest: &[String]) -> Result<(), Failure> {
    packages::ensure(&[packages::BUILD, packages::REAL_SALT])?;
    // Measurements compare with the newest release only.
    real_salt::ensure(real_salt::NEWEST)?;
    let mut args = vec!["run", "--quiet", "--release", "--package", "saltern-interop"];
    args.extend(features);
    args.extend(["--bin", name, "--"]);
    let program = nats::known_to(cargo(&args)).env("SALTERN_BIN", optimised_program());
    program.env("SALTERN_SALT_DIR", real_salt::folder()).args(rest).run()
}
