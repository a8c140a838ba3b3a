//! Counting what passed, failed and was skipped, from the lines of test runners.

use std::fmt;

/// Counts of tests and checks.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// What did as it should.
    pub passed: u64,
    /// What did not.
    pub failed: u64,
    /// What was not run.
    pub skipped: u64,
}

impl Tally {
    /// Counts one check.
    pub fn check(&mut self, succeeded: bool) {
        *if succeeded { &mut self.passed } else { &mut self.failed } += 1;
    }

    /// Adds the counts of a summary line of libtest; other lines count nothing.
    pub fn line(&mut self, line: &str) {
        let Some(counts) = line.strip_prefix("test result: ") else { return };
        for part in counts.split(['.', ';']) {
            let mut words = part.split_whitespace();
            let (Some(number), Some(what)) = (words.next().and_then(|n| n.parse::<u64>().ok()), words.next()) else {
                continue;
            };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.skipped += number,
                _ => (),
            }
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_lines_are_added_and_others_ignored() {
        let mut tally = Tally::default();
        tally.line("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.05s");
        tally.line("test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s");
        tally.line("test x::y ... ok");
        tally.check(true);
        tally.check(false);
        assert_eq!(tally.to_string(), "15 passed, 4 failed, 1 skipped");
    }
}
