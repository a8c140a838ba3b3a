//! Kills a job: one signal for tasks, threads and system calls, and the unwinding of the function that runs.

use std::any::Any;
use std::io::{self, PipeReader, PipeWriter};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use crate::{Error, Result};

/// The signal that a job was killed. It is given once and stays.
#[derive(Debug, Default)]
pub struct Cancel {
    token: CancellationToken,
    /// Made when a system call first has to notice the signal.
    pipe: Mutex<Option<Pipe>>,
}

#[derive(Debug)]
struct Pipe {
    reader: Arc<PipeReader>,
    /// Nothing is ever written: the reader notices that this end is closed.
    writer: Option<PipeWriter>,
}

impl Cancel {
    /// Sends the signal.
    pub fn cancel(&self) {
        self.token.cancel();
        // A thread that makes the pipe after this line finds the token cancelled.
        if let Some(pipe) = &mut *self.pipe() {
            pipe.writer = None;
        }
    }

    /// Returns whether the signal was given.
    pub fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Waits for the signal.
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.token.cancelled()
    }

    /// Returns a descriptor on which `poll` reports something once the signal was given.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn descriptor(&self) -> io::Result<Arc<PipeReader>> {
        let mut place = self.pipe();
        if let Some(pipe) = &*place {
            return Ok(pipe.reader.clone());
        }
        let (reader, writer) = io::pipe()?;
        let (reader, writer) = (Arc::new(reader), Some(writer).filter(|_| !self.is_cancelled()));
        *place = Some(Pipe { reader: reader.clone(), writer });
        Ok(reader)
    }

    fn pipe(&self) -> MutexGuard<'_, Option<Pipe>> {
        self.pipe.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The payload that the thread of a killed job unwinds with.
struct Killed;

pub(crate) fn unwind() -> ! {
    // Not a panic: no hook reports it.
    resume_unwind(Box::new(Killed))
}

/// Calls a function and turns a panic into [`Error::Other`] and the end of a killed job into [`Error::Terminated`].
///
/// # Errors
/// Those, and the function's own.
pub fn caught<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(of_panic(&*panic)))
}

/// Returns the error that a panic represents.
pub fn of_panic(panic: &(dyn Any + Send)) -> Error {
    if panic.is::<Killed>() {
        return Error::Terminated;
    }
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    Error::Other(text.unwrap_or_else(|| "the function panicked".to_owned()))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;

    fn reports(pipe: &PipeReader) -> bool {
        poll(&mut [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO).unwrap() == 1
    }

    #[test]
    fn the_descriptor_reports_from_the_signal_on() {
        let cancel = Cancel::default();
        let early = cancel.descriptor().unwrap();
        assert!(!reports(&early));
        cancel.cancel();
        assert!(reports(&early) && reports(&cancel.descriptor().unwrap()));
        let late = Cancel::default();
        late.cancel();
        assert!(reports(&late.descriptor().unwrap()));
    }

    #[test]
    fn a_killed_job_is_told_from_a_panic() {
        assert!(matches!(caught::<()>(|| unwind()), Err(Error::Terminated)));
        assert!(matches!(caught::<()>(|| panic!("oh no")), Err(Error::Other(text)) if text == "oh no"));
        assert!(matches!(caught(|| Ok(7)), Ok(7)));
    }
}
