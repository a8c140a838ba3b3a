//! Chores of the project: `cargo xtask test`, `demo`, `release`, `bench`, `attack`, `outage`, `fuzz`.
//!
//! Each sets up what it needs on a Debian or Ubuntu machine that has cargo, git, Python with pip, and apt. Only the
//! standard library is used, so the chores themselves are built in a moment.

mod fuzz;
mod instructions;
mod packages;
mod real_salt;
mod release;
mod run;
mod tally;
mod test;

use std::process::ExitCode;

use run::{Failure, cargo, optimised_program};

const HELP: &str = "\
Usage: cargo xtask <CHORE>

  test [--no-fuzz]           set up, check format and lints, run all tests, end with the counts
  demo [--keep]              build, then show two masters and three minions; --keep leaves them running
  release [--portable]       the optimised program, its code in the order of use: less of it in memory
  bench [states | scale | sign-ins]
                             measure against the real Salt on this machine: three masters and a minion, state runs, or
                             hundreds and thousands of minions (scale --help)
  outage [ARGUMENTS]         faults in network namespaces, ours beside the real Salt; needs root
  attack [WORD]              attacks on a running master and its minions: all, or those whose names contain the word
  storm [--seeds N] [--from S]  run simulated clusters through a storm each; --trace SEED tells the story of one
  fuzz [TARGET] [SECONDS]    run the fuzz targets (60 seconds each by default)
  instructions [--record]    count what the hot paths take, against recorded figures
  salt                       install the real Salt releases the tests compare with
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
            build_optimised()?;
            measured("outage", &[], rest)
        }
        "attack" => attack(rest),
        "storm" => storm(rest),
        "fuzz" => fuzz::chore(rest),
        "instructions" => instructions::chore(rest),
        "salt" => real_salt::RELEASES.iter().try_for_each(|release| real_salt::ensure(release)),
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
    attack_step(optimised_program()).args(rest).run()
}

/// The program that attacks; it reaches the master as its own library would not.
fn attack_step(program: std::path::PathBuf) -> run::Step {
    let step =
        cargo(&["run", "--quiet", "--package", "saltern-interop", "--features", "attack", "--bin", "attack", "--"]);
    step.env("SALTERN_BIN", program)
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
    real_salt::ensure(real_salt::NEWEST)?;
    let mut args = vec!["run", "--quiet", "--release", "--package", "saltern-interop"];
    args.extend(features);
    args.extend(["--bin", name, "--"]);
    let program = cargo(&args).env("SALTERN_BIN", optimised_program());
    program.env("SALTERN_SALT_DIR", real_salt::folder()).args(rest).run()
}
