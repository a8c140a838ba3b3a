//! Signals: which ones a daemon survives, and the report that SIGUSR1 makes it write.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{Master, Minion, Program, Salt, scenario, until, until_some};
use nix::sys::signal::{Signal, kill};

/// Signals that end no daemon.
// SIGPIPE and SIGCHLD come with closed connections and ended jobs, SIGWINCH when a terminal is resized.
const HARMLESS: [Signal; 5] = [Signal::SIGUSR1, Signal::SIGWINCH, Signal::SIGCHLD, Signal::SIGPIPE, Signal::SIGURG];

const WRITTEN: &str = "Debug information was written to ";

#[test]
fn daemons_bear_signals_and_write_down_what_they_do() {
    scenario("signals", |sandbox| {
        let ours = Salt::ours()?;
        let mut master = Master::build(&ours, "m").option("auto_accept", true).start(sandbox)?;
        let mut minion = Minion::build(&ours, "signalled").master(&master).start(sandbox)?;
        master.wait_answering(&["signalled"])?;
        for pid in [master.daemon()?.pid(), minion.daemon()?.pid()] {
            HARMLESS.into_iter().try_for_each(|signal| kill(pid, signal))?;
            if ours.is_ours() {
                // SIGUSR2 ends a real minion, and starts a profiler in a real master if one is installed.
                kill(pid, Signal::SIGUSR2)?;
            }
        }
        if ours.is_ours() {
            check_report("the master's report", || master.log(), &["subscribers: 1", "connected minions: 1"])?;
            check_report("the minion's report", || minion.log(), &["minion signalled", ": hot live for "])?;
        }
        ensure!(master.daemon()?.alive() && minion.daemon()?.alive(), "a daemon has ended");
        ensure!(master.ask("signalled", &["test.echo", "alive"])? == "alive");
        Ok(())
    });
}

/// Waits for a report that the log mentions. Only its owner may read it, and it describes the daemon.
fn check_report(what: &str, log: impl Fn() -> String, parts: &[&str]) -> Result<()> {
    let path = until_some(what, Duration::from_secs(20), || {
        let log = log();
        let line = log.lines().find_map(|line| line.split_once(WRITTEN))?.1.trim().to_owned();
        Some(line)
    })?;
    let mode = fs::metadata(&path).with_context(|| format!("there is no {path}"))?.permissions().mode() & 0o777;
    ensure!(mode == 0o600, "{path} has the mode {mode:o}");
    let text = fs::read_to_string(&path)?;
    fs::remove_file(&path)?;
    for part in parts.iter().chain(&["======== Salt Debug Stack Trace =========", "VmRSS: "]) {
        ensure!(text.contains(part), "{part:?} is not in {text}");
    }
    Ok(())
}

#[test]
fn a_start_in_the_background_that_fails_is_told_to_who_started() {
    scenario("-d that fails", |sandbox| {
        let ours = Salt::ours()?;
        let unreachable = Minion::build(&ours, "alone").option("master", "127.255.255.254").prepare(sandbox)?;
        unreachable.program("salt-minion").args(["-d"]).limit(Duration::from_secs(60)).run()?.ok()?;
        let pid_file = unreachable.root().join("run/salt-minion.pid");
        let pid = until_some("the pid of the minion", Duration::from_secs(20), || {
            fs::read_to_string(&pid_file).ok()?.trim().parse().ok()
        })?;
        let pid = nix::unistd::Pid::from_raw(pid);
        ensure!(interop::measure::runs(pid), "a minion without a master came up and stays");
        kill(pid, Signal::SIGTERM)?;
        until("the minion to be gone", Duration::from_secs(40), || !interop::measure::runs(pid))?;
        if !ours.is_ours() {
            // A real master exits with 0 first and fails later.
            return Ok(());
        }
        // An address for documentation (RFC 5737), which no interface has.
        let master = Master::build(&ours, "m").option("interface", "203.0.113.1").prepare(sandbox)?;
        let output =
            Program::new(sandbox, &ours.program("salt-master")).arg_dir("-c", &master.conf()).args(["-d"]).run()?;
        // The exit code of Salt for ports that cannot be bound.
        let output = output.exits(4)?;
        ensure!(output.stderr.contains("203.0.113.1"), "the reason is not told: {output}");
        Ok(())
    });
}
