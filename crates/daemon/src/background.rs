//! Going to the background.

use std::fs::OpenOptions;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{ForkResult, chdir, dup2_stderr, dup2_stdin, dup2_stdout, fork, setsid};

use crate::Error;

/// The most a daemon tells of its failure, in bytes.
const LONGEST: u64 = 64 << 10;

/// What a starting daemon tells the program that was called, which still has the terminal and ends with the daemon's word. The
/// first word counts; one that leads to no such program says nothing.
#[derive(Clone, Debug, Default)]
pub struct Launch(Arc<Mutex<Option<PipeWriter>>>);

impl Launch {
    /// The daemon works: the called program ends with 0.
    pub fn ready(&self) {
        self.tell(0, "");
    }

    /// The daemon ends: the called program prints the reason and ends with its exit status.
    pub fn failed(&self, status: u8, reason: &str) {
        self.tell(status, reason);
    }

    fn tell(&self, status: u8, text: &str) {
        let Some(mut pipe) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        let mut word = vec![status];
        word.extend_from_slice(text.as_bytes());
        if let Err(error) = pipe.write_all(&word) {
            // Whoever called does not wait any more.
            tracing::debug!("nobody heard how the start went: {error}");
        }
    }
}

/// Leaves terminal, session and working directory: two forks. The called program waits for the word of the daemon, at most
/// `patience`, and ends with it; a daemon that takes longer is left to its start.
///
/// Standard input and outputs lead nowhere afterwards. Must be called before any thread is started: a copy of the
/// process has the calling thread alone, and locks that others held stay held.
pub fn go_to_background(patience: Duration) -> Result<Launch, Error> {
    let pipe = |error: std::io::Error| Error::Fork(nix::Error::from_raw(error.raw_os_error().unwrap_or(0)));
    let (word, tell) = std::io::pipe().map_err(pipe)?;
    if !become_child()? {
        drop(tell);
        end(wait_for(word, patience));
    }
    drop(word);
    chdir("/").map_err(Error::Fork)?;
    setsid().map_err(Error::Fork)?;
    umask(Mode::from_bits_truncate(0o022));
    // The second one is no session leader and so can never get a terminal again.
    if !become_child()? {
        end(0);
    }
    close_standard_streams()?;
    Ok(Launch(Arc::new(Mutex::new(Some(tell)))))
}

/// Waits for the daemon's word, passes on what it says, and returns the exit status.
fn wait_for(mut word: PipeReader, patience: Duration) -> u8 {
    let until = Instant::now() + patience;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let time = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(std::os::fd::AsFd::as_fd(&word), PollFlags::POLLIN)], time) {
            Err(nix::Error::EINTR) => {}
            // It takes its time, or cannot be waited for.
            Ok(0) | Err(_) => return 0,
            Ok(_) => break,
        }
    }
    let mut said = Vec::new();
    let read = word.by_ref().take(LONGEST).read_to_end(&mut said);
    match (read, said.split_first()) {
        (Ok(_), Some((status, text))) => {
            if !text.is_empty() {
                eprintln!("{}", String::from_utf8_lossy(text).trim_end());
            }
            *status
        }
        _ => {
            eprintln!("The daemon ended before it was ready; its log may tell why.");
            1
        }
    }
}

/// Says whether this is the child. Ends nothing.
#[expect(unsafe_code, reason = "a fork is unsafe where threads exist; here none do")]
fn become_child() -> Result<bool, Error> {
    // SAFETY: the process has one thread, as the caller of `go_to_background` promises.
    Ok(matches!(unsafe { fork() }.map_err(Error::Fork)?, ForkResult::Child))
}

/// Ends the process without running destructors: they belong to the child.
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
