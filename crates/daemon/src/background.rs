//! Going to the background.

use std::fs::OpenOptions;

use nix::sys::stat::{Mode, umask};
use nix::unistd::{ForkResult, chdir, dup2_stderr, dup2_stdin, dup2_stdout, fork, setsid};

use crate::Error;

/// Leaves terminal, session and working directory: two forks, the waiting parents exit with 0.
///
/// Standard input and outputs lead nowhere afterwards. Must be called before any thread is started: a copy of the
/// process has the calling thread alone, and locks that others held stay held.
pub fn go_to_background() -> Result<(), Error> {
    become_child()?;
    chdir("/").map_err(Error::Fork)?;
    setsid().map_err(Error::Fork)?;
    umask(Mode::from_bits_truncate(0o022));
    // The second one is no session leader and so can never get a terminal again.
    become_child()?;
    close_standard_streams()
}

#[expect(unsafe_code, reason = "a fork is unsafe where threads exist; here none do")]
fn become_child() -> Result<(), Error> {
    // SAFETY: the process has one thread, as the caller of `go_to_background` promises.
    match unsafe { fork() }.map_err(Error::Fork)? {
        ForkResult::Child => Ok(()),
        // Without running destructors: they belong to the child.
        // SAFETY: ends the process at once.
        ForkResult::Parent { .. } => unsafe { nix::libc::_exit(0) },
    }
}

fn close_standard_streams() -> Result<(), Error> {
    let failed = |error: std::io::Error| Error::Fork(nix::Error::from_raw(error.raw_os_error().unwrap_or(0)));
    let null = OpenOptions::new().read(true).write(true).open("/dev/null").map_err(failed)?;
    dup2_stdin(&null).and_then(|()| dup2_stdout(&null)).and_then(|()| dup2_stderr(&null)).map_err(Error::Fork)
}
