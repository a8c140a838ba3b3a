//! The backend `pam`: the accounts of the master's host.
//!
//! Modules of PAM are foreign code that may hang, need root, and read the passwords of the system. So none runs in the master:
//! a helper process answers each login. A keeper starts the helpers. It is started before the master gives up root, and ends
//! when the master does.
//!
//! The keeper gets one end of a new socket for each login. On it, the helper reads the name and the password, separated by a
//! zero, and writes its answer: `yes` and the groups of the user, `no`, or why it cannot tell. Each of these texts ends with a
//! zero, so an answer that was cut off is not taken for a shorter one. To a name alone it answers whether the account may be
//! used: `usable`, `closed` or `missing`, never `yes`, so half a question lets nobody in.

use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};

use crate::{Account, Error};

/// The word with which the program becomes the keeper. The service of PAM follows.
pub const KEEPER: &str = "pam-keeper";

/// The word with which it becomes a helper. The service follows here, too.
pub const HELPER: &str = "pam-check";

/// How long a helper may take. The keeper stops it then.
pub const LIMIT: Duration = Duration::from_secs(10);

/// How long the master waits for an answer. This is longer than [`LIMIT`]: it matters only if something else than the helper
/// keeps the socket open, such as a process that a module has left behind.
const PATIENCE: Duration = Duration::from_secs(12);

/// The longest answer of a helper, in bytes.
const LONGEST: usize = 64 << 10;

/// Where PAM looks for services: those of the administrator, then those of the distribution.
const SERVICES: [&str; 3] = ["etc/pam.d", "usr/lib/pam.d", "usr/etc/pam.d"];

/// Returns whether PAM has rules of its own for a service, below the root directory of a system. Without them, it takes those of
/// the service `other`.
pub fn has_service(root: &Path, service: &str) -> bool {
    let file = service.to_ascii_lowercase();
    SERVICES.iter().any(|directory| root.join(directory).join(&file).is_file())
}

/// Returns whether a text can be the name of a service. PAM would take the last part of a path.
pub fn is_service(text: &str) -> bool {
    let is_good = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    !text.is_empty() && text.len() <= 64 && !text.starts_with('.') && text.chars().all(is_good)
}

/// Starts the process that starts helpers, and asks it.
#[derive(Debug)]
pub struct Keeper {
    service: String,
    program: fn(&str) -> Command,
    running: Mutex<Arc<Running>>,
}

/// A keeper that has been started.
#[derive(Debug)]
struct Running {
    socket: UnixStream,
    child: Mutex<Child>,
    /// Whether the log says that it is gone.
    is_reported: AtomicBool,
}

impl Keeper {
    /// Starts the keeper of a service of PAM: this program itself.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(service: &str) -> io::Result<Self> {
        Self::start_program(service, this_program)
    }

    fn start_program(service: &str, program: fn(&str) -> Command) -> io::Result<Self> {
        let running = Mutex::new(Arc::new(Running::start(&mut program(service))?));
        Ok(Keeper { service: service.to_owned(), program, running })
    }

    /// Returns the groups of the user if the password is right. Blocks until the helper answers or is stopped.
    ///
    /// # Errors
    /// When PAM cannot tell.
    pub fn check(&self, username: &str, password: &str) -> Result<Option<Vec<String>>, Error> {
        if password.is_empty() || [username, password].iter().any(|text| text.contains('\0')) {
            return Ok(None);
        }
        read_answer(&self.ask(&format!("{username}\0{password}"))?)
    }

    /// Returns whether an account may be used, regardless of its password. Blocks as [`Keeper::check`] does.
    ///
    /// # Errors
    /// When PAM cannot tell.
    pub fn account(&self, username: &str) -> Result<Account, Error> {
        if username.is_empty() || username.contains('\0') {
            return Ok(Account::Missing);
        }
        let answer = self.ask(username)?;
        let word = whole(&answer)?;
        Account::from_word(&word).ok_or_else(|| Error::Pam(value::escape::brief(&word, 200).into_owned()))
    }

    /// Asks a new helper.
    fn ask(&self, question: &str) -> Result<Vec<u8>, Error> {
        let failed = |error| Error::Pam(format!("the helper failed: {error}"));
        let deadline = Instant::now() + PATIENCE;
        let socket = match self.current().open() {
            Ok(socket) => socket,
            Err(error) if is_gone(&error) => self.start_again()?.open().map_err(failed)?,
            Err(error) => return Err(failed(error)),
        };
        ask(&socket, question, deadline).map_err(failed)
    }

    fn current(&self) -> Arc<Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts a new keeper in the place of one that is gone. Only root can: the helpers of another user could not check the
    /// passwords of others.
    fn start_again(&self) -> Result<Arc<Running>, Error> {
        let gone = self.current();
        let is_first = !gone.is_reported.swap(true, Ordering::Relaxed);
        if !nix::unistd::geteuid().is_root() {
            if is_first {
                tracing::error!(
                    "the helper for PAM has ended: nobody can log in with PAM until the master is restarted"
                );
            }
            return Err(Error::Pam("the helper has ended; restart the master to start it again".to_owned()));
        }
        let new = Running::start(&mut (self.program)(&self.service));
        let new =
            new.map_err(|error| Error::Pam(format!("the helper has ended and cannot be started again: {error}")))?;
        if is_first {
            tracing::error!("the helper for PAM has ended ({}); it was started again", gone.status());
        }
        let new = Arc::new(new);
        // Another login may have done the same. The keeper that is replaced ends with its socket.
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = new.clone();
        Ok(new)
    }
}

impl Running {
    fn start(command: &mut Command) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        // In a group of its own: Ctrl-C is for the master, whose last logins are answered.
        let command = command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).process_group(0);
        let child = Mutex::new(command.spawn()?);
        // A keeper that is stopped must not hold up the master.
        ours.set_write_timeout(Some(PATIENCE))?;
        Ok(Running { socket: ours, child, is_reported: AtomicBool::new(false) })
    }

    /// Returns the socket of a new helper.
    fn open(&self) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        let passed = [theirs.as_raw_fd()];
        let rights = [ControlMessage::ScmRights(&passed)];
        sendmsg::<()>(self.socket.as_raw_fd(), &[IoSlice::new(b"?")], &rights, MsgFlags::MSG_NOSIGNAL, None)?;
        Ok(ours)
    }

    /// Returns how the process has ended.
    fn status(&self) -> String {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        match child.try_wait() {
            Ok(Some(status)) => status.to_string(),
            Ok(None) => "it has closed its socket".to_owned(),
            Err(error) => error.to_string(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        // It ends by itself when the socket is closed. One that has ended leaves no trace in the list of processes.
        let _ = child.try_wait();
    }
}

/// This program, as the keeper of a service.
fn this_program(service: &str) -> Command {
    // As a link of the kernel, it is this program even if the file was replaced by an update.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("saltern").args([KEEPER, service]);
    command
}

/// Returns whether nobody has the other end of a socket any more.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Asks a helper.
fn ask(mut socket: &UnixStream, question: &str, deadline: Instant) -> io::Result<Vec<u8>> {
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.write_all(question.as_bytes())?;
    socket.shutdown(Shutdown::Write)?;
    read_until(socket, LONGEST, deadline)
}

/// Reads until the other side closes the socket.
///
/// # Errors
/// When it does not until the deadline, or sends too much.
pub(crate) fn read_until(mut socket: &UnixStream, longest: usize, deadline: Instant) -> io::Result<Vec<u8>> {
    let (mut answer, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        match socket.read(&mut part) {
            Ok(0) => return Ok(answer),
            Ok(length) if answer.len() + length > longest => return Err(io::ErrorKind::FileTooLarge.into()),
            Ok(length) => answer.extend_from_slice(&part[..length]),
            // The kernel's word for a timeout of a socket.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(io::ErrorKind::TimedOut.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn read_answer(answer: &[u8]) -> Result<Option<Vec<String>>, Error> {
    let whole = whole(answer)?;
    let mut parts = whole.split('\0');
    match parts.next() {
        Some("yes") => Ok(Some(parts.map(str::to_owned).collect())),
        Some("no") => Ok(None),
        reason => Err(Error::Pam(value::escape::brief(reason.unwrap_or_default(), 200).into_owned())),
    }
}

/// Returns an answer without its last zero.
fn whole(answer: &[u8]) -> Result<String, Error> {
    let text = String::from_utf8_lossy(answer);
    if let Some(whole) = text.strip_suffix('\0') {
        return Ok(whole.to_owned());
    }
    Err(Error::Pam(match text.is_empty() {
        true => format!("no answer: the helper crashed, or took more than {} seconds", LIMIT.as_secs()),
        false => "the answer of the helper is cut off".to_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_the_groups() {
        let read = |answer: &[u8]| read_answer(answer).map_err(|error| error.to_string());
        assert_eq!(read(b"yes\0"), Ok(Some(vec![])));
        assert_eq!(read(b"yes\0staff\0two words\0"), Ok(Some(vec!["staff".to_owned(), "two words".to_owned()])));
        assert_eq!(read(b"no\0"), Ok(None));
        assert_eq!(read(b"yesterday\0"), Err("external_auth: the backend 'pam': yesterday".to_owned()));
        // A helper that is stopped while it writes must not put the user into a group with a shorter name.
        for cut in [&b"yes"[..], b"yes\0admins\0ad"] {
            assert!(read(cut).unwrap_err().ends_with("the answer of the helper is cut off"), "{cut:?}");
        }
        assert!(read(b"").unwrap_err().contains("no answer"));
    }

    #[test]
    fn an_account_has_a_word() {
        for account in [Account::Usable, Account::Closed, Account::Missing] {
            assert_eq!(Account::from_word(account.word()), Some(account));
            // An answer to half a question is no login.
            assert!(read_answer(format!("{}\0", account.word()).as_bytes()).is_err());
        }
        assert_eq!(Account::from_word("yes"), None);
    }

    #[test]
    fn an_answer_without_an_end_is_none() {
        // A process that a module has left behind has the other end open.
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"yes\0").unwrap();
        let soon = Instant::now() + Duration::from_millis(20);
        assert_eq!(read_until(&ours, LONGEST, soon).unwrap_err().kind(), io::ErrorKind::TimedOut);
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let flood = std::thread::spawn(move || theirs.write_all(&[b'x'; 2 * LONGEST]));
        let later = Instant::now() + PATIENCE;
        assert_eq!(read_until(&ours, LONGEST, later).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        drop(ours);
        // It may have fitted into the socket.
        let _ = flood.join().unwrap();
    }

    #[test]
    fn services_have_a_file() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("usr/lib/pam.d")).unwrap();
        std::fs::write(root.path().join("usr/lib/pam.d/salt"), "").unwrap();
        assert!(has_service(root.path(), "salt") && has_service(root.path(), "Salt"), "PAM ignores case");
        assert!(!has_service(root.path(), "login"));
        assert!(["salt", "Login", "system-auth", "my_service.2"].into_iter().all(is_service));
        assert!(!["", "..", "../login", "/etc/pam.d/login", "a b", "a\0"].into_iter().any(is_service));
    }

    /// Waits until a keeper has closed its socket.
    fn wait_for_end(keeper: &Keeper) {
        let mut end = [0];
        match (&keeper.current().socket).read(&mut end) {
            Ok(length) => assert_eq!(length, 0, "it has ended"),
            // It has left a question unread.
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
        }
        // Its socket is closed a moment before its exit code is there.
        keeper.current().child.lock().unwrap().wait().unwrap();
    }

    #[test]
    fn a_keeper_that_is_gone_lets_nobody_in() {
        let keeper = Keeper::start_program("login", |_| Command::new("true")).unwrap();
        for _ in 0..2 {
            wait_for_end(&keeper);
            let refused = keeper.check("fred", "secret").unwrap_err().to_string();
            assert!(refused.contains("the helper has ended") || refused.contains("the helper failed"), "{refused}");
        }
        assert!(keeper.check("fred", "").unwrap().is_none());
        assert!(keeper.check("fred", "a\0b").unwrap().is_none());
    }

    #[test]
    fn root_starts_a_keeper_again() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: it needs root");
            return;
        }
        let keeper = Keeper::start_program("login", |_| Command::new("true")).unwrap();
        wait_for_end(&keeper);
        let gone = keeper.current();
        let lasting = Keeper { program: |_| Command::new("cat"), ..keeper };
        let again = lasting.start_again().unwrap();
        assert!(Arc::ptr_eq(&again, &lasting.current()) && !Arc::ptr_eq(&again, &gone));
        assert!(gone.is_reported.load(Ordering::Relaxed));
        assert_eq!(gone.status(), "exit status: 0");
        assert!(again.open().is_ok());
    }
}
