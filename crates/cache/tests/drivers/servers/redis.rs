//! A Redis server.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Process, started};

/// The password of the server.
pub const PASSWORD: &str = "secret";

/// A server on a Unix socket.
pub struct Redis {
    folder: tempfile::TempDir,
    _process: Process,
}

impl Redis {
    /// Starts a server; `None` if there is no such program.
    pub fn start() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut process = started(
            Command::new("redis-server")
                .args(["--port", "0", "--save", "", "--requirepass", PASSWORD, "--unixsocket"])
                .arg(folder.path().join("socket"))
                .current_dir(folder.path())
                .stdout(Stdio::null()),
        )?;
        let at = Instant::now();
        while std::os::unix::net::UnixStream::connect(folder.path().join("socket")).is_err() {
            assert!(process.0.try_wait().unwrap().is_none(), "redis-server ended");
            assert!(at.elapsed() < Duration::from_secs(30), "redis-server does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(Redis { folder, _process: process })
    }

    /// Returns the path of its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }
}
