//! What can be asked of the masters of a set, and what their directories show.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;

use crate::cluster::{Cluster, Job, MASTERS, MINIONS, Role};

/// The time limit for members to meet at the start.
const MEET: Duration = Duration::from_secs(60);

/// The directories of keys.
const BANKS: [&str; 3] = ["minions", "minions_pre", "minions_rejected"];

/// Key files by directory.
type Keys = BTreeMap<&'static str, Vec<String>>;

impl Cluster<'_> {
    /// Returns whether a member is linked with all others.
    pub fn is_linked(&self, at: usize) -> Result<bool> {
        let shown = self.runner(at, &["saltern.masters"])?;
        let Some(members) = shown["masters"].as_object() else { return Ok(false) };
        let there =
            members.values().filter(|member| ["here", "linked"].iter().any(|word| member["state"] == json!(word)));
        Ok(there.count() == MASTERS && self.masters.iter().all(|node| members.contains_key(&node.host.name)))
    }

    /// Waits until all members are linked.
    pub fn await_links(&self, limit: Duration) -> Result<()> {
        let begun = Instant::now();
        for at in 0..MASTERS {
            while !self.is_linked(at)? {
                if begun.elapsed() > limit {
                    let shown = self.program(at, "salt-run", &["saltern.masters"])?;
                    bail!("{} is not linked with all others after {limit:?}: {shown}", self.masters[at].host.name);
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// Returns whether one member sees that another is not there.
    pub fn sees_away(&self, at: usize, other: usize) -> Result<bool> {
        let shown = self.runner(at, &["saltern.masters"])?;
        Ok(shown["masters"][&self.masters[other].host.name]["state"] == json!("away"))
    }

    /// Returns the directory with the directories of keys of a master.
    pub fn key_dir(&self, at: usize) -> PathBuf {
        let node = &self.masters[at];
        match node.salt.is_ours() {
            true => node.pki(),
            false => node.root.with_file_name("shared/pki"),
        }
    }

    /// Returns the key files of a master.
    pub fn keys(&self, at: usize) -> Keys {
        let list = |bank: &&'static str| {
            let entries = fs::read_dir(self.key_dir(at).join(bank)).into_iter().flatten().flatten();
            let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
            // Files that are being written have names with a dot.
            names.retain(|name| !name.starts_with('.'));
            names.sort();
            (*bank, names)
        };
        BANKS.iter().map(list).collect()
    }

    /// Returns whether all members have the same key files.
    pub fn same_keys(&self) -> bool {
        let first = self.keys(0);
        (1..MASTERS).all(|at| self.keys(at) == first)
    }

    /// Returns in which directory a master has a key.
    pub fn bank(&self, at: usize, id: &str) -> Option<&'static str> {
        let keys = self.keys(at);
        keys.into_iter().find(|(_, names)| names.iter().any(|name| name == id)).map(|(bank, _)| bank)
    }

    /// Waits until all members have a key in a directory; `None` means in none.
    pub fn await_bank(&self, id: &str, bank: Option<&str>) -> Result<()> {
        interop::until(&format!("{id} in {bank:?} of all"), MEET, || (0..MASTERS).all(|at| self.bank(at, id) == bank))
    }

    /// Puts keys that nobody has decided about into the directories of the first member, and waits until all have them.
    pub fn put_applicants(&self, ids: &[&str]) -> Result<()> {
        let waiting = self.key_dir(0).join("minions_pre");
        fs::create_dir_all(&waiting).context("failed to make a directory of keys")?;
        for id in ids {
            // Any key will do: no minion signs in with it.
            let key = self.minions[0].pki().join("minion.pub");
            fs::copy(&key, waiting.join(id)).with_context(|| format!("failed to copy {}", key.display()))?;
        }
        ids.iter().try_for_each(|id| self.await_bank(id, Some("minions_pre")))
    }

    /// Decides about a key on a member: `-a`, `-r` or `-d`.
    pub fn decide(&self, at: usize, what: &str, id: &str) -> Result<()> {
        let mut args = vec!["-y", what, id];
        if what != "-d" {
            args.extend(["--include-accepted", "--include-rejected"]);
        }
        self.program(at, "salt-key", &args).map(drop)
    }

    /// Restarts a master with whatever programs it has now.
    pub fn restart(&mut self, at: usize) -> Result<()> {
        self.masters[at].kill()?;
        self.launch(Role::Master, at)
    }

    /// Counts how often minions ran each numbered job: a line of their file for each run.
    pub fn runs(&self) -> Result<Vec<HashMap<usize, usize>>> {
        let count = |at: usize| -> Result<_> {
            let mut runs: HashMap<usize, usize> = HashMap::new();
            for line in self.minions[at].runs().lines() {
                *runs.entry(line.trim().parse().context("a strange line")?).or_default() += 1;
            }
            Ok(runs)
        };
        (0..MINIONS).map(count).collect()
    }

    /// Publishes a numbered job; `None` if the master does not accept it.
    pub fn send_numbered(&self, at: usize, number: usize) -> Result<Option<Job>> {
        let line = format!("echo {number} >> $LAB_ROOT/runs");
        self.send(at, &["cmd.run", &line])
    }

    /// Kills all, and copies what a member has on its disk.
    pub fn back_up(&mut self, at: usize) -> Result<()> {
        self.masters[at].kill()?;
        let root = self.masters[at].root.clone();
        shell(&format!(
            "rm -rf {0}/backup && mkdir {0}/backup && cp -a {0}/cache {0}/pki {0}/backup/",
            root.display()
        ))?;
        self.launch(Role::Master, at)
    }

    /// Puts an earlier copy in the place of what a dead member has on its disk.
    pub fn restore(&self, at: usize) -> Result<()> {
        let root = self.masters[at].root.display();
        // The cache is a disk of its own.
        shell(&format!(
            "rm -rf {root}/pki {root}/cache/* && cp -a {root}/backup/pki {root}/ && cp -a {root}/backup/cache/. {root}/cache/"
        ))
    }

    /// Takes everything from a dead member's disk but the key pair that all members have.
    pub fn empty(&self, at: usize) -> Result<()> {
        let root = self.masters[at].root.display();
        shell(&format!(
            "cd {root} && rm -rf cache/* && mkdir new && cp -a pki/master.pem pki/master.pub new/ && rm -rf pki && mv new pki"
        ))
    }
}

/// Runs a line of shell.
fn shell(line: &str) -> Result<()> {
    let done = std::process::Command::new("sh").args(["-c", line]).status().context("failed to start sh")?;
    ensure!(done.success(), "`{line}` failed: {done}");
    Ok(())
}
