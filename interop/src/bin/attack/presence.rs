//! Attacks on what a master believes about who is connected and what they can do.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use interop::{Minion, until};
use value::{Map, Value, map};
use wire::envelope::Envelope;

use crate::scene::{Scene, VICTIM};
use crate::stranger::{Wire, ask_clear, connect_from, nonce};

/// The minion that is switched off.
const SLEEPER: &str = "sleeper";

/// The address of the attackers, which is not that of the minions.
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 9, 9, 9);

/// The time limit for anything on a busy machine.
const LONG: Duration = Duration::from_secs(20);

/// A stranger and an accepted minion claim to be others: one that is switched off, and one that is there.
pub fn claimed_names(scene: &mut Scene<'_>) -> Result<String> {
    let mut sleeper = Minion::build(&scene.ours, SLEEPER).master(&scene.master).start(scene.sandbox)?;
    scene.master.accept(&[SLEEPER])?;
    scene.master.wait_answering(&[SLEEPER])?;
    sleeper.daemon()?.terminate(LONG)?;
    let operator = Operator { scene };
    until("the minion to be missed", LONG, || operator.present().is_ok_and(|present| !present.contains(SLEEPER)))?;
    // Right after its end the master expects it back.
    until("the time to come back to pass", LONG, || operator.beliefs().is_ok_and(|now| !now.away.contains("soon")))?;
    let before = operator.beliefs()?;
    ensure!(before.is_away(), "the minion that is switched off is not away: {before:?}");

    for attacker in [scene.stranger("stranger")?, scene.insider()?] {
        let id = attacker.id.clone();
        // Connections that claim the names, some of which end again.
        let claims = || [SLEEPER, VICTIM].map(|name| claim(scene.master.address(), name));
        let kept = claims();
        drop(claims());
        // Sign-ins with the public keys of others, with and without abilities.
        for name in [SLEEPER, VICTIM] {
            let public = public_key(&scene.master.pki().join("minions").join(name))?;
            for abilities in [None, Some(map! { "can" => vec![Value::from("goodbye")], "id" => "", "boot" => "" })] {
                let mut load = sign_in(name, &public);
                load.extend(abilities.map(|abilities| ("saltern", abilities)));
                let answer = ask_from(scene.master.address(), load)?;
                ensure!(answer.get("sig").is_some(), "{id}: the sign-in of {name} was refused: {answer}");
            }
        }
        // A request of an accepted minion whose load names another; and one in the clear.
        if let Ok((session, _)) = attacker.sign_in() {
            let load = map! { "cmd" => "_file_envs", "id" => VICTIM, "saltern" => Map::new() };
            let _ = attacker.ask(&session, load);
        }
        let _ = ask_clear(scene.master.address(), map! { "cmd" => "ping", "id" => VICTIM, "saltern" => Map::new() });
        let after = operator.beliefs()?;
        ensure!(after == before, "{id} changed what the master believes from {before:?} to {after:?}");
        let kept = kept.into_iter().collect::<Result<Vec<_>>>()?;
        drop(kept);
    }
    Ok("two claimants changed neither presence nor abilities nor who is away".to_owned())
}

/// The master's view of the minions.
#[derive(Debug, PartialEq)]
struct Beliefs {
    /// The minions that are up. A claim from elsewhere may have the master ask the minion itself before it reports it
    /// as down.
    present: String,
    of_salt: String,
    /// The minions that a job that is held now waits for.
    held_for: String,
    /// The minions that have not got a job and are certainly not connected.
    away: String,
}

impl Beliefs {
    fn is_away(&self) -> bool {
        [&self.held_for, &self.away].iter().all(|list| list.contains(SLEEPER) && !list.contains(VICTIM))
            && self.present.contains(VICTIM)
    }
}

/// A user who may run everything.
struct Operator<'a> {
    scene: &'a Scene<'a>,
}

impl Operator<'_> {
    fn beliefs(&self) -> Result<Beliefs> {
        let target = [SLEEPER, VICTIM].map(Value::from).to_vec();
        let status = self.request("saltern_status", Map::new())?;
        let job = map! {
            "fun" => "test.ping", "arg" => Vec::<Value>::new(), "tgt" => target, "tgt_type" => "list", "ret" => "",
            "jid" => "", "kwargs" => map! { "job_hold" => 60 }, "saltern" => true,
        };
        let published = self.request("publish", job)?;
        let load = published.get("load").context("nothing was published")?;
        let jid = load.get("jid").and_then(Value::as_str).context("no job id")?.to_owned();
        let held_for = load.get("held").and_then(|held| held.get("away")).map(Value::to_string).unwrap_or_default();
        // The connected one gets the job shortly after.
        let mut away = String::new();
        let quiet = |away: &str| !away.contains(VICTIM);
        until("the honest minion to get its job", LONG, || {
            away = self.away(&jid).unwrap_or_default();
            quiet(&away)
        })?;
        self.request("saltern_drop", map! { "jid" => jid })?;
        let shown = |value: Option<&Value>| value.map(Value::to_string).unwrap_or_default();
        let minions = status.get("status").and_then(|status| status.get("minions"));
        Ok(Beliefs {
            present: self.present()?,
            of_salt: shown(minions.and_then(|minions| minions.get("of_salt"))),
            held_for,
            away,
        })
    }

    /// The names of those who are away, and whether they were seen and are expected back soon.
    fn away(&self, jid: &str) -> Result<String> {
        let answer = self.request("saltern_away", map! { "jid" => jid })?;
        let list = answer.get("away").and_then(Value::as_list).context("nobody can tell who is away")?;
        let one = |it: &Value| {
            let soon = it.get("wait").and_then(Value::as_f64).is_some_and(|wait| wait > 0.0);
            format!("{:?} seen: {:?}{}; ", it.get("id"), it.get("seen"), if soon { ", back soon" } else { "" })
        };
        Ok(list.iter().map(one).collect())
    }

    fn present(&self) -> Result<String> {
        // `salt-run` is a separate program; this is the view of the running master itself.
        let ids = [SLEEPER, VICTIM].map(Value::from).to_vec();
        let answer = self.request("saltern_alive", map! { "tgt" => ids, "tgt_type" => "list" })?;
        Ok(answer.get("alive").and_then(|alive| alive.get("up")).context("nobody can tell who is up")?.to_string())
    }

    fn request(&self, cmd: &str, load: Map) -> Result<Value> {
        let user = nix::unistd::User::from_uid(nix::unistd::geteuid())?.context("no user")?.name;
        let path = self.scene.master.cache().join(format!(".{user}_key"));
        let key = std::fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
        let mut whole = map! { "cmd" => cmd, "user" => user, "key" => key };
        whole.extend(load);
        ask_clear(self.scene.master.address(), whole)
    }
}

/// A subscriber that claims a name.
fn claim(master: Ipv4Addr, name: &str) -> Result<Wire> {
    let mut wire = Wire::greet_as(connect_from(ELSEWHERE, master, 4505)?, b"SUB", name.as_bytes())?;
    wire.subscribe().context("failed to subscribe")?;
    Ok(wire)
}

fn ask_from(master: Ipv4Addr, load: Map) -> Result<Value> {
    let mut wire = Wire::greet(connect_from(ELSEWHERE, master, 4506)?, b"REQ")?;
    wire.send(&Envelope::clear(load).encode())?;
    let answer = wire.receive()?;
    wire::msgpack::unpack_bytes(&answer, wire::msgpack::Decode::Default).context("the answer is no MessagePack")
}

fn public_key(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
    if text.is_empty() {
        bail!("{} is empty", path.display());
    }
    Ok(crypto::clean_key(&text))
}

fn sign_in(id: &str, public: &str) -> Map {
    map! {
        "cmd" => "_auth", "id" => id, "nonce" => nonce(), "enc_algo" => "OAEP-SHA1", "sig_algo" => "PKCS1v15-SHA1",
        "pub" => public,
    }
}
