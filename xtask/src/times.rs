//! The times of the parts of a test run.

use std::fmt;
use std::time::{Duration, Instant};

/// Parts of a run in order, with the time each took.
#[derive(Debug, Default)]
pub struct Times(Vec<(String, Duration)>);

impl Times {
    /// Runs one part and keeps how long it took.
    pub fn of<T>(&mut self, name: &str, part: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let outcome = part();
        self.0.push((name.to_owned(), began.elapsed()));
        outcome
    }

    /// Returns the parts without their sum: other parts ran at the same time.
    pub fn parts(&self) -> String {
        self.0.iter().map(|(name, took)| line(name, *took)).collect()
    }
}

fn line(name: &str, took: Duration) -> String {
    let seconds = took.as_secs();
    format!("{:>3}:{:02}  {name}\n", seconds / 60, seconds % 60)
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.0.iter().map(|(_, took)| *took).sum();
        write!(f, "{}{}", self.parts(), line("together", total))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_minutes_and_seconds_with_their_sum() {
        let times = Times(vec![("lints".into(), Duration::from_secs(198)), ("tests".into(), Duration::from_secs(62))]);
        assert_eq!(times.to_string(), "  3:18  lints\n  1:02  tests\n  4:20  together\n");
    }
}
