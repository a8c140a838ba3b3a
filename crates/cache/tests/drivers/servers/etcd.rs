//! An etcd server, with the API of version 2 if a test wants it.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};
use value::{Map, map};

use super::http::{get, post};
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
    /// Starts a server with the API of version 2; `None` if there is no such program.
    pub fn start() -> Option<Self> {
        Etcd::start_with(&["--enable-v2=true"])
    }

    /// Starts a server with options; `None` if there is no such program.
    pub fn start_with(options: &[&str]) -> Option<Self> {
        let mut etcd = Etcd::new("http");
        etcd.run(options).then_some(etcd)
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

    /// Calls a method of version 3, with the token of a user if there is one.
    pub fn call(&self, method: &str, token: &str, request: &Json) -> Json {
        serde_json::from_str(&post(self.port, &format!("/v3/{method}"), token, &request.to_string())).unwrap()
    }

    /// Makes the server ask for logins. The user `salt` may use the keys below `/salt_cache`.
    pub fn want_logins(&self, password: &str) {
        let key = |text: &str| STANDARD.encode(text);
        let prefix = json!({"permType": "READWRITE", "key": key("/salt_cache/"), "range_end": key("/salt_cache0")});
        for (method, request) in [
            ("auth/user/add", json!({"name": "root", "password": "of root"})),
            ("auth/role/add", json!({"name": "root"})),
            ("auth/user/grant", json!({"user": "root", "role": "root"})),
            ("auth/user/add", json!({"name": "salt", "password": password})),
            ("auth/role/add", json!({"name": "cache"})),
            ("auth/role/grant", json!({"name": "cache", "perm": prefix})),
            ("auth/user/grant", json!({"user": "salt", "role": "cache"})),
            ("auth/enable", json!({})),
        ] {
            self.call(method, "", &request);
        }
    }

    /// Logs in as the user that may do everything.
    pub fn token_of_root(&self) -> String {
        let answer = self.call("auth/authenticate", "", &json!({"name": "root", "password": "of root"}));
        answer["token"].as_str().unwrap().to_owned()
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

    /// Returns the options of a master that uses the API of version 3.
    pub fn options_v3(&self) -> Map {
        map! { "cache" => "etcd3", "etcd.host" => "127.0.0.1", "etcd.port" => i64::from(self.port) }
    }
}
