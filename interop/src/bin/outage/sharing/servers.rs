//! NATS servers, one on the host of each master: the bus over which the masters of a set share.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};
use serde_json::json;

use crate::cluster::MASTERS;
use crate::config::{BUS_PORT, Carrier};
use crate::lab::{Host, Lab};

/// The port by which servers know each other.
const ROUTES: u16 = 6222;

/// One cluster of servers.
pub struct Servers<'a> {
    lab: &'a Lab,
    hosts: Vec<Host>,
    program: PathBuf,
    root: PathBuf,
    running: Vec<Option<Child>>,
}

impl<'a> Servers<'a> {
    /// Writes the configuration of each server.
    pub fn prepare(lab: &'a Lab, hosts: &[Host], carrier: Carrier, root: &Path) -> Result<Self> {
        let program = interop::nats_server().context("there is no nats-server: set SALTERN_NATS_SERVER to its path")?;
        let root = root.join("nats");
        let routes: Vec<_> = hosts.iter().map(|host| format!("nats://{}:{ROUTES}", host.name)).collect();
        for host in hosts {
            let folder = root.join(&host.name);
            fs::create_dir_all(&folder).with_context(|| format!("failed to make {}", folder.display()))?;
            let mut settings = json!({
                "server_name": host.name,
                "listen": format!("0.0.0.0:{BUS_PORT}"),
                "cluster": {"name": "outage", "listen": format!("0.0.0.0:{ROUTES}"), "routes": routes},
                // By default a server takes minutes to notice that another one's packets vanish.
                "ping_interval": "1s",
                "ping_max": 2,
            });
            if carrier == Carrier::JetStream {
                settings["jetstream"] = json!({"store_dir": folder.join("store"), "sync_interval": "always"});
            }
            // Its configuration may be JSON.
            fs::write(folder.join("conf"), settings.to_string()).context("failed to write a configuration")?;
        }
        let running = hosts.iter().map(|_| None).collect();
        Ok(Servers { lab, hosts: hosts.to_vec(), program, root, running })
    }

    /// Starts a server.
    pub fn launch(&mut self, at: usize) -> Result<()> {
        let folder = self.root.join(&self.hosts[at].name);
        let log = fs::OpenOptions::new().create(true).append(true).open(folder.join("log"))?;
        let mut command: Command = self.lab.command(&self.hosts[at], &self.program);
        command.arg("-c").arg(folder.join("conf")).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.running[at] = Some(command.spawn().context("failed to start nats-server")?);
        Ok(())
    }

    /// Kills a server.
    pub fn kill(&mut self, at: usize) -> Result<()> {
        let mut child = self.running[at].take().context("not started")?;
        child.kill().and_then(|()| child.wait()).context("failed to kill nats-server")?;
        Ok(())
    }

    /// Starts all servers.
    pub fn start(&mut self) -> Result<()> {
        (0..MASTERS).try_for_each(|at| self.launch(at))
    }
}

impl Drop for Servers<'_> {
    fn drop(&mut self) {
        for child in self.running.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
