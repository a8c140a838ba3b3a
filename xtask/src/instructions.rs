//! Counts the instructions of the hot paths and compares them with recorded figures: a machine's speed and load do not
//! affect them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::packages;
use crate::run::{Failure, Step, cargo, target_dir, workspace};

/// The number of runs of each path, in two measurements whose difference counts.
const TIMES: (u64, u64) = (5, 25);

/// The percentage by which a path may exceed its record. If it falls below by as much, the record must be renewed.
const MARGIN: u64 = 10;

/// Compares, or with `--record` writes the figures down.
pub fn chore(args: &[String]) -> Result<(), Failure> {
    packages::ensure(&[packages::BUILD, packages::COUNTING])?;
    let counted = count()?;
    match args {
        [] => compare(&counted),
        [record] if record == "--record" => write_down(&counted),
        _ => Err(Failure::new("cargo xtask instructions knows only --record")),
    }
}

fn file() -> PathBuf {
    workspace().join("hot-paths/instructions.txt")
}

/// Counts the instructions of each path, for going it once.
fn count() -> Result<BTreeMap<String, u64>, Failure> {
    cargo(&["build", "--quiet", "--package", "saltern-hot-paths"]).run()?;
    let program = target_dir().join("debug/saltern-hot-paths");
    let names = Step::new(&program).output().ok_or_else(|| Failure::new(format!("{} fails", program.display())))?;
    // The difference of two runs has no start-up in it.
    let one = |name: &str| {
        let (less, more) = (run(&program, name, TIMES.0)?, run(&program, name, TIMES.1)?);
        Ok((name.to_owned(), more.saturating_sub(less) / (TIMES.1 - TIMES.0)))
    };
    names.lines().map(one).collect()
}

fn run(program: &std::path::Path, path: &str, times: u64) -> Result<u64, Failure> {
    let step = Step::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        // Without what only some processors have, the same is counted everywhere.
        .env("OPENSSL_ia32cap", "0")
        .arg(program)
        .args([path, &times.to_string()]);
    let told = step.errors()?;
    let collected = told.lines().find_map(|line| line.split_once("Collected :"));
    collected
        .and_then(|(_, number)| number.trim().parse().ok())
        .ok_or_else(|| Failure::new(format!("valgrind does not say how many instructions {path} took:\n{told}")))
}

fn compare(counted: &BTreeMap<String, u64>) -> Result<(), Failure> {
    let text =
        std::fs::read_to_string(file()).map_err(|error| Failure::new(format!("{}: {error}", file().display())))?;
    let recorded: BTreeMap<&str, u64> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(n, c)| Some((n, c.trim().parse().ok()?)))
        .collect();
    let mut worse = Vec::new();
    for (path, now) in counted {
        // A path without a figure fails, or a new path would never be watched.
        let Some(before) = recorded.get(path.as_str()) else {
            worse.push(format!("{path} has no recorded figure"));
            continue;
        };
        println!("{path}: {now} instructions, recorded {before}");
        if *now > before + before * MARGIN / 100 {
            worse.push(format!("{path} takes {now} instructions, more than {MARGIN} % above the {before} recorded"));
        } else if *now < before - before * MARGIN / 100 {
            // No failure, but without a new record the gain could be lost again unnoticed.
            println!("{path} has become faster: `cargo xtask instructions --record` keeps it so");
        }
    }
    if worse.is_empty() {
        return Ok(());
    }
    worse.push("if that is meant, `cargo xtask instructions --record` writes the new figures down".to_owned());
    Err(Failure::new(worse.join("\n")))
}

fn write_down(counted: &BTreeMap<String, u64>) -> Result<(), Failure> {
    let text: String = counted.iter().map(|(path, number)| format!("{path} {number}\n")).collect();
    std::fs::write(file(), text).map_err(|error| Failure::new(format!("{}: {error}", file().display())))
}
