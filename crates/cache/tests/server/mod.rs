//! A Redis server for one test.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The password of the server.
pub const PASSWORD: &str = "secret";

/// A server that ends with the test.
pub struct Redis {
    process: Child,
    folder: tempfile::TempDir,
}

impl Redis {
    /// Starts a server on a Unix socket; `None` if there is no such program.
    pub fn start() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let process = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--requirepass", PASSWORD, "--unixsocket"])
            .arg(folder.path().join("socket"))
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .spawn();
        let mut redis = match process {
            Ok(process) => Redis { process, folder },
            Err(error) => {
                assert!(std::env::var("CI").as_deref() != Ok("true"), "redis-server cannot be started: {error}");
                println!("skipped: redis-server cannot be started: {error}");
                return None;
            }
        };
        let started = Instant::now();
        while std::os::unix::net::UnixStream::connect(redis.socket()).is_err() {
            assert!(redis.process.try_wait().unwrap().is_none(), "redis-server ended");
            assert!(started.elapsed() < Duration::from_secs(30), "redis-server does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(redis)
    }

    /// Returns the path of its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}
