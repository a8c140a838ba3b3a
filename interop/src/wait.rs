//! Waits for conditions, with errors that say what was waited for.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

const PAUSE: Duration = Duration::from_millis(25);

/// Waits until `condition` holds; the error says what was waited for and for how long.
pub fn until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) -> Result<()> {
    until_some(what, limit, || condition().then_some(()))
}

/// Waits until `probe` gives a value and returns it.
///
/// The probe checks another process (a file, a port, a program's answer), for which no common event exists.
pub fn until_some<T>(what: &str, limit: Duration, mut probe: impl FnMut() -> Option<T>) -> Result<T> {
    let begin = Instant::now();
    loop {
        if let Some(found) = probe() {
            return Ok(found);
        }
        if begin.elapsed() > limit {
            bail!("waited {:.1} s in vain for {what}", begin.elapsed().as_secs_f64());
        }
        thread::sleep(PAUSE);
    }
}
