//! `state.pkg`: states that Salt compiled and packed as its salt-ssh does, applied by a Saltern minion through a
//! Saltern master, and by Salt's `salt-call`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{Checks, Master, Minion, Salt, Sandbox, differences, missing, scenario, until};
use serde_json::{Value, json};

const ID: &str = "own";
const PATIENCE: Duration = Duration::from_secs(60);

/// Two environments with a file of the same name. `MADE` is the target directory. Salt lists the files of a
/// `file.recurse` in the order of a set, so there is only one.
const TREE: &[(&str, &str)] = &[
    (
        "base/web/init.sls",
        r"
MADE/motd:
  file.managed:
    - source: salt://web/motd.jinja
    - template: jinja
    - makedirs: True
    - context: {colour: {{ pillar['colour'] }}}

MADE/tree:
  file.recurse:
    - source: salt://web/tree
    - require: [{file: MADE/motd}]

restarted:
  cmd.wait:
    - name: echo again >> MADE/restarts
    - listen: [{file: MADE/motd}]

MADE/plain:
  file.managed:
    - source: salt://same.txt
",
    ),
    (
        "base/web/motd.jinja",
        "{{ colour }} {{ pillar['deep']['port'] }} {{ grains['role'] }} {{ salt['cp.get_file_str']('salt://same.txt') }}",
    ),
    ("base/web/tree/a.txt", "a\n"),
    ("base/same.txt", "of base\n"),
    ("dev/late.sls", "MADE/late:\n  file.managed:\n    - source: salt://same.txt\n"),
    ("dev/same.txt", "of dev\n"),
];

/// The contents of the target directory afterwards.
const RESULT: &[(&str, &str)] = &[
    ("motd", "green 8080 web of base\n"),
    ("tree/a.txt", "a\n"),
    ("restarts", "again\n"),
    ("plain", "of base\n"),
    ("late", "of dev\n"),
];

/// A Saltern master and minion, and a package made by Salt. The master itself serves other files.
struct House {
    master: Master,
    minion: Minion,
    package: String,
    sum: String,
    made: PathBuf,
}

#[test]
fn packages_of_salt_ssh_are_applied() {
    if missing(&["3008.5"]) {
        return;
    }
    scenario("a package of states", |sandbox| {
        let real = Salt::real("3008.5").context("checked above")?;
        let house = House::new(sandbox, &real)?;
        let theirs = Minion::build(&real, "theirs").option("file_client", "local").prepare(sandbox)?;
        let mut checks = Checks::new();
        checks.check("a test tells and makes nothing", || house.only_tells(&theirs));
        checks.check("a wrong sum is refused", || house.refuses());
        checks.check("another run is told of", || house.is_told_of_another_run(sandbox));
        checks.check("the states are applied", || house.applies(&theirs));
        checks.finish()
    });
}

impl House {
    fn new(sandbox: &Sandbox, real: &Salt) -> Result<Self> {
        let (tree, made) = (sandbox.folder("tree")?, sandbox.root().join("made"));
        for (name, text) in TREE {
            let path = tree.join(name);
            fs::create_dir_all(path.parent().context("a file has a folder")?)?;
            fs::write(path, text.replace("MADE", &made.to_string_lossy()))?;
        }
        let ours = Salt::ours()?;
        let master = Master::build(&ours, "master").option("auto_accept", true).start(sandbox)?;
        // A trap: the minion must take the file from the package, not from its master.
        master.serve("same.txt", b"of the master\n")?;
        let minion = Minion::build(&ours, ID).master(&master).start(sandbox)?;
        master.wait_answering(&[ID])?;
        let package = sandbox.root().join("state.tgz").display().to_string();
        let sum = packed(sandbox, real, &tree, &minion, &package)?;
        Ok(House { master, minion, package, sum, made })
    }

    fn ask(&self, more: &[&str]) -> Result<Value> {
        let call = ["state.pkg", &self.package, &self.sum, "sha256"];
        self.master.ask(ID, &[&call, more].concat())
    }

    fn only_tells(&self, theirs: &Minion) -> Result<()> {
        let told = self.ask(&["test=True"])?;
        let files = chunks(&told)?.into_iter().filter(|(tag, _)| tag.starts_with("file_"));
        ensure!(files.map(|(_, result)| &result["result"]).eq([&Value::Null; 4]), "{told}");
        self.is_as_salt_does(theirs, "test=True", &told)?;
        ensure!(!self.made.exists(), "a test has made files");
        Ok(())
    }

    fn refuses(&self) -> Result<()> {
        let call = ["state.pkg", &self.package, "0123abcd", "sha256"];
        let output = self.master.salt_run(&[&[ID][..], &call].concat())?.exits(1)?;
        let text = format!("has the sha256 sum {}, not 0123abcd", self.sum);
        ensure!(output.stdout.contains(&text), "expected '{text}' in {output}");
        ensure!(!self.made.exists(), "a package with a wrong sum was applied");
        Ok(())
    }

    fn is_told_of_another_run(&self, sandbox: &Sandbox) -> Result<()> {
        let (waits, go) = (sandbox.root().join("waits"), sandbox.root().join("go"));
        let line = format!("touch {}; while [ ! -e {} ]; do sleep 0.05; done", waits.display(), go.display());
        let jid = self.master.send(&[ID, "state.single", "cmd.run", &format!("name={line}")])?;
        until("the other run to wait", PATIENCE, || waits.exists())?;
        let told = self.ask(&[])?;
        fs::write(go, "")?;
        let text = told[0].as_str().unwrap_or_default();
        ensure!(text.contains("\"state.single\" is running") && text.contains(&jid), "{told}");
        until("the other run to end", PATIENCE, || !self.minion.root().join("cache/proc").join(&jid).exists())
    }

    fn applies(&self, theirs: &Minion) -> Result<()> {
        let told = self.ask(&[])?;
        ensure!(chunks(&told)?.iter().all(|(_, result)| result["result"] == true), "{told}");
        for (name, text) in RESULT {
            let found = fs::read_to_string(self.made.join(name)).with_context(|| format!("{name} is not there"))?;
            ensure!(found == *text, "{name} holds {found:?}");
        }
        let output = self.master.salt_run(&[ID, "state.pkg", &self.package, &self.sum, "sha256"])?.ok()?;
        ensure!(output.stdout.contains("Succeeded: 5\n"), "expected a summary without changes in {output}");
        fs::remove_dir_all(&self.made)?;
        self.is_as_salt_does(theirs, "test=False", &told)
    }

    /// Salt's minion reads the files of a package only if it has no master, hence `--local`.
    fn is_as_salt_does(&self, theirs: &Minion, test: &str, ours: &Value) -> Result<()> {
        let call = ["--local", "--out=json", "state.pkg", &self.package, &self.sum, "sha256", test];
        let output = theirs.program("salt-call").args(call).run()?.ok()?;
        let differences = differences(&plain(&output.json()?["local"]), &plain(ours));
        ensure!(differences.is_empty(), "{}", differences.join("\n"));
        Ok(())
    }
}

/// Lets Salt create the package, and returns its checksum.
fn packed(sandbox: &Sandbox, real: &Salt, tree: &Path, minion: &Minion, package: &str) -> Result<String> {
    let roots = json!({"base": [tree.join("base")], "dev": [tree.join("dev")]});
    let packer = Master::build(real, "packer").option("file_roots", roots).prepare(sandbox)?;
    let conf = minion.conf().join("minion").display().to_string();
    let program = packer.python_program(real, "state_package.py", &[&conf, package, "base=web", "dev=late"])?;
    let pillar = json!({"colour": "green", "deep": {"port": 8080}}).to_string();
    let grains =
        json!({"id": ID, "os": "Debian", "os_family": "Debian", "kernel": "Linux", "shell": "/bin/sh", "role": "web"});
    let grains = grains.to_string();
    let said = program.env("PILLAR", pillar).env("GRAINS", grains).run()?.ok()?.last_json()?;
    Ok(said["sum"].as_str().context("a sum was printed")?.to_owned())
}

/// Returns the results of a run by their tags.
fn chunks(told: &Value) -> Result<Vec<(&String, &Value)>> {
    let results: Vec<_> = told.as_object().with_context(|| format!("the run told {told}"))?.iter().collect();
    ensure!(results.len() >= 5 && results.iter().all(|(_, result)| result.get("result").is_some()), "{told}");
    Ok(results)
}

/// Removes values that differ from run to run.
fn plain(told: &Value) -> Value {
    match told {
        Value::Object(map) => {
            let kept = map.iter().filter(|(key, _)| !matches!(key.as_str(), "duration" | "start_time" | "pid"));
            kept.map(|(key, value)| (key.clone(), plain(value))).collect()
        }
        Value::Array(items) => items.iter().map(plain).collect(),
        other => other.clone(),
    }
}
