//! A MariaDB server.

use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use value::{Map, map};

use super::{Process, started};

/// The password of the user `salt`.
pub const PASSWORD: &str = "tr0ub4dor";

/// Its package does not put it on every user's path.
const PROGRAM: &str = "/usr/sbin/mariadbd";

/// What is committed need only survive the end of the process, not that of the machine.
const OPTIONS: [&str; 5] =
    ["--no-defaults", "--user=root", "--skip-log-bin", "--innodb-flush-log-at-trx-commit=2", "--skip-name-resolve"];

/// A server on a Unix socket and on a free port, with the databases `ours` and `theirs`.
pub struct MySql {
    folder: tempfile::TempDir,
    pub port: u16,
    process: Option<Process>,
}

impl MySql {
    /// Starts a server; `None` if there is no such program.
    pub fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// Starts a server with a certificate and its key in one file, which accepts no connections without TLS.
    pub fn start_with_tls(ca: &Path, own: &Path) -> Option<Self> {
        let [ca, own] = [ca, own].map(Path::display);
        let files = [format!("--ssl-ca={ca}"), format!("--ssl-cert={own}"), format!("--ssl-key={own}")];
        Self::start_with(&[&files[..], &["--require-secure-transport=ON".to_owned()]].concat())
    }

    fn start_with(options: &[String]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let install = Command::new("mariadb-install-db")
            .args(OPTIONS)
            .args(["--skip-test-db", "--auth-root-authentication-method=normal"])
            .arg(format!("--datadir={}", folder.path().join("data").display()))
            // Each server removes what looks like its own files from there when it starts.
            .env("TMPDIR", folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let install = super::is_there("mariadb-install-db", install)?.wait_with_output().unwrap();
        assert!(install.status.success(), "{install:?}");
        let statements = format!(
            "CREATE DATABASE ours;\nCREATE DATABASE theirs;\nCREATE USER salt@'%' IDENTIFIED BY '{PASSWORD}';\n\
             GRANT ALL ON *.* TO salt@'%';\n"
        );
        std::fs::write(folder.path().join("init.sql"), statements).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut server = MySql { folder, port, process: None };
        let init = format!("--init-file={}", server.folder.path().join("init.sql").display());
        server.run_with(&[options, &[init]].concat()).then_some(server)
    }

    fn run_with(&mut self, options: &[String]) -> bool {
        self.process = started(
            Command::new(PROGRAM)
                .args(OPTIONS)
                .arg(format!("--datadir={}", self.folder.path().join("data").display()))
                .arg(format!("--socket={}", self.socket().display()))
                .arg(format!("--port={}", self.port))
                .args(["--bind-address=127.0.0.1"])
                .args(options)
                .env("TMPDIR", self.folder.path())
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        );
        let Some(process) = &mut self.process else { return false };
        let at = Instant::now();
        // It listens only after it has run the statements of its initial file.
        while UnixStream::connect(self.folder.path().join("socket")).is_err()
            || TcpStream::connect(("127.0.0.1", self.port)).is_err()
        {
            assert!(process.0.try_wait().unwrap().is_none(), "mariadbd ended");
            assert!(at.elapsed() < Duration::from_secs(60), "mariadbd does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        true
    }

    /// Ends the server as a power failure would.
    pub fn stop(&mut self) {
        self.process = None;
    }

    /// Starts the server again with what it has on disk.
    pub fn resume(&mut self) {
        assert!(self.run_with(&[]));
    }

    /// Returns the path of its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Returns the options of a master that uses a database of this server, over its socket.
    pub fn options(&self, database: &str) -> Map {
        map! {
            "cache" => "mysql", "mysql.unix_socket" => self.socket().to_str().unwrap(), "mysql.user" => "salt",
            "mysql.password" => PASSWORD, "mysql.database" => database,
        }
    }

    /// Returns the options of a master that uses a database of this server, over its port.
    pub fn options_of_port(&self, database: &str) -> Map {
        let mut options = self.options(database);
        options.remove("mysql.unix_socket");
        options.insert("mysql.port", i64::from(self.port));
        options
    }

    /// Runs a statement as an administrator, and returns what it prints.
    pub fn run(&self, statement: &str) -> String {
        let socket = format!("--socket={}", self.socket().display());
        let mut client = Command::new("mariadb");
        client.args(["--no-defaults", "--user=root", &socket, "--skip-column-names", "--batch", "-e", statement]);
        let output = client.output().unwrap();
        assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}
