//! What two idle masters cost, without minions.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{Salt, Sandbox, measure as memory};

use super::Line;
use super::pair::{POOL_PORT, Pair, processor};

/// How long the first comparisons may take, and how long is measured.
const SETTLE: Duration = Duration::from_secs(5);
const LENGTH: Duration = Duration::from_secs(40);

/// The goals: bytes a second on the links, part of a processor, and memory in bytes.
const TRAFFIC: f64 = 1_024.0;
const PROCESSOR: f64 = 0.001;
const MEMORY: u64 = 1 << 20;

/// What one master of a pair costs.
struct Idle {
    processor: f64,
    memory: u64,
    /// The part of it that is no page of a file.
    anonymous: u64,
    traffic: f64,
}

/// Measures both pairs.
pub fn measure(sandbox: &Sandbox, ours: &Salt) -> Result<Vec<Line>> {
    let (alone, sharing) = (idle(sandbox, ours, false)?, idle(sandbox, ours, true)?);
    let percent = |part: f64| format!("{:.2} %", part * 100.0);
    let mebibytes = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let line = |what, alone, sharing, goal, reached| Line { what, alone, sharing, goal, reached };
    Ok(vec![
        line(
            "idle: data on the links of a pair, both ways",
            None,
            format!("{:.0} B/s", sharing.traffic),
            "1 kB/s",
            sharing.traffic <= TRAFFIC,
        ),
        line(
            "idle: processor of one master",
            Some(percent(alone.processor)),
            percent(sharing.processor),
            "0.1 % more",
            sharing.processor - alone.processor <= PROCESSOR,
        ),
        line(
            "idle: memory (PSS) of one master",
            Some(mebibytes(alone.memory)),
            mebibytes(sharing.memory),
            "1 MiB more",
            sharing.memory.saturating_sub(alone.memory) <= MEMORY,
        ),
        line(
            "of it without pages of the program's file",
            Some(mebibytes(alone.anonymous)),
            mebibytes(sharing.anonymous),
            "",
            true,
        ),
    ])
}

fn idle(sandbox: &Sandbox, ours: &Salt, shares: bool) -> Result<Idle> {
    let mut pair = Pair::start(sandbox, ours, shares, true)?;
    std::thread::sleep(SETTLE);
    let before = (processor(&mut pair.one)?, sent(&pair)?);
    std::thread::sleep(LENGTH);
    let after = (processor(&mut pair.one)?, sent(&pair)?);
    let pid = pair.one.daemon()?.pid();
    let (memory, anonymous) = (memory::pss(pid)?, memory::anonymous(pid)?);
    let part = |all: f64| all / LENGTH.as_secs_f64();
    let (processor, traffic) = (part((after.0 - before.0).as_secs_f64()), part((after.1 - before.1) as f64));
    pair.stop()?;
    Ok(Idle { processor, memory, anonymous, traffic })
}

/// Returns how many bytes both ends of the links have sent until now, as the kernel counts them.
fn sent(pair: &Pair) -> Result<u64> {
    let output = Command::new("ss").args(["-tinH", "state", "established"]).output().context("failed to start ss")?;
    ensure!(output.status.success(), "ss failed: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let ends = [&pair.one, &pair.two].map(|master| format!("{}:{POOL_PORT}", master.address()));
    let (mut ours, mut sum) = (false, 0);
    for line in text.lines() {
        match line.starts_with(char::is_whitespace) {
            // The counters of a connection are in the line below its addresses.
            false => ours = ends.iter().any(|end| line.contains(end.as_str())),
            true if ours => {
                let counter = line.split_whitespace().find_map(|word| word.strip_prefix("bytes_sent:"));
                sum += counter.and_then(|text| text.parse::<u64>().ok()).unwrap_or_default();
            }
            true => {}
        }
    }
    Ok(sum)
}
