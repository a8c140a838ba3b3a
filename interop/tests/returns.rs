//! No return is lost: masters and minions killed while a job runs, and the return read where it should be.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{Master, Minion, Salt, Sandbox, missing, scenario, until, until_some};
use serde_json::{Value, json};

const MINION: &str = "keeper";
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_return_outlives_its_master_and_its_minion() {
    scenario("returns between masters of ours", |sandbox| {
        let ours = Salt::ours()?;
        let mut set = Set::start(sandbox, &[(&ours, "a"), (&ours, "b")])?;
        let first = set.lose_the_master()?;
        until("the other master to have the return", PATIENCE, || set.looked_up(1, &first) == Some(json!("first")))?;
        set.check_copy(&first)?;
        set.masters[0].launch(sandbox)?;
        set.masters[0].wait_ready()?;
        set.check_delivered(&first, "first")?;
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
        let mut set = Set::start(sandbox, &[(&real, "a"), (&real, "b"), (&ours, "c")])?;
        let jid = set.lose_the_master()?;
        until("the return to wait", PATIENCE, || set.waiting() == 1)?;
        // A job that begins and ends after the time for a copy has passed shows that there was none.
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

/// Masters that share their key, and a minion that follows all of them.
struct Set {
    masters: Vec<Master>,
    minion: Minion,
}

impl Set {
    fn start(sandbox: &Sandbox, kinds: &[(&Salt, &str)]) -> Result<Self> {
        let pair = Master::make_key_pair(kinds[0].0, sandbox)?;
        let mut masters = Vec::new();
        for (salt, name) in kinds {
            let mut master = Master::build(salt, name).key_pair(&pair).option("auto_accept", true).prepare(sandbox)?;
            master.launch(sandbox)?;
            masters.push(master);
        }
        masters.iter_mut().try_for_each(Master::wait_ready)?;
        let minion = Minion::build(&Salt::ours()?, MINION).masters(&masters).option("return_peer_after", 1);
        let minion = minion.start(sandbox)?;
        masters.iter().try_for_each(|master| master.wait_answering(&[MINION]))?;
        Ok(Set { masters, minion })
    }

    /// Kills the first master while a job of it runs.
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

    /// Kills the master while a job runs and the minion when it has ended; all that is left is what is on disk.
    fn lose_everything_but_the_disk(&mut self, sandbox: &Sandbox) -> Result<()> {
        let jid = self.begin("sleep 2; echo second")?;
        self.masters.iter_mut().try_for_each(|master| master.daemon().map(|daemon| daemon.kill()))?;
        until("the return to wait", PATIENCE, || self.waiting() == 1)?;
        self.minion.daemon()?.kill();
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

    /// What `jobs.lookup_jid` of a master tells of the minion.
    fn looked_up(&self, at: usize, jid: &str) -> Option<Value> {
        self.masters[at].runner(&["jobs.lookup_jid", jid]).ok()?.get(MINION).cloned()
    }

    /// How often a master told of the return as new.
    fn announced(&self, at: usize, jid: &str) -> usize {
        let line = format!("Got return from {MINION} for job {jid}");
        self.masters[at].log().lines().filter(|text| text.ends_with(&line)).count()
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
