//! What runs the programs: the comparison with the real Salt, and attacks.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Part, Scope, follow};
use crate::run::{Failure, Step, cargo, checked_program, judged, target_dir, workspace};
use crate::tally::Tally;
use crate::times::Times;
use crate::{nats, real_salt};

/// The programs that are built before anything runs. They are started directly: cargo would wait until what compiles beside them is
/// ready.
pub struct Programs {
    /// The program under test: a copy, because another build may replace cargo's while it runs.
    saltern: PathBuf,
    /// The test programs of the comparison.
    comparison: Vec<PathBuf>,
    /// The test program of the storms.
    storms: PathBuf,
}

impl Programs {
    /// Builds the program under test and those that test it.
    pub fn build(scope: Scope) -> Result<Programs, Failure> {
        // The build of the unit tests, which has the program too, with the features that only tests have: building it a second time
        // without them would take a fifth of the run.
        super::code::unit_test_step().arg("--no-run").run()?;
        let saltern = copied(&checked_program())?;
        let mut storms = test_programs(super::code::unit_test_step().args(["--no-run", "--test", "storms"]))?;
        let storms = storms.pop().ok_or_else(|| Failure::new("there is no test program of the storms"))?;
        let comparison = test_programs(cargo(&["test", "--no-run", "--package", "saltern-interop"]))?;
        if scope == Scope::Full {
            crate::attack_step("build", &[]).run()?;
        }
        Ok(Programs { saltern, comparison, storms })
    }

    /// Returns the test program of the storms.
    pub fn storms(&self) -> &Path {
        &self.storms
    }

    /// Runs all but the storms.
    pub fn run(&self, scope: Scope, installed: &Result<(), Failure>) -> Part {
        let (mut tally, mut times) = (Tally::default(), Times::default());
        match installed {
            Ok(()) => times.of("comparison with the real Salt", || self.compare(scope, &mut tally))?,
            Err(failure) => without_real_salt(failure, &mut tally),
        }
        // The program with its assertions and checks for overflows: a wrong calculation becomes a crash that the attack notices.
        if scope == Scope::Full {
            let attack = Step::new(target_dir().join("debug/attack")).env("SALTERN_BIN", &self.saltern);
            times.of("attacks", || follow(&mut tally, attack))?;
        }
        Ok((tally, times))
    }

    /// Compares all subjects, or in a short run those of the wire.
    fn compare(&self, scope: Scope, tally: &mut Tally) -> Result<(), Failure> {
        for program in &self.comparison {
            let step = match scope {
                Scope::Short => Step::new(program).arg("matrix::"),
                Scope::Full => Step::new(program),
            };
            let step = step.env("SALTERN_BIN", &self.saltern).env("SALTERN_SALT_DIR", real_salt::folder());
            let step = step.env("RUST_TEST_THREADS", scenarios_at_once().to_string()).arg("--show-output");
            follow(tally, nats::known_to(step).dir(&workspace().join("interop")))?;
        }
        Ok(())
    }
}

/// Copies a program to a directory beside it that no other build writes to, and returns where it is then. Attacks tell by the path
/// that it is not optimised.
fn copied(program: &Path) -> Result<PathBuf, Failure> {
    let copy = program.with_file_name("checked").join(program.file_name().unwrap_or_default());
    let made = fs::create_dir_all(copy.with_file_name("")).and_then(|()| fs::copy(program, &copy));
    made.map_err(|error| Failure::new(format!("failed to copy {} to {}: {error}", program.display(), copy.display())))?;
    Ok(copy)
}

/// Builds test programs, and returns their paths.
fn test_programs(step: Step) -> Result<Vec<PathBuf>, Failure> {
    let mut programs = Vec::new();
    let built =
        step.arg("--message-format=json-render-diagnostics").read(|line| programs.extend(test_program(line)))?;
    if built { Ok(programs) } else { Err(Failure::new("test programs do not compile")) }
}

/// Returns the path of the test program that a message of cargo is about.
fn test_program(message: &str) -> Option<PathBuf> {
    // cargo's messages are JSON without spaces. A target has a field `test` too: whether it can be tested. That of the profile tells
    // whether this is the test, or the program that other tests of the package start.
    let (_, rest) = message.split_once(r#""profile":{"#)?;
    let (profile, rest) = rest.split_once('}')?;
    let (_, rest) = profile.contains(r#""test":true"#).then(|| rest.split_once(r#""executable":""#))??;
    rest.split_once('"').map(|(path, _)| path.into())
}

/// Scenarios wait for timeouts most of the time, so half as many again as there are processors run at once.
fn scenarios_at_once() -> usize {
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    (processors * 3 / 2).max(2)
}

/// A developer may work without the real Salt; the judge of a change may not.
fn without_real_salt(failure: &Failure, tally: &mut Tally) {
    if judged() {
        println!("interop failed: {failure}");
        tally.fail("the installation of the real Salt");
    } else {
        println!("skipped interop, the comparison with the real Salt: {failure}");
        let list = cargo(&["test", "--quiet", "--package", "saltern-interop", "--", "--list"]).output();
        // Each subject that is not compared is counted, so that the sum of a run without Salt is not a smaller one.
        tally.skipped += list.map_or(1, |text| text.lines().filter(|line| line.ends_with(": test")).count() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_test_programs_are_found_in_the_messages_of_cargo() {
        let message = |test, executable| {
            let target = r#""target":{"kind":["bin"],"name":"outage","doctest":false,"test":true}"#;
            let profile = format!(r#""profile":{{"opt_level":"0","test":{test}}}"#);
            format!(r#"{{"reason":"compiler-artifact",{target},{profile},"filenames":[],"executable":{executable}}}"#)
        };
        assert_eq!(test_program(&message(true, r#""/a b/scenarios-1""#)), Some("/a b/scenarios-1".into()));
        assert_eq!(test_program(&message(true, "null")), None);
        assert_eq!(test_program(&message(false, r#""/a/outage""#)), None);
        assert_eq!(test_program(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
