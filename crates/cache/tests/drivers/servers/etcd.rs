//! An etcd server with the API of version 2.

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use value::{Map, map};

use super::http::get;
use super::{Process, started};

/// A server on free ports.
pub struct Etcd {
    port: u16,
    peers: u16,
    folder: tempfile::TempDir,
    process: Option<Process>,
}

impl Etcd {
    /// Starts a server; `None` if there is no such program.
    pub fn start() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let [port, peers] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [port, peers] = [port, peers].map(|listener| listener.local_addr().unwrap().port());
        let mut etcd = Etcd { port, peers, folder, process: None };
        etcd.run("--enable-v2=true").then_some(etcd)
    }

    /// Starts the server again with what it has on disk, and with an option. Returns whether there is such a program.
    pub fn run(&mut self, option: &str) -> bool {
        self.stop();
        let (own, peers) = (format!("http://127.0.0.1:{}", self.port), format!("http://127.0.0.1:{}", self.peers));
        let process = started(
            Command::new("etcd")
                .args(["--name", "one", "--listen-client-urls", &own, "--advertise-client-urls", &own])
                .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
                .args(["--initial-cluster", &format!("one={peers}"), option, "--data-dir"])
                .arg(self.folder.path())
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        );
        let Some(mut process) = process else { return false };
        let at = Instant::now();
        while !get(self.port, "/health").is_some_and(|answer| answer.contains("true")) {
            assert!(process.0.try_wait().unwrap().is_none(), "etcd ended");
            assert!(at.elapsed() < Duration::from_secs(60), "etcd does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
        self.process = Some(process);
        true
    }

    /// Ends the server.
    pub fn stop(&mut self) {
        self.process = None;
    }

    /// Returns the options of a master that uses this server.
    pub fn options(&self) -> Map {
        map! { "cache" => "etcd", "etcd.host" => "127.0.0.1", "etcd.port" => i64::from(self.port) }
    }
}
