//! `salt-call` beside a running minion: its answers and the events on the minion's bus are the same as the real Salt's.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use interop::{Checks, Master, Minion, Program, Salt, Sandbox, missing, scenario, stable};
use serde_json::{Value, json};

const PILLAR: &str = "/salt/minion/minion_pillar_refresh_complete";
const MODULES: &str = "/salt/minion/minion_mod_refresh_complete";

/// Calls that fire events on the minion's bus, each with the last event that follows.
const HEARD: &[(&str, &str)] = &[
    ("saltutil.refresh_pillar", PILLAR),
    ("saltutil.refresh_pillar | wait=True", PILLAR),
    ("saltutil.refresh_modules", "module_refresh"),
    ("saltutil.refresh_modules | async=False", MODULES),
    ("saltutil.refresh_grains", PILLAR),
    ("saltutil.refresh_beacons", "beacons_refresh"),
    ("saltutil.refresh_matchers", "matchers_refresh"),
    ("saltutil.sync_grains", PILLAR),
    ("grains.setval | beside | value", PILLAR),
    ("grains.delval | beside", PILLAR),
    ("state.single | grains.present | name=beside | value=other | --out-file=/dev/null", PILLAR),
    ("event.fire | {\"a\": 1} | interop/fired", "interop/fired"),
    ("event.fire | text | interop/fired", "interop/end"),
    ("mine.send | test.ping", "_minion_mine"),
    ("schedule.add | one | function=test.ping | seconds=3600", "/salt/minion/minion_schedule_add_complete"),
    ("schedule.disable_job | one", "/salt/minion/minion_schedule_disabled_job_complete"),
    ("schedule.enable_job | one", "/salt/minion/minion_schedule_enabled_job_complete"),
    ("schedule.delete | one", "/salt/minion/minion_schedule_delete_complete"),
    ("beacons.add | ps | [{processes: {interop: stopped}}]", "/salt/minion/minion_beacon_add_complete"),
    ("beacons.delete | ps", "/salt/minion/minion_beacon_delete_complete"),
    ("environ.setenv | {INTEROP: beside} | update_minion=True", "environ_setenv"),
];

/// Calls of which only the answer is compared.
const ANSWERED: &[&str] = &[
    "sys.reload_modules",
    "publish.publish | nobody | test.ping",
    "publish.full_data | nobody | test.ping",
    "event.send | interop/sent | a=1",
    "event.fire_master | text | interop/sent",
    "grains.get | beside",
    "environ.get | INTEROP",
    "test.arg_clean | 1 | two=2 | \"three=3\"",
    "test.echo | a==b",
    "state.show_sls | absolute",
    "state.apply | watched | --out=txt | --out-file=/dev/null",
    "schedule.list",
    "beacons.list",
    "--local | saltutil.refresh_pillar",
    "--local | event.send | interop/sent | a=1",
    "--local | mine.send | test.ping",
    "--retcode-passthrough | test.false",
    "cmd.run | echo $0",
    "sys.argspec | cmd.run",
    "config.get | grains:id",
    "slsutil.renderer | string={{ opts.pillar == pillar }} {{ opts.grains.id }} | default_renderer=jinja",
    "--local | --id=other | grains.get | id",
];

#[test]
fn the_minion_hears_of_a_call_beside_it() {
    if missing(&["3008.5"]) {
        return;
    }
    scenario("salt-call beside a running minion", |sandbox| {
        let (listener, ours) = (Salt::real("3008.5").context("checked above")?, Salt::ours()?);
        let mut master = Master::build(&listener, "master").option("auto_accept", true).prepare(sandbox)?;
        let library = sandbox.root().join("library.jinja");
        std::fs::write(&library, "{% set v = 6 %}").context("failed to write a template")?;
        let import = format!("{{% from '{}' import v %}}\nx{{{{ v }}}}: test.nop\n", library.display());
        master.serve("absolute.sls", import.as_bytes())?;
        master.serve("watched.sls", WATCHED.as_bytes())?;
        master.serve("plain.sls", b"first: test.nop\nsecond: test.nop\n")?;
        master.launch(sandbox)?;
        master.wait_ready()?;
        let minion = |salt: &Salt, id: &str| Minion::build(salt, id).master(&master).start(sandbox);
        let minions = [minion(&listener, "theirs")?, minion(&ours, "ours")?];
        master.wait_answering(&["theirs", "ours"])?;
        let mut checks = Checks::new();
        for (words, wanted) in HEARD {
            let [theirs, ours] = &minions;
            let heard = |minion| heard(sandbox, &listener, minion, words, wanted);
            checks.check(words, || same(heard(theirs)?, heard(ours)?));
        }
        for words in ANSWERED {
            let [theirs, ours] = &minions;
            checks.check(words, || same(answered(theirs, words)?, answered(ours, words)?));
        }
        for minion in &minions {
            checks.check(format!("progress of states: {}", minion.id()), || progress(sandbox, &master, minion));
        }
        checks.finish()
    });
}

/// A watched state reports changes, and the state that watches it reports none.
const WATCHED: &str = "
changed: {test.configurable_test_state: [{changes: true}, {result: true}]}
quiet: {test.configurable_test_state: [{changes: false}, {result: true}, {watch: [{test: changed}]}]}
";

fn same<T: PartialEq + std::fmt::Debug>(theirs: T, ours: T) -> Result<()> {
    ensure!(theirs == ours, "theirs | ours:\n{theirs:#?}\n{ours:#?}");
    Ok(())
}

fn split(words: &str) -> Vec<&str> {
    words.split(" | ").collect()
}

/// Runs `salt-call`, and returns the events of a daemon's bus up to a last tag.
fn listen(
    sandbox: &Sandbox,
    listener: &Salt,
    (kind, conf, counted, wanted): (&str, PathBuf, &str, &str),
    minion: &Minion,
    words: &str,
) -> Result<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("py/events_beside.py");
    let listening = Program::new(sandbox, &listener.python()?).args([script]).args([kind]).args([conf]);
    let call = listening.args([counted, wanted]).args([minion.salt().program("salt-call")]);
    let mut output = call.args(["-c"]).args([minion.conf()]).args(["--out=json"]).args(split(words)).run()?.ok()?;
    output.stdout = stable(&output.stdout, &[(minion.id(), "MINION")]);
    output.last_json()
}

/// Returns the answer of a call, its exit code, and the events of the minion's bus.
fn heard(sandbox: &Sandbox, listener: &Salt, minion: &Minion, words: &str, wanted: &str) -> Result<Value> {
    let bus = ("minion", minion.conf().join("minion"), "", wanted);
    let mut seen = listen(sandbox, listener, bus, minion, words)?;
    // The minion works in parallel, so its last events may precede or follow those of the program.
    if let Some(tags) = seen["events"].as_array_mut() {
        tags.sort_by_key(Value::to_string);
    }
    Ok(seen)
}

/// Returns the answer of a call and its exit code.
fn answered(minion: &Minion, words: &str) -> Result<(i32, String)> {
    // Services have no SHELL; most users who run the tests have another one.
    let call = minion.program("salt-call").env("SHELL", "/bin/sh");
    let output = call.args(["--out=json"]).args(split(words)).run()?;
    Ok((output.code, stable(&output.stdout, &[(minion.id(), "MINION")])))
}

/// With `state_events` the master receives an event for each state before the return.
fn progress(sandbox: &Sandbox, master: &Master, minion: &Minion) -> Result<()> {
    let bus = ("master", master.conf().join("master"), "salt/job/", "salt/job/[0-9]+/ret/.*");
    let seen =
        listen(sandbox, master.salt(), bus, minion, "state.apply | plain | state_events=True | --out-file=/dev/null")?;
    let expected = json!(["salt/job/JID/prog/MINION/0", "salt/job/JID/prog/MINION/1", "salt/job/JID/ret/MINION"]);
    ensure!(seen["events"] == expected, "{seen}");
    Ok(())
}
