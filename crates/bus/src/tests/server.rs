//! A real server, if there is one.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use peers::testing::nats_server_or_skip;

/// A running server.
pub struct Server {
    program: PathBuf,
    pub port: u16,
    child: Child,
}

impl Server {
    /// Starts a server that wants a token; `None` if none is installed.
    pub fn start(token: &str) -> Option<Server> {
        Server::with(&["--auth", token])
    }

    /// Starts a server with these arguments.
    pub fn with(args: &[&str]) -> Option<Server> {
        let program = nats_server_or_skip()?;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let child = begin(&program, port, args);
        Some(Server { program, port, child })
    }

    /// Kills the server.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again.
    pub fn begin(&mut self, token: &str) {
        self.child = begin(&self.program, self.port, &["--auth", token]);
    }
}

fn begin(program: &PathBuf, port: u16, args: &[&str]) -> Child {
    let mut command = Command::new(program);
    command.args(["-a", "127.0.0.1", "-p", &port.to_string()]).args(args);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
