//! Attacks of an accepted minion on other minions, on operators and on the master.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use crypto::Crypticle;
use interop::{Master, Minion, until};
use serde_json::json;
use value::{Map, Value, map};

use crate::scene::{Scene, VICTIM};
use crate::stranger::{Stranger, ask, ask_raw};

/// Events in the name of others, alone, in batches, and put together with `pretag`.
pub fn forged_events(scene: &mut Scene<'_>) -> Result<String> {
    let insider = scene.insider()?;
    let (session, _) = insider.sign_in()?;
    let jid = "20990101000000000002";
    let tags = [
        format!("salt/job/{jid}/ret/{VICTIM}"),
        format!("salt/job/{jid}/new"),
        "salt/auth".to_owned(),
        "salt/key".to_owned(),
        "key".to_owned(),
        "salt/presence/present".to_owned(),
        "salt/presence/change".to_owned(),
        "salt/run/1/ret".to_owned(),
        "salt/wheel/1/ret".to_owned(),
        "saltern/x".to_owned(),
        format!("salt/minion/{VICTIM}/start"),
        format!("salt/beacon/{VICTIM}/load/"),
    ];
    let seen = listen(&scene.master, || {
        for tag in &tags {
            let data = map! { "id" => VICTIM, "return" => "forged", "jid" => jid, "marked" => "forged" };
            let alone = map! { "cmd" => "_minion_event", "tag" => tag.as_str(), "data" => data.clone() };
            let _ = insider.ask(&session, alone);
            let one = map! { "tag" => tag.as_str(), "data" => data.clone() };
            let batch = map! { "cmd" => "_minion_event", "events" => vec![Value::from(one)], "pretag" => Value::Null };
            let _ = insider.ask(&session, batch);
            let (front, back) = tag.split_at(tag.find('/').unwrap_or(0));
            let back = back.trim_start_matches('/');
            let one = map! { "tag" => back, "data" => data.clone() };
            let joined = map! { "cmd" => "_minion_event", "events" => vec![Value::from(one)], "pretag" => front };
            let _ = insider.ask(&session, joined);
        }
        let honest = map! { "cmd" => "_minion_event", "tag" => "honest/tag", "data" => map! { "marked" => "honest" } };
        let _ = insider.ask(&session, honest);
    })?;
    ensure!(seen.iter().any(|(tag, _)| tag == "honest/tag"), "an honest event did not arrive: {seen:?}");
    // An event of a batch also arrives under its own tag without `pretag`; that names no minion.
    let forged: Vec<_> = seen.iter().filter(|(tag, _)| tags.contains(tag)).collect();
    ensure!(forged.is_empty(), "{} forged events arrived, the first is {}", forged.len(), forged[0].0);
    Ok(format!("{} forged events refused, an honest one taken", tags.len() * 3))
}

/// Listens to a master's events during an action and shortly after.
pub fn listen(master: &Master, act: impl FnOnce()) -> Result<Vec<(String, Map)>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let config =
        config::Master::load(&config::Source { path: master.conf().join("master") }, &config::LoadOptions::default())?;
    let bus = client::settings::from_config(&config).bus;
    let mut bus = runtime.block_on(event::Remote::new(rt::Rt::real(), bus).listen(event::Filter::all()))?;
    let reader = runtime.spawn(async move {
        let mut seen = Vec::new();
        while let Ok(Ok(event)) = tokio::time::timeout(Duration::from_secs(3), bus.next()).await {
            seen.push((event.tag().to_owned(), event.data().clone()));
        }
        seen
    });
    act();
    Ok(runtime.block_on(reader)?)
}

/// With old envelopes allowed, one minion speaks in the name of another.
pub fn name_of_another_without_token(scene: &mut Scene<'_>) -> Result<String> {
    let master = Master::build(&scene.ours, "old").option("minimum_auth_version", 2).start(scene.sandbox)?;
    let minion = Minion::build(&scene.ours, "old-one").master(&master).start(scene.sandbox)?;
    master.accept(&["old-one"])?;
    master.wait_answering(&["old-one"])?;
    let insider = Stranger::with_key_of(master.address(), &minion)?;
    let (_, aes) = insider.sign_in()?;
    let jid = master.send(&["old-one", "test.sleep", "3"])?;
    let forged = map! {
        "cmd" => "_return", "id" => "old-one", "jid" => jid.as_str(), "fun" => "test.sleep", "return" => "forged",
        "retcode" => 0, "success" => true,
    };
    let event = map! {
        "cmd" => "_minion_event", "id" => "old-one", "tag" => "forged/tag", "data" => map! { "marked" => "forged" },
    };
    let seen = listen(&master, || {
        for load in [forged, event] {
            let _ = ask(master.address(), &insider.envelope(&aes, load, 2));
        }
    })?;
    let forged = seen.iter().find(|(tag, data)| tag == "forged/tag" || data.get_str("return") == Some("forged"));
    ensure!(forged.is_none(), "a request without a token spoke for the minion: {forged:?}");
    ensure!(master.log().contains("minimum_auth_version"), "the master does not warn of minimum_auth_version");
    Ok("refused without a token; the start warned".to_owned())
}

/// The bytes of a sealed request, sent again.
pub fn replayed_request(scene: &mut Scene<'_>) -> Result<String> {
    let insider = scene.insider()?;
    let (session, _) = insider.sign_in()?;
    let load = map! { "cmd" => "_minion_event", "tag" => "replayed/tag", "data" => map! {} };
    let packed = insider.sealed(&session, load)?.encode();
    let seen = listen(&scene.master, || {
        for _ in 0..3 {
            let _ = ask_raw(scene.master.address(), &packed);
        }
    })?;
    let count = seen.iter().filter(|(tag, _)| tag == "replayed/tag").count();
    ensure!(count == 1, "a request sent three times counted {count} times");
    Ok("counted once".to_owned())
}

/// Returns of jobs that were not published.
pub fn forged_jobs(scene: &mut Scene<'_>) -> Result<String> {
    let insider = scene.insider()?;
    let (session, _) = insider.sign_in()?;
    for (number, cmd) in ["_return", "saltern_return"].into_iter().enumerate() {
        let jid = format!("2001010100000000000{number}");
        let load = map! {
            "cmd" => cmd, "jid" => jid.as_str(), "fun" => "cmd.run", "fun_args" => vec![Value::from("rm -rf /")],
            "return" => "forged", "user" => "root", "tgt" => "*", "arg" => vec![Value::from("forged")],
            "retcode" => 0, "success" => true, "publication" => map! { "user" => "root", "fun" => "cmd.run", "tgt" => "*" },
        };
        let _ = insider.ask(&session, load);
        let found = scene.master.runner(&["jobs.list_job", &jid])?;
        ensure!(found["Target"] != json!("*"), "{cmd} made a job of an operator: {found}");
        ensure!(found["Result"].get(VICTIM).is_none(), "{cmd} returned for another");
    }
    Ok("no job of an operator was made".to_owned())
}

/// A peer that may ask for `test.ping` asks for more.
pub fn peer_with_returner(scene: &mut Scene<'_>) -> Result<String> {
    let insider = scene.insider()?;
    let (session, _) = insider.sign_in()?;
    let trophy = scene.trophy("peer");
    let path = trophy.display().to_string();
    let extras = [
        map! { "ret" => "rawfile_json", "ret_config" => "x", "ret_kwargs" => map! { "filename" => path.as_str() } },
        map! { "kwargs" => map! { "ret" => "rawfile_json", "ret_kwargs" => map! { "filename" => path.as_str() } } },
        map! { "kwargs" => map! { "module_executors" => vec![Value::from("sudo")], "executor_opts" => map! {} } },
        map! { "fun" => Value::List(vec!["test.ping".into(), "cmd.run".into()]) },
        map! { "fun" => Value::Int(7) },
        map! { "fun" => Value::Map(map! { "test.ping" => "x" }) },
    ];
    for extra in extras {
        let mut load = map! {
            "cmd" => "minion_pub", "fun" => "test.ping", "arg" => Value::List(Vec::new()), "tgt" => VICTIM,
            "tgt_type" => "glob", "ret" => "", "tmo" => 5, "form" => "clean",
        };
        load.extend(extra);
        let _ = insider.ask(&session, load)?;
    }
    let came = until("the file a peer asked for", Duration::from_secs(3), || trophy.exists()).is_ok();
    ensure!(!came, "a peer limited to test.ping wrote {path}");
    let other = map! {
        "cmd" => "minion_pub", "fun" => "cmd.run", "arg" => vec![Value::from(format!("touch {path}"))], "tgt" => VICTIM,
        "tgt_type" => "glob", "ret" => "", "tmo" => 5, "form" => "clean",
    };
    let _ = insider.ask(&session, other)?;
    ensure!(until("the command", Duration::from_secs(2), || trophy.exists()).is_err(), "a peer ran cmd.run");
    Ok("nothing but test.ping".to_owned())
}

/// An id that a shell would obey, in the command of an external pillar.
pub fn shell_in_an_id(scene: &mut Scene<'_>) -> Result<String> {
    let trophy = scene.sandbox.root().join("id-trophy");
    // No slash may stand in an id: the command runs where the master does.
    for (number, id) in
        ["x'; touch id-trophy; echo '", "$(touch id-trophy)", "`touch id-trophy`"].into_iter().enumerate()
    {
        let stranger = scene.stranger(id)?;
        let accepted = scene.master.pki().join("minions").join(id);
        std::fs::write(&accepted, stranger.key.public().to_pem()).context("failed to accept a key")?;
        until("the key to be known", Duration::from_secs(10), || stranger.sign_in().is_ok())?;
        let (session, _) = stranger.sign_in()?;
        let load = map! {
            "cmd" => "_pillar", "saltenv" => "base", "pillarenv" => Value::Null, "ver" => "2",
            "grains" => map! { "id" => id }, "pillar_override" => map! {}, "extra_minion_data" => map! {},
        };
        let _ = stranger.ask(&session, load)?;
        std::fs::remove_file(&accepted).context("failed to remove a key")?;
        ensure!(!trophy.exists(), "the shell obeyed the id number {number}");
    }
    let honest = scene.master.ask(VICTIM, &["pillar.get", "asked_for", "unmask=True"])?;
    ensure!(honest == json!(VICTIM), "an honest id got {honest}");
    Ok("three ids taken as text, an honest one served".to_owned())
}

/// Escape sequences in what a minion returns, on the operator's terminal.
pub fn escapes_on_the_terminal(scene: &mut Scene<'_>) -> Result<String> {
    let insider_text = "a\u{1b}[2J\u{9b}31m\u{202e}b\u{7}";
    let mut shown = Vec::new();
    let file = scene.sandbox.root().join("hostile.json");
    std::fs::write(&file, json!({insider_text: {insider_text: [insider_text]}}).to_string())?;
    for out in ["nested", "highstate", "txt", "key", "pprint", "yaml", "table", "raw"] {
        let path = file.display().to_string();
        let output = scene.master.salt_run(&[&format!("--out={out}"), VICTIM, "cp.get_file_str", &path])?;
        shown.push((out, output.stdout + &output.stderr));
    }
    let hostile_id = "k\u{9b}2J\u{202e}x";
    let stranger = scene.stranger(hostile_id)?;
    let _ = stranger.sign_in();
    let keys = scene.master.program("salt-key").args(["-L"]).run()?;
    shown.push(("salt-key -L", keys.stdout));
    let _ = std::fs::remove_file(scene.master.pki().join("minions_pre").join(hostile_id));
    for (out, text) in &shown {
        let bad = text.chars().find(|char| {
            (char.is_control() && !matches!(char, '\n' | '\t')) || ('\u{202a}'..='\u{202e}').contains(char)
        });
        ensure!(bad.is_none(), "{bad:?} reached the terminal through {out}");
    }
    Ok(format!("{} outputs carry none", shown.len()))
}

/// The possibilities of a minion with a session to act in the name of another.
pub fn name_of_another(scene: &mut Scene<'_>) -> Result<String> {
    let insider = scene.insider()?;
    let (session, _) = insider.sign_in()?;
    let session: &Crypticle = &session;
    let mine = map! { "cmd" => "_mine", "id" => VICTIM, "data" => map! { "forged" => "forged" } };
    let pillar = map! { "cmd" => "_pillar", "id" => VICTIM, "saltenv" => "base", "grains" => map! {} };
    let revoke = map! { "cmd" => "revoke_auth", "id" => VICTIM };
    let pushed =
        map! { "cmd" => "_file_recv", "id" => VICTIM, "path" => vec![Value::from("x")], "data" => "x", "loc" => 0 };
    for load in [mine, pillar, revoke, pushed] {
        let cmd = load.get_str("cmd").unwrap_or_default().to_owned();
        let answer = insider.ask(session, load)?;
        ensure!(answer.as_str() == Some("bad load"), "{cmd} in another's name got {answer}");
    }
    ensure!(scene.master.pki().join("minions").join(VICTIM).exists(), "the key of another was removed");
    Ok("four requests refused".to_owned())
}
