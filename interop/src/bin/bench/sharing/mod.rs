//! `cargo xtask bench sharing`: what two masters that share cost, beside the same two masters without sharing.
//!
//! Each part takes at most two minutes, and can be run alone: `bench sharing keys`, `commands`, `returns`, `missed`, `copy`, `idle`.
//! `bench sharing fleet` takes some minutes and most of the memory of a small machine, and is run only by its name.

mod commands;
mod copy;
mod fleet;
mod idle;
mod keys;
mod load;
mod missed;
mod pair;
mod returns;

use std::fmt;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use interop::{Salt, Sandbox, Slot};

/// A measured value beside the one without sharing, and what it should be.
pub struct Line {
    pub what: &'static str,
    /// Nothing if it does not exist without sharing.
    pub alone: Option<String>,
    pub sharing: String,
    pub goal: &'static str,
    pub reached: bool,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let alone = self.alone.as_deref().unwrap_or("-");
        let mark = if self.reached { "" } else { " (missed)" };
        write!(f, "| {:<62} | {alone:>14} | {:>14} | {}{mark} |", self.what, self.sharing, self.goal)
    }
}

/// A part of the measurements.
type Part = (&'static str, fn(&Sandbox, &Salt) -> Result<Vec<Line>>);

const PARTS: [Part; 6] = [
    ("keys", keys::measure),
    ("commands", commands::measure),
    ("returns", returns::measure),
    ("missed", missed::measure),
    ("copy", copy::measure),
    ("idle", idle::measure),
];

/// The part that runs only by its name.
const FLEET: Part = ("fleet", fleet::measure);

/// Measures the parts that are named, or all but the fleet, and prints a table.
pub fn main(names: &[String]) -> Result<()> {
    let known: Vec<Part> = PARTS.into_iter().chain([FLEET]).collect();
    if let Some(name) = names.iter().find(|name| !known.iter().any(|(known, _)| known == name)) {
        let known: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        bail!("there is no part {name:?}: {}", known.join(", "));
    }
    let parts = match names {
        [] => PARTS.to_vec(),
        names => known.into_iter().filter(|(known, _)| names.iter().any(|name| name == known)).collect(),
    };
    let ours = Salt::ours()?;
    ensure!(ours.is_ours(), "only masters of Saltern share");
    let _alone = Slot::all()?;
    println!("| {:<62} | {:>14} | {:>14} | goal |", "two masters", "not sharing", "sharing");
    println!("|{:-<64}|{:->16}|{:->16}|------|", "", ":", ":");
    let mut missed = 0;
    for (_, measure) in parts {
        // A new directory, so that no part sees what another has left.
        let sandbox = Sandbox::new()?;
        let lines = measure(&sandbox, &ours);
        if lines.is_err() {
            sandbox.show_logs();
        }
        for line in lines? {
            println!("{line}");
            missed += usize::from(!line.reached);
        }
    }
    ensure!(missed == 0, "{missed} goals are missed");
    Ok(())
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1_000.0)
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// Returns a part of sorted times: 0.5 is the median, 1 the longest.
fn quantile(times: &[Duration], part: f64) -> Duration {
    let last = times.len().saturating_sub(1);
    times.get((last as f64 * part).ceil() as usize).copied().unwrap_or_default()
}
