//! Fuzz targets with libFuzzer on the stable compiler.
//!
//! The targets live in the crate `fuzz/`, which is not a member of the workspace since it is built with
//! instrumentation. Its `corpus/<target>/` is kept in the repository; what a run finds goes to the build directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;

use crate::packages;
use crate::run::{Failure, Step, cargo_program, target_dir, workspace};
use crate::tally::Tally;

/// The run time of each target in the tests.
pub const SECONDS: u32 = 60;

/// Instrumentation as libFuzzer expects it, without cargo-fuzz and a nightly compiler.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Coverflow-checks";

/// Memory a target may use before it counts as a finding.
const MEBIBYTES: u32 = 1024;

/// `cargo xtask fuzz [TARGET] [SECONDS]`.
pub fn chore(args: &[String]) -> Result<(), Failure> {
    packages::ensure(&[packages::BUILD, packages::FUZZ])?;
    // A number is the seconds, a word the target, in any order.
    let seconds = args.iter().find_map(|arg| arg.parse().ok()).unwrap_or(SECONDS);
    let name = args.iter().find(|arg| arg.parse::<u32>().is_err());
    let mut tally = Tally::default();
    let pace = Pace { seconds, seed: Seed::Random, priority: Priority::Usual };
    build(pace.priority)?;
    let targets: Vec<_> = targets()?.into_iter().filter(|t| name.is_none_or(|name| name == t)).collect();
    run(&targets, pace, &mut tally)?;
    println!("{tally}");
    if tally.failed == 0 { Ok(()) } else { Err(Failure::new("a fuzz target failed")) }
}

/// The starting point of a run's search.
///
/// The tests search the same inputs every time, so that a change is judged by what it does and not by luck. New inputs
/// are searched by `cargo xtask fuzz`.
#[derive(Clone, Copy)]
enum Seed {
    Random,
    Fixed,
}

/// How the fuzz targets run.
#[derive(Clone, Copy)]
struct Pace {
    seconds: u32,
    seed: Seed,
    priority: Priority,
}

#[derive(Clone, Copy)]
enum Priority {
    Usual,
    /// Tests with timeouts run at the same time.
    Low,
}

impl Priority {
    fn apply(self, step: Step) -> Step {
        match self {
            Priority::Usual => step,
            Priority::Low => step.low_priority(),
        }
    }
}

/// Builds and runs every target for some seconds, with a low priority.
pub fn beside_others(seconds: u32) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    let pace = Pace { seconds, seed: Seed::Fixed, priority: Priority::Low };
    if let Err(failure) = build(pace.priority) {
        println!("{failure}");
        tally.fail("the build of the fuzz targets");
        return Ok(tally);
    }
    run(&targets()?, pace, &mut tally)?;
    Ok(tally)
}

fn build(priority: Priority) -> Result<(), Failure> {
    let args = ["build", "--release", "--manifest-path", "fuzz/Cargo.toml", "--target", &host()?, "--target-dir"];
    // With the flags in the environment, not in a profile: the dependencies must be instrumented as well.
    priority.apply(Step::new(cargo_program()).args(args).arg(build_dir()).env("RUSTFLAGS", FLAGS)).run()
}

/// The compiler's own platform: naming it keeps the instrumentation away from build scripts and macros.
fn host() -> Result<String, Failure> {
    let text = Step::new("rustc").arg("-vV").output().unwrap_or_default();
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned);
    host.ok_or_else(|| Failure::new("`rustc -vV` does not name its host"))
}

fn build_dir() -> PathBuf {
    target_dir().join("fuzz")
}

fn targets() -> Result<Vec<String>, Failure> {
    let dir = workspace().join("fuzz/fuzz_targets");
    let entries =
        fs::read_dir(&dir).map_err(|error| Failure::new(format!("failed to read {}: {error}", dir.display())))?;
    let paths = entries.flatten().map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "rs"));
    let mut names: Vec<_> = paths.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    Ok(names)
}

/// Runs the targets, as many at a time as there are processors.
fn run(targets: &[String], pace: Pace, tally: &mut Tally) -> Result<(), Failure> {
    let at_once = std::thread::available_parallelism().map_or(1, usize::from);
    for some in targets.chunks(at_once) {
        let running: Vec<_> = some.iter().map(|name| start(name, pace)).collect::<Result<_, _>>()?;
        for (name, (child, log)) in some.iter().zip(running) {
            let ended = finish(name, child, &log);
            tally.check(&format!("fuzz {name}"), ended);
        }
    }
    Ok(())
}

fn start(name: &str, pace: Pace) -> Result<(Child, PathBuf), Failure> {
    let found = build_dir().join("corpus").join(name);
    let artifacts = build_dir().join("artifacts").join(name);
    for dir in [&found, &artifacts] {
        fs::create_dir_all(dir)
            .map_err(|error| Failure::new(format!("failed to create {}: {error}", dir.display())))?;
    }
    let log = artifacts.join("log");
    let program = build_dir().join(host()?).join("release").join(name);
    // libFuzzer puts new inputs into the first directory it is given.
    let mut step = Step::new(program).arg(&found);
    let kept = workspace().join("fuzz/corpus").join(name);
    if kept.exists() {
        step = step.arg(&kept);
    }
    // One input that takes ten seconds is a hang; with a low priority it gets a part of a processor.
    let hang = match pace.priority {
        Priority::Usual => "-timeout=10",
        Priority::Low => "-timeout=60",
    };
    let time = format!("-max_total_time={}", pace.seconds);
    let limits = [time, format!("-rss_limit_mb={MEBIBYTES}"), hang.to_owned()];
    let seed = match pace.seed {
        Seed::Random => None,
        Seed::Fixed => Some("-seed=1"),
    };
    let step = step.args(limits).args(seed).args(["-print_final_stats=1", "-max_len=65536"]);
    let step = step.arg(format!("-artifact_prefix={}/", artifacts.display()));
    let child = pace.priority.apply(step).background(&log)?;
    Ok((child, log))
}

fn finish(name: &str, mut child: Child, log: &Path) -> bool {
    let succeeded = child.wait().is_ok_and(|status| status.success());
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let stat = |key: &str| text.lines().rev().find_map(|line| line.strip_prefix(key)).unwrap_or("?").trim().to_owned();
    if succeeded {
        println!("fuzz {name} ... ok ({} runs)", stat("stat::number_of_executed_units:"));
        return true;
    }
    let lines: Vec<_> = text.lines().collect();
    // The end of the log has the stack and the input.
    lines.iter().skip(lines.len().saturating_sub(60)).for_each(|line| println!("{line}"));
    println!("fuzz {name} ... FAILED, see {}", log.display());
    false
}
