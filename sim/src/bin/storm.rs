//! Runs storms on demand: `storm --seeds N --from S`, or `storm --trace SEED` to print the trace of one.

use std::process::ExitCode;
use std::time::Instant;

const HELP: &str = "usage: storm [--seeds N] [--from S] | storm --trace SEED";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str, default: u64| match args.iter().position(|arg| arg == name) {
        Some(place) => args.get(place + 1).and_then(|word| word.parse().ok()),
        None => Some(default),
    };
    let known = |arg: &String| ["--seeds", "--from", "--trace"].contains(&arg.as_str()) || arg.parse::<u64>().is_ok();
    let (Some(seeds), Some(from), Some(traced)) = (number("--seeds", 1000), number("--from", 1), number("--trace", 0))
    else {
        eprintln!("{HELP}");
        return ExitCode::FAILURE;
    };
    if !args.iter().all(known) {
        eprintln!("{HELP}");
        return ExitCode::FAILURE;
    }
    if traced > 0 {
        return trace(traced);
    }
    let began = Instant::now();
    let tally = sim::seeds::run(&(from..from + seeds).collect::<Vec<_>>());
    print!("{}", tally.report());
    println!("{tally}; {:.0} s", began.elapsed().as_secs_f32());
    if tally.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn trace(seed: u64) -> ExitCode {
    let outcome = sim::storm(seed);
    println!("{}", outcome.trace.join("\n"));
    for wrong in &outcome.wrongs {
        println!("WRONG {wrong}");
    }
    if outcome.wrongs.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
