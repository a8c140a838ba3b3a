//! Going to the background, shown by a process of its own: a test thread must not fork.

use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

const SOCKET: &str = "SALTERN_TEST_SOCKET";

fn main() {
    match std::env::var_os(SOCKET) {
        Some(path) => daemon(path.as_ref()),
        None => check(),
    }
    println!("test a_daemon_leaves_its_terminal ... ok");
}

/// Goes to the background and tells what became of it.
fn daemon(path: &std::path::Path) {
    saltern_daemon::go_to_background().expect("the background");
    let session = nix::unistd::getsid(None).expect("a session");
    let input = std::fs::read_link("/proc/self/fd/0").expect("standard input");
    let here = std::env::current_dir().expect("a directory");
    let own = std::process::id() as i32;
    let story = format!("{} {} {}", session.as_raw() != own, input.display(), here.display());
    UnixDatagram::unbound().and_then(|socket| socket.send_to(story.as_bytes(), path)).expect("told");
    std::process::exit(0);
}

fn check() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("story");
    let ears = UnixDatagram::bind(&path).expect("a socket");
    ears.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
    let status = Command::new(std::env::current_exe().expect("this program"))
        .env(SOCKET, &path)
        .stdin(Stdio::null())
        .status()
        .expect("the daemon starts");
    assert!(status.success(), "the parent exits with 0");
    let mut buffer = [0; 256];
    let size = ears.recv(&mut buffer).expect("the daemon lives on");
    // No leader of its session, nothing on its streams, nowhere in particular.
    assert_eq!(std::str::from_utf8(&buffer[..size]), Ok("true /dev/null /"));
}
