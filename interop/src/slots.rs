//! A limit on the number of simultaneous scenarios, across threads and processes of all test runners of a user.
//!
//! A real master with its minions is a dozen processes and half a gigabyte.

use std::fs::{self, File, OpenOptions};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::fcntl::{Flock, FlockArg};

/// The right to run one scenario; given back when dropped, and by the system when the process dies.
pub struct Slot {
    _locks: Vec<Flock<File>>,
}

impl Slot {
    /// Waits for one of the slots.
    pub fn one() -> Result<Self> {
        let dir = folder()?;
        loop {
            for number in 0..count() {
                if let Some(lock) = lock(&dir, number, FlockArg::LockExclusiveNonblock)? {
                    return Ok(Self { _locks: vec![lock] });
                }
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits for all slots: no other test runs then, so that times can be measured.
    pub fn all() -> Result<Self> {
        let dir = folder()?;
        // Always from the first on, so two that want all do not each hold half.
        let locks = (0..count()).map(|number| lock(&dir, number, FlockArg::LockExclusive));
        let locks: Result<Vec<_>> = locks.collect();
        Ok(Self { _locks: locks?.into_iter().flatten().collect() })
    }
}

fn count() -> usize {
    // The runner of the tests starts as many threads as this variable says, and more slots than threads serve nobody.
    let threads = std::env::var("RUST_TEST_THREADS").ok().and_then(|text| text.parse().ok());
    // At most eight: with half a gigabyte for each set, memory runs out before processors do.
    threads.or_else(|| thread::available_parallelism().ok().map(usize::from)).unwrap_or(2).clamp(1, 8)
}

fn folder() -> Result<PathBuf> {
    let dir = std::env::temp_dir().join(format!("saltern-interop-slots-{}", nix::unistd::getuid()));
    fs::create_dir_all(&dir).with_context(|| format!("failed to create {}", dir.display()))?;
    Ok(dir)
}

fn lock(dir: &std::path::Path, number: usize, how: FlockArg) -> Result<Option<Flock<File>>> {
    let path = dir.join(number.to_string());
    // File locks and not a counter: the kernel releases them when a test runner is killed.
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = file.with_context(|| format!("failed to open {}", path.display()))?;
    match Flock::lock(file, how) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, error)) => Err(error).with_context(|| format!("failed to lock {}", path.display())),
    }
}
