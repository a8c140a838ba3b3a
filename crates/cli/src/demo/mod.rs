//! `saltern demo` — two masters and three minions on this machine, to watch several masters command the same minions.
//!
//! Everything lives in a scratch directory and listens on loopback addresses only. Each step is printed as the command
//! a person would type, followed by what that command really printed.

mod cluster;
mod steps;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use cluster::Cluster;

/// What `saltern demo --help` prints.
const HELP: &str = "\
Usage: saltern demo [--keep] [--dir DIR]

Starts two masters (127.0.0.1 and 127.0.0.2) and three minions in a scratch directory, accepts their keys on both
masters, commands the minions from both, kills one master, shows the other commanding on, and brings it back.

Options:
      --keep     stay up afterwards and print how to talk to the masters; Ctrl-C ends it
      --dir DIR  use this directory, which must not exist yet, and leave it there
  -h, --help     print this help
";

/// What the command line asked for.
#[derive(Debug, Default, PartialEq)]
struct Wishes {
    keep: bool,
    help: bool,
    dir: Option<PathBuf>,
}

/// Runs the demonstration with the arguments behind `demo`.
pub fn main(args: &[String]) -> ExitCode {
    let outcome = wishes(args).and_then(|wishes| {
        if wishes.help {
            print!("{HELP}");
            return Ok(());
        }
        run(wishes)
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("saltern demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn wishes(args: &[String]) -> Result<Wishes> {
    let mut wishes = Wishes::default();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--keep" => wishes.keep = true,
            "-h" | "--help" => wishes.help = true,
            "--dir" => wishes.dir = Some(rest.next().context("--dir needs a directory")?.into()),
            other => bail!("unknown argument '{other}' (see --help)"),
        }
    }
    Ok(wishes)
}

fn run(wishes: Wishes) -> Result<()> {
    let mut cluster = Cluster::lay_out(wishes.dir)?;
    steps::tell_the_story(&mut cluster)?;
    if wishes.keep {
        steps::stay_up(&cluster)?;
    }
    cluster.stop()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_and_unknown_ones_refused() {
        let read = |args: &[&str]| wishes(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>());
        let expected = Wishes { keep: true, help: false, dir: Some("x".into()) };
        assert_eq!(read(&["--keep", "--dir", "x"]).unwrap(), expected);
        assert!(read(&["--kep"]).unwrap_err().to_string().contains("--kep"));
        assert!(read(&["--dir"]).is_err());
    }
}
