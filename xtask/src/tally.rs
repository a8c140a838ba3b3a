//! Counts what passed, failed and was skipped, from the lines of test runners, and keeps the output of the failures.

use std::fmt;

/// Lines kept of what one failed test printed, from its end.
const KEPT_LINES: usize = 40;

/// Counts of tests and checks, with the failures' own words.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Tally {
    /// The number of passed tests and checks.
    pub passed: u64,
    /// The number of failed ones.
    pub failed: u64,
    /// The number of skipped ones.
    pub skipped: u64,
    /// The failures, with their output.
    failures: Vec<Report>,
    /// Whose output the runner is repeating.
    repeating: Repeating,
    /// Tests of the present runner that returned early. It counts them as passed.
    returned_early: u64,
}

/// Whose output a test runner is repeating, at the end of its run.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Repeating {
    /// Nobody's: tests are running.
    #[default]
    Nobody,
    /// That of tests which passed. `--show-output` makes the runner print it.
    Passed {
        /// The test has said that it was skipped, and is counted so.
        skipped: bool,
    },
    /// That of tests which failed.
    Failed,
}

/// What a test prints first when it returns early, because something is not there that it needs.
const SKIPPED: &str = "skipped: ";

/// The output of one failed test or check.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Report {
    name: String,
    lines: Vec<String>,
}

impl Tally {
    /// Counts one check.
    pub fn check(&mut self, name: &str, succeeded: bool) {
        if succeeded {
            self.passed += 1;
        } else {
            self.fail(name);
        }
    }

    /// Counts one failure that no test runner counted.
    pub fn fail(&mut self, name: &str) {
        self.failed += 1;
        self.failures.push(Report { name: name.to_owned(), lines: Vec::new() });
    }

    /// Adds the counts and failures of a part that was counted by itself.
    pub fn add_all(&mut self, part: Tally) {
        self.passed += part.passed;
        self.failed += part.failed;
        self.skipped += part.skipped;
        self.failures.extend(part.failures);
    }

    /// Adds the counts of a summary line of libtest, and keeps what its failed tests printed; other lines count nothing. Tests that
    /// return early count as passed for libtest, and as skipped here.
    ///
    /// Returns whether the line is worth showing: what passed tests have printed is not.
    pub fn line(&mut self, line: &str) -> bool {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.repeating = Repeating::Nobody;
            self.add(counts);
            let early = std::mem::take(&mut self.returned_early);
            self.passed = self.passed.saturating_sub(early);
            self.skipped += early;
            return true;
        }
        match (line, &mut self.repeating) {
            // Both are printed twice, before the outputs and before the names.
            ("successes:", repeating) => *repeating = Repeating::Passed { skipped: false },
            ("failures:", repeating @ Repeating::Failed) => *repeating = Repeating::Nobody,
            ("failures:", repeating) => *repeating = Repeating::Failed,
            (line, Repeating::Passed { skipped }) if line.starts_with("---- ") => *skipped = false,
            (line, Repeating::Passed { skipped }) if line.starts_with(SKIPPED) && !*skipped => {
                *skipped = true;
                self.returned_early += 1;
                return true;
            }
            (line, Repeating::Failed) => self.keep(line),
            _ => {}
        }
        !matches!(self.repeating, Repeating::Passed { .. })
    }

    /// Keeps a line of the output of failed tests.
    fn keep(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            self.failures.push(Report { name: name.to_owned(), lines: Vec::new() });
        } else if let Some(report) = self.failures.last_mut() {
            // The end of the output has the reason.
            if report.lines.len() == KEPT_LINES {
                report.lines.remove(0);
            }
            report.lines.push(line.to_owned());
        }
    }

    fn add(&mut self, counts: &str) {
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
        for report in &self.failures {
            writeln!(f, "failed: {}", report.name)?;
            report.lines.iter().filter(|line| !line.is_empty()).try_for_each(|line| writeln!(f, "    {line}"))?;
        }
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
        tally.check("cargo clippy", true);
        assert_eq!(tally.to_string(), "15 passed, 3 failed, 1 skipped");
    }

    #[test]
    fn tests_that_return_early_are_skipped_and_other_output_is_not_shown() {
        let mut tally = Tally::default();
        let shown: Vec<&str> = [
            "test a ... ok",
            "",
            "successes:",
            "",
            "---- a stdout ----",
            "skipped: curl is not installed",
            "skipped: curl is not installed",
            "",
            "---- b stdout ----",
            "many words",
            "",
            "successes:",
            "    a",
            "    b",
            "",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.00s",
            "skipped: not said by a test",
        ]
        .into_iter()
        .filter(|line| tally.line(line))
        .collect();
        assert_eq!(tally.to_string(), "2 passed, 0 failed, 2 skipped");
        let result = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.00s";
        assert_eq!(
            shown,
            ["test a ... ok", "", "skipped: curl is not installed", result, "skipped: not said by a test"]
        );
    }

    #[test]
    fn a_part_is_added_with_its_failures() {
        let (mut tally, mut part) = (Tally::default(), Tally::default());
        tally.check("cargo fmt", true);
        part.check("fuzz zmtp", true);
        part.check("fuzz ipc", false);
        tally.add_all(part);
        assert_eq!(tally.to_string(), "failed: fuzz ipc\n2 passed, 1 failed, 0 skipped");
    }

    #[test]
    fn failures_are_named_with_what_they_printed() {
        let mut tally = Tally::default();
        tally.check("cargo fmt", false);
        for line in [
            "test a ... FAILED",
            "test b ... ok",
            "",
            "failures:",
            "",
            "---- a stdout ----",
            "",
            "thread 'a' panicked at src/a.rs:1:",
            "left: 1",
            "",
            "failures:",
            "    a",
            "",
            "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s",
            "not said by a test",
        ] {
            tally.line(line);
        }
        let expected = "failed: cargo fmt\nfailed: a\n    thread 'a' panicked at src/a.rs:1:\n    left: 1\n\
                        1 passed, 2 failed, 0 skipped";
        assert_eq!(tally.to_string(), expected);
    }
}
