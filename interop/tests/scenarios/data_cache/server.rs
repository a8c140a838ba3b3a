//! Servers that keep the data of minions.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use interop::{Daemon, Program, Sandbox, clients, until};

use super::PATIENCE;

pub const ETCD_PORT: u16 = 2379;
const ETCD_PEER_PORT: u16 = 2380;
const MYSQL_PORT: u16 = 3306;
const REDIS_PORT: u16 = 6379;

/// Its package does not put it on every user's path.
const MARIADB: &str = "/usr/sbin/mariadbd";

/// The password of the user `salt`.
const PASSWORD: &str = "tr0ub4dor";

/// A server with the data of minions.
#[derive(Clone, Copy)]
pub enum Kind {
    Etcd,
    Mysql,
    Redis,
}

impl Kind {
    /// Returns the value of the option `cache`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Etcd => "etcd",
            Kind::Mysql => "mysql",
            Kind::Redis => "redis",
        }
    }

    /// Returns the name of the Python client.
    pub fn client(self) -> &'static str {
        match self {
            Kind::Etcd => "etcd",
            Kind::Mysql => "pymysql",
            Kind::Redis => "redis",
        }
    }

    /// Returns the options with which masters log in.
    pub fn login(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Kind::Mysql => &[("mysql.user", "salt"), ("mysql.password", PASSWORD)],
            Kind::Etcd | Kind::Redis => &[],
        }
    }

    /// Returns the option that names the server.
    pub fn option(self) -> &'static str {
        match self {
            Kind::Etcd => "etcd.host",
            Kind::Mysql => "mysql.host",
            Kind::Redis => "cache.redis.host",
        }
    }

    /// Returns the address as our log shows it.
    pub fn shown(self, address: Ipv4Addr) -> String {
        match self {
            Kind::Etcd => format!("http://{address}:{ETCD_PORT}"),
            Kind::Mysql => format!("{address}:{MYSQL_PORT}"),
            Kind::Redis => format!("{address}:{REDIS_PORT}"),
        }
    }

    pub fn is_missing(self) -> bool {
        let program = match self {
            Kind::Etcd => "etcd",
            Kind::Mysql => MARIADB,
            Kind::Redis => "redis-server",
        };
        // A joined path that is absolute stays what it is.
        let there = std::env::var_os("PATH")
            .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()));
        if !there || clients(self.client()).is_none() {
            let sentence = format!("{program}, or its Python client, is not installed");
            assert!(std::env::var("CI").as_deref() != Ok("true"), "{sentence}; `cargo xtask test` installs both");
            println!("skipped: {sentence}; with CI=true `cargo xtask test` installs both");
            return true;
        }
        false
    }

    /// Starts a server at an address of its own.
    pub fn start(self, sandbox: &Sandbox) -> Result<(Ipv4Addr, Daemon)> {
        let folder = sandbox.folder(self.name())?;
        let captured = folder.join("server.out");
        let (address, port, server) = match self {
            Kind::Mysql => {
                let address = sandbox.address(&[MYSQL_PORT]);
                (address, MYSQL_PORT, mariadb(sandbox, &folder, address)?)
            }
            Kind::Etcd => {
                let address = sandbox.address(&[ETCD_PORT, ETCD_PEER_PORT]);
                let [own, peers] = [ETCD_PORT, ETCD_PEER_PORT].map(|port| format!("http://{address}:{port}"));
                let etcd = Program::new(sandbox, Path::new("etcd"))
                    .args([
                        "--name",
                        "one",
                        "--enable-v2",
                        "--listen-client-urls",
                        &own,
                        "--advertise-client-urls",
                        &own,
                    ])
                    .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
                    .args(["--initial-cluster", &format!("one={peers}")])
                    .arg_dir("--data-dir", &folder.join("data"));
                (address, ETCD_PORT, etcd)
            }
            Kind::Redis => {
                let address = sandbox.address(&[REDIS_PORT]);
                let redis = Program::new(sandbox, Path::new("redis-server"))
                    .args(["--bind", &address.to_string(), "--port", &REDIS_PORT.to_string(), "--save", ""])
                    .arg_dir("--dir", &folder);
                (address, REDIS_PORT, redis)
            }
        };
        let server = server.start(&captured)?;
        // Neither listens before it can answer.
        until("the server to listen", PATIENCE, || TcpStream::connect((address, port)).is_ok())?;
        Ok((address, server))
    }
}

/// Prepares a server with the database and the user of the masters.
fn mariadb(sandbox: &Sandbox, folder: &Path, address: Ipv4Addr) -> Result<Program> {
    let path = |option: &str, name: &str| format!("--{option}={}", folder.join(name).display());
    let program = |name: &str| {
        // Each server removes what looks like its own files from there when it starts.
        let program = Program::new(sandbox, Path::new(name)).env("TMPDIR", folder);
        program.args(["--no-defaults".to_owned(), "--user=root".to_owned(), path("datadir", "data")])
    };
    let install = program("mariadb-install-db").args(["--skip-test-db", "--auth-root-authentication-method=normal"]);
    let installed = install.run()?;
    ensure!(installed.code == 0, "mariadb-install-db ended with {}: {}", installed.code, installed.stderr);
    let statements = format!(
        "CREATE DATABASE salt_cache;\nCREATE USER salt@'%' IDENTIFIED BY '{PASSWORD}';\n\
         GRANT ALL ON salt_cache.* TO salt@'%';\n"
    );
    fs::write(folder.join("init.sql"), statements).context("failed to write the statements of the server's start")?;
    let server = program(MARIADB).args(["--skip-log-bin", "--skip-name-resolve"]);
    let server = server.args([path("socket", "socket"), path("init-file", "init.sql")]);
    Ok(server.args(["--bind-address", &address.to_string(), "--port", &MYSQL_PORT.to_string()]))
}
