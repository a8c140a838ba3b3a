//! Two masters of Saltern as one set: keys that are decided about on one of them count on both, for minions of Salt too.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{Master, MasterBuilder, Minion, Salt, missing, scenario, until, until_some};
use serde_json::json;

/// How long minions may take to notice what was decided, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The port for other masters.
const POOL_PORT: u16 = 4520;

/// A master of the set that knows the secret. Both have one key pair, as minions with several masters need.
pub fn member(ours: &Salt, name: &str, pair: &std::path::Path) -> MasterBuilder {
    let master = Master::build(ours, name).key_pair(pair).option("id", format!("{name}_master"));
    master.option("cluster_id", "fleet").option("cluster_secret", "correct horse battery staple")
}

pub fn wait_linked(master: &Master, other: &str) -> Result<()> {
    let mut last = json!(null);
    let linked = until_some(&format!("{other} to be linked with {}", master.name()), PATIENCE, || {
        last = master.runner(&["saltern.masters"]).ok()?;
        (last["masters"][other]["state"] == json!("linked")).then_some(())
    });
    linked.with_context(|| format!("the last answer was {last}"))
}

fn wait_bank(master: &Master, bank: &str, id: &str, there: bool) -> Result<()> {
    let path = master.pki().join(bank).join(id);
    let what = format!("{id} to be {} {bank} of {}", if there { "in" } else { "out of" }, master.name());
    until(&what, PATIENCE, || path.exists() == there)
}

#[test]
fn keys_accepted_on_one_master_count_on_the_other() {
    if missing(&["3008.5"]) {
        return;
    }
    scenario("keys accepted on one master count on the other", |sandbox| {
        let (ours, theirs) = (Salt::ours()?, Salt::real("3008.5").context("checked above")?);
        let pair = Master::make_key_pair(&ours, sandbox)?;
        let one = member(&ours, "m1", &pair).start(sandbox)?;
        let peer = format!("{}:{POOL_PORT}", one.address());
        let mut two = member(&ours, "m2", &pair).option("cluster_peers", json!([peer])).start(sandbox)?;
        wait_linked(&one, "m2")?;
        wait_linked(&two, "m1")?;

        // Two minions know the second master only, and one of Salt knows both.
        let _ours = Minion::build(&ours, "ours").master(&two).start(sandbox)?;
        let stock = |id| Minion::build(&theirs, id).option("acceptance_wait_time", 1);
        let _theirs = stock("theirs").master(&two).start(sandbox)?;
        let _hot = stock("hot").masters([&one, &two]).start(sandbox)?;
        let ids = ["hot", "ours", "theirs"];
        one.accept(&ids)?;
        two.wait_answering(&ids)?;
        // Also those that are connected to the second master only.
        one.wait_answering(&ids)?;
        let up = one.runner(&["manage.up"])?;
        ensure!(up == json!(ids), "manage.up of the first master says {up}");
        let who = one.runner(&["saltern.who", "theirs"])?;
        ensure!(who.to_string().contains("m2") && !who.to_string().contains("m1"), "theirs is connected to {who}");

        seen_on_the_other_master(&one, &two, "theirs")?;

        // The data of a minion go with its key, and come back with it.
        one.program("salt-key").args(["-d", "ours", "-y"]).run()?.ok()?;
        two.wait_pending("ours")?;
        ensure!(one.runner(&["cache.grains", "ours"])? == json!({}), "the grains of a deleted minion are kept");
        two.accept(&["ours"])?;
        until("the grains of a minion that is accepted again to be on both masters", PATIENCE, || {
            [&one, &two].iter().all(|master| match master.runner(&["cache.grains", "ours"]) {
                Ok(found) => found["ours"]["id"] == json!("ours"),
                Err(_) => false,
            })
        })?;

        // Decided on the second, and obeyed by the first.
        two.program("salt-key").args(["-r", "hot", "--include-accepted", "-y"]).run()?.ok()?;
        wait_bank(&one, "minions_rejected", "hot", true)?;
        one.program("salt-key").args(["-a", "hot", "--include-rejected", "-y"]).run()?.ok()?;
        wait_bank(&two, "minions", "hot", true)?;

        // What is decided while a master is down is made up for.
        two.daemon()?.terminate(PATIENCE)?;
        one.program("salt-key").args(["-d", "theirs", "-y"]).run()?.ok()?;
        wait_bank(&two, "minions", "theirs", true)?;
        two.launch(sandbox)?;
        two.wait_ready()?;
        wait_bank(&two, "minions", "theirs", false)?;
        two.wait_answering(&["ours"])?;
        let decided = one.runner(&["saltern.decisions", "about=theirs"])?;
        ensure!(decided.to_string().contains("deleted"), "the deletion is not among {decided}");
        Ok(())
    });
}

/// Has a minion of the second master fire an event until a program on the first one sees it.
fn seen_on_the_other_master(one: &Master, two: &Master, id: &str) -> Result<()> {
    let captured = one.root().join("events.out");
    let watch = one.program("salt-run").args(["state.event", "interop/*", "count=200", "pretty=False"]);
    let mut watch = watch.start(&captured)?;
    // Nothing shows when the listener has subscribed.
    until_some("an event of the second master to be seen on the first", PATIENCE, || {
        let sent = two.command(&[id, "event.send", "interop/hello", r#"{"colour": "blue"}"#]);
        let text = std::fs::read_to_string(&captured).unwrap_or_default();
        (sent.is_ok() && text.lines().any(|line| is_forwarded(line, id))).then_some(())
    })
    .with_context(|| format!("state.event printed: {}", watch.printed()))?;
    ensure!(watch.alive(), "state.event ended early");
    Ok(())
}

/// Returns whether a line of `state.event` is the event of a minion of the second master.
fn is_forwarded(line: &str, id: &str) -> bool {
    let Some((tag, data)) = line.split_once('\t') else { return false };
    let data: serde_json::Value = serde_json::from_str(data).unwrap_or_default();
    tag == "interop/hello" && data["id"] == json!(id) && data["__peer_id"] == json!("m2")
}

#[test]
fn jobs_and_grains_of_one_master_are_known_to_the_other() {
    if missing(&["3008.5"]) {
        return;
    }
    scenario("jobs and grains of one master are known to the other", |sandbox| {
        let (ours, theirs) = (Salt::ours()?, Salt::real("3008.5").context("checked above")?);
        let pair = Master::make_key_pair(&ours, sandbox)?;
        let one = member(&ours, "m1", &pair).start(sandbox)?;
        let peer = format!("{}:{POOL_PORT}", one.address());
        let mut two = member(&ours, "m2", &pair).option("cluster_peers", json!([peer])).start(sandbox)?;
        wait_linked(&one, "m2")?;
        let _minion = Minion::build(&theirs, "theirs").option("acceptance_wait_time", 1).master(&one).start(sandbox)?;
        one.accept(&["theirs"])?;
        one.wait_answering(&["theirs"])?;
        same_on_both(&one, &two, &["cache.grains", "theirs"])?;
        let jid = run(&one, "first")?;
        same_on_both(&one, &two, &["jobs.lookup_jid", &jid])?;
        same_on_both(&one, &two, &["jobs.list_job", &jid])?;

        // What the second one missed, it gets when it is back.
        two.daemon()?.terminate(PATIENCE)?;
        let missed = run(&one, "second")?;
        two.launch(sandbox)?;
        two.wait_ready()?;
        same_on_both(&one, &two, &["jobs.lookup_jid", &missed])?;
        Ok(())
    });
}

/// Runs a job that returns a text, and returns its id when the return is there.
fn run(master: &Master, text: &str) -> Result<String> {
    let output = master.program("salt").args(["theirs", "test.echo", text, "--async"]).run()?;
    let output = output.ok()?;
    let jid =
        output.stdout.split_whitespace().find(|word| word.len() == 20 && word.bytes().all(|one| one.is_ascii_digit()));
    let jid = jid.with_context(|| format!("no job id in {output}"))?.to_owned();
    until_some(&format!("the return of {jid}"), PATIENCE, || {
        (master.runner(&["jobs.lookup_jid", &jid]).ok()?["theirs"] == json!(text)).then_some(())
    })?;
    Ok(jid)
}

/// Waits until a runner says the same on both masters, and not nothing.
fn same_on_both(one: &Master, two: &Master, runner: &[&str]) -> Result<()> {
    let wanted = one.runner(runner)?;
    ensure!(wanted.as_object().is_some_and(|map| !map.is_empty()), "{runner:?} is empty: {wanted}");
    let mut last = json!(null);
    let same = until_some(&format!("{runner:?} to be the same on both masters"), PATIENCE, || {
        last = two.runner(runner).ok()?;
        (last == wanted).then_some(())
    });
    same.with_context(|| format!("{wanted} and {last}"))
}
