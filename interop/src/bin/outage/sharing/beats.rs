//! What the schedule of the set has run, and where.

use std::path::Path;

/// A run: in hundredths of a second since the machine started, on a master.
struct Beat {
    at: u64,
    on: String,
}

/// What the runs show of who held the lease.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leases {
    /// Times at which two masters ran what one should run.
    pub doubled: usize,
    /// The longest time without a run, in seconds.
    pub gap: f64,
}

/// Within this time a master that has lost the lease cannot have it back, in hundredths of a second.
const LEASE: u64 = 600;

/// Two masters that run the entry within this time both held the lease, in hundredths of a second.
const TOGETHER: u64 = 50;

/// Returns the present in hundredths of a second since the machine started.
pub fn now() -> u64 {
    let text = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    text.split_whitespace().next().and_then(hundredths).unwrap_or_default()
}

/// Judges the runs from a time on.
pub fn judge(root: &Path, from: u64) -> Leases {
    let text = std::fs::read_to_string(root.join("beats")).unwrap_or_default();
    let mut beats: Vec<Beat> = text.lines().filter_map(read).filter(|beat| beat.at >= from).collect();
    beats.sort_by_key(|beat| beat.at);
    let mut gap = 0;
    let mut last = from;
    for at in beats.iter().map(|beat| beat.at).chain([now()]) {
        gap = gap.max(at.saturating_sub(last));
        last = at;
    }
    Leases { doubled: doubled(&beats), gap: gap as f64 / 100.0 }
}

fn doubled(beats: &[Beat]) -> usize {
    let together = beats.windows(2).filter(|pair| pair[0].on != pair[1].on && pair[1].at - pair[0].at < TOGETHER);
    let back = beats
        .windows(3)
        .filter(|three| three[0].on == three[2].on && three[0].on != three[1].on && three[2].at - three[0].at < LEASE);
    together.count().max(back.count())
}

fn read(line: &str) -> Option<Beat> {
    let (at, on) = line.split_once(' ')?;
    Some(Beat { at: hundredths(at)?, on: on.to_owned() })
}

fn hundredths(text: &str) -> Option<u64> {
    let (seconds, rest) = text.split_once('.')?;
    Some(seconds.parse::<u64>().ok()? * 100 + rest.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beats(text: &str) -> Vec<Beat> {
        text.lines().filter_map(read).collect()
    }

    #[test]
    fn two_masters_with_one_lease_are_told_from_a_change() {
        assert_eq!(doubled(&beats("10.00 m1\n12.00 m1\n20.00 m2\n22.00 m2\n29.00 m1")), 0, "changes");
        assert_eq!(doubled(&beats("10.00 m1\n10.10 m2\n12.00 m1\n12.10 m2")), 2, "both at once");
        assert_eq!(doubled(&beats("10.00 m1\n11.00 m2\n12.00 m1\n13.00 m1")), 1, "one between two runs of the other");
    }
}
