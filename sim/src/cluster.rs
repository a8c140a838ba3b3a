//! Masters and minions on simulated hosts, each with a separate directory.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rt::sim::Sim;
use store::jobs::JobCache;
use store::returns::ReturnSpool;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use value::{Map, Value, map};

use crate::bus::{self, Events};
use crate::listen::Ear;
use crate::{disks, keys as pairs};

/// The functions of all programs.
const CATALOGUE: exec::Catalogue = exec::Catalogue { modules: modules::ALL, states: states::ALL };

/// The way minions connect to their masters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All of them at once.
    Hot,
    /// One at a time.
    Failover,
    /// Each minion has one master for ever.
    Single,
}

/// The size and the options of a cluster.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The number of masters.
    pub masters: usize,
    /// The number of minions.
    pub minions: usize,
    /// The way minions follow masters.
    pub mode: Mode,
    /// `zeromq` or `tcp`.
    pub transport: &'static str,
    /// Seconds between heartbeats (`master_heartbeat`).
    pub heartbeat: f64,
    /// The masters are one set that shares (`cluster_id`).
    pub sharing: bool,
    /// The set has one more member, which only votes (`cluster_role: witness`).
    pub witness: bool,
    /// Additional options of masters.
    pub master_options: Map,
    /// Additional options of minions.
    pub minion_options: Map,
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            masters: 1,
            minions: 1,
            mode: Mode::Hot,
            transport: "zeromq",
            heartbeat: 1.5,
            sharing: false,
            witness: false,
            master_options: Map::new(),
            minion_options: Map::new(),
        }
    }
}

/// A cluster in a simulated world.
pub struct Cluster {
    /// The world.
    pub sim: Sim,
    /// Its size and options.
    pub plan: Plan,
    /// The log of the programs.
    pub ear: Arc<Ear>,
    directory: TempDir,
    running: Arc<Mutex<BTreeMap<String, CancellationToken>>>,
    pub(crate) events: Arc<Events>,
}

/// The interval of each minion's scheduled job.
pub const BEAT: Duration = Duration::from_secs(300);

/// More than there are members of a set.
const MOST_MEMBERS: usize = 8;

/// The directories of keys that operators decide about.
pub const KEY_STATES: [&str; 3] = ["minions", "minions_pre", "minions_rejected"];

/// The member that only votes.
pub const WITNESS: &str = "witness";

/// The host from which jobs are published.
pub const OPERATOR: &str = "operator";

impl Cluster {
    /// Creates hosts and directories with accepted keys. No program runs yet.
    ///
    /// # Panics
    /// If the directories cannot be created.
    pub fn new(sim: Sim, plan: Plan) -> Self {
        let directory = scratch();
        let ear = Ear::new(sim.clone(), directory.path(), plan.sharing);
        let cluster = Cluster { sim, plan, ear, directory, running: Arc::default(), events: Arc::default() };
        for name in cluster.members().iter().chain(&cluster.minions()) {
            cluster.sim.add_host(name);
        }
        cluster.sim.add_host(OPERATOR);
        for master in cluster.members() {
            cluster.set_up_master(&master, 0);
            let accepted = cluster.path(&master).join("pki/minions");
            fs::create_dir_all(&accepted).expect("a directory in memory");
            for (number, minion) in cluster.minions().iter().enumerate() {
                fs::write(accepted.join(minion), &pairs::pair(number + 1).public).expect("a file in memory");
            }
        }
        for (number, minion) in cluster.minions().iter().enumerate() {
            write_pair(&cluster.path(minion).join("pki"), "minion", number + 1);
        }
        cluster
    }

    /// The names of the masters: `m1`, `m2` and so on.
    pub fn masters(&self) -> Vec<String> {
        (1..=self.plan.masters).map(|number| format!("m{number}")).collect()
    }

    /// The names of all members of the set: the masters, and the witness if there is one.
    pub fn members(&self) -> Vec<String> {
        self.masters().into_iter().chain(self.plan.witness.then(|| WITNESS.to_owned())).collect()
    }

    /// The names of the minions: `web1`, `web2` and so on.
    pub fn minions(&self) -> Vec<String> {
        (1..=self.plan.minions).map(|number| format!("web{number}")).collect()
    }

    /// The directory of a host.
    pub fn path(&self, host: &str) -> PathBuf {
        self.directory.path().join(host)
    }

    /// Starts all programs.
    pub fn start_all(&self) {
        for name in self.members().iter().chain(&self.minions()) {
            self.start(name);
        }
    }

    /// Writes the keys of a master that is set up: those of a later `generation` have another member key.
    pub(crate) fn set_up_master(&self, master: &str, generation: usize) {
        let pki = self.path(master).join("pki");
        if self.plan.sharing {
            disks::write_member_key(&pki, generation * MOST_MEMBERS + self.place(master));
        }
        // All masters have the same pair, as in a multi-master setup of Salt, where a minion knows one master key only.
        write_pair(&pki, "master", 0);
    }

    /// Starts the program of a host.
    pub fn start(&self, host: &str) {
        self.sim.note(format_args!("start {host}"));
        let (sim, name, stop) = (self.sim.clone(), host.to_owned(), CancellationToken::new());
        self.running().insert(host.to_owned(), stop.clone());
        let running = self.running.clone();
        let rt = self.sim.rt(host);
        if self.members().iter().any(|master| master == host) {
            let config = config::Master::from_options(self.master_options(host)).expect("good options");
            let start = master::Start { config, keys: None, keeper: None, catalogue: CATALOGUE };
            self.sim.spawn(host, async move {
                let ended = master::run(start, rt, stop, |_| {}).await;
                running.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
                sim.note(format_args!("{name} ended: {ended:?}"));
                sim.kill(&name);
            });
            if self.plan.sharing && host != WITNESS {
                let listening = bus::run(self.sim.clone(), self.sim.rt(host), host.to_owned(), self.events.clone());
                self.sim.spawn(host, listening);
            }
        } else {
            let config = config::Minion::from_options(self.minion_options(host)).expect("good options");
            self.sim.spawn(host, async move {
                let ended = minion::run(config, CATALOGUE, rt, stop, |_| {}).await;
                sim.note(format_args!("{name} ended: {ended:?}"));
                sim.kill(&name);
            });
        }
    }

    /// Asks the program of a host to end, as SIGTERM does.
    pub fn stop(&self, host: &str) {
        if let Some(stop) = self.running().get(host) {
            stop.cancel();
        }
    }

    /// Returns whether the program of a master runs, as far as it has not been killed. One whose disk is full does not start.
    pub fn runs(&self, master: &str) -> bool {
        self.running().contains_key(master)
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<String, CancellationToken>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the disk of a host full, or ends that.
    pub fn set_disk_full(&self, host: &str, full: bool) {
        store::disk::refusing::set(&self.path(host), full);
    }

    /// Requests a new AES key from a master, as `salt-key` does. The master notices within a minute.
    pub fn rotate(&self, master: &str) {
        let cachedir = self.path(master).join("cache");
        if let Err(error) = keys::request_rotation(&cachedir, master, keys::Owner::NOBODY) {
            self.sim.note(format_args!("the key of {master} is not rotated: {error}"));
        }
    }

    /// Returns the names of a minion's undelivered returns on its disk.
    pub fn waiting_returns(&self, minion: &str) -> Vec<String> {
        // From the disk and not from the program: it must hold while the program is dead as well.
        let spool = ReturnSpool::new(&self.path(minion).join("cache"));
        spool.names().unwrap_or_else(|error| vec![error.to_string()])
    }

    /// The held jobs on the disk of a master.
    pub fn held_jobs(&self, master: &str) -> Vec<String> {
        store::disk::text_names(&self.path(master).join("cache/saltern/held")).unwrap_or_default()
    }

    /// The job cache of a master, read from its disk.
    pub fn jobs(&self, master: &str) -> JobCache {
        let option = self.plan.master_options.get_str("master_job_cache").unwrap_or(store::jobs::EMBEDDED);
        JobCache::beside_master(&self.path(master).join("cache"), crypto::HashType::Sha256, option)
    }

    /// The masters that a minion knows.
    pub fn masters_of(&self, minion: &str) -> Vec<String> {
        let all = self.masters();
        let place = self.minions().iter().position(|name| name == minion).unwrap_or_default();
        match self.plan.mode {
            Mode::Single => vec![all[place % all.len()].clone()],
            Mode::Hot | Mode::Failover => all,
        }
    }

    /// Returns in which directories the key of an id is at a master.
    pub fn key_state(&self, master: &str, id: &str) -> Vec<&'static str> {
        KEY_STATES.into_iter().filter(|state| self.path(master).join("pki").join(state).join(id).exists()).collect()
    }

    /// Changes the key of an id at a master as an operator does by hand: to one of [`KEY_STATES`], or deletes it. Returns whether that
    /// is a change.
    pub fn decide(&self, master: &str, id: &str, state: Option<&str>) -> bool {
        self.sim.note(format_args!("the key of {id} becomes {state:?} on {master}"));
        let pki = self.path(master).join("pki");
        if !pki.join("minions").is_dir() {
            // They were wiped.
            return false;
        }
        let before = self.key_state(master, id).first().copied();
        let decided = match (before, state) {
            (Some(from), Some(to)) => fs::rename(pki.join(from).join(id), pki.join(to).join(id)),
            (Some(from), None) => fs::remove_file(pki.join(from).join(id)),
            (None, Some(to)) => fs::write(pki.join(to).join(id), &pairs::pair(0).public),
            (None, None) => Ok(()),
        };
        decided.expect("key files can be changed");
        before != state
    }

    /// Kills the program of a host, and waits until nothing of it is left.
    pub async fn kill(&self, host: &str) {
        self.sim.kill(host);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    /// Has a master lose its disk, and sets it up again: with the keys that minions know, and a new member key.
    pub fn empty(&self, master: &str) {
        disks::remove(&self.path(master));
        self.set_up_master(master, 1);
    }

    /// Copies the directory of a master, while it runs.
    pub fn back_up(&self, master: &str) {
        disks::copy(&self.path(master), &self.backup(master));
    }

    /// Puts the copy of a master's directory in its place.
    pub fn restore(&self, master: &str) {
        disks::remove(&self.path(master));
        disks::copy(&self.backup(master), &self.path(master));
        disks::remove(&self.backup(master));
    }

    fn backup(&self, master: &str) -> PathBuf {
        self.path(&format!("backup/{master}"))
    }

    /// Removes the directory of accepted keys of a master.
    pub fn wipe_keys(&self, master: &str) {
        disks::remove(&self.path(master).join("pki/minions"));
    }

    /// The node of a master with its first member key, as programs show it.
    pub fn first_node(&self, master: &str) -> String {
        format!("{:?}", disks::node(self.place(master)))
    }

    fn place(&self, member: &str) -> usize {
        self.members().iter().position(|name| name == member).expect("a member")
    }

    fn master_options(&self, host: &str) -> Map {
        let mut options = map! {
            // TCP instead of Unix sockets, which would be those of the real machine: the simulated network has none.
            "id" => host, "user" => user(), "interface" => "0.0.0.0", "ipc_mode" => "tcp",
            "transport" => self.plan.transport, "log_level" => "info", "file_roots" => map! {}, "pillar_roots" => map! {},
        };
        options.update(self.paths(host));
        options.insert("token_dir", self.text(host, "cache/tokens"));
        if self.plan.sharing {
            let others = self.members().into_iter().filter(|master| master != host).map(Value::from).collect();
            options.update(map! {
                "cluster_id" => "storm", "cluster_secret" => "5b0f9a2c7e41d836a1f0c9b2e87d4365",
                "cluster_peers" => Value::List(others),
            });
            if host == WITNESS {
                options.insert("cluster_role", "witness");
            }
        }
        options.update(self.plan.master_options.clone());
        options
    }

    fn minion_options(&self, host: &str) -> Map {
        let masters: Vec<Value> = self.masters_of(host).into_iter().map(Value::from).collect();
        let mut options = map! {
            "id" => host, "user" => user(), "ipc_mode" => "tcp", "transport" => self.plan.transport,
            "master" => Value::List(masters), "master_heartbeat" => self.plan.heartbeat, "mine_enabled" => false,
            "grains" => map! { "os" => "Simulated" },
            // A scheduled job needs no master, so its returns test the spool through the longest loss of all masters.
            "schedule" => map! { "beat" => map! { "function" => "test.ping", "seconds" => BEAT.as_secs() as i64 } },
        };
        if self.plan.mode == Mode::Failover {
            options.insert("master_type", "failover");
            options.insert("master_alive_interval", 10);
        }
        options.update(self.paths(host));
        options.update(self.plan.minion_options.clone());
        options
    }

    fn paths(&self, host: &str) -> Map {
        map! {
            "root_dir" => self.text(host, ""), "pki_dir" => self.text(host, "pki"), "cachedir" => self.text(host, "cache"),
            "sock_dir" => self.text(host, "sock"), "log_file" => self.text(host, "log"),
            "conf_file" => self.text(host, "conf"),
        }
    }

    fn text(&self, host: &str, inside: &str) -> String {
        self.path(host).join(inside).display().to_string()
    }
}

fn write_pair(directory: &Path, name: &str, number: usize) {
    fs::create_dir_all(directory).expect("a directory in memory");
    let pair = pairs::pair(number);
    fs::write(directory.join(format!("{name}.pem")), &pair.private).expect("a file in memory");
    fs::write(directory.join(format!("{name}.pub")), &pair.public).expect("a file in memory");
}

/// The user who runs this.
pub fn user() -> String {
    static USER: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let find = || {
        nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten().map_or_else(String::new, |user| user.name)
    };
    USER.get_or_init(find).clone()
}

/// Creates a directory in memory if possible: a storm writes tens of thousands of small files.
fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a directory can be made")
}
