//! The cost of a command: processor time and peak memory, including its children.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use serde_json::{Value, json};

/// The first argument that makes this program run another one and print its cost. The kernel's counters for the
/// children of a process cannot be reset, so each measurement needs its own process.
pub const MARK: &str = "--cost-of";

/// The cost of a command.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Processor time, in milliseconds.
    pub processor: f64,
    /// Largest resident set, in mebibytes.
    pub memory: f64,
}

/// Runs a command in its own process and returns its cost.
pub fn of(command: &[String]) -> Result<Cost> {
    let own = std::env::current_exe().context("failed to find this program")?;
    let output = Command::new(own).arg(MARK).args(command).output().context("failed to start this program")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{}` failed: {said}", command.join(" "));
    let text = String::from_utf8_lossy(&output.stdout);
    // Only the last line, in case the command itself printed something.
    let told: Value = serde_json::from_str(text.lines().last().unwrap_or_default()).context("no cost was told")?;
    let number = |name: &str| told[name].as_f64().context("a number is missing");
    Ok(Cost { processor: number("processor")?, memory: number("memory")? })
}

/// The other side: runs the command, prints its cost as JSON.
pub fn tell(command: &[String]) -> Result<()> {
    let (program, args) = command.split_first().context("no command")?;
    // A service has no SHELL, so its commands run in /bin/sh and not in the shell of the user who measures.
    let status = Command::new(program).args(args).env_remove("SHELL").stdout(Stdio::null()).status();
    let status = status.with_context(|| format!("failed to start {program}"))?;
    ensure!(status.success(), "{status}");
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let time = usage.user_time() + usage.system_time();
    let processor = time.tv_sec() as f64 * 1e3 + time.tv_usec() as f64 / 1e3;
    // The kernel counts kibibytes.
    println!("{}", json!({"processor": processor, "memory": usage.max_rss() as f64 / 1024.0}));
    Ok(())
}
