//! The times of the parts of a test run.

use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

/// The clock ticks of Linux per second, in which `/proc` counts the time of processors.
const TICKS: u32 = 100;

/// Parts of a run in order.
#[derive(Debug, Default)]
pub struct Times(Vec<Part>);

#[derive(Debug)]
struct Part {
    name: String,
    took: Duration,
    /// The time of processors that the programs of this part used.
    used: Duration,
}

impl Times {
    /// Runs one part and keeps how long it took.
    pub fn of<T>(&mut self, name: &str, part: impl FnOnce() -> T) -> T {
        let (began, before) = (Instant::now(), used_by_programs());
        let outcome = part();
        let used = used_by_programs().saturating_sub(before);
        self.0.push(Part { name: name.to_owned(), took: began.elapsed(), used });
        outcome
    }

    /// Returns the parts without what they used and without their sum: other parts ran at the same time.
    pub fn parts(&self) -> String {
        self.0.iter().map(|part| format!("{}  {}\n", minutes(part.took), part.name)).collect()
    }
}

/// Returns the time of processors that ended programs of this process have used; zero where `/proc` does not tell.
fn used_by_programs() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    ticks_of_children(&stat).map_or(Duration::ZERO, |ticks| Duration::from_secs(ticks) / TICKS)
}

/// Reads the times of children that were waited for, in user and in kernel mode: the fields 16 and 17 in `proc(5)`.
fn ticks_of_children(stat: &str) -> Option<u64> {
    // The name of the program, the second field, may have spaces and parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = fields.split_whitespace().skip(13).take(2).map(str::parse::<u64>);
    ticks.sum::<Result<_, _>>().ok()
}

fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{:>3}:{:02}", seconds / 60, seconds % 60)
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  time  processors")?;
        for Part { name, took, used } in &self.0 {
            writeln!(f, "{}      {}  {name}", minutes(*took), minutes(*used))?;
        }
        let sum = |time: fn(&Part) -> Duration| minutes(self.0.iter().map(time).sum());
        writeln!(f, "{}      {}  together", sum(|part| part.took), sum(|part| part.used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_minutes_and_seconds_with_their_sum() {
        let part = |name: &str, took, used| {
            let [took, used] = [took, used].map(Duration::from_secs);
            Part { name: name.into(), took, used }
        };
        let times = Times(vec![part("lints", 198, 301), part("tests", 62, 9)]);
        let expected =
            "  time  processors\n  3:18        5:01  lints\n  1:02        0:09  tests\n  4:20        5:10  together\n";
        assert_eq!(times.to_string(), expected);
        assert_eq!(times.parts(), "  3:18  lints\n  1:02  tests\n");
    }

    #[test]
    fn the_time_of_programs_is_counted_when_they_have_ended() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 1 2 3 4 11 12 250 50 20 0 1 0 5 6 7";
        assert_eq!(ticks_of_children(stat), Some(300));
        assert_eq!(ticks_of_children("7 (a"), None);
    }
}
