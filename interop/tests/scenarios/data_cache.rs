//! The minion data cache on a server, shared by a master of Salt and a master of Saltern, or by a set of Saltern's masters.

mod server;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{Master, Minion, Salt, Sandbox, clients, missing, scenario, until};
use serde_json::{Value, json};

use server::{ETCD_PORT, Kind};

const PATIENCE: Duration = Duration::from_secs(60);
/// The port for other masters of a set.
const POOL_PORT: u16 = 4520;

/// The minion of Salt's master, and that of Saltern's master.
const BOTH: [&str; 2] = ["theirs", "ours"];

#[test]
fn masters_of_salt_and_of_ours_share_the_data_of_minions_in_etcd() {
    share_the_data_of_minions(Kind::Etcd);
}

#[test]
fn masters_of_salt_and_of_ours_share_the_data_of_minions_in_mysql() {
    share_the_data_of_minions(Kind::Mysql);
}

#[test]
fn masters_of_salt_and_of_ours_share_the_data_of_minions_in_redis() {
    share_the_data_of_minions(Kind::Redis);
}

fn share_the_data_of_minions(kind: Kind) {
    if missing(&["3008.5"]) || kind.is_missing() {
        return;
    }
    scenario(&format!("the minion data cache in {}", kind.name()), |sandbox| {
        let (ours, real) = (Salt::ours()?, Salt::real("3008.5").context("checked above")?);
        let (address, mut server) = kind.start(sandbox)?;
        let start = |salt, name| start_master(salt, name, (kind, address), sandbox);
        let masters = [start(&real, "m1")?, start(&ours, "m2")?];
        let [theirs, own] = BOTH;
        let _theirs = start_minion(&real, theirs, &masters[0], sandbox)?;
        let _ours = start_minion(&ours, own, &masters[1], sandbox)?;
        share_keys(&masters)?;
        for (master, own) in masters.iter().zip(BOTH) {
            ensure!(master.ask(own, &["mine.update"])? == json!(true), "the mine of {own} is not updated");
        }
        masters.iter().try_for_each(knows_both)?;
        // Each minion reads the mine of the other from its own master.
        for (master, own, other) in [(&masters[0], BOTH[0], BOTH[1]), (&masters[1], BOTH[1], BOTH[0])] {
            let mine = master.ask(own, &["mine.get", other, "test.echo"])?;
            ensure!(mine == json!({other: "from the mine"}), "mine.get of {own} printed {mine}");
        }
        // A target by grains finds both minions, though only one is connected here.
        for master in &masters {
            let matched = master.program("salt").args(["--out=json", "--preview-target", "-G", "colour:green"]);
            let matched = matched.run()?.json()?;
            let mut ids: Vec<&str> = matched.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            ids.sort_unstable();
            ensure!(ids == ["ours", "theirs"], "the target by grains matched {matched} on {}", master.name());
        }
        // What one of them removes is gone for the other.
        masters[1].runner(&["cache.clear_mine", "theirs"])?;
        let mine = masters[0].ask("theirs", &["mine.get", "theirs", "test.echo"])?;
        ensure!(mine == json!({}), "a mine that was removed is still read: {mine}");

        server.kill();
        jobs_go_on_without((kind, address), &masters[1])
    });
}

#[test]
fn a_set_of_masters_keeps_the_data_of_minions_in_etcd_only() {
    if Kind::Etcd.is_missing() {
        return;
    }
    scenario("a set of masters with the minion data cache in etcd", |sandbox| {
        let ours = Salt::ours()?;
        let (address, _etcd) = Kind::Etcd.start(sandbox)?;
        let pair = Master::make_key_pair(&ours, sandbox)?;
        let member = |name: &str| {
            let master = Master::build(&ours, name).key_pair(&pair).option("id", format!("{name}_master"));
            let master = master.option("cluster_id", "fleet").option("cluster_secret", "correct horse battery staple");
            master.option("cache", "etcd").option("etcd.host", address.to_string())
        };
        let one = member("m1").start(sandbox)?;
        let peer = format!("{}:{POOL_PORT}", one.address());
        let two = member("m2").option("cluster_peers", json!([peer])).start(sandbox)?;
        let _minion = start_minion(&ours, "ours", &one, sandbox)?;
        until("the second master to have the key", PATIENCE, || two.pki().join("minions/ours").exists())?;
        until("the second master to show the grains", PATIENCE, || {
            two.runner(&["cache.grains", "ours"]).is_ok_and(|found| found["ours"]["colour"] == json!("green"))
        })?;
        for master in [&one, &two] {
            let files = master.cache().join("grains");
            ensure!(!files.exists(), "{} has the grains in files, too: {}", master.name(), files.display());
        }
        ensure!(stored(address)?.contains("/salt_cache/grains/ours"), "the grains are not in etcd");
        two.program("salt-key").args(["-d", "ours", "-y"]).run()?.ok()?;
        until("the data of the deleted minion to be gone", PATIENCE, || {
            stored(address).is_ok_and(|text| !text.contains("/salt_cache/grains/ours"))
        })
    });
}

/// Returns everything in etcd, as it answers.
fn stored(etcd: Ipv4Addr) -> Result<String> {
    let mut stream = TcpStream::connect((etcd, ETCD_PORT)).context("failed to connect to etcd")?;
    write!(stream, "GET /v2/keys/?recursive=true HTTP/1.0\r\n\r\n").context("failed to ask etcd")?;
    let mut text = String::new();
    stream.read_to_string(&mut text).context("failed to read from etcd")?;
    Ok(text)
}

/// Starts a master with its pillar. It keeps the data of minions that are not its own.
fn start_master(salt: &Salt, name: &str, (kind, server): (Kind, Ipv4Addr), sandbox: &Sandbox) -> Result<Master> {
    let clients = clients(kind.client()).context("checked above")?;
    let master = Master::build(salt, name).env("PYTHONPATH", clients).option("preserve_minion_cache", true);
    let master = master.option("cache", kind.name()).option(kind.option(), server.to_string());
    let master = kind.login().iter().fold(master, |master, (name, value)| master.option(name, *value));
    let mut master = master.prepare(sandbox)?;
    let pillar = master.root().join("srv/pillar");
    for (file, text) in [("top.sls", "base: {'*': [data]}".to_owned()), ("data.sls", format!("from: {name}\n"))] {
        fs::write(pillar.join(file), text).with_context(|| format!("failed to write {file}"))?;
    }
    master.launch(sandbox)?;
    master.wait_ready()?;
    Ok(master)
}

fn start_minion(salt: &Salt, id: &str, master: &Master, sandbox: &Sandbox) -> Result<Minion> {
    let minion = Minion::build(salt, id).master(master).option("grains", json!({"colour": "green"}));
    let minion = minion.option("mine_functions", json!({"test.echo": ["from the mine"]})).start(sandbox)?;
    master.accept(&[id])?;
    master.wait_answering(&[id])?;
    Ok(minion)
}

/// Accepts the key of each minion on the other master, too, as tools that copy keys do.
fn share_keys(masters: &[Master; 2]) -> Result<()> {
    for (from, to, id) in [(&masters[0], &masters[1], BOTH[0]), (&masters[1], &masters[0], BOTH[1])] {
        let [from, to] = [from, to].map(|master| master.pki().join("minions").join(id));
        fs::copy(&from, &to).with_context(|| format!("failed to copy {} to {}", from.display(), to.display()))?;
    }
    Ok(())
}

/// Waits until a master shows grains, pillar and mine of both minions.
fn knows_both(master: &Master) -> Result<()> {
    let mut last = Value::Null;
    for (runner, path, expected) in [
        ("cache.grains", "/colour", json!(["green", "green"])),
        ("cache.pillar", "/from", json!(["m1", "m2"])),
        ("cache.mine", "/test.echo", json!(["from the mine", "from the mine"])),
    ] {
        until(&format!("{runner} of {} to show both minions", master.name()), PATIENCE, || {
            last = master.runner(&[runner, "*"]).unwrap_or_default();
            let found = BOTH.map(|id| last[id].pointer(path).cloned().unwrap_or_default());
            // The real Salt wraps what is in a mine.
            let found = found.map(|value| value.get("__data__").cloned().unwrap_or(value));
            json!(found) == expected
        })
        .with_context(|| format!("{runner} printed {last}"))?;
    }
    Ok(())
}

/// While the server is down, Saltern's master runs jobs, and its log names the server and the option.
fn jobs_go_on_without((kind, server): (Kind, Ipv4Addr), master: &Master) -> Result<()> {
    ensure!(master.ask("ours", &["test.ping"])? == json!(true), "no ping without the cache");
    master.ask("ours", &["saltutil.refresh_pillar"])?;
    let (name, shown, option) = (kind.name(), kind.shown(server), kind.option());
    let warning = format!("the cache driver {name} has no answer from {shown} (option '{option}')");
    until("the log to name the server", PATIENCE, || master.log().contains(&warning))?;
    // This compiles it once more.
    let pillar = master.ask("ours", &["pillar.items"])?;
    ensure!(pillar == json!({"from": "m2"}), "the pillar is lost: {pillar}");
    Ok(())
}
