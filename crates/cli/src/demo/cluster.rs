//! The demonstration's masters and minions, as processes.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The addresses of the two masters.
pub const MASTERS: [&str; 2] = ["127.0.0.1", "127.0.0.2"];
/// The ids of the minions that follow both masters.
pub const MINIONS: [&str; 3] = ["web1", "web2", "db1"];
/// The id of the minion that follows the second master only.
pub const FAR: &str = "far1";

/// The defaults of `publish_port` and `cluster_pool_port`.
const PUBLISH_PORT: u16 = 4505;
const POOL_PORT: u16 = 4520;

/// The time a daemon gets to end before it is killed.
const ENDING: Duration = Duration::from_secs(10);

/// The user interrupted the demonstration.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// The timeout of every wait in the demonstration.
const PATIENCE: Duration = Duration::from_secs(30);

/// Two masters and their minions in a separate directory.
pub struct Cluster {
    dir: PathBuf,
    keep_dir: bool,
    ports: Ports,
    masters: [Option<Child>; 2],
    minions: [Option<Child>; 3],
    far: Option<Child>,
    color: bool,
    interrupted: Arc<AtomicBool>,
}

#[derive(Clone, Copy)]
struct Ports {
    publish: u16,
    ret: u16,
    /// For the other masters of a set.
    pool: u16,
}

impl Cluster {
    /// Creates the directory with all configuration; nothing runs yet. Every wait ends once `interrupted` is set.
    pub fn lay_out(dir: Option<PathBuf>, color: bool, interrupted: Arc<AtomicBool>) -> Result<Self> {
        let keep_dir = dir.is_some();
        let dir = dir.unwrap_or_else(|| std::env::temp_dir().join(format!("saltern-demo-{}", std::process::id())));
        fs::create_dir(&dir).with_context(|| format!("failed to create {}", dir.display()))?;
        let ports = free_ports()?;
        let (masters, minions) = ([None, None], [None, None, None]);
        let cluster = Cluster { dir, keep_dir, ports, masters, minions, far: None, color, interrupted };
        // Daemons and commands are found by their names, like after an installation.
        cluster.link_names()?;
        for number in 0..MASTERS.len() {
            cluster.write_master(number)?;
        }
        for id in MINIONS {
            cluster.write_minion(id, &MASTERS)?;
        }
        cluster.write_minion(FAR, &MASTERS[1..])?;
        Ok(cluster)
    }

    /// Returns the directory of the demonstration.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the directory with the programs' names.
    pub fn bin(&self) -> PathBuf {
        self.dir.join("bin")
    }

    /// Returns the configuration directory of a master.
    pub fn master_dir(&self, number: usize) -> PathBuf {
        self.dir.join(format!("master{}", number + 1))
    }

    /// Returns the configuration directory of a minion.
    pub fn minion_dir(&self, id: &str) -> PathBuf {
        self.dir.join(id)
    }

    /// Starts a master and waits until it accepts requests.
    pub fn start_master(&mut self, number: usize) -> Result<()> {
        let child = self.spawn("salt-master", &self.master_dir(number), "master")?;
        self.masters[number] = Some(child);
        let address: SocketAddr = format!("{}:{}", MASTERS[number], self.ports.ret).parse()?;
        self.wait_for(&format!("the master on {address} to listen"), || {
            Ok(std::net::TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok())
        })
    }

    /// Starts all minions.
    pub fn start_minions(&mut self) -> Result<()> {
        (0..MINIONS.len()).try_for_each(|number| self.start_minion(number))
    }

    /// Starts one minion.
    pub fn start_minion(&mut self, number: usize) -> Result<()> {
        self.minions[number] = Some(self.spawn("salt-minion", &self.minion_dir(MINIONS[number]), "minion")?);
        Ok(())
    }

    /// Starts the minion that follows the second master only.
    pub fn start_far_minion(&mut self) -> Result<()> {
        self.far = Some(self.spawn("salt-minion", &self.minion_dir(FAR), "minion")?);
        Ok(())
    }

    /// Makes the masters a set, once each has been restarted. Their common key pair is the proof. Returns the new options.
    pub fn share(&self) -> Result<String> {
        let mut options = format!("cluster_id: demo\ncluster_peers: [{}]\n", MASTERS.join(", "));
        if self.ports.pool != POOL_PORT {
            options += &format!("cluster_pool_port: {}\n", self.ports.pool);
        }
        for number in 0..MASTERS.len() {
            let folder = self.master_dir(number).join("master.d");
            fs::create_dir_all(&folder)?;
            fs::write(folder.join("share.conf"), &options)?;
        }
        Ok(options)
    }

    /// Stops a master as `systemctl stop` does.
    pub fn stop_master(&mut self, number: usize) -> Result<()> {
        end(&mut [self.masters[number].take().context("this master does not run")?]);
        Ok(())
    }

    /// Kills a minion as a power failure would.
    pub fn kill_minion(&mut self, number: usize) -> Result<u32> {
        kill_now(self.minions[number].take().context("this minion does not run")?)
    }

    /// Kills a master as a power failure would.
    pub fn kill_master(&mut self, number: usize) -> Result<u32> {
        kill_now(self.masters[number].take().context("this master does not run")?)
    }

    /// Gives the second master the key pair of the first, as the hot multi-master tutorial does.
    pub fn copy_master_key(&self) -> Result<()> {
        let pki = |number| self.master_dir(number).join("pki/master");
        fs::create_dir_all(pki(1))?;
        for file in ["master.pem", "master.pub"] {
            fs::copy(pki(0).join(file), pki(1).join(file)).with_context(|| format!("failed to copy {file}"))?;
        }
        Ok(())
    }

    /// Runs one of the programs and returns what it printed.
    pub fn run(&self, program: &str, config: &Path, args: &[&str]) -> Result<Output> {
        self.command(program, config, args).output().with_context(|| format!("failed to run {program}"))
    }

    /// Starts one of the programs; its output can be read.
    pub fn start(&self, program: &str, config: &Path, args: &[&str]) -> Result<Child> {
        let mut command = self.command(program, config, args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().with_context(|| format!("failed to run {program}"))
    }

    fn command(&self, program: &str, config: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(self.bin().join(program));
        command.arg("-c").arg(config).args(args).stdin(Stdio::null());
        if self.color {
            command.arg("--force-color");
        }
        command
    }

    /// Waits for a condition. After the timeout the error names the condition.
    pub fn wait_for(&self, what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while !holds()? {
            self.go_on()?;
            if Instant::now() > end {
                bail!("waited {} s for {what}", PATIENCE.as_secs());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Keeps the directory with its logs when everything is stopped, and returns it.
    pub fn keep_logs(&mut self) -> &Path {
        self.keep_dir = true;
        &self.dir
    }

    /// Returns whether to continue.
    ///
    /// # Errors
    /// When the demonstration was asked to end.
    pub fn go_on(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) { Err(Interrupted.into()) } else { Ok(()) }
    }

    /// Ends the minions first, so that none looks for its masters.
    fn stop_all(&mut self) {
        let minions = self.minions.iter_mut().chain([&mut self.far]);
        let mut running: Vec<Child> = minions.chain(&mut self.masters).filter_map(Option::take).collect();
        end(&mut running);
    }

    fn link_names(&self) -> Result<()> {
        let program = std::env::current_exe().context("failed to find the running program")?;
        fs::create_dir(self.bin())?;
        for name in ["salt", "salt-key", "salt-call", "salt-run", "salt-cp", "salt-master", "salt-minion"] {
            std::os::unix::fs::symlink(&program, self.bin().join(name))?;
        }
        Ok(())
    }

    fn write_master(&self, number: usize) -> Result<()> {
        let dir = self.master_dir(number);
        // Without these, the masters would log errors about missing roots.
        fs::create_dir_all(dir.join("srv/salt"))?;
        fs::create_dir_all(dir.join("srv/pillar"))?;
        let text = format!(
            "id: master{}\ninterface: {}\nroot_dir: {root}\npki_dir: /pki/master\ncachedir: /cache/master\nsock_dir: /run/master\n\
             pidfile: /run/master.pid\nlog_file: /log/master\nuser: {user}\npublish_port: {}\nret_port: {}\n\
             file_roots:\n  base: [{root}/srv/salt]\npillar_roots:\n  base: [{root}/srv/pillar]\n",
            number + 1,
            MASTERS[number],
            self.ports.publish,
            self.ports.ret,
            root = dir.display(),
            user = user_name(),
        );
        let srv = dir.join("srv/salt");
        fs::write(srv.join("motd.txt"), "Several masters, one sea. This is {{ grains.id }}.\n")?;
        fs::write(srv.join("top.sls"), "base:\n  '*':\n    - motd\n")?;
        fs::write(srv.join("motd.sls"), motd(&self.dir))?;
        fs::write(dir.join("srv/pillar/top.sls"), "base:\n  'web*':\n    - web\n")?;
        fs::write(dir.join("srv/pillar/web.sls"), "role: web server\n")?;
        fs::write(dir.join("master"), text)?;
        Ok(())
    }

    fn write_minion(&self, id: &str, masters: &[&str]) -> Result<()> {
        let dir = self.minion_dir(id);
        fs::create_dir_all(&dir)?;
        let masters: Vec<String> = masters.iter().map(|host| format!("  - {host}:{}\n", self.ports.ret)).collect();
        let text = format!(
            "id: {id}\nmaster:\n{}root_dir: {root}\npki_dir: /pki/minion\ncachedir: /cache/minion\n\
             sock_dir: /run/minion\npidfile: /run/minion.pid\nlog_file: /log/minion\nuser: {user}\n\
             recon_max: 1000\n",
            masters.concat(),
            root = dir.display(),
            user = user_name(),
        );
        fs::write(dir.join("minion"), text)?;
        Ok(())
    }

    fn spawn(&self, program: &str, config: &Path, log: &str) -> Result<Child> {
        let output = fs::File::create(config.join(format!("{log}.out")))?;
        let mut command = Command::new(self.bin().join(program));
        command.arg("-c").arg(config).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        // Ctrl-C ends the demonstration, which then ends the daemons in order.
        command.process_group(0);
        command.spawn().with_context(|| format!("failed to start {program}"))
    }
}

/// Stops everything, and removes the directory unless the command line named it, however the demonstration ends.
impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop_all();
        if self.keep_dir {
            return;
        }
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            rt::complain!("saltern demo: failed to remove {}: {error}", self.dir.display());
        }
    }
}

/// Ends daemons together, in order, and kills those that take too long.
fn end(running: &mut [Child]) {
    for child in running.iter() {
        // A daemon that has ended already needs no signal.
        let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
    }
    let end = Instant::now() + ENDING;
    for child in running {
        while matches!(child.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = child.kill();
        // Collected, or a killed child would stay as a zombie until this program ends.
        let _ = child.wait();
    }
}

fn kill_now(mut child: Child) -> Result<u32> {
    let pid = child.id();
    child.kill()?;
    child.wait()?;
    Ok(pid)
}

/// Returns the states of the highstate: a directory, and a file in it, below the minion's directory.
fn motd(dir: &Path) -> String {
    let dir = dir.display();
    format!(
        "{dir}/{{{{ grains.id }}}}/etc:\n  file.directory\n\n\
         motd:\n  file.managed:\n    - name: {dir}/{{{{ grains.id }}}}/etc/motd\n    - source: salt://motd.txt\n    \
         - template: jinja\n    - require:\n      - file: {dir}/{{{{ grains.id }}}}/etc\n"
    )
}

/// Returns the end of a file, to print a log.
pub fn tail(path: &Path, bytes: u64) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = fs::File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(bytes)))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    };
    read().unwrap_or_default()
}

/// Returns the user that the daemons run as: the one who runs the demonstration.
fn user_name() -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten();
    user.map_or_else(|| "root".to_owned(), |user| user.name)
}

/// Finds three ports that are free on both addresses. Salt's own are tried first.
fn free_ports() -> Result<Ports> {
    let free = |port: u16| MASTERS.iter().all(|host| TcpListener::bind((*host, port)).is_ok());
    let all = |publish: u16| Ports { publish, ret: publish + 1, pool: publish + POOL_PORT - PUBLISH_PORT };
    (PUBLISH_PORT..65000)
        .step_by(1000)
        .map(all)
        .find(|ports| [ports.publish, ports.ret, ports.pool].into_iter().all(free))
        .context("found no three free ports on 127.0.0.1 and 127.0.0.2")
}
