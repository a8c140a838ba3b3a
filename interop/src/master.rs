//! Masters: configured in a folder of the sandbox, started, commanded and inspected.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Map, Value, json};

use crate::process::{Daemon, Output, Program};
use crate::salt::Salt;
use crate::sandbox::{Sandbox, Watchman};
use crate::settings::Settings;
use crate::wait::{until, until_some};

/// The default ports. Every master has its own address instead.
pub(crate) const PUBLISH_PORT: u16 = 4505;
pub(crate) const REQUEST_PORT: u16 = 4506;

/// The time limit for daemons to come up on a busy machine.
pub(crate) const START: Duration = Duration::from_secs(120);

/// How long one ping may take while a minion is waited for.
const TRY: Duration = Duration::from_secs(30);

/// Sends the request `ping` and returns whether anything comes back within five seconds.
fn answers_over_tcp(address: Ipv4Addr) -> bool {
    // As Salt's TCP client packs it: `head` with a message id, and `body` with an unencrypted load.
    const PING: &[u8] = b"\x82\xa4head\x81\xa3mid\x01\xa4body\x82\xa3enc\xa5clear\xa4load\x81\xa3cmd\xa4ping";
    let Ok(mut stream) = TcpStream::connect(SocketAddr::from((address, REQUEST_PORT))) else { return false };
    let asked = stream.set_read_timeout(Some(Duration::from_secs(5))).and_then(|()| stream.write_all(PING));
    asked.is_ok() && stream.read(&mut [0; 64]).is_ok_and(|length| length > 0)
}

/// One of Salt's transports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// ZeroMQ, the default.
    Zeromq,
    /// Plain TCP.
    Tcp,
}

impl Transport {
    /// The value of the option `transport`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zeromq => "zeromq",
            Self::Tcp => "tcp",
        }
    }
}

/// A master about to be started.
pub struct MasterBuilder {
    salt: Salt,
    name: String,
    address: Option<Ipv4Addr>,
    transport: Transport,
    settings: Settings,
    key_pair: Option<PathBuf>,
    variables: Vec<(String, OsString)>,
}

/// A master: its folder, its address and, while it runs, its process.
pub struct Master {
    salt: Salt,
    name: String,
    address: Ipv4Addr,
    transport: Transport,
    root: PathBuf,
    watchman: Arc<Watchman>,
    daemon: Option<Daemon>,
    variables: Vec<(String, OsString)>,
}

impl Master {
    /// Begins a master of an installation; `name` becomes its folder in the sandbox.
    pub fn build(salt: &Salt, name: &str) -> MasterBuilder {
        MasterBuilder {
            salt: salt.clone(),
            name: name.to_owned(),
            address: None,
            transport: Transport::Zeromq,
            settings: Settings::default(),
            key_pair: None,
            variables: Vec::new(),
        }
    }
}

impl MasterBuilder {
    /// Chooses the transport.
    pub fn transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Sets an option of the master's configuration.
    pub fn option(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.settings.set(name, value);
        self
    }

    /// Sets a variable in the environment of the master and of its programs.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Uses the key pair (`master.pem`, `master.pub`) of a folder, as hot masters do; see [`Master::make_key_pair`].
    pub fn key_pair(mut self, dir: &Path) -> Self {
        self.key_pair = Some(dir.to_owned());
        self
    }

    /// Writes the folder without starting the daemon.
    pub fn prepare(self, sandbox: &Sandbox) -> Result<Master> {
        let root = sandbox.folder(&self.name)?;
        let address = self.address.unwrap_or_else(|| sandbox.address(&[PUBLISH_PORT, REQUEST_PORT]));
        for folder in ["conf/master.d", "srv/salt", "srv/pillar", "pki", "cache", "run"] {
            sandbox.folder(&format!("{}/{folder}", self.name))?;
        }
        let mut settings = defaults(&root, address, self.transport);
        settings.extend(&self.settings);
        settings.write(&root.join("conf/master"))?;
        // Every master serves the same pillar, so that minions of several masters can be compared without further
        // setup.
        fs::write(root.join("srv/pillar/top.sls"), "base:\n  '*':\n    - common\n")
            .context("failed to write top.sls")?;
        let pillar = "colour: green\nnested:\n  list: [1, two, 3.5]\n  text: 'grüße'\n";
        fs::write(root.join("srv/pillar/common.sls"), pillar).context("failed to write common.sls")?;
        if let Some(pair) = &self.key_pair {
            copy_pair(pair, &root.join("pki"))?;
        }
        let watchman = sandbox.watchman();
        Ok(Master {
            salt: self.salt,
            name: self.name,
            address,
            transport: self.transport,
            root,
            watchman,
            daemon: None,
            variables: self.variables,
        })
    }

    /// Starts the master and waits until its ports and its event socket are open.
    pub fn start(self, sandbox: &Sandbox) -> Result<Master> {
        let mut master = self.prepare(sandbox)?;
        master.launch(sandbox)?;
        master.wait_ready()?;
        Ok(master)
    }
}

impl Master {
    /// Makes a master key pair with an installation's `salt-key`, for masters that share one.
    pub fn make_key_pair(salt: &Salt, sandbox: &Sandbox) -> Result<PathBuf> {
        let dir = sandbox.folder(&format!("pair-{:08x}", rand::random::<u32>()))?;
        let conf = sandbox.folder("pair-conf")?;
        let settings = defaults(&conf, Ipv4Addr::LOCALHOST, Transport::Zeromq);
        settings.write(&conf.join("master"))?;
        let program = Program::new(sandbox, &salt.program("salt-key"));
        let output =
            program.arg_dir("-c", &conf).args(["--gen-keys=master", "--gen-keys-dir"]).args([&dir]).run()?.ok()?;
        ensure!(dir.join("master.pem").exists(), "expected a master.pem from {output}");
        Ok(dir)
    }

    /// Starts the daemon, which must not run.
    pub fn launch(&mut self, sandbox: &Sandbox) -> Result<()> {
        let program = self.with_variables(Program::new(sandbox, &self.salt.program("salt-master")));
        self.daemon = Some(program.arg_dir("-c", &self.conf()).start(&self.root.join("master.out"))?);
        Ok(())
    }

    /// Waits until ports and event socket accept connections, and over tcp until a request is answered: the real master's port is
    /// open long before its workers are there, and those who come too early keep them busy.
    pub fn wait_ready(&mut self) -> Result<()> {
        let (address, socket) = (self.address, self.event_socket());
        let name = self.name.clone();
        until(&format!("the master {name} to be ready on {address}"), START, || {
            let open = |port| {
                TcpStream::connect_timeout(&SocketAddr::from((address, port)), Duration::from_millis(200)).is_ok()
            };
            open(PUBLISH_PORT)
                && open(REQUEST_PORT)
                // Clients fail until the event socket of a master exists.
                && std::os::unix::net::UnixStream::connect(&socket).is_ok()
                && (self.transport == Transport::Zeromq || answers_over_tcp(address))
        })
        .with_context(|| format!("the master said: {}", self.printed()))
    }

    /// Its installation.
    pub fn salt(&self) -> &Salt {
        &self.salt
    }

    /// Its name in the sandbox.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address it listens on.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Its transport.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Its folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Its configuration folder, for `-c`.
    pub fn conf(&self) -> PathBuf {
        self.root.join("conf")
    }

    /// Its key folder.
    pub fn pki(&self) -> PathBuf {
        self.root.join("pki")
    }

    /// Its cache folder.
    pub fn cache(&self) -> PathBuf {
        self.root.join("cache")
    }

    /// Returns the path of its event socket.
    pub fn event_socket(&self) -> PathBuf {
        self.root.join("run/master_event_pub.ipc")
    }

    /// Returns the text of its log.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.root.join("master.log")).unwrap_or_default()).into_owned()
    }

    /// Returns what it printed.
    pub fn printed(&self) -> String {
        self.daemon.as_ref().map_or_else(String::new, Daemon::printed)
    }

    /// Its running process.
    pub fn daemon(&mut self) -> Result<&mut Daemon> {
        self.daemon.as_mut().with_context(|| format!("the master {} was not started", self.name))
    }

    /// Writes a file into its file roots.
    pub fn serve(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.root.join("srv/salt").join(name);
        fs::write(&path, bytes).with_context(|| format!("failed to write {}", path.display()))
    }

    /// Prepares a program of its own installation on this master's configuration.
    pub fn program(&self, name: &str) -> Program {
        self.program_of(&self.salt, name)
    }

    /// Prepares another installation's program on this master's configuration.
    pub fn program_of(&self, salt: &Salt, name: &str) -> Program {
        let program = Program::watched(Arc::clone(&self.watchman), &salt.program(name));
        self.with_variables(program).arg_dir("-c", &self.conf())
    }

    fn with_variables(&self, program: Program) -> Program {
        self.variables.iter().fold(program, |program, (name, value)| program.env(name, value))
    }

    /// Runs a Python script from this crate's `py` folder with the real Salt of an installation importable.
    ///
    /// Its first argument is the path of this master's configuration file.
    pub fn python(&self, salt: &Salt, script: &str, args: &[&str]) -> Result<Output> {
        self.python_program(salt, script, args)?.run()
    }

    /// Like [`Master::python`], to be started by the caller.
    pub fn python_program(&self, salt: &Salt, script: &str, args: &[&str]) -> Result<Program> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("py").join(script);
        let program = Program::watched(Arc::clone(&self.watchman), &salt.python()?);
        Ok(program.args([&path, &self.conf().join("master")]).args(args))
    }

    /// Runs `salt` with arguments.
    pub fn salt_run(&self, args: &[&str]) -> Result<Output> {
        self.program("salt").args(args).run()
    }

    /// Runs `salt … --out=json --static` and gives the map from minion id to return.
    pub fn command(&self, args: &[&str]) -> Result<Map<String, Value>> {
        let output = self.program("salt").args(["--out=json", "--static"]).args(args).run()?;
        match output.json()? {
            Value::Object(map) => Ok(map),
            other => anyhow::bail!("expected a map, not {other}, from {output}"),
        }
    }

    /// Runs a function on one minion and gives its return.
    pub fn ask(&self, minion: &str, call: &[&str]) -> Result<Value> {
        let mut args = vec![minion];
        args.extend(call);
        let mut map = self.command(&args)?;
        map.remove(minion).with_context(|| format!("no return of {minion} for {call:?}: {map:?}"))
    }

    /// Sends a job with `--async` and gives its jid.
    pub fn send(&self, args: &[&str]) -> Result<String> {
        let output = self.program("salt").args(["--async"]).args(args).run()?.ok()?;
        let jid = output.stdout.split_whitespace().last().unwrap_or_default().to_owned();
        let digits = jid.len() >= 20 && jid.bytes().all(|byte| byte.is_ascii_digit());
        ensure!(digits, "expected a jid at the end of {output}");
        Ok(jid)
    }

    /// Runs a runner with `--out=json` and gives its return.
    pub fn runner(&self, args: &[&str]) -> Result<Value> {
        self.program("salt-run").args(["--out=json"]).args(args).run()?.json()
    }

    /// Waits until the key of a minion is pending.
    pub fn wait_pending(&self, id: &str) -> Result<()> {
        let path = self.pki().join("minions_pre").join(id);
        until(&format!("the key of {id} to be pending on {}", self.name), START, || path.exists())
    }

    /// Waits until the keys are pending and accepts them all with `salt-key -A`.
    pub fn accept(&self, ids: &[&str]) -> Result<Output> {
        ids.iter().try_for_each(|id| self.wait_pending(id))?;
        let output = self.program("salt-key").args(["-A", "-y"]).run()?.ok()?;
        for id in ids {
            ensure!(self.pki().join("minions").join(id).exists(), "the key of {id} is not accepted after {output}");
        }
        Ok(output)
    }

    /// Waits until all the minions answer `test.ping`.
    pub fn wait_answering(&self, ids: &[&str]) -> Result<()> {
        let list = ids.join(",");
        let mut last = String::new();
        // Retried: a real minion that was just accepted waits for its next attempt to sign in.
        let answering = until_some(&format!("{list} to answer {}", self.name), START, || {
            let ping = self.program("salt").args(["-L", &list, "-t", "3", "--out=json", "--static", "test.ping"]);
            // The real salt sometimes waits for ever for a master that has just started.
            let output = ping.limit(TRY).run();
            let output = output.map_err(|error| last = format!("{error:#}")).ok()?;
            last = output.to_string();
            let map = output.json().ok()?;
            ids.iter().all(|id| map.get(id) == Some(&json!(true))).then_some(())
        });
        answering.with_context(|| format!("the last try was {last}"))
    }
}

impl Program {
    /// Adds a flag with a folder.
    pub fn arg_dir(self, flag: &str, dir: &Path) -> Self {
        self.args([flag.as_ref(), dir.as_os_str()])
    }
}

fn copy_pair(from: &Path, to: &Path) -> Result<()> {
    for name in ["master.pem", "master.pub"] {
        fs::copy(from.join(name), to.join(name))
            .with_context(|| format!("failed to copy {name} to {}", to.display()))?;
    }
    Ok(())
}

fn defaults(root: &Path, address: Ipv4Addr, transport: Transport) -> Settings {
    let mut settings = Settings::default();
    let path = |name: &str| root.join(name).display().to_string();
    settings.set("root_dir", path("")).set("user", user());
    // The standard ports on a separate address: minions need no port options, and several masters fit on one machine.
    settings.set("interface", address.to_string()).set("publish_port", PUBLISH_PORT).set("ret_port", REQUEST_PORT);
    settings.set("transport", transport.name());
    settings.set("pki_dir", path("pki")).set("cachedir", path("cache")).set("sock_dir", path("run"));
    settings.set("pidfile", path("run/salt-master.pid"));
    settings.set("log_file", path("master.log")).set("log_level_logfile", "info").set("key_logfile", path("key.log"));
    settings.set("file_roots", json!({"base": [path("srv/salt")]}));
    settings.set("pillar_roots", json!({"base": [path("srv/pillar")]}));
    // Few processes and short intervals. The long timeouts keep a busy machine from looking like a lost return.
    settings.set("worker_threads", 2).set("loop_interval", 1).set("timeout", 10).set("gather_job_timeout", 10);
    settings
}

/// Name of the user the test runs as; daemons must not try to become another.
pub(crate) fn user() -> String {
    let uid = nix::unistd::getuid();
    nix::unistd::User::from_uid(uid).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name)
}
