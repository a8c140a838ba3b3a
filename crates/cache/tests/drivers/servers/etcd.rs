//! An etcd server with the API of version 2.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use value::{Map, map};

use super::http::get;
use super::{Process, started};

/// A server on free ports.
pub struct Etcd {
    scheme: &'static str,
    port: u16,
    peers: u16,
    /// Answers without TLS whether the server is ready.
    health: u16,
    folder: tempfile::TempDir,
    process: Option<Process>,
}

impl Etcd {
    /// Starts a server; `None` if there is no such program.
    pub fn start() -> Option<Self> {
        let mut etcd = Etcd::new("http");
        etcd.run(&["--enable-v2=true"]).then_some(etcd)
    }

    /// Starts a server with a certificate and its key in one file, which wants certificates of the same authority.
    pub fn start_with_tls(ca: &Path, own: &Path) -> Option<Self> {
        let mut etcd = Etcd::new("https");
        let [ca, own] = [ca, own].map(|path| path.to_str().unwrap());
        let certificates = ["--cert-file", own, "--key-file", own, "--trusted-ca-file", ca, "--client-cert-auth"];
        etcd.run(&[&["--enable-v2=true"], &certificates[..]].concat()).then_some(etcd)
    }

    /// Starts a cluster of three servers; `None` if there is no such program.
    pub fn start_cluster() -> Option<[Self; 3]> {
        let mut members = [(); 3].map(|()| Etcd::new("http"));
        let cluster = members.each_ref().map(Etcd::peer).join(",");
        for member in &mut members {
            member.process = Some(member.spawn(&["--enable-v2=true"], &cluster)?);
        }
        members.iter_mut().for_each(Etcd::wait);
        Some(members)
    }

    fn new(scheme: &'static str) -> Self {
        let ports = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [port, peers, health] = ports.map(|listener| listener.local_addr().unwrap().port());
        Etcd { scheme, port, peers, health, folder: tempfile::tempdir().unwrap(), process: None }
    }

    /// Starts the server again with what it has on disk, and with options. Returns whether there is such a program.
    pub fn run(&mut self, options: &[&str]) -> bool {
        self.stop();
        self.process = self.spawn(options, &self.peer());
        let there = self.process.is_some();
        if there {
            self.wait();
        }
        there
    }

    /// Returns its name and its address for others.
    fn peer(&self) -> String {
        format!("m{0}=http://127.0.0.1:{0}", self.peers)
    }

    fn spawn(&self, options: &[&str], cluster: &str) -> Option<Process> {
        let own = format!("{}://127.0.0.1:{}", self.scheme, self.port);
        let [peers, health] = [self.peers, self.health].map(|port| format!("http://127.0.0.1:{port}"));
        started(
            Command::new("etcd")
                .args(["--listen-client-urls", &own, "--advertise-client-urls", &own])
                .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
                .args(["--name", &format!("m{}", self.peers), "--initial-cluster", cluster])
                .args(["--listen-metrics-urls", &health])
                .args(options)
                .arg("--data-dir")
                .arg(self.folder.path())
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        )
    }

    fn wait(&mut self) {
        let at = Instant::now();
        while !get(self.health, "/health").is_some_and(|answer| answer.contains("true")) {
            let process = self.process.as_mut().unwrap();
            assert!(process.0.try_wait().unwrap().is_none(), "etcd ended");
            assert!(at.elapsed() < Duration::from_secs(60), "etcd does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends the server.
    pub fn stop(&mut self) {
        self.process = None;
    }

    /// Returns the options of a master that uses this server.
    pub fn options(&self) -> Map {
        map! {
            "cache" => "etcd", "etcd.host" => "127.0.0.1", "etcd.port" => i64::from(self.port),
            "etcd.protocol" => self.scheme,
        }
    }
}
