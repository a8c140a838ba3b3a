//! Going to the background.

use std::fs::OpenOptions;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{ForkResult, chdir, dup2_stderr, dup2_stdin, dup2_stdout, fork, setsid};

use crate::Error;

/// The maximum size of a daemon's error message in bytes.
const MAX_ERROR: u64 = 64 << 10;

/// Reports the start of a daemon to the calling program, which still has the terminal and exits with the daemon's result. The
/// first report counts; without a calling program, reports are ignored.
#[derive(Clone, Debug, Default)]
pub struct Launch(Arc<Mutex<Option<PipeWriter>>>);

impl Launch {
    /// Reports that the daemon works: the calling program exits with 0.
    pub fn ready(&self) {
        self.tell(0, "");
    }

    /// Reports that the daemon ends: the calling program prints the reason and exits with its exit status.
    pub fn failed(&self, status: u8, reason: &str) {
        self.tell(status, reason);
    }

    fn tell(&self, status: u8, text: &str) {
        let Some(mut pipe) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        let mut word = vec![status];
        word.extend_from_slice(text.as_bytes());
        if let Err(error) = pipe.write_all(&word) {
            // The calling program may not wait any more.
            tracing::debug!("nobody heard how the start went: {error}");
        }
    }
}

/// Leaves terminal, session and working directory with two forks. The calling program waits for the daemon's report, at most
/// `patience`, and exits with it; it does not wait longer for a slower daemon.
///
/// Standard input and outputs go to `/dev/null` afterwards. Must be called before any thread is started: a copy of the process
/// has only the calling thread, and locks that others held stay held.
pub fn go_to_background(patience: Duration) -> Result<Launch, Error> {
    let pipe = |error: std::io::Error| Error::Fork(nix::Error::from_raw(error.raw_os_error().unwrap_or(0)));
    let (word, tell) = std::io::pipe().map_err(pipe)?;
    if !become_child()? {
        drop(tell);
        // The pipe's writing end is closed first, or a daemon that dies would never be noticed.
        end(wait_for(word, patience));
    }
    drop(word);
    chdir("/").map_err(Error::Fork)?;
    setsid().map_err(Error::Fork)?;
    // Salt's daemons run with this mask. What must be closer is created with its mode.
    umask(Mode::from_bits_truncate(0o022));
    // The second process is not a session leader, so it can never acquire a terminal.
    if !become_child()? {
        end(0);
    }
    close_standard_streams()?;
    Ok(Launch(Arc::new(Mutex::new(Some(tell)))))
}

/// Waits for the daemon's report, prints its error, and returns the exit status.
fn wait_for(mut word: PipeReader, patience: Duration) -> u8 {
    let until = Instant::now() + patience;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let time = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(std::os::fd::AsFd::as_fd(&word), PollFlags::POLLIN)], time) {
            Err(nix::Error::EINTR) => {}
            // The daemon is slow, or cannot be waited for.
            Ok(0) | Err(_) => return 0,
            Ok(_) => break,
        }
    }
    let mut said = Vec::new();
    let read = word.by_ref().take(MAX_ERROR).read_to_end(&mut said);
    match (read, said.split_first()) {
        (Ok(_), Some((status, text))) => {
            if !text.is_empty() {
                rt::complain!("{}", String::from_utf8_lossy(text).trim_end());
            }
            *status
        }
        _ => {
            rt::complain!("The daemon ended before it was ready; see its log.");
            1
        }
    }
}

/// Returns whether this is the child.
#[expect(unsafe_code, reason = "a fork is unsafe where threads exist; here none do")]
fn become_child() -> Result<bool, Error> {
    // SAFETY: the process has one thread, as the caller of `go_to_background` promises.
    Ok(matches!(unsafe { fork() }.map_err(Error::Fork)?, ForkResult::Child))
}

/// Exits without running destructors: they belong to the child.
#[expect(unsafe_code, reason = "there is no safe way to end without running what runs at an end")]
fn end(status: u8) -> ! {
    // SAFETY: ends the process at once.
    unsafe { nix::libc::_exit(i32::from(status)) }
}

fn close_standard_streams() -> Result<(), Error> {
    let failed = |error: std::io::Error| Error::Fork(nix::Error::from_raw(error.raw_os_error().unwrap_or(0)));
    let null = OpenOptions::new().read(true).write(true).open("/dev/null").map_err(failed)?;
    dup2_stdin(&null).and_then(|()| dup2_stdout(&null)).and_then(|()| dup2_stderr(&null)).map_err(Error::Fork)
}
