//! `saltern pam-keeper` and `saltern pam-check`: logins with PAM, outside of the master (`auth::pam`).

mod binding;

use std::ffi::CString;
use std::io::{self, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use auth::Account;
use auth::pam::{HELPER, LIMIT};
use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{Group, Pid, User, close, dup2_stdin, getgrouplist};

use crate::exit_codes;

/// How many helpers there may be. The master has fewer questions at once.
const MOST: usize = 16;

/// The longest question, in bytes.
const LONGEST: u64 = 4096;

/// Starts a helper for each question, until the master ends.
pub fn keeper(service: &str) -> ExitCode {
    daemon::keep_memory_private(daemon::Children::Own);
    if let Err(error) = close_inherited() {
        rt::complain!("saltern: error: the keeper of PAM cannot close what it inherited: {error}");
        return ExitCode::from(exit_codes::GENERIC);
    }
    let running = Arc::new(AtomicUsize::new(0));
    loop {
        match next_question() {
            Ok(Some(socket)) => answer(service, socket, &running),
            Ok(None) => return ExitCode::SUCCESS,
            Err(error) => {
                rt::complain!("saltern: error: the helper of PAM cannot be asked: {error}");
                return ExitCode::from(exit_codes::GENERIC);
            }
        }
    }
}

/// Receives the socket of a question; nothing when the master has ended.
fn next_question() -> io::Result<Option<OwnedFd>> {
    let mut byte = [0];
    loop {
        let mut space = cmsg_space!([RawFd; 1]);
        let mut buffer = [IoSliceMut::new(&mut byte)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let received = match recvmsg::<()>(io::stdin().as_raw_fd(), &mut buffer, Some(&mut space), flags) {
            Err(nix::errno::Errno::EINTR) => continue,
            received => received?,
        };
        if received.bytes == 0 {
            return Ok(None);
        }
        for message in received.cmsgs()? {
            if let ControlMessageOwned::ScmRights(sockets) = message
                && let Some(socket) = sockets.first()
            {
                return Ok(Some(owned(*socket)));
            }
        }
    }
}

#[expect(unsafe_code, reason = "a descriptor that was received is a bare number")]
fn owned(socket: RawFd) -> OwnedFd {
    // SAFETY: the kernel has just made the descriptor for this process, and nothing else knows it.
    unsafe { OwnedFd::from_raw_fd(socket) }
}

/// Starts a helper on a socket, and stops it after a while.
fn answer(service: &str, socket: OwnedFd, running: &Arc<AtomicUsize>) {
    if running.fetch_add(1, Ordering::Relaxed) >= MOST {
        running.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let (service, running) = (service.to_owned(), running.clone());
    std::thread::spawn(move || {
        if let Err(error) = helper(&service, socket) {
            rt::complain!("saltern: error: failed to start a helper for PAM: {error}");
        }
        running.fetch_sub(1, Ordering::Relaxed);
    });
}

fn helper(service: &str, socket: OwnedFd) -> io::Result<()> {
    let socket = UnixStream::from(socket);
    let mut command = Command::new("/proc/self/exe");
    command.arg0("saltern").args([HELPER, service]);
    command.stdin(OwnedFd::from(socket.try_clone()?)).stdout(Stdio::null()).stderr(Stdio::null());
    // A group of its own, for the programs that a module starts.
    let mut child = command.process_group(0).spawn()?;
    let pid = Pid::from_raw(child.id().cast_signed());
    let (ended, wait) = mpsc::channel();
    // It only looks: as long as nobody takes the result, the number belongs to this process.
    std::thread::spawn(move || {
        let _ = waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
        let _ = ended.send(());
    });
    if wait.recv_timeout(LIMIT).is_err() {
        nix::sys::signal::killpg(pid, nix::sys::signal::Signal::SIGKILL)?;
    }
    child.wait()?;
    // A process outside of the group may still have the socket. The answer ends here all the same.
    let _ = socket.shutdown(Shutdown::Both);
    Ok(())
}

/// Answers one question, on the socket that is the standard input.
pub fn check(service: &str) -> ExitCode {
    daemon::keep_memory_private(daemon::Children::Own);
    match close_inherited().and_then(|()| take_socket()).and_then(|mut socket| reply(service, &mut socket)) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            rt::complain!("saltern: error: PAM cannot be asked: {error}");
            ExitCode::from(exit_codes::GENERIC)
        }
    }
}

/// Closes all descriptors but the standard ones. Modules of PAM need no other, and pass on what they have to programs that they
/// start.
pub fn close_inherited() -> io::Result<()> {
    let listed = std::fs::read_dir("/proc/self/fd")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let listed: Vec<RawFd> = listed.filter(|descriptor| *descriptor > 2).collect();
    for descriptor in listed {
        // The one of the listing itself is closed already.
        let _ = close(descriptor);
    }
    Ok(())
}

/// Takes the socket away from the standard input, where a module could read the question again, and programs would inherit it.
pub fn take_socket() -> io::Result<UnixStream> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    dup2_stdin(std::fs::File::open("/dev/null")?)?;
    Ok(socket.into())
}

/// Reads the question, and writes the answer. Returns the exit code.
fn reply(service: &str, socket: &mut UnixStream) -> io::Result<u8> {
    let (answer, code) = match judge(service, socket) {
        Ok(Judgement::RightPassword(groups)) => (["yes".to_owned()].into_iter().chain(groups).collect(), 0),
        Ok(Judgement::WrongPassword) => (vec!["no".to_owned()], 1),
        Ok(Judgement::Account(account)) => (vec![account.word().to_owned()], u8::from(account != Account::Usable)),
        Err(reason) => (vec![reason], 2),
    };
    // A name with a zero inside does not exist; the zero is the end of each part.
    socket.write_all((answer.join("\0") + "\0").as_bytes())?;
    // For all who have the socket: a process that a module left behind does not keep the answer open.
    socket.shutdown(Shutdown::Both)?;
    Ok(code)
}

/// The answer to a question.
enum Judgement {
    /// The password is right, and the user is in these groups.
    RightPassword(Vec<String>),
    WrongPassword,
    /// The question was about an account.
    Account(Account),
}

/// Reads and answers a question.
fn judge(service: &str, socket: &mut UnixStream) -> Result<Judgement, String> {
    let mut question = String::new();
    let read = socket.take(LONGEST).read_to_string(&mut question);
    read.map_err(|error| format!("failed to read the question: {error}"))?;
    let Some((username, password)) = question.split_once('\0') else {
        return account(service, &question).map(Judgement::Account);
    };
    match binding::check(service, username, password)? {
        true => Ok(Judgement::RightPassword(groups(username))),
        false => Ok(Judgement::WrongPassword),
    }
}

/// Returns the state of an account.
fn account(service: &str, username: &str) -> Result<Account, String> {
    if !matches!(User::from_name(username), Ok(Some(_))) {
        return Ok(Account::Missing);
    }
    // PAM looks at a locked password only when somebody types one.
    let is_locked = std::fs::read_to_string(SHADOW).is_ok_and(|shadow| is_locked(&shadow, username));
    match !is_locked && binding::may_be_used(service, username)? {
        true => Ok(Account::Usable),
        false => Ok(Account::Closed),
    }
}

/// The passwords of local accounts (shadow(5)).
const SHADOW: &str = "/etc/shadow";

/// Returns whether the password of an account is locked: no hash begins with these.
fn is_locked(shadow: &str, username: &str) -> bool {
    let hash = |line: &str| line.strip_prefix(username)?.strip_prefix(':').map(|rest| rest.starts_with(['!', '*']));
    shadow.lines().find_map(hash).unwrap_or(false)
}

/// Returns the names of the groups of a user, with the primary one.
fn groups(username: &str) -> Vec<String> {
    let Ok(Some(user)) = User::from_name(username) else { return Vec::new() };
    let Ok(name) = CString::new(username) else { return Vec::new() };
    let ids = getgrouplist(&name, user.gid).unwrap_or_default();
    ids.into_iter().filter_map(|id| Group::from_gid(id).ok().flatten()).map(|group| group.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locked_password_is_recognised() {
        let shadow = "root:*:1::::::\nfred:$5$a$b:1::::::\nann:!$5$a$b:1::::::\nan:$5$a$b:1::::::\n";
        let locked: Vec<&str> =
            ["root", "fred", "ann", "an", "nobody"].into_iter().filter(|name| is_locked(shadow, name)).collect();
        assert_eq!(locked, ["root", "ann"]);
    }

    #[test]
    fn root_is_in_its_group() {
        assert!(groups("root").contains(&"root".to_owned()));
        assert!(groups("no-such-user-here").is_empty());
    }
}
