//! `saltern demo` — two masters and their minions on this machine, to watch several masters command the same minions, and
//! share what they know.
//!
//! Everything lives in a scratch directory and listens on loopback addresses only. Each step is printed as the
//! command that a person would type, and its real output.

mod cluster;
mod screen;
mod sharing;
mod steps;

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use anyhow::{Context, Result, bail};
use tokio::signal::unix::{SignalKind, signal};

use cluster::{Cluster, Interrupted};
use screen::Screen;

/// The output of `saltern demo --help`.
const HELP: &str = "\
Usage: saltern demo [--keep] [--dir DIR]

Starts two masters (127.0.0.1 and 127.0.0.2) and three minions in a scratch directory, accepts their keys on both
masters, commands the minions from both, applies a highstate, kills one master, shows that the other still commands the
minions, holds a job for a dead minion, brings both back, and says how long each took. Then the masters share: a key is
accepted on one, a minion of the other is commanded, its result is read on both, and what differs between them is shown.
Everything is stopped and removed in the end.

Options:
      --keep     stay up afterwards and print how to talk to the masters; Ctrl-C ends it
      --dir DIR  use this directory, which must not exist yet, and leave it there
  -h, --help     print this help
";

/// The arguments of the command line.
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
            crate::terminal::print(HELP);
            return Ok(());
        }
        run(wishes)
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => ending(&error),
    }
}

/// The exit codes that shells use for programs that were ended by these signals.
const BY_SIGINT: u8 = 130;
const BY_SIGPIPE: u8 = 141;

/// Prints no error for Ctrl-C or a closed output: the user knows.
fn ending(error: &anyhow::Error) -> ExitCode {
    if error.is::<Interrupted>() {
        return ExitCode::from(BY_SIGINT);
    }
    if is_closed_output(error) {
        return ExitCode::from(BY_SIGPIPE);
    }
    rt::complain!("saltern demo: {error:#}");
    ExitCode::FAILURE
}

/// Returns whether somebody has closed the output, as `saltern demo | head` does.
fn is_closed_output(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
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
    let (interrupted, told) = watch_signals()?;
    let screen = Screen::new();
    let mut cluster = Cluster::lay_out(wishes.dir, screen.color(), interrupted)?;
    let outcome = steps::tell_the_story(&mut cluster, &screen).and_then(|()| match wishes.keep {
        true => steps::stay_up(&cluster, &screen, &told),
        false => Ok(()),
    });
    // A program that was interrupted together with this one may have failed for it.
    cluster.go_on()?;
    outcome.map_err(|error| match is_closed_output(&error) {
        true => error,
        false => {
            error.context(format!("the demonstration failed; its logs are below {}", cluster.keep_logs().display()))
        }
    })?;
    drop(cluster);
    steps::next_steps(&screen)
}

/// From now on SIGINT, SIGTERM and SIGHUP do not end the program: they set the flag, and are sent to the receiver.
fn watch_signals() -> Result<(Arc<AtomicBool>, mpsc::Receiver<()>)> {
    let runtime = crate::prepare::small_runtime().context("failed to start")?;
    let mut signals = {
        // A signal can only be watched inside a runtime.
        let _inside = runtime.enter();
        let watch = |kind| signal(kind).context("failed to watch for signals");
        [watch(SignalKind::interrupt())?, watch(SignalKind::terminate())?, watch(SignalKind::hangup())?]
    };
    let interrupted = Arc::new(AtomicBool::new(false));
    let (sender, told) = mpsc::channel();
    let flag = interrupted.clone();
    std::thread::spawn(move || {
        runtime.block_on(async {
            let [interrupt, terminate, hangup] = &mut signals;
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
        });
        flag.store(true, Ordering::Relaxed);
        // A thread that does not wait checks the flag.
        let _ = sender.send(());
    });
    Ok((interrupted, told))
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
