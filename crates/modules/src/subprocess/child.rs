//! One child process and its pipes.

use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, ChildStdin, Command, ExitStatus};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The number of bytes that are read from a pipe in one call.
const CHUNK: usize = 16 * 1024;

/// The conditions that can end the wait for a process before the process itself ends.
#[derive(Clone, Copy, Default)]
pub struct Bounds<'a> {
    /// The deadline.
    pub until: Option<Instant>,
    /// A descriptor that becomes readable when the job is killed.
    pub killed: Option<BorrowedFd<'a>>,
}

/// The reason why a wait for a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It took too long.
    Late,
    /// The job was killed.
    Killed,
}

/// A child process. Dropping it early leaves it running; it is reaped when it ends.
#[derive(Debug)]
pub struct Process {
    child: Option<Child>,
    pid: Pid,
    /// A descriptor that becomes readable when the process ends.
    end: Option<OwnedFd>,
}

impl Process {
    /// Starts a program.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        let child = command.spawn()?;
        let pid = Pid::from_raw(child.id().cast_signed());
        let pidfd = rustix::process::Pid::from_raw(pid.as_raw())
            .and_then(|pid| rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok());
        let mut process = Process { child: Some(child), pid, end: pidfd };
        if process.end.is_none() {
            process.end = Some(watched(pid)?);
        }
        Ok(process)
    }

    /// Returns its process id, which is also that of its process group.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Takes the write end of its standard input, if that is a pipe. Works once.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.as_mut()?.stdin.take()
    }

    /// Waits until it ends, or until a bound is reached.
    pub fn wait(&mut self, bounds: &Bounds<'_>) -> io::Result<Result<ExitStatus, Stop>> {
        let (Some(child), Some(end)) = (self.child.as_mut(), &self.end) else { return Err(Errno::ECHILD.into()) };
        // Usually it has ended by now, since its pipes are closed; that saves a call of `poll`.
        let status = match child.try_wait()? {
            Some(status) => status,
            None => {
                if let Some(stop) = wait_for(&mut vec![PollFd::new(end.as_fd(), PollFlags::POLLIN)], bounds)? {
                    return Ok(Err(stop));
                }
                child.wait()?
            }
        };
        self.child = None;
        Ok(Ok(status))
    }
}

/// Returns a descriptor on which `poll` reports the end of a process, for kernels before 5.3, which have no pidfd.
fn watched(pid: Pid) -> io::Result<OwnedFd> {
    let (reader, writer) = io::pipe()?;
    std::thread::Builder::new().name("wait-for-process".to_owned()).spawn(move || {
        // WNOWAIT leaves the zombie for the code that wants the exit code; reaping it here would free the pid for
        // another process.
        if let Err(error) = waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) {
            tracing::debug!("failed to wait for process {pid}: {error}");
        }
        // Closing the write end is what `poll` reports on the other side.
        drop(writer);
    })?;
    Ok(reader.into())
}

impl Drop for Process {
    fn drop(&mut self) {
        let left = (self.child.take(), self.end.take(), tokio::runtime::Handle::try_current());
        // Outside of a runtime, as in tests, the zombie lives as long as the test does.
        let (Some(mut child), Some(end), Ok(runtime)) = left else { return };
        let pid = self.pid;
        runtime.spawn(async move {
            let reaped = match ended(&end).await {
                Ok(()) => child.wait().map(drop),
                Err(error) => Err(error),
            };
            if let Err(error) = reaped {
                tracing::debug!("failed to wait for process {pid}: {error}");
            }
        });
    }
}

/// Waits in a task until a process has ended, and does not reap it.
async fn ended(end: &OwnedFd) -> io::Result<()> {
    registered(end)?.readable().await?.retain_ready();
    Ok(())
}

#[expect(unsafe_code, reason = "tokio has no safe way to wait for a file descriptor that is not its own")]
fn registered(end: &OwnedFd) -> io::Result<AsyncFd<BorrowedFd<'_>>> {
    // SAFETY: a borrowed descriptor is open, and is always the same, for as long as the borrow lasts.
    Ok(unsafe { AsyncFd::register_with_interest(end.as_fd(), Interest::READABLE) }?)
}

/// Waits until one of the descriptors is ready, or returns the reason for the end of the wait.
fn wait_for<'a>(fds: &mut Vec<PollFd<'a>>, bounds: &Bounds<'a>) -> io::Result<Option<Stop>> {
    let own = fds.len();
    fds.extend(bounds.killed.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
    loop {
        let left = bounds.until.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = match left {
            None => PollTimeout::NONE,
            // Checked before every `poll`: a process that writes without pause must not escape its limit.
            Some(Duration::ZERO) => return Ok(Some(Stop::Late)),
            // Rounded up, so that the last millisecond is not spent in a loop.
            Some(left) => PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX),
        };
        match poll(fds, timeout) {
            Err(Errno::EINTR) | Ok(0) => {}
            Err(error) => return Err(error.into()),
            // The kill counts before the data: a command that floods its output must still end.
            Ok(_) if fds[own..].iter().any(is_ready) => return Ok(Some(Stop::Killed)),
            Ok(_) => return Ok(None),
        }
    }
}

fn is_ready(fd: &PollFd<'_>) -> bool {
    // Flags this version does not know count as ready: a read then shows what they mean.
    fd.any().unwrap_or(true)
}

/// The output of a process on one pipe.
#[derive(Debug)]
pub struct Stream {
    /// The read end; `None` after end of file.
    pipe: Option<PipeReader>,
    /// The bytes read so far.
    pub read: Vec<u8>,
}

impl Stream {
    /// Reads from this pipe, or from nothing.
    pub fn new(pipe: Option<PipeReader>) -> Self {
        Stream { pipe, read: Vec::new() }
    }

    /// Reads the available bytes.
    fn advance(&mut self) -> io::Result<()> {
        let Some(pipe) = &mut self.pipe else { return Ok(()) };
        let before = self.read.len();
        // Read straight into the result, so that large output is not copied twice.
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

/// The standard input of a process.
#[derive(Debug)]
pub struct Input<'a> {
    /// The write end; `None` once everything is written.
    pipe: Option<ChildStdin>,
    left: &'a [u8],
}

impl<'a> Input<'a> {
    /// Feeds these bytes to the pipe, if there is one.
    pub fn new(pipe: Option<ChildStdin>, bytes: &'a [u8]) -> io::Result<Self> {
        if let Some(pipe) = &pipe {
            // The process must not keep us from reading what it writes.
            rustix::fs::fcntl_setfl(pipe, rustix::fs::OFlags::NONBLOCK)?;
        }
        Ok(Input { pipe: pipe.filter(|_| !bytes.is_empty()), left: bytes })
    }

    /// Writes as much as the pipe accepts. The process need not read it: a closed pipe is not a failure.
    fn advance(&mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        match pipe.write(self.left) {
            Ok(count) => self.left = &self.left[count..],
            Err(error) if [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted].contains(&error.kind()) => {}
            Err(error) => {
                tracing::debug!("a command did not read all its input: {error}");
                self.left = &[];
            }
        }
        if self.left.is_empty() {
            self.pipe = None;
        }
    }
}

/// Feeds and reads all pipes of a process at once, so that no full pipe can stop another, and waits for its end.
pub fn finish(
    process: &mut Process,
    input: &mut Input<'_>,
    streams: &mut [Stream; 2],
    bounds: &Bounds<'_>,
) -> io::Result<Result<ExitStatus, Stop>> {
    loop {
        let mut fds = Vec::with_capacity(4);
        fds.extend(input.pipe.as_ref().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLOUT)));
        let feeding = !fds.is_empty();
        let open: Vec<usize> = (0..2).filter(|number| streams[*number].pipe.is_some()).collect();
        let pipes = streams.iter().filter_map(|stream| stream.pipe.as_ref());
        fds.extend(pipes.map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN)));
        if fds.is_empty() {
            return process.wait(bounds);
        }
        if let Some(stop) = wait_for(&mut fds, bounds)? {
            return Ok(Err(stop));
        }
        let ready: Vec<bool> = fds.iter().map(is_ready).collect();
        if feeding && ready[0] {
            input.advance();
        }
        for (number, _) in open.into_iter().zip(&ready[usize::from(feeding)..]).filter(|(_, ready)| **ready) {
            streams[number].advance()?;
        }
    }
}
