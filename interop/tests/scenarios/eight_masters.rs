//! Eight hot masters and one minion: each master gets its own returns, with none missing and none at another master.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{Master, Minion, Salt, Transport, scenario, until};
use serde_json::{Value, json};

const MASTERS: usize = 8;
const JOBS_EACH: usize = 25;
const MINION: &str = "everybodys";

#[test]
fn eight_masters_over_zeromq() {
    eight(Transport::Zeromq);
}

#[test]
fn eight_masters_over_tcp() {
    eight(Transport::Tcp);
}

fn eight(transport: Transport) {
    scenario(&format!("eight masters over {}", transport.name()), |sandbox| {
        let ours = Salt::ours()?;
        let pair = Master::make_key_pair(&ours, sandbox)?;
        let mut masters = Vec::new();
        for number in 0..MASTERS {
            let built = Master::build(&ours, &format!("m{number}")).transport(transport).key_pair(&pair);
            // Salt's layout can be checked without a program of Saltern.
            let built = built.option("auto_accept", true).option("worker_threads", 1);
            let mut master = built.option("master_job_cache", "local_cache").prepare(sandbox)?;
            master.launch(sandbox)?;
            masters.push(master);
        }
        masters.iter_mut().try_for_each(Master::wait_ready)?;
        let _minion = Minion::build(&ours, MINION).masters(&masters).start(sandbox)?;
        masters.iter().try_for_each(|master| master.wait_answering(&[MINION]))?;

        let before = jobs_of(&masters)?;
        storm(&masters, "first")?;
        // Runs through the whole second storm: its return must find the right master among many others.
        let jid = masters[0].send(&[MINION, "cmd.run", "sleep 6; echo long", "python_shell=True"])?;
        storm(&masters, "during")?;
        until("the long job to be stored", Duration::from_secs(60), || {
            returned(&masters[0], &jid) == Some(json!("long"))
        })?;
        storm(&masters, "after")?;
        check_caches(&masters, &before, &jid)
    });
}

/// Sends jobs from all masters at once and checks every return.
fn storm(masters: &[Master], round: &str) -> Result<()> {
    let outcomes: Vec<Result<()>> = thread::scope(|scope| {
        let senders: Vec<_> = masters.iter().map(|master| scope.spawn(|| jobs_from(master, round))).collect();
        senders.into_iter().map(|sender| sender.join().expect("a sender that does not panic")).collect()
    });
    outcomes.into_iter().collect()
}

fn jobs_from(master: &Master, round: &str) -> Result<()> {
    for number in 0..JOBS_EACH {
        let text = format!("{round} {} {number}", master.name());
        let answer = master.ask(MINION, &["test.echo", &text]).with_context(|| format!("job {text}"))?;
        ensure!(answer == json!(text), "expected {text:?}, got {answer}");
    }
    Ok(())
}

/// Checks that each master stored its own jobs, each with a return, and none of another master.
fn check_caches(masters: &[Master], before: &[BTreeSet<String>], long: &str) -> Result<()> {
    let mut owners = BTreeMap::new();
    for ((master, jids), old) in masters.iter().zip(jobs_of(masters)?).zip(before) {
        let echoes: Vec<_> = jids.difference(old).filter(|jid| *jid != long).collect();
        ensure!(echoes.len() >= 3 * JOBS_EACH, "{} stored {} jobs", master.name(), echoes.len());
        for jid in echoes {
            let Some(value) = returned(master, jid) else { continue };
            let own = value.as_str().is_none_or(|text| text.contains(&format!(" {} ", master.name())));
            ensure!(own, "{} has {value}, another's return", master.name());
            owners.insert((master.name().to_owned(), jid.clone()), value);
        }
    }
    let echoed = owners.values().filter(|value| value.is_string()).count();
    ensure!(echoed == 3 * MASTERS * JOBS_EACH, "{echoed} returns of {} are stored", 3 * MASTERS * JOBS_EACH);
    Ok(())
}

fn jobs_of(masters: &[Master]) -> Result<Vec<BTreeSet<String>>> {
    masters.iter().map(|master| job_dirs(&master.cache().join("jobs"))).collect()
}

fn job_dirs(jobs: &Path) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for half in fs::read_dir(jobs).into_iter().flatten().flatten() {
        for job in fs::read_dir(half.path()).into_iter().flatten().flatten() {
            let path = job.path().join("jid");
            found.insert(fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?);
        }
    }
    Ok(found)
}

/// Returns the minion's return as stored by a master: a text, or null for anything else.
fn returned(master: &Master, jid: &str) -> Option<Value> {
    let jobs = master.cache().join("jobs");
    let halves = fs::read_dir(jobs).ok()?.flatten();
    let mut dirs =
        halves.flat_map(|half| fs::read_dir(half.path()).into_iter().flatten().flatten()).map(|job| job.path());
    let dir = dirs.find(|dir| fs::read_to_string(dir.join("jid")).is_ok_and(|text| text == jid))?;
    let bytes = fs::read(dir.join(MINION).join("return.p")).ok()?;
    let at = bytes.windows(7).position(|window| window == b"\xa6return")? + 7;
    // Texts of up to 31 bytes (`fixstr`) and up to 255 bytes (`str 8`) suffice. Anything else, such as the `true` of
    // `test.ping`, is not of this test.
    match *bytes.get(at)? {
        length @ 0xa0..=0xbf => text(&bytes, at + 1, usize::from(length & 0x1f)),
        0xd9 => text(&bytes, at + 2, usize::from(*bytes.get(at + 1)?)),
        _ => Some(Value::Null),
    }
}

fn text(bytes: &[u8], from: usize, length: usize) -> Option<Value> {
    Some(json!(String::from_utf8_lossy(bytes.get(from..from + length)?)))
}
