//! Runs storms on demand: `storm --seeds N --from S`, or `storm --trace SEED` to print the trace of one. With `--sharing` the
//! masters are one set, with `--twice` each seed is run twice and its traces are compared.

use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

const HELP: &str = "usage: storm [--sharing] [--twice] [--seeds N] [--from S] | storm [--sharing] --trace SEED";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str, default: u64| match args.iter().position(|arg| arg == name) {
        Some(place) => args.get(place + 1).and_then(|word| word.parse().ok()),
        None => Some(default),
    };
    let names = ["--seeds", "--from", "--trace", "--sharing", "--twice"];
    let known = |arg: &String| names.contains(&arg.as_str()) || arg.parse::<u64>().is_ok();
    let sharing = args.iter().any(|arg| arg == "--sharing");
    let storm = if sharing { sim::sharing_storm } else { sim::storm };
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
        return trace(storm(traced));
    }
    if args.iter().any(|arg| arg == "--twice") {
        return twice(from..from + seeds, storm);
    }
    let began = Instant::now();
    let tally = sim::seeds::run(&(from..from + seeds).collect::<Vec<_>>(), storm);
    print!("{}", tally.report());
    println!("{tally}; {:.0} s", began.elapsed().as_secs_f32());
    if tally.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn twice(seeds: Range<u64>, storm: fn(u64) -> sim::Outcome) -> ExitCode {
    let number = seeds.clone().count();
    let differences: Vec<String> = seeds.filter_map(|seed| sim::seeds::difference(seed, storm)).collect();
    differences.iter().for_each(|difference| println!("{difference}"));
    println!("{} of {number} storms differ when they are repeated", differences.len());
    if differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn trace(outcome: sim::Outcome) -> ExitCode {
    println!("{}", outcome.trace.join("\n"));
    for wrong in &outcome.wrongs {
        println!("WRONG {wrong}");
    }
    if outcome.wrongs.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
