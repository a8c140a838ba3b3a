//! Every release line of the real Salt with both transports: our minion on their master, their minion on our master,
//! and a hot pair of masters with a minion of each kind.
//!
//! One set of daemons serves all combinations of a line and transport, because starting real daemons takes most of the
//! time: two hot masters (`theirs`, `ours`), two minions that know one of them, and two that know both.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use interop::{
    Checks, Daemon, Master, Minion, Salt, Sandbox, Transport, differences, missing, scenario, until, until_some,
};
use serde_json::{Value, json};

#[test]
fn salt_3006_over_zeromq() {
    matrix("3006.30", Transport::Zeromq);
}

#[test]
fn salt_3006_over_tcp() {
    matrix("3006.30", Transport::Tcp);
}

#[test]
fn salt_3007_over_zeromq() {
    matrix("3007.17", Transport::Zeromq);
}

#[test]
fn salt_3007_over_tcp() {
    matrix("3007.17", Transport::Tcp);
}

#[test]
fn salt_3008_over_zeromq() {
    matrix("3008.5", Transport::Zeromq);
}

#[test]
fn salt_3008_over_tcp() {
    matrix("3008.5", Transport::Tcp);
}

/// Our minion that knows only their master.
const OURS_ON_THEIRS: &str = "ours-on-theirs";
/// Their minion that knows only our master.
const THEIRS_ON_OURS: &str = "theirs-on-ours";
/// Our minion that knows both masters.
const OURS_ON_BOTH: &str = "ours-on-both";
/// Their minion that knows both masters.
const THEIRS_ON_BOTH: &str = "theirs-on-both";
/// A key that exists only to be deleted.
const LEAVER: &str = "leaver";

/// The daemons of one line and transport.
struct Cluster<'a> {
    sandbox: &'a Sandbox,
    masters: [Master; 2],
    minions: Vec<Minion>,
}

fn matrix(line: &str, transport: Transport) {
    if missing(&[line]) {
        return;
    }
    scenario(&format!("matrix {line} {}", transport.name()), |sandbox| {
        let theirs = Salt::real(line).context("checked above")?;
        let cluster = start(sandbox, &theirs, &Salt::ours()?, transport)?;
        let mut checks = Checks::new();
        for at in 0..2 {
            checks.check(format!("key acceptance by {}", cluster.masters[at].name()), || cluster.accept(at));
        }
        let mut answering = Vec::new();
        for at in 0..2 {
            checks.check(format!("every minion of {} answers", cluster.masters[at].name()), || {
                cluster.masters[at].wait_answering(&cluster.ids(at)).map(|()| answering.push(at))
            });
        }
        for at in answering.iter().copied() {
            exercise(&cluster, at, &mut checks);
        }
        for at in answering {
            let name = format!("key rotation of {} without a lost job", cluster.masters[at].name());
            checks.check(name, || rotate(&cluster, at));
        }
        checks.finish()
    });
}

fn start<'a>(sandbox: &'a Sandbox, theirs: &Salt, ours: &Salt, transport: Transport) -> Result<Cluster<'a>> {
    let pair = Master::make_key_pair(ours, sandbox)?;
    let master = |salt: &Salt, name: &str| {
        let built = Master::build(salt, name).transport(transport).key_pair(&pair).prepare(sandbox);
        built.and_then(|mut master| master.launch(sandbox).map(|()| master))
    };
    let mut masters = [master(theirs, "theirs")?, master(ours, "ours")?];
    masters.iter_mut().try_for_each(Master::wait_ready)?;
    let [their_master, our_master] = &masters;
    let minions = vec![
        Minion::build(ours, OURS_ON_THEIRS).master(their_master).start(sandbox)?,
        Minion::build(theirs, THEIRS_ON_OURS).master(our_master).start(sandbox)?,
        Minion::build(ours, OURS_ON_BOTH).masters(&masters).start(sandbox)?,
        Minion::build(theirs, THEIRS_ON_BOTH).masters(&masters).start(sandbox)?,
    ];
    Ok(Cluster { sandbox, masters, minions })
}

impl Cluster<'_> {
    /// Ids of the minions that know the master at `at`: 0 is theirs, 1 is ours.
    fn ids(&self, at: usize) -> [&'static str; 3] {
        [[OURS_ON_THEIRS, OURS_ON_BOTH, THEIRS_ON_BOTH], [THEIRS_ON_OURS, OURS_ON_BOTH, THEIRS_ON_BOTH]][at]
    }

    fn minion(&self, id: &str) -> Result<&Minion> {
        self.minions.iter().find(|minion| minion.id() == id).with_context(|| format!("no minion {id}"))
    }

    fn accept(&self, at: usize) -> Result<()> {
        let master = &self.masters[at];
        let output = master.accept(&self.ids(at))?;
        for id in self.ids(at) {
            let said = output.stdout.contains(&format!("Key for minion {id} accepted"));
            ensure!(said, "expected a line on {id} in {output}");
        }
        Ok(())
    }
}

fn exercise(cluster: &Cluster<'_>, at: usize, checks: &mut Checks) {
    let name = cluster.masters[at].name().to_owned();
    let mut run = |what: &str, body: fn(&Cluster<'_>, usize) -> Result<()>| {
        checks.check(format!("{what} from {name}"), || body(cluster, at));
    };
    run("test.ping", ping);
    run("cmd.run", cmd_run);
    run("grains.items", grains_items);
    run("pillar.items", pillar_items);
    run("cp.get_file of 5 MB", get_file);
    run("event.send", event_send);
    run("saltutil.running and a killed job", kill_job);
}

fn ping(cluster: &Cluster<'_>, at: usize) -> Result<()> {
    let got = cluster.masters[at].command(&["*", "test.ping"])?;
    let expected: Value =
        cluster.ids(at).iter().map(|id| (id.to_string(), json!(true))).collect::<serde_json::Map<_, _>>().into();
    ensure!(differences(&expected, &got.clone().into()).is_empty(), "expected {expected}, got {got:?}");
    Ok(())
}

fn cmd_run(cluster: &Cluster<'_>, at: usize) -> Result<()> {
    let got = cluster.masters[at].command(&[
        "*",
        "cmd.run",
        // Umlauts cross every encoding on the way: shell, MessagePack and the JSON of `salt`.
        "echo salz und Öl; echo second",
        "cwd=/tmp",
        "python_shell=True",
    ])?;
    for id in cluster.ids(at) {
        ensure!(got.get(id) == Some(&json!("salz und Öl\nsecond")), "got {got:?}");
    }
    Ok(())
}

fn grains_items(cluster: &Cluster<'_>, at: usize) -> Result<()> {
    let got = cluster.masters[at].command(&["*", "grains.items"])?;
    for id in cluster.ids(at) {
        let grains = got.get(id).with_context(|| format!("nothing of {id}"))?;
        ensure!(grains["id"] == json!(id), "grain `id` of {id}: {}", grains["id"]);
        for name in ["os", "os_family", "kernel", "cpuarch", "saltversion", "num_cpus", "mem_total"] {
            ensure!(grains.get(name).is_some_and(|value| !value.is_null()), "{id} has no grain {name}");
        }
    }
    Ok(())
}

fn pillar_items(cluster: &Cluster<'_>, at: usize) -> Result<()> {
    let got = cluster.masters[at].command(&["*", "pillar.items"])?;
    let expected = json!({"colour": "green", "nested": {"list": [1, "two", 3.5], "text": "grüße"}});
    for id in cluster.ids(at) {
        let different = differences(&expected, got.get(id).with_context(|| format!("nothing of {id}"))?);
        ensure!(different.is_empty(), "pillar of {id}, expected | got: {different:?}");
    }
    Ok(())
}

fn get_file(cluster: &Cluster<'_>, at: usize) -> Result<()> {
    let master = &cluster.masters[at];
    // Twenty chunks of 256 KiB, Salt's default, whose contents all differ: a chunk that is lost, doubled or misplaced
    // shows.
    let bytes: Vec<u8> = (0..5_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    master.serve("big.bin", &bytes)?;
    let expected = sha256(&bytes, cluster)?;
    for id in cluster.ids(at) {
        let target = cluster.minion(id)?.root().join(format!("got-from-{}.bin", master.name()));
        let target = target.to_str().context("a path of text")?.to_owned();
        let answer = master.ask(id, &["cp.get_file", "salt://big.bin", &target])?;
        ensure!(answer == json!(target), "{id} answered {answer}");
        ensure!(fs::read(&target).is_ok_and(|got| got == bytes), "{id} got other bytes");
        let hash = master.ask(id, &["cp.hash_file", "salt://big.bin"])?;
        ensure!(hash["hsum"] == json!(expected), "cp.hash_file on {id} said {hash}, expected {expected}");
    }
    Ok(())
}

fn sha256(bytes: &[u8], cluster: &Cluster<'_>) -> Result<String> {
    let path = cluster.sandbox.root().join("hash-me");
    fs::write(&path, bytes)?;
    let output = interop::Program::new(cluster.sandbox, "sha256sum".as_ref()).args([&path]).run()?.ok()?;
    Ok(output.stdout.split_whitespace().next().unwrap_or_default().to_owned())
}

fn event_send(cluster: &Cluster<'_>, at: usize) -> Result<()> {
    let master = &cluster.masters[at];
    let captured = master.root().join("events.out");
    let watch = master.program("salt-run").args(["state.event", "interop/*", "count=200", "pretty=False"]);
    let mut watch = watch.env("PYTHONUNBUFFERED", "1").start(&captured)?;
    let seen = |text: &str| cluster.ids(at).iter().all(|id| text.lines().any(|line| event_of(line, id)));
    // Nothing shows when the listener has subscribed, so the event is sent until it appears.
    until_some("every minion's event to be seen", Duration::from_secs(60), || {
        let sent = master.command(&["*", "event.send", "interop/hello", r#"{"colour": "blue"}"#]);
        let sent = sent.is_ok_and(|map| map.values().all(|value| *value == json!(true)));
        (sent && seen(&fs::read_to_string(&captured).unwrap_or_default())).then_some(())
    })
    .with_context(|| format!("state.event printed: {}", watch.printed()))?;
    ensure!(watch.alive(), "state.event ended early");
    Ok(())
}

/// Returns whether a line of `state.event` is the event of a minion, with its data.
fn event_of(line: &str, id: &str) -> bool {
    let Some((tag, data)) = line.split_once('\t') else { return false };
    let data: Value = serde_json::from_str(data).unwrap_or_default();
    tag == "interop/hello" && data["id"] == json!(id) && data["data"]["colour"] == json!("blue")
}

fn kill_job(cluster: &Cluster<'_>, at: usize) -> Result<()> {
    let master = &cluster.masters[at];
    // Longer than the rest of this check, so that only the kill can end it.
    let jid = master.send(&["*", "test.sleep", "120"])?;
    let mut last = String::new();
    let running = until_some("the job to be listed by saltutil.running", Duration::from_secs(30), || {
        let got = master.command(&["*", "saltutil.running"]).ok()?;
        last = format!("{got:?}");
        cluster.ids(at).iter().all(|id| job(got.get(*id), &jid).is_some()).then_some(got)
    })
    .with_context(|| format!("jid {jid}, last: {last}"))?;
    for id in cluster.ids(at) {
        let job = job(running.get(id), &jid).context("found above")?;
        ensure!(
            job["fun"] == json!("test.sleep") && job["arg"] == json!([120]) && job["pid"].is_u64(),
            "of {id}: {job}"
        );
    }
    let killed = master.command(&["*", "saltutil.kill_job", &jid])?;
    for id in cluster.ids(at) {
        let said = killed.get(id).and_then(Value::as_str).unwrap_or_default().to_owned();
        ensure!(said.starts_with(&format!("Signal 9 sent to job {jid} at pid ")), "{id} said {said:?}");
    }
    until("the job to be gone", Duration::from_secs(30), || {
        let got = master.command(&["*", "saltutil.running"]).unwrap_or_default();
        cluster.ids(at).iter().all(|id| got.get(*id) == Some(&json!([])))
    })
}

fn job<'a>(running: Option<&'a Value>, jid: &str) -> Option<&'a Value> {
    running?.as_array()?.iter().find(|job| job["jid"] == json!(jid))
}

/// Deletes a key while a job runs, which makes the master rotate its AES key, and sends the next job.
fn rotate(cluster: &Cluster<'_>, at: usize) -> Result<()> {
    let master = &cluster.masters[at];
    let key = fs::read(cluster.minions[0].root().join("pki/minion.pub"))?;
    fs::write(master.pki().join("minions").join(LEAVER), key)?;
    let events = watch_keys(master)?;
    let mut job = start_long_job(cluster, at)?;
    master.program("salt-key").args(["-y", "-d", LEAVER]).run()?.ok()?;
    until("the master to tell that it rotated its AES key", Duration::from_secs(60), || {
        events.printed().contains(r#""rotate_aes_key": true"#)
    })
    .with_context(|| format!("events of the master: {}", events.printed()))?;
    ping(cluster, at).context("the first job after the rotation")?;
    job.wait(Duration::from_secs(60))?;
    let text = job.printed();
    ensure!(text.matches("done").count() == 3, "the job that ran during the rotation gave {text}");
    let begin = Instant::now();
    cmd_run(cluster, at)?;
    // A minion that had to wait for a timeout before it signs in again would still answer, but late.
    ensure!(begin.elapsed() < Duration::from_secs(15), "a job after the rotation took {:?}", begin.elapsed());
    // A minion of both masters must not mix up their keys.
    cluster.masters[1 - at].wait_answering(&cluster.ids(1 - at)).context("the other master")
}

/// Starts to print the events of a master's keys, and waits until it has subscribed.
fn watch_keys(master: &Master) -> Result<Daemon> {
    let watch = master.program("salt-run").args(["state.event", "key", "count=100", "pretty=False"]);
    let watch = watch.env("PYTHONUNBUFFERED", "1").start(&master.root().join("keys.out"))?;
    until("state.event to listen", Duration::from_secs(60), || {
        let _ = master.runner(&["event.send", "key", r#"{"probe": true}"#]);
        watch.printed().contains("probe")
    })?;
    Ok(watch)
}

/// Starts a job of some seconds on every minion, and waits until each one runs it.
fn start_long_job(cluster: &Cluster<'_>, at: usize) -> Result<Daemon> {
    let master = &cluster.masters[at];
    // Not `*`, which would wait for the minion whose key is about to be deleted.
    let list = cluster.ids(at).join(",");
    let job = master.program("salt").args(["--out=json", "--static", "-L", &list]);
    let job =
        job.args(["cmd.run", "sleep 8; echo done", "python_shell=True"]).start(&master.root().join("long.out"))?;
    until("the long job to run on every minion", Duration::from_secs(8), || {
        let got = master.command(&["-L", &list, "saltutil.running"]).unwrap_or_default();
        cluster.ids(at).iter().all(|id| got.get(*id).is_some_and(|jobs| jobs.to_string().contains("sleep 8")))
    })?;
    Ok(job)
}
