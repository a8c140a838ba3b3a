//! What a command costs: processor time and peak memory, its children included.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use serde_json::{Value, json};

/// The first argument by which this program only runs another one and tells what that cost. What the kernel counts for the
/// children of a process cannot be set back, so each measurement has a process of its own.
pub const MARK: &str = "--cost-of";

/// What a command cost.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Processor time, in milliseconds.
    pub processor: f64,
    /// Largest resident set, in mebibytes.
    pub memory: f64,
}

/// Runs a command in a process of its own and tells what it cost.
pub fn of(command: &[String]) -> Result<Cost> {
    let own = std::env::current_exe().context("failed to find this program")?;
    let output = Command::new(own).arg(MARK).args(command).output().context("failed to start this program")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{}` failed: {said}", command.join(" "));
    let text = String::from_utf8_lossy(&output.stdout);
    let told: Value = serde_json::from_str(text.lines().last().unwrap_or_default()).context("no cost was told")?;
    let number = |name: &str| told[name].as_f64().context("a number is missing");
    Ok(Cost { processor: number("processor")?, memory: number("memory")? })
}

/// The other side: runs the command, prints its cost as JSON.
pub fn tell(command: &[String]) -> Result<()> {
    let (program, args) = command.split_first().context("no command")?;
    // A service has no SHELL: commands run in /bin/sh there, not in that of who measures.
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
