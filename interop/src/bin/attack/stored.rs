//! The data that accepted minions make a master store, and who can read it there.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{Master, until};
use serde_json::json;
use value::{Value, map};

use crate::insiders::listen;
use crate::scene::Scene;
use crate::stranger::{Stranger, ask};

/// The number of bytes of a return and of its own jobs that the small master keeps.
const RETURN: usize = 100_000;
const OWN_JOBS: usize = 10 * RETURN;

/// A minion whose id is the id and the environment of another asks for its pillar, and the other way round.
pub fn pillars_of_similar_names(scene: &mut Scene<'_>) -> Result<String> {
    let master = Master::build(&scene.ours, "cached")
        .option("pillar_cache", true)
        .option("ext_pillar", json!([{"cmd_yaml": "echo 'asked_for: %s'"}]))
        .start(scene.sandbox)?;
    let (short, long) = (accepted(&master, "ab")?, accepted(&master, "ab:cd")?);
    let (short_session, long_session) = (short.sign_in()?.0, long.sign_in()?.0);
    let ask = |who: &Stranger, session, env: Value| -> Result<()> {
        let pillar = who.pillar(session, env.clone())?;
        let whose = pillar.get("asked_for").and_then(Value::as_str);
        ensure!(whose == Some(&who.id), "{} got the pillar of {whose:?} in the environment {env}", who.id);
        Ok(())
    };
    // Twice: the second time all are cached.
    for _ in 0..2 {
        ask(&short, &short_session, "cd".into())?;
        ask(&long, &long_session, Value::Null)?;
        ask(&short, &short_session, Value::Null)?;
        ask(&long, &long_session, "cd".into())?;
    }
    Ok("ab in the environment cd and ab:cd get what is theirs".to_owned())
}

/// Returns that are larger than the master keeps, and more of them than it keeps.
pub fn returns_of_any_size(scene: &mut Scene<'_>) -> Result<String> {
    let master = Master::build(&scene.ours, "small")
        .option("return_max_size", RETURN)
        .option("own_jobs_max_size", OWN_JOBS)
        .start(scene.sandbox)?;
    let insider = accepted(&master, "small-one")?;
    let (session, _) = insider.sign_in()?;
    let give = |jid: &str, fun: &str, size: usize| {
        let load = map! {
            "cmd" => "_return", "jid" => jid, "fun" => fun, "fun_args" => Value::List(Vec::new()),
            "return" => "x".repeat(size), "retcode" => 0, "success" => true,
        };
        insider.ask(&session, load)
    };
    let jid = master.send(&["small-one", "test.ping"])?;
    give(&jid, "test.ping", 20 * RETURN)?;
    let kept = master.runner(&["jobs.lookup_jid", &jid])?;
    let text = kept["small-one"].as_str().unwrap_or_default();
    ensure!(text.len() < 1000 && text.contains("return_max_size"), "kept of a large return: {} bytes", text.len());
    // Each just small enough.
    let given = 5 * OWN_JOBS / RETURN;
    for _ in 0..given {
        give("req", "forged.job", RETURN - 1000)?;
    }
    let jobs = master.runner(&["jobs.list_jobs", "search_function=forged.job"])?;
    let count = jobs.as_object().map_or(0, |jobs| jobs.len());
    ensure!((1..=OWN_JOBS / RETURN).contains(&count), "{count} of {given} own jobs are kept");
    Ok(format!("a sentence in place of a large return, {count} of {given} own jobs kept"))
}

/// With old envelopes allowed, a minion speaks in the name of one that has never used version 3.
pub fn name_of_an_old_minion(scene: &mut Scene<'_>) -> Result<String> {
    let master = Master::build(&scene.ours, "older").option("minimum_auth_version", 2).start(scene.sandbox)?;
    // Never signs in, so the master knows of no version that it uses.
    let old = Stranger::new(master.address(), "old")?;
    std::fs::write(master.pki().join("minions/old"), old.key.public().to_pem()).context("failed to accept a key")?;
    let insider = accepted(&master, "insider")?;
    let (_, aes) = insider.sign_in()?;
    let data = map! { "marked" => "forged" };
    let loads = [
        map! { "cmd" => "_minion_event", "tag" => "forged/tag", "data" => data.clone() },
        map! { "cmd" => "_mine", "data" => data.clone() },
        map! { "cmd" => "_file_recv", "path" => vec![Value::from("x")], "data" => "x", "loc" => 0 },
        map! { "cmd" => "revoke_auth" },
        map! {
            "cmd" => "minion_pub", "fun" => "test.ping", "arg" => Value::List(Vec::new()), "tgt" => "*", "ret" => "",
        },
    ];
    let count = loads.len();
    let mut answers = Vec::new();
    let seen = listen(&master, || {
        for load in loads {
            let cmd = load.get_str("cmd").unwrap_or_default().to_owned();
            let mut load = load;
            load.insert("id", "old");
            let forged = Stranger { master: insider.master, id: old.id.clone(), key: insider.key.clone() };
            answers.push((cmd, ask(master.address(), &forged.envelope(&aes, load, 2))));
        }
    })?;
    for (cmd, answer) in answers {
        let answer = answer?;
        ensure!(answer.as_str() == Some("bad load"), "{cmd} in another's name got {answer}");
    }
    let forged = seen.iter().find(|(tag, _)| tag == "forged/tag");
    ensure!(forged.is_none(), "an event without a token came from another: {forged:?}");
    ensure!(master.pki().join("minions/old").exists(), "the key of another was removed");
    // A pillar without a token is answered, since old minions send none. Only its owner can read it.
    let load = map! {
        "cmd" => "_pillar", "id" => "old", "saltenv" => "base", "ver" => "2", "grains" => map! { "id" => "old" },
        "nonce" => crate::stranger::nonce(),
    };
    let answer = ask(master.address(), &insider.envelope(&aes, load, 2))?;
    ensure!(insider.read_pillar(answer.clone()).is_err(), "the pillar of another was readable: {answer}");
    Ok(format!("{count} requests without a token refused, a pillar that only its owner can read"))
}

/// An accepted key without a minion.
fn accepted(master: &Master, id: &str) -> Result<Stranger> {
    let stranger = Stranger::new(master.address(), id)?;
    let path = master.pki().join("minions").join(id);
    std::fs::write(&path, stranger.key.public().to_pem()).context("failed to accept a key")?;
    until("the key to be known", Duration::from_secs(10), || stranger.sign_in().is_ok())?;
    Ok(stranger)
}
