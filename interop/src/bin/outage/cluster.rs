//! Three masters and ten minions of one installation, each on its own host.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use interop::{Salt, Transport, until};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::config::{self, Carrier, Shape};
use crate::lab::{Host, Lab};
use crate::sharing::Servers;

/// The number of masters.
pub const MASTERS: usize = 3;
/// The number of minions.
pub const MINIONS: usize = 10;

/// A target that means the ten minions, and no other keys.
const EVERY: &str = "n*";

/// The time limit for the start of all daemons.
const START: Duration = Duration::from_secs(240);

/// The role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Master,
    Minion,
}

/// A daemon on its host.
pub struct Node {
    pub host: Host,
    pub root: PathBuf,
    /// Its programs, which an upgrade replaces.
    pub salt: Salt,
    child: Option<Child>,
}

/// All nodes.
pub struct Cluster<'a> {
    pub lab: &'a Lab,
    pub shape: Shape,
    pub masters: Vec<Node>,
    pub minions: Vec<Node>,
    /// Those of the bus, if the masters share over one.
    pub servers: Option<Servers<'a>>,
    /// A library that shifts the clock of the first master, if there is one.
    clock: Option<PathBuf>,
}

/// A job that a master accepted.
pub struct Job {
    pub master: usize,
    pub jid: String,
}

impl<'a> Cluster<'a> {
    /// Writes the configurations and the keys, and mounts the caches.
    pub fn prepare(
        lab: &'a Lab,
        hosts: &[Host],
        salt: &Salt,
        transport: Transport,
        shape: Shape,
        root: &Path,
    ) -> Result<Self> {
        let node = |host: &Host| -> Result<Node> {
            let root = root.join(&host.name);
            for folder in ["conf", "pki", "cache", "run", "srv/salt", "srv/pillar"] {
                fs::create_dir_all(root.join(folder)).with_context(|| format!("failed to make {folder}"))?;
            }
            mount(&root.join("cache"))?;
            Ok(Node { host: host.clone(), root, salt: salt.clone(), child: None })
        };
        let (first, rest) = hosts.split_at(MASTERS);
        let masters = first.iter().map(&node).collect::<Result<Vec<_>>>()?;
        let minions = rest.iter().map(&node).collect::<Result<Vec<_>>>()?;
        let servers = match shape {
            Shape::Set { carrier, .. } if carrier != Carrier::Links => {
                Some(Servers::prepare(lab, first, carrier, root)?)
            }
            Shape::Hot | Shape::Set { .. } => None,
        };
        // With the library, masters of a cluster of Salt cannot sleep, and end when they start.
        let clock = find_clock().filter(|_| shape == Shape::Hot || salt.is_ours());
        let cluster = Cluster { lab, shape, masters, minions, servers, clock };
        for number in 0..MASTERS {
            config::master(&cluster.masters, number, transport, shape)?;
        }
        for (number, node) in cluster.minions.iter().enumerate() {
            config::minion(node, number, transport, &first[..shape.serving()], shape)?;
        }
        if let (Shape::Set { .. }, false) = (shape, salt.is_ours()) {
            // The members of a cluster of Salt have keys of their own, and one file system.
            for folder in ["shared/pki", "shared/cache"] {
                fs::create_dir_all(root.join(folder)).with_context(|| format!("failed to make {folder}"))?;
            }
            return Ok(cluster);
        }
        let pair = root.join("pair");
        fs::create_dir_all(&pair)?;
        let mut keygen = Command::new(salt.program("salt-key"));
        keygen.arg("-c").arg(cluster.masters[0].conf()).arg("--gen-keys=master").arg("--gen-keys-dir").arg(&pair);
        // 3008.5 makes the pair, and fails only when it prints its fingerprint.
        keygen.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        ensure!(pair.join("master.pub").exists(), "salt-key made no key pair");
        for node in &cluster.masters {
            for name in ["master.pem", "master.pub"] {
                fs::copy(pair.join(name), node.root.join("pki").join(name))?;
            }
        }
        Ok(cluster)
    }

    /// Starts everything and waits until all minions answer every master.
    pub fn start(&mut self) -> Result<()> {
        self.servers.iter_mut().try_for_each(Servers::start)?;
        for at in 0..MASTERS {
            self.launch(Role::Master, at)?;
        }
        for at in 0..MINIONS {
            self.launch(Role::Minion, at)?;
        }
        for at in 0..self.shape.serving() {
            self.all_answer(at, START).with_context(|| format!("{} at the start", self.masters[at].host.name))?;
        }
        Ok(())
    }

    /// Starts one daemon.
    pub fn launch(&mut self, role: Role, at: usize) -> Result<()> {
        let lab = self.lab;
        let shifted = self.clock.clone().filter(|_| role == Role::Master && at == 0);
        let node = self.node(role, at);
        let program = if role == Role::Master { "salt-master" } else { "salt-minion" };
        let output = fs::OpenOptions::new().create(true).append(true).open(node.root.join("out"))?;
        let mut command = lab.command(&node.host, &node.salt.program(program));
        // Jobs find the directory of their minion by this variable.
        command.arg("-c").arg(node.conf()).env("LAB_ROOT", &node.root);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        if let Some(library) = shifted {
            command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", node.root.join("clock"));
            // The shift is read each time, so that it can change while the daemon runs. The monotonic clock stays:
            // setting the time of a host does not move it either.
            command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
            fs::write(node.root.join("clock"), "+0")?;
        }
        // A separate process group: a real master is many processes, and all must stop or die at the same moment.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        node.child = Some(command.spawn().with_context(|| format!("failed to start {program}"))?);
        Ok(())
    }

    fn node(&mut self, role: Role, at: usize) -> &mut Node {
        match role {
            Role::Master => &mut self.masters[at],
            Role::Minion => &mut self.minions[at],
        }
    }

    /// Returns whether a clock can be moved on this machine.
    pub fn has_clock(&self) -> bool {
        self.clock.is_some()
    }

    /// Runs one of the programs on a master's host.
    pub fn program(&self, at: usize, name: &str, args: &[&str]) -> Result<String> {
        let node = &self.masters[at];
        let mut command = self.lab.command(&node.host, &node.salt.program(name));
        let output = command.arg("-c").arg(node.conf()).args(args).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Enlarges the masters' disks for thousands of jobs.
    pub fn make_room(&self) -> Result<()> {
        self.masters.iter().try_for_each(|node| enlarge(&node.root.join("cache")))
    }

    /// Returns how many minions answer a `test.ping` of a master.
    pub fn answering(&self, at: usize, timeout: u32) -> Result<usize> {
        let timeout = timeout.to_string();
        let text = self.program(at, "salt", &["--out=json", "--static", "-t", &timeout, EVERY, "test.ping"])?;
        let answers: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        Ok(answers.as_object().map_or(0, |map| map.values().filter(|value| **value == json!(true)).count()))
    }

    /// Waits until all minions answer a master, and returns how long it took.
    pub fn all_answer(&self, at: usize, limit: Duration) -> Result<Duration> {
        let begun = Instant::now();
        let mut last = 0;
        loop {
            let asked = Instant::now();
            last = self.answering(at, 5).map(|count| last.max(count))?;
            // Once more, because `last` is a maximum over several attempts and minions may have gone since then.
            if last == MINIONS && self.answered_now(at)? {
                // Two commands have succeeded. Together they count at most the timeout of one, since the second only
                // confirms.
                return Ok(asked.duration_since(begun) + asked.elapsed().min(Duration::from_secs(5)));
            }
            if begun.elapsed() > limit {
                bail!("only {last} of {MINIONS} minions answer after {:.0} s", begun.elapsed().as_secs_f64());
            }
        }
    }

    fn answered_now(&self, at: usize) -> Result<bool> {
        Ok(self.answering(at, 5)? == MINIONS)
    }

    /// Publishes a job without waiting for it; `None` if the master did not accept it.
    pub fn send(&self, at: usize, call: &[&str]) -> Result<Option<Job>> {
        let mut args = vec!["--async", EVERY];
        args.extend(call);
        let text = self.program(at, "salt", &args)?;
        let jid = text.split_whitespace().last().unwrap_or_default();
        // A master that did not accept the job prints an error in the same place.
        let good = jid.len() == 20 && jid.bytes().all(|byte| byte.is_ascii_digit());
        Ok(good.then(|| Job { master: at, jid: jid.to_owned() }))
    }

    /// Returns how many returns of a job can be read at its master.
    pub fn returns(&self, job: &Job) -> Result<usize> {
        self.returns_at(job.master, &job.jid)
    }

    /// Returns how many returns of a job can be read at a master.
    pub fn returns_at(&self, at: usize, jid: &str) -> Result<usize> {
        let found = self.runner(at, &["jobs.lookup_jid", jid])?;
        Ok(found.as_object().map_or(0, |map| map.len()))
    }

    /// Returns what a runner says on a master; nothing if it fails.
    pub fn runner(&self, at: usize, call: &[&str]) -> Result<Value> {
        let mut args = vec!["--out=json"];
        args.extend(call);
        Ok(serde_json::from_str(&self.program(at, "salt-run", &args)?).unwrap_or(Value::Null))
    }

    /// Returns the length of a minion's log in bytes.
    pub fn log_len(&self, at: usize) -> u64 {
        fs::metadata(self.minions[at].root.join("log")).map_or(0, |data| data.len())
    }

    /// Returns what a minion logged after an offset.
    pub fn log_since(&self, at: usize, place: u64) -> String {
        let bytes = fs::read(self.minions[at].root.join("log")).unwrap_or_default();
        let from = usize::try_from(place).unwrap_or(usize::MAX).min(bytes.len());
        String::from_utf8_lossy(&bytes[from..]).into_owned()
    }
}

impl Node {
    /// Its configuration folder.
    pub fn conf(&self) -> PathBuf {
        self.root.join("conf")
    }

    /// Returns what jobs have written.
    pub fn runs(&self) -> String {
        fs::read_to_string(self.root.join("runs")).unwrap_or_default()
    }

    /// Its keys.
    pub fn pki(&self) -> PathBuf {
        self.root.join("pki")
    }

    /// Sends a signal to all processes of the daemon.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let child = self.child.as_ref().context("not started")?;
        killpg(Pid::from_raw(child.id() as i32), signal).context("failed to send a signal")
    }

    /// Kills the daemon.
    pub fn kill(&mut self) -> Result<()> {
        self.signal(Signal::SIGKILL)?;
        self.child.take().context("not started")?.wait().context("failed to wait")?;
        Ok(())
    }

    /// Fills the disk of its cache.
    pub fn fill_disk(&self) -> Result<()> {
        let filler = fs::File::create(self.root.join("cache/filler"))?;
        let chunk = vec![0; 1 << 16];
        while std::io::Write::write_all(&mut &filler, &chunk).is_ok() {}
        // Small writes fill the rest of the last page.
        while std::io::Write::write_all(&mut &filler, &chunk[..512]).is_ok() {}
        Ok(())
    }

    /// Frees the disk again.
    pub fn free_disk(&self) -> Result<()> {
        fs::remove_file(self.root.join("cache/filler")).context("failed to free the disk")
    }

    /// Sets the clock forward by an offset in the format of libfaketime.
    pub fn set_clock(&self, shift: &str) -> Result<()> {
        fs::write(self.root.join("clock"), shift).context("failed to set the clock")
    }
}

impl Drop for Cluster<'_> {
    fn drop(&mut self) {
        for node in self.masters.iter_mut().chain(&mut self.minions) {
            let _ = node.signal(Signal::SIGCONT);
            let _ = node.kill();
        }
        for node in self.masters.iter().chain(&self.minions) {
            // Lazily, since a process that is still dying may have files open there.
            let _ = Command::new("umount").arg("-l").arg(node.root.join("cache")).status();
        }
    }
}

/// Mounts a small disk.
fn mount(at: &Path) -> Result<()> {
    // In memory and small, so that a fault can fill it within moments and without harm to the machine.
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=48m,mode=0755", "tmpfs"]).arg(at).status()?;
    ensure!(mounted.success(), "failed to mount a small disk at {}", at.display());
    Ok(())
}

/// Enlarges a disk for thousands of jobs.
fn enlarge(at: &Path) -> Result<()> {
    let enlarged = Command::new("mount").args(["-o", "remount,size=2g"]).arg(at).status()?;
    ensure!(enlarged.success(), "failed to enlarge the disk at {}", at.display());
    Ok(())
}

/// Returns libfaketime, which gives one process another time, if it is installed.
fn find_clock() -> Option<PathBuf> {
    let places = [
        "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
        "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    ];
    places.iter().map(PathBuf::from).find(|path| path.exists())
}

/// Returns the address that a host moves to.
pub fn other_address(host: &Host) -> Ipv4Addr {
    let [a, b, c, d] = host.address.octets();
    Ipv4Addr::new(a, b, c, d + 100)
}

/// Waits until a condition holds, and returns how long it took; `None` if it did not within the limit.
pub fn time_until(limit: Duration, what: impl FnMut() -> bool) -> Option<Duration> {
    let begun = Instant::now();
    until("a condition", limit, what).ok().map(|()| begun.elapsed())
}
