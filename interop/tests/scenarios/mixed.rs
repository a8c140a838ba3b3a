//! Two Saltern masters and a real one in the list of the same minions, as during a migration.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{Master, MasterBuilder, Minion, Salt, Sandbox, missing, scenario, until, until_some};
use serde_json::{Value, json};

/// The timeout for daemons of the real Salt on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const OWN: &str = "own";
const STOCK: &str = "stock";

#[test]
fn hot_with_a_real_3007() {
    hot("3007.17");
}

#[test]
fn hot_with_a_real_3008() {
    hot("3008.5");
}

#[test]
fn failing_over_with_a_real_3007() {
    // A stock minion of 3007.17 stays at the dead master, also with real masters only.
    failing_over("3007.17", &[OWN]);
}

#[test]
fn failing_over_with_a_real_3008() {
    failing_over("3008.5", &[OWN, STOCK]);
}

/// Tests everything that involves several masters, before, during and after the death of each.
fn hot(line: &str) {
    if missing(&[line]) {
        return;
    }
    scenario(&format!("two of ours and a real {line}, all hot"), |sandbox| {
        let (ours, real) = (Salt::ours()?, Salt::real(line).context("checked above")?);
        let mut masters = set(sandbox, &ours, &real)?;
        let _own = Minion::build(&ours, OWN).masters(&masters).start(sandbox)?;
        let _stock = Minion::build(&real, STOCK).masters(&masters).option("mine_interval", 60).start(sandbox)?;
        masters.iter().try_for_each(|master| master.wait_answering(&[OWN, STOCK]))?;
        returns_go_to_the_publisher(&masters)?;
        mines_are_everywhere(&masters)?;
        events_are_heard_by_all(&masters)?;
        for dead in 0..masters.len() {
            dies_and_comes_back(sandbox, &mut masters, dead)?;
        }
        Ok(())
    });
}

/// The real master is between ours in the list. Whichever dies, the next one takes over.
fn failing_over(line: &str, ids: &[&str]) {
    if missing(&[line]) {
        return;
    }
    scenario(&format!("two of ours and a real {line}, one at a time"), |sandbox| {
        let (ours, real) = (Salt::ours()?, Salt::real(line).context("checked above")?);
        let mut masters = set(sandbox, &ours, &real)?;
        let mut minions = Vec::new();
        for id in ids {
            let salt = if *id == OWN { &ours } else { &real };
            let minion = Minion::build(salt, id).masters(&masters).option("master_type", "failover");
            let minion = minion.option("master_alive_interval", 1).option("retry_dns", 0);
            // A busy real master takes long to answer a sign-in. For a dead master only a stock minion waits as long.
            let minion = minion.option("auth_timeout", if *id == OWN { 30 } else { 10 });
            minions.push(minion.option("acceptance_wait_time", 1).start(sandbox)?);
        }
        masters[0].wait_answering(ids)?;
        for (dead, next) in [(0, 1), (1, 2)] {
            masters[dead].daemon()?.kill();
            masters[next].wait_answering(ids)?;
        }
        // The first master is the only one alive now.
        masters[0].launch(sandbox)?;
        masters[0].wait_ready()?;
        masters[2].daemon()?.kill();
        masters[0].wait_answering(ids)
    });
}

/// Starts a Saltern master, a real one and another Saltern master with the same key pair.
fn set(sandbox: &Sandbox, ours: &Salt, real: &Salt) -> Result<Vec<Master>> {
    let pair = Master::make_key_pair(ours, sandbox)?;
    let build = |salt: &Salt, name: &str| -> MasterBuilder {
        Master::build(salt, name).key_pair(&pair).option("auto_accept", true).option("gather_job_timeout", 2)
    };
    let mut masters = Vec::new();
    for (salt, name) in [(ours, "m1"), (real, "real"), (ours, "m2")] {
        let mut master = build(salt, name).prepare(sandbox)?;
        master.launch(sandbox)?;
        masters.push(master);
    }
    masters.iter_mut().try_for_each(Master::wait_ready)?;
    Ok(masters)
}

fn returns_go_to_the_publisher(masters: &[Master]) -> Result<()> {
    for (at, master) in masters.iter().enumerate() {
        let word = format!("for {}", master.name());
        let jid = master.send(&["*", "test.echo", &word])?;
        let wanted = json!({OWN: word, STOCK: word});
        until(&format!("the returns at {}", master.name()), PATIENCE, || looked_up(master, &jid) == wanted)?;
        for other in masters.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, other)| other) {
            let strange = looked_up(other, &jid);
            ensure!(strange == json!({}), "{} has returns of {}: {strange}", other.name(), master.name());
        }
    }
    Ok(())
}

fn looked_up(master: &Master, jid: &str) -> Value {
    master.runner(&["jobs.lookup_jid", jid]).unwrap_or_default()
}

/// Each master serves the mine of one minion to the other.
fn mines_are_everywhere(masters: &[Master]) -> Result<()> {
    for (id, word) in [(OWN, "from own"), (STOCK, "from stock")] {
        masters[0].ask(id, &["mine.send", "shown", "mine_function=test.echo", word])?;
        for master in masters {
            let other = if id == OWN { STOCK } else { OWN };
            until(&format!("{}'s mine of {id}", master.name()), PATIENCE, || {
                master.ask(other, &["mine.get", id, "shown"]).is_ok_and(|found| found == json!({id: word}))
            })?;
        }
    }
    Ok(())
}

/// An event that a job sends arrives once at each master.
fn events_are_heard_by_all(masters: &[Master]) -> Result<()> {
    let watch = |master: &Master| {
        let program = master.program("salt-run").args(["state.event", "mixed/*", "count=200", "pretty=False"]);
        program.env("PYTHONUNBUFFERED", "1").start(&master.root().join("events"))
    };
    let watching: Vec<_> = masters.iter().map(watch).collect::<Result<_>>()?;
    for id in [OWN, STOCK] {
        let tag = format!("mixed/{id}");
        // Nothing shows when a watcher has subscribed, so a first event is sent until all have received one.
        until_some("each watcher to listen", PATIENCE, || {
            masters[0].ask(id, &["event.send", &format!("{tag}/probe")]).ok()?;
            watching.iter().all(|daemon| daemon.printed().contains(&format!("{tag}/probe"))).then_some(())
        })?;
        masters[1].ask(id, &["event.send", &tag, "{x: 1}"])?;
        let heard = |daemon: &interop::Daemon| daemon.printed().matches(&format!("{tag}\t")).count();
        until(&format!("{tag} at each master"), PATIENCE, || watching.iter().all(|daemon| heard(daemon) >= 1))?;
        let counts: Vec<usize> = watching.iter().map(heard).collect();
        ensure!(counts.iter().all(|count| *count == 1), "{tag} was heard {counts:?} times");
    }
    Ok(())
}

fn dies_and_comes_back(sandbox: &Sandbox, masters: &mut [Master], dead: usize) -> Result<()> {
    masters[dead].daemon()?.kill();
    for (_, master) in masters.iter().enumerate().filter(|(at, _)| *at != dead) {
        master.wait_answering(&[OWN, STOCK]).with_context(|| format!("without the master at {dead}"))?;
    }
    masters[dead].launch(sandbox)?;
    masters[dead].wait_ready()?;
    masters[dead].wait_answering(&[OWN, STOCK]).with_context(|| format!("the master at {dead} is back"))
}
