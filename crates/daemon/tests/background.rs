//! Going to the background, tested in a separate process: a test thread must not fork.

use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

const SOCKET: &str = "SALTERN_TEST_SOCKET";

/// The variable that names the end of the daemon's start: `ready`, `failed`, `dead`.
const END: &str = "SALTERN_TEST_END";

const PATIENCE: Duration = Duration::from_secs(20);

fn main() {
    match std::env::var_os(SOCKET) {
        Some(path) => daemon(path.as_ref()),
        None => {
            check();
            check_failures();
        }
    }
    println!("test a_daemon_leaves_its_terminal ... ok");
}

/// Goes to the background and reports the outcome.
fn daemon(path: &std::path::Path) {
    let launch = saltern_daemon::go_to_background(PATIENCE).expect("the background");
    match std::env::var(END).as_deref() {
        Ok("failed") => {
            launch.failed(67, "no such user");
            std::process::exit(67);
        }
        Ok("dead") => std::process::abort(),
        _ => launch.ready(),
    }
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

/// The program that was called ends as the daemon does that it started.
fn check_failures() {
    for (end, code, text) in [("failed", 67, "no such user\n"), ("dead", 1, "The daemon ended before it was ready")] {
        let output = Command::new(std::env::current_exe().expect("this program"))
            .env(SOCKET, "/nowhere")
            .env(END, end)
            .stdin(Stdio::null())
            .output()
            .expect("the daemon starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(text), "{said}");
    }
}
