//! No return is lost when masters and minions are killed during a job: it can be read at the master that published the
//! job.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{Master, Minion, MinionBuilder, Salt, Sandbox, missing, scenario, until, until_some};
use serde_json::{Value, json};

const MINION: &str = "keeper";
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_return_outlives_its_master_and_its_minion() {
    scenario("returns between masters of ours", |sandbox| {
        let ours = Salt::ours()?;
        let mut set = Set::prepare(&[(&ours, "a"), (&ours, "b")], sandbox)?.start(sandbox, 2)?;
        let first = set.lose_the_master()?;
        until("the other master to have the return", PATIENCE, || set.looked_up(1, &first) == Some(json!("first")))?;
        set.check_copy(&first)?;
        set.masters[0].launch(sandbox)?;
        set.masters[0].wait_ready()?;
        set.check_delivered(&first, "first")?;
        // An event there would trigger that master's reactors for a job that it never published.
        ensure!(set.announced(1, &first) == 0, "the return was announced by a master that did not publish the job");
        set.masters[0].wait_answering(&[MINION])?;
        set.lose_everything_but_the_disk(sandbox)
    });
}

#[test]
fn a_return_for_a_stock_master_waits_for_it_and_goes_nowhere_else() {
    if missing(&["3008.5"]) {
        return;
    }
    scenario("returns between real masters", |sandbox| {
        let (real, ours) = (Salt::real("3008.5").context("checked above")?, Salt::ours()?);
        let mut set = Set::prepare(&[(&real, "a"), (&real, "b"), (&ours, "c")], sandbox)?.start(sandbox, 3)?;
        let jid = set.lose_the_master()?;
        until("the return to wait", PATIENCE, || set.waiting() == 1)?;
        // This job takes longer than `return_peer_after`, so a copy would have been sent by now.
        set.masters[2].ask(MINION, &["cmd.run", "sleep 3", "python_shell=True"])?;
        set.masters[0].launch(sandbox)?;
        set.masters[0].wait_ready()?;
        set.check_delivered(&jid, "first")?;
        for other in 1..=2 {
            ensure!(set.looked_up(other, &jid).is_none(), "a master that did not publish the job has its return");
        }
        Ok(())
    });
}

#[test]
fn a_return_reaches_a_master_that_is_not_followed_any_more() {
    scenario("returns after a failover", |sandbox| {
        let ours = Salt::ours()?;
        let mut set = Set::prepare(&[(&ours, "a"), (&ours, "b")], sandbox)?;
        set.minion = set.minion.option("master_type", "failover");
        let mut set = set.start(sandbox, 1)?;
        let jid = set.lose_the_master()?;
        set.masters[1].wait_answering(&[MINION])?;
        until("the return to be counted", PATIENCE, || set.counted(1).is_ok_and(|counts| counts == [1, 0]))?;
        set.masters[0].launch(sandbox)?;
        set.masters[0].wait_ready()?;
        set.check_delivered(&jid, "first")?;
        // The file goes before the count does, so the count is waited for too.
        until("the other master to be followed still, and nothing to wait", PATIENCE, || {
            set.counted(1).is_ok_and(|counts| counts == [0, 0])
        })
    });
}

#[test]
fn a_disk_that_refuses_is_named_once_and_loses_no_return() {
    scenario("returns without a disk", |sandbox| {
        let mut set = Set::prepare(&[(&Salt::ours()?, "a")], sandbox)?.start(sandbox, 0)?;
        fs::create_dir_all(set.spool().parent().context("a folder above")?)?;
        // A file in place of the directory: unlike permissions, it stops root as well.
        fs::write(set.spool(), "in the way").context("failed to put a file in the way")?;
        set.masters[0].wait_answering(&[MINION])?;
        let jid = set.lose_the_master()?;
        let note = set.minion.root().join("cache/proc").join(&jid);
        until("the job to end", PATIENCE, || !note.exists())?;
        set.masters[0].launch(sandbox)?;
        set.masters[0].wait_ready()?;
        set.check_delivered(&jid, "first")?;
        let (log, path) = (set.minion.log(), set.spool().display().to_string());
        let named = log.lines().filter(|line| line.contains("ERROR") && line.contains(&path)).count();
        ensure!(named == 1, "the disk is named {named} times");
        Ok(())
    });
}

/// Running masters, and a minion to be started.
struct Prepared {
    masters: Vec<Master>,
    minion: MinionBuilder,
}

/// Masters with the same key, and their minion.
struct Set {
    masters: Vec<Master>,
    minion: Minion,
}

impl Prepared {
    /// Starts the minion and waits until the first masters can command it.
    fn start(self, sandbox: &Sandbox, answering: usize) -> Result<Set> {
        let minion = self.minion.start(sandbox)?;
        self.masters[..answering].iter().try_for_each(|master| master.wait_answering(&[MINION]))?;
        Ok(Set { masters: self.masters, minion })
    }
}

impl Set {
    fn prepare(kinds: &[(&Salt, &str)], sandbox: &Sandbox) -> Result<Prepared> {
        let pair = Master::make_key_pair(kinds[0].0, sandbox)?;
        let mut masters = Vec::new();
        for (salt, name) in kinds {
            let built = Master::build(salt, name).key_pair(&pair).option("auto_accept", true);
            let mut master = built.prepare(sandbox)?;
            master.launch(sandbox)?;
            masters.push(master);
        }
        masters.iter_mut().try_for_each(Master::wait_ready)?;
        let minion = Minion::build(&Salt::ours()?, MINION).masters(&masters).option("return_peer_after", 1);
        Ok(Prepared { masters, minion })
    }

    /// Kills the first master during one of its jobs.
    fn lose_the_master(&mut self) -> Result<String> {
        let jid = self.begin("sleep 3; echo first")?;
        self.masters[0].daemon()?.kill();
        Ok(jid)
    }

    /// Sends a job from the first master and waits until it runs.
    fn begin(&self, command: &str) -> Result<String> {
        let jid = self.masters[0].send(&[MINION, "cmd.run", command, "python_shell=True"])?;
        let note = self.minion.root().join("cache/proc").join(&jid);
        until("the job to run", PATIENCE, || note.exists())?;
        Ok(jid)
    }

    /// Kills the masters during a job and the minion after it, so that only the files on disk remain.
    fn lose_everything_but_the_disk(&mut self, sandbox: &Sandbox) -> Result<()> {
        let jid = self.begin("sleep 2; echo second")?;
        self.masters.iter_mut().try_for_each(|master| master.daemon().map(|daemon| daemon.kill()))?;
        until("the return to wait", PATIENCE, || self.waiting() == 1)?;
        self.minion.daemon()?.kill();
        // Sorts before all others: a return that cannot be read must not block those behind it.
        fs::write(self.spool().join("19700101000000000000-0.p"), "garbage")
            .context("failed to write a broken return")?;
        self.minion.launch(sandbox)?;
        self.masters[0].launch(sandbox)?;
        self.masters[0].wait_ready()?;
        self.check_delivered(&jid, "second")?;
        let log = self.minion.log();
        let named = log.lines().filter(|line| line.contains("19700101000000000000-0.p.broken")).count();
        ensure!(named == 1, "the broken return is named {named} times in the minion's log");
        Ok(())
    }

    fn spool(&self) -> PathBuf {
        self.minion.root().join("cache/saltern/returns")
    }

    fn waiting(&self) -> usize {
        let names = fs::read_dir(self.spool()).into_iter().flatten().flatten();
        names.filter(|entry| entry.file_name().to_string_lossy().ends_with(".p")).count()
    }

    /// Returns the minion's return from `jobs.lookup_jid` of a master.
    fn looked_up(&self, at: usize, jid: &str) -> Option<Value> {
        self.masters[at].runner(&["jobs.lookup_jid", jid]).ok()?.get(MINION).cloned()
    }

    /// Returns how often a master reported the return as new.
    fn announced(&self, at: usize, jid: &str) -> usize {
        let line = format!("Got return from {MINION} for job {jid}");
        self.masters[at].log().lines().filter(|text| text.ends_with(&line)).count()
    }

    /// Returns how many returns wait for each master, as reported by the minion.
    fn counted(&self, at: usize) -> Result<Vec<u64>> {
        let told = self.masters[at].ask(MINION, &["saltern.masters"])?;
        let waiting = |master: &Master| told[format!("{}:4506", master.address())]["returns_waiting"].as_u64();
        let counts: Option<Vec<u64>> = self.masters.iter().map(waiting).collect();
        counts.with_context(|| format!("expected both masters in {told}"))
    }

    fn check_copy(&self, jid: &str) -> Result<()> {
        let job = self.masters[1].runner(&["jobs.list_job", jid])?;
        let shown = (&job["Function"], &job["Target"], &job["Target-type"]);
        ensure!(shown == (&json!("cmd.run"), &json!(MINION), &json!("glob")), "the job looks like {job}");
        ensure!(self.waiting() == 1, "the return no longer waits for its master");
        Ok(())
    }

    /// Checks that the return reaches the master that published its job, once, and waits no longer.
    fn check_delivered(&self, jid: &str, text: &str) -> Result<()> {
        let found = until_some("the publisher to have the return", PATIENCE, || self.looked_up(0, jid))?;
        ensure!(found == json!(text), "the publisher has {found}");
        until("the return to wait no longer", PATIENCE, || self.waiting() == 0)?;
        let announced = self.announced(0, jid);
        ensure!(announced == 1, "the return was announced {announced} times");
        Ok(())
    }
}
