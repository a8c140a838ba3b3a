//! One child process and its pipes: waited for on the spot while it is quick, by a task when it is not.

use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, ChildStdin, Command, ExitStatus};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::unix::pipe::Receiver;

/// How much is read from a pipe in one call.
const CHUNK: usize = 16 * 1024;

/// A process that was started. Whoever drops it before its end leaves it running; it is reaped when it ends.
#[derive(Debug)]
pub struct Process {
    child: Option<Child>,
    pid: Pid,
    /// What becomes readable at its end, from Linux 5.3 on.
    pidfd: Option<OwnedFd>,
}

impl Process {
    /// Starts a program.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        let child = command.spawn()?;
        let pid = Pid::from_raw(child.id().cast_signed());
        let pidfd = rustix::process::Pid::from_raw(pid.as_raw())
            .and_then(|pid| rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok());
        Ok(Process { child: Some(child), pid, pidfd })
    }

    /// Its process id, and that of its group.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// The end to write to, once, when its input is a pipe.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.as_mut()?.stdin.take()
    }

    /// Waits for its end.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        let child = self.child.as_mut().ok_or(Errno::ECHILD)?;
        let status = match child.try_wait()? {
            Some(status) => status,
            None => {
                ended(self.pid, &mut self.pidfd).await?;
                child.wait()?
            }
        };
        self.child = None;
        Ok(status)
    }

    /// Waits for its end on this thread until a certain time.
    fn wait_here(&mut self, until: Instant) -> io::Result<Option<ExitStatus>> {
        let child = self.child.as_mut().ok_or(Errno::ECHILD)?;
        let mut status = child.try_wait()?;
        if let (None, Some(pidfd)) = (status, &self.pidfd)
            && wait_for(&mut [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)], until)?
        {
            status = Some(child.wait()?);
        }
        if status.is_some() {
            self.child = None;
        }
        Ok(status)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let (Some(mut child), Ok(runtime)) = (self.child.take(), tokio::runtime::Handle::try_current()) else { return };
        let (pid, mut pidfd) = (self.pid, self.pidfd.take());
        runtime.spawn(async move {
            let reaped = ended(pid, &mut pidfd).await.and_then(|()| child.wait());
            if let Err(error) = reaped {
                tracing::debug!("failed to wait for process {pid}: {error}");
            }
        });
    }
}

/// Waits until a process has ended, and does not reap it.
async fn ended(pid: Pid, pidfd: &mut Option<OwnedFd>) -> io::Result<()> {
    if let Some(pidfd) = pidfd {
        watched(pidfd)?.readable().await?.retain_ready();
        return Ok(());
    }
    let wait = move || waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
    tokio::task::spawn_blocking(wait).await.map_err(io::Error::other)??;
    Ok(())
}

#[expect(unsafe_code, reason = "tokio has no safe way to wait for a file descriptor that is not its own")]
fn watched(pidfd: &OwnedFd) -> io::Result<AsyncFd<BorrowedFd<'_>>> {
    // SAFETY: a borrowed descriptor is open, and is always the same, for as long as the borrow lasts.
    Ok(unsafe { AsyncFd::register_with_interest(pidfd.as_fd(), Interest::READABLE) }?)
}

/// Waits on this thread until something can be read, or until a certain time; says which.
fn wait_for(fds: &mut [PollFd<'_>], until: Instant) -> io::Result<bool> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        let millis = PollTimeout::try_from(left.max(Duration::from_millis(1))).unwrap_or(PollTimeout::ZERO);
        match poll(fds, millis) {
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
            Ok(found) => return Ok(found > 0),
        }
    }
}

/// What a process writes to one pipe.
#[derive(Debug)]
pub struct Stream {
    /// The end to read from, until there is nothing more.
    pipe: Option<PipeReader>,
    /// What was read.
    pub read: Vec<u8>,
}

impl Stream {
    /// Reads from a pipe; nothing from none.
    pub fn new(pipe: Option<PipeReader>) -> Self {
        Stream { pipe, read: Vec::new() }
    }

    /// Reads to the end.
    pub async fn finish(&mut self) -> io::Result<()> {
        if let Some(pipe) = self.pipe.take() {
            Receiver::from_owned_fd(pipe.into())?.read_to_end(&mut self.read).await?;
        }
        Ok(())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Reads what is there now.
    fn advance(&mut self) -> io::Result<()> {
        let Some(pipe) = &mut self.pipe else { return Ok(()) };
        let before = self.read.len();
        self.read.resize(before + CHUNK, 0);
        let found = match pipe.read(&mut self.read[before..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                self.read.truncate(before);
                return Ok(());
            }
            found => found,
        };
        self.read.truncate(before + found.as_ref().copied().unwrap_or_default());
        if found? == 0 {
            self.pipe = None;
        }
        Ok(())
    }
}

/// Reads all that a process writes and waits for its end, on this thread and until a certain time only. Nothing is lost
/// when it takes longer.
pub fn finish_here(process: &mut Process, streams: &mut [Stream; 2], until: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        let ready: [bool; 2] = {
            let open: Vec<usize> = (0..2).filter(|number| streams[*number].fd().is_some()).collect();
            let fds = open.iter().filter_map(|number| streams[*number].fd());
            let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
            if fds.is_empty() {
                break;
            }
            if !wait_for(&mut fds, until)? {
                return Ok(None);
            }
            let mut ready = [false; 2];
            for (number, fd) in open.into_iter().zip(&fds) {
                ready[number] = fd.any().unwrap_or(true);
            }
            ready
        };
        for (stream, _) in streams.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
            stream.advance()?;
        }
    }
    process.wait_here(until)
}

/// Writes all that a process shall read. It need not read it: a closed pipe is no failure.
pub async fn feed(pipe: Option<ChildStdin>, stdin: &[u8]) {
    let Some(pipe) = pipe else { return };
    let fed = match tokio::process::ChildStdin::from_std(pipe) {
        Ok(mut pipe) => pipe.write_all(stdin).await,
        Err(error) => Err(error),
    };
    if let Err(error) = fed {
        tracing::debug!("a command did not read all its input: {error}");
    }
}
