//! State runs with several masters: a master dies during a run, other masters request their own runs, and operators
//! pause and resume them.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{Master, Minion, Salt, Sandbox, missing, scenario, until, until_some};
use serde_json::{Map, Value, json};

const OWN: &str = "own";
const STOCK: &str = "stock";
const PATIENCE: Duration = Duration::from_secs(60);

/// The number of files to fetch before the master dies, and after that.
const FILES: usize = 20;

/// Two masters of all minions that serve the same states.
struct House<'a> {
    sandbox: &'a Sandbox,
    masters: Vec<Master>,
    minions: Vec<Minion>,
}

#[test]
fn a_run_goes_on_without_its_master() {
    if missing(&["3008.5"]) {
        return;
    }
    scenario("a highstate whose master dies", |sandbox| {
        let mut house = House::new(sandbox, &[OWN])?;
        let jid = house.masters[0].send(&[OWN, "state.highstate"])?;
        until("the run to wait in its midst", PATIENCE, || house.place("waits").exists())?;
        house.masters[0].daemon()?.kill();
        fs::write(house.place("go"), "")?;
        until("the run to end", PATIENCE, || !house.is_running(&jid))?;
        for at in 0..FILES {
            let text = fs::read_to_string(house.place(&format!("late{at}")))?;
            ensure!(text == format!("late {at} on {OWN}\n"), "late{at} holds {text:?}");
        }
        house.masters[0].launch(sandbox)?;
        house.masters[0].wait_ready()?;
        let results = until_some("the return to arrive", PATIENCE, || house.returned(0, &jid))?;
        ensure!(results.len() == 2 * FILES + 2, "{} states have returned", results.len());
        let failed: Vec<_> = results.values().filter(|result| result["result"] != true).collect();
        ensure!(failed.is_empty(), "{failed:?}");
        // A second run from the other master changes nothing except for the waiting commands.
        let again = house.apply(1, &["state.highstate"])?;
        let changed: Vec<_> = again.iter().filter(|(_, result)| result["changes"] != json!({})).collect();
        ensure!(changed.len() == 2 && changed.iter().all(|(tag, _)| tag.starts_with("cmd_")), "{changed:?}");
        Ok(())
    });
}

#[test]
fn runs_do_not_overlap_whoever_asks() {
    if missing(&["3008.5"]) {
        return;
    }
    scenario("runs that two masters ask for", |sandbox| {
        let house = House::new(sandbox, &[OWN, STOCK])?;
        let jids: Vec<String> = [OWN, STOCK]
            .iter()
            .map(|id| house.masters[0].send(&[id, "state.apply", "waits"]))
            .collect::<Result<_>>()?;
        until("both to wait", PATIENCE, || house.runs() == 2)?;
        for (id, jid) in [OWN, STOCK].into_iter().zip(&jids) {
            let told = house.masters[1].ask(id, &["state.apply", "early"])?;
            let text = told[0].as_str().with_context(|| format!("{id} told {told}"))?;
            let words = format!("with jid {jid}");
            // The words are Salt's. The lock is the minion's and holds against every master.
            ensure!(text.starts_with("The function \"state.apply\" is running as PID"), "{id} told {text}");
            ensure!(text.contains(&words), "{id} told {text}");
        }
        let queued = house.masters[1].send(&[OWN, "state.apply", "early", "queue=True"])?;
        until("the second run to be queued", PATIENCE, || house.is_running(&queued))?;
        ensure!(!house.place("early0").exists(), "the second run has begun");
        fs::write(house.place("go"), "")?;
        let results = until_some("the queued run to return", PATIENCE, || house.returned(1, &queued))?;
        ensure!(results.values().all(|result| result["result"] == true), "{results:?}");
        until("the first to return", PATIENCE, || house.returned(0, &jids[0]).is_some())?;
        ensure!(house.returned(1, &jids[0]).is_none(), "a run of the first master is filed at the second");
        Ok(())
    });
}

#[test]
fn a_run_is_paused_resumed_and_ended_softly() {
    if missing(&["3008.5"]) {
        return;
    }
    scenario("operators and a run", |sandbox| {
        let house = House::new(sandbox, &[OWN])?;
        let jid = house.masters[0].send(&[OWN, "state.apply", "waits"])?;
        until("the run to wait", PATIENCE, || house.runs() == 1)?;
        // From the other master: operators may use any of them.
        house.masters[1].ask(OWN, &["state.pause", &jid, "after the wait"])?;
        fs::write(house.place("go"), "")?;
        let told = house.masters[1].ask(OWN, &["state.running"])?;
        ensure!(told[0].as_str().is_some_and(|text| text.contains(&jid)), "{told}");
        until("the run to stand at the paused state", PATIENCE, || house.place("waited").exists())?;
        ensure!(!house.place("after").exists(), "the paused state has run");
        house.masters[0].ask(OWN, &["state.resume", &jid, "after the wait"])?;
        let results = until_some("the return", PATIENCE, || house.returned(0, &jid))?;
        ensure!(house.place("after").exists() && results.len() == 3, "{results:?}");

        fs::remove_file(house.place("go"))?;
        fs::remove_file(house.place("after"))?;
        let jid = house.masters[0].send(&[OWN, "state.apply", "waits"])?;
        until("the next run to wait", PATIENCE, || house.runs() == 2)?;
        house.masters[1].ask(OWN, &["state.soft_kill", &jid, "after the wait"])?;
        fs::write(house.place("go"), "")?;
        until("the run to end", PATIENCE, || !house.is_running(&jid))?;
        ensure!(!house.place("after").exists(), "the run went on");
        Ok(())
    });
}

impl<'a> House<'a> {
    fn new(sandbox: &'a Sandbox, ids: &[&str]) -> Result<Self> {
        let (ours, real) = (Salt::ours()?, Salt::real("3008.5").context("checked above")?);
        let pair = Master::make_key_pair(&ours, sandbox)?;
        let states = sandbox.folder("states")?;
        let house = House { sandbox, masters: Vec::new(), minions: Vec::new() };
        house.write_states(&states)?;
        let master = |name: &&str| {
            let roots = json!({"base": [states]});
            let built = Master::build(&ours, name).key_pair(&pair).option("auto_accept", true);
            built.option("file_roots", roots).start(sandbox)
        };
        let masters: Vec<Master> = ["m1", "m2"].iter().map(master).collect::<Result<_>>()?;
        let minion = |id: &&str| {
            let salt = if *id == OWN { &ours } else { &real };
            Minion::build(salt, id).masters(&masters).start(sandbox)
        };
        let minions: Vec<Minion> = ids.iter().map(minion).collect::<Result<_>>()?;
        masters.iter().try_for_each(|master| master.wait_answering(ids))?;
        Ok(House { masters, minions, ..house })
    }

    /// Writes a tree with a state in the middle that waits for a file.
    fn write_states(&self, folder: &std::path::Path) -> Result<()> {
        let files = |word: &str| -> String {
            let file = |at: usize| {
                let name = self.place(&format!("{word}{at}"));
                let name = name.display();
                format!(
                    "{name}:\n  file.managed:\n    - source: salt://{word}.txt\n    - template: jinja\n    - context: {{at: {at}}}\n"
                )
            };
            (0..FILES).map(file).collect()
        };
        let (runs, go, waits) = (self.place("runs"), self.place("go"), self.place("waits"));
        let wait = format!(
            "echo run >> {}; touch {}; while [ ! -e {} ]; do sleep 0.05; done",
            runs.display(),
            waits.display(),
            go.display()
        );
        let touch =
            |id: &str, file: &str| format!("{id}:\n  cmd.run:\n    - name: touch {}\n", self.place(file).display());
        let texts = [
            ("top.sls", "base:\n  '*':\n    - early\n    - waits.first\n    - late\n".to_owned()),
            ("early.sls", files("early")),
            ("late.sls", files("late")),
            ("waits/first.sls", format!("wait:\n  cmd.run:\n    - name: '{wait}'\n{}", touch("waited", "waited"))),
            ("waits/init.sls", format!("include: [waits.first]\n{}", touch("after the wait", "after"))),
            ("early.txt", "early {{ at }} on {{ grains.id }}\n".to_owned()),
            ("late.txt", "late {{ at }} on {{ grains.id }}\n".to_owned()),
        ];
        fs::create_dir_all(folder.join("waits"))?;
        for (name, text) in texts {
            fs::write(folder.join(name), text).with_context(|| format!("failed to write {name}"))?;
        }
        Ok(())
    }

    fn place(&self, name: &str) -> PathBuf {
        self.sandbox.root().join(name)
    }

    /// Returns how often the waiting state was started.
    fn runs(&self) -> usize {
        fs::read_to_string(self.place("runs")).unwrap_or_default().lines().count()
    }

    fn is_running(&self, jid: &str) -> bool {
        self.minions.iter().any(|minion| minion.root().join("cache/proc").join(jid).exists())
    }

    /// Returns the results of a run as stored by a master.
    fn returned(&self, at: usize, jid: &str) -> Option<Map<String, Value>> {
        let found = self.masters[at].runner(&["jobs.lookup_jid", jid]).ok()?;
        found.as_object()?.values().next()?.as_object().cloned()
    }

    fn apply(&self, at: usize, call: &[&str]) -> Result<Map<String, Value>> {
        let told = self.masters[at].ask(OWN, call)?;
        told.as_object().cloned().with_context(|| format!("the run told {told}"))
    }
}
