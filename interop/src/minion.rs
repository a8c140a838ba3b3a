//! Minions: configured for one or more masters, started and inspected.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::master::{Master, REQUEST_PORT, Transport, user};
use crate::process::{Daemon, Program};
use crate::salt::Salt;
use crate::sandbox::{Sandbox, Watchman};
use crate::settings::Settings;

/// A minion about to be started.
pub struct MinionBuilder {
    salt: Salt,
    id: String,
    masters: Vec<String>,
    transport: Transport,
    settings: Settings,
}

/// A minion: its folder and, while it runs, its process.
pub struct Minion {
    salt: Salt,
    id: String,
    root: PathBuf,
    watchman: Arc<Watchman>,
    daemon: Option<Daemon>,
}

impl Minion {
    /// Begins a minion of an installation; the id is also its folder in the sandbox.
    pub fn build(salt: &Salt, id: &str) -> MinionBuilder {
        MinionBuilder {
            salt: salt.clone(),
            id: id.to_owned(),
            masters: Vec::new(),
            transport: Transport::Zeromq,
            settings: Settings::default(),
        }
    }
}

impl MinionBuilder {
    /// Adds a master. A minion of several connects to all of them at once.
    pub fn master(mut self, master: &Master) -> Self {
        self.masters.push(format!("{}:{REQUEST_PORT}", master.address()));
        self.transport = master.transport();
        self
    }

    /// Adds several masters.
    pub fn masters<'a>(self, masters: impl IntoIterator<Item = &'a Master>) -> Self {
        masters.into_iter().fold(self, Self::master)
    }

    /// Sets an option of the minion's configuration.
    pub fn option(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.settings.set(name, value);
        self
    }

    /// Writes the folder without starting the daemon.
    pub fn prepare(self, sandbox: &Sandbox) -> Result<Minion> {
        let root = sandbox.folder(&self.id)?;
        for folder in ["conf/minion.d", "pki", "cache", "run"] {
            sandbox.folder(&format!("{}/{folder}", self.id))?;
        }
        let mut settings = defaults(&root, &self);
        settings.extend(&self.settings);
        settings.write(&root.join("conf/minion"))?;
        Ok(Minion { salt: self.salt, id: self.id, root, watchman: sandbox.watchman(), daemon: None })
    }

    /// Starts the minion without waiting for a connection to a master.
    pub fn start(self, sandbox: &Sandbox) -> Result<Minion> {
        let mut minion = self.prepare(sandbox)?;
        minion.launch(sandbox)?;
        Ok(minion)
    }
}

impl Minion {
    /// Starts the daemon, which must not run.
    pub fn launch(&mut self, sandbox: &Sandbox) -> Result<()> {
        let program = Program::new(sandbox, &self.salt.program("salt-minion")).arg_dir("-c", &self.conf());
        self.daemon = Some(program.start(&self.root.join("minion.out"))?);
        Ok(())
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its installation.
    pub fn salt(&self) -> &Salt {
        &self.salt
    }

    /// Its folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Its configuration folder, for `-c`.
    pub fn conf(&self) -> PathBuf {
        self.root.join("conf")
    }

    /// Its log file's text.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.root.join("minion.log")).unwrap_or_default()).into_owned()
    }

    /// Its running process.
    pub fn daemon(&mut self) -> Result<&mut Daemon> {
        self.daemon.as_mut().with_context(|| format!("the minion {} was not started", self.id))
    }

    /// Prepares one of its installation's programs (`salt-call`) on this minion's configuration.
    pub fn program(&self, name: &str) -> Program {
        Program::watched(Arc::clone(&self.watchman), &self.salt.program(name)).arg_dir("-c", &self.conf())
    }
}

fn defaults(root: &Path, minion: &MinionBuilder) -> Settings {
    let mut settings = Settings::default();
    let path = |name: &str| root.join(name).display().to_string();
    settings.set("id", minion.id.clone()).set("root_dir", path("")).set("user", user());
    match minion.masters.as_slice() {
        [one] => settings.set("master", one.clone()),
        several => settings.set("master", several.to_vec()),
    };
    settings.set("transport", minion.transport.name());
    settings.set("pki_dir", path("pki")).set("cachedir", path("cache")).set("sock_dir", path("run"));
    settings.set("pidfile", path("run/salt-minion.pid")).set("conf_file", path("conf/minion"));
    settings.set("log_file", path("minion.log")).set("log_level_logfile", "info");
    // Salt's defaults spread retries over many seconds to protect a master of thousands; tests would wait for nothing.
    settings.set("acceptance_wait_time", 1).set("random_reauth_delay", 0).set("auth_timeout", 10);
    settings.set("recon_default", 100).set("recon_max", 500).set("recon_randomize", false);
    settings.set("return_retry_timer", 1).set("return_retry_timer_max", 2);
    // By default 3008 hides pillar values in its output.
    settings.set("pillar_mask_output", false);
    // Gathering these slows every start down (the FQDN grains ask a name server), and no test reads them.
    settings.set("mine_enabled", false).set("enable_gpu_grains", false).set("enable_fqdns_grains", false);
    settings
}
