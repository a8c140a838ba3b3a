//! Real servers, if there are any.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use async_nats::{Client, ConnectOptions};
use tempfile::TempDir;

/// A server, or three.
pub struct Servers {
    program: PathBuf,
    dir: TempDir,
    ports: Vec<(u16, u16)>,
    running: Vec<Option<Child>>,
    has_jetstream: bool,
    config: Option<PathBuf>,
}

/// A user who may do everything, which all are that do not log in, and one who may not change the settings of streams.
const USERS: &str = r#"
no_auth_user: all
accounts { masters {
  jetstream: enabled
  users: [
    {user: all, password: all}
    {user: limited, password: limited, permissions: {publish: {deny: "$JS.API.STREAM.UPDATE.>"}}}
  ]
} }
"#;

fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<TcpListener> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

impl Servers {
    pub fn start(program: &Path, count: usize, has_jetstream: bool) -> Servers {
        Self::start_with(program, count, has_jetstream, None)
    }

    /// Starts one server that knows the users of [`USERS`].
    pub fn with_users(program: &Path) -> Servers {
        Self::start_with(program, 1, true, Some(USERS))
    }

    fn start_with(program: &Path, count: usize, has_jetstream: bool, users: Option<&str>) -> Servers {
        let ports = free_ports(2 * count);
        let ports = ports.chunks(2).map(|pair| (pair[0], pair[1])).collect();
        let (dir, program) = (tempfile::tempdir().unwrap(), program.to_owned());
        let config = users.map(|text| {
            let path = dir.path().join("users.conf");
            std::fs::write(&path, text).unwrap();
            path
        });
        let mut servers = Servers { program, dir, ports, running: Vec::new(), has_jetstream, config };
        for place in 0..count {
            servers.running.push(None);
            servers.begin(place);
        }
        servers
    }

    pub fn begin(&mut self, place: usize) {
        let (port, route) = self.ports[place];
        let mut command = Command::new(&self.program);
        command.args(["-a", "127.0.0.1", "-p", &port.to_string(), "-n", &format!("n{place}")]);
        if let Some(config) = &self.config {
            command.arg("-c").arg(config);
        }
        if self.has_jetstream {
            command.arg("-js").arg("-sd").arg(self.dir.path().join(format!("n{place}")));
        }
        if self.ports.len() > 1 {
            let routes: Vec<String> = self.ports.iter().map(|(_, route)| format!("nats://127.0.0.1:{route}")).collect();
            command.args(["--cluster_name", "c", "--cluster", &format!("nats://127.0.0.1:{route}")]);
            command.args(["--routes", &routes.join(",")]);
        }
        let log = std::fs::File::create(self.dir.path().join(format!("n{place}.log"))).unwrap();
        let child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        self.running[place] = Some(child);
    }

    pub fn kill(&mut self, place: usize) {
        let mut child = self.running[place].take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Connects to all of them, as masters do.
    pub async fn client(&self) -> Client {
        self.connect(ConnectOptions::new()).await
    }

    /// Connects as a user who may not change the settings of streams.
    pub async fn limited_client(&self) -> Client {
        self.connect(ConnectOptions::new().user_and_password("limited".to_owned(), "limited".to_owned())).await
    }

    async fn connect(&self, options: ConnectOptions) -> Client {
        let addresses: Vec<String> = self.ports.iter().map(|(port, _)| format!("nats://127.0.0.1:{port}")).collect();
        let options = options.retry_on_initial_connect().max_reconnects(None).no_echo();
        let options = options.reconnect_delay_callback(|_| Duration::from_millis(100));
        options.connect(addresses).await.unwrap()
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in self.running.iter_mut().flatten() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
