//! Checks that continue after a failure, so that one expensive set of daemons serves all of them.

use std::time::Instant;

use anyhow::{Result, bail};

/// A list of named checks and their results.
#[derive(Default)]
pub struct Checks {
    failures: Vec<String>,
    run: usize,
}

impl Checks {
    /// Starts an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs one check, prints how it went, and remembers a failure.
    pub fn check(&mut self, name: impl AsRef<str>, body: impl FnOnce() -> Result<()>) {
        let (name, begin) = (name.as_ref(), Instant::now());
        self.run += 1;
        let outcome = body();
        let took = begin.elapsed().as_secs_f64();
        match outcome {
            // Printed at once and not at the end, so that the output of a hanging run shows where it hangs.
            Ok(()) => println!("  ok      {name} ({took:.1} s)"),
            Err(error) => {
                println!("  FAILED  {name} ({took:.1} s): {error:#}");
                self.failures.push(format!("{name}: {error:#}"));
            }
        }
    }

    /// Returns an error that lists every failed check, if there is one.
    pub fn finish(self) -> Result<()> {
        if self.failures.is_empty() {
            return Ok(());
        }
        bail!("{} of {} checks failed:\n- {}", self.failures.len(), self.run, self.failures.join("\n- "))
    }
}
