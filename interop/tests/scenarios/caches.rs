//! The minion data cache on a server: the real Salt's masters and ours share it, in the layout of each line.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{Checks, Daemon, Master, Minion, Program, Salt, Sandbox, clients, missing, scenario, until};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(60);
const PASSWORD: &str = "interop-password";

/// Starts a Redis server on the usual port of an unused address.
fn redis(sandbox: &Sandbox, program: &Path) -> Result<(Daemon, Ipv4Addr)> {
    let address = sandbox.address(&[6379]);
    let server = Program::new(sandbox, program)
        .args(["--port", "6379", "--save", "", "--requirepass", PASSWORD, "--bind"])
        .args([address.to_string()])
        .start(&sandbox.root().join("redis.out"))?;
    until("redis-server to listen", LIMIT, || std::net::TcpStream::connect((address, 6379)).is_ok())?;
    Ok((server, address))
}

fn installed(program: &str) -> Option<std::path::PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.exists())
}

fn shares_redis(line: &str, layout: i64) {
    if missing(&[line]) {
        return;
    }
    let (Some(program), Some(clients)) = (installed("redis-server"), clients("redis")) else {
        println!("skipped: redis-server or the Python client `redis` is not installed");
        return;
    };
    scenario(&format!("redis shared with {line}"), |sandbox| {
        let (mut server, address) = redis(sandbox, &program)?;
        let build = |salt: &Salt, name: &str| {
            Master::build(salt, name)
                .option("auto_accept", true)
                .option("cache", "redis")
                .option("cache.redis.host", address.to_string())
                .option("cache.redis.password", PASSWORD)
                .env("PYTHONPATH", &clients)
        };
        let (real, ours) = (Salt::real(line).context("checked above")?, Salt::ours()?);
        let theirs = build(&real, "theirs").start(sandbox)?;
        let ours = build(&ours, "ours").option("cache_layout", layout).start(sandbox)?;
        let minion = |master: &Master| {
            let mine = json!({"test.arg": ["a", {"b": [1, "zwei", 2.5]}]});
            Minion::build(&real, &format!("of-{}", master.name())).master(master).option("mine_functions", mine)
        };
        let _minions = [minion(&theirs).start(sandbox)?, minion(&ours).start(sandbox)?];
        theirs.wait_answering(&["of-theirs"])?;
        ours.wait_answering(&["of-ours"])?;
        // Each master knows the key of the other's minion, so that it can be targeted by its cached data.
        for (from, to) in [(&theirs, &ours), (&ours, &theirs)] {
            let key = format!("minions/of-{}", from.name());
            std::fs::copy(from.pki().join(&key), to.pki().join(&key)).context("failed to copy a key")?;
        }
        let mut checks = Checks::new();
        for place in places(layout) {
            checks.check(format!("both read {place:?}"), || same(&theirs, &ours, &place));
        }
        let by_grain = ["cache.grains", "id:of-*", "tgt_type=grain"];
        for master in [&theirs, &ours] {
            checks.check(format!("{} targets by grains of both", master.name()), || {
                let found = master.runner(&by_grain)?;
                let ids = [&found["of-theirs"]["id"], &found["of-ours"]["id"]];
                ensure!(ids == [&json!("of-theirs"), &json!("of-ours")], "unexpected: {found}");
                Ok(())
            });
        }
        checks.check("each master removes what the other wrote", || {
            for (master, other) in [(&theirs, &ours), (&ours, &theirs)] {
                let (bank, key) = grains_of(layout, &format!("of-{}", other.name()));
                master.runner(&["cache.flush", &bank, &key])?;
                let left = other.runner(&["cache.fetch", &bank, &key])?;
                ensure!(left == json!({}), "{} still has {left}", other.name());
            }
            Ok(())
        });
        checks.check("without the server the master works, and says so once", || {
            server.kill();
            for _ in 0..2 {
                ensure!(ours.ask("of-ours", &["saltutil.refresh_pillar", "wait=True"])? == json!(true), "no pillar");
            }
            let log = ours.log();
            let said = format!("the cache driver redis has no answer from {address}:6379");
            ensure!(log.matches(&said).count() == 1, "not once: {said}");
            ensure!(!log.contains(PASSWORD), "the log contains the password");
            Ok(())
        });
        checks.finish()
    });
}

fn grains_of(layout: i64, id: &str) -> (String, String) {
    if layout == 3008 { ("grains".into(), id.into()) } else { (format!("minions/{id}"), "data".into()) }
}

/// The banks and keys of both minions.
fn places(layout: i64) -> Vec<(String, String)> {
    let of = |id: &str| match layout {
        3008 => ["grains", "pillar", "mine"].map(|bank| (bank.to_owned(), id.to_owned())).to_vec(),
        _ => ["data", "mine"].map(|key| (format!("minions/{id}"), key.to_owned())).to_vec(),
    };
    [of("of-theirs"), of("of-ours")].concat()
}

/// Waits until both masters read the same value, which is not empty.
fn same(theirs: &Master, ours: &Master, (bank, key): &(String, String)) -> Result<()> {
    let read = |master: &Master| master.runner(&["cache.fetch", bank, key]);
    let full = |value: &Value| value.as_object().is_some_and(|map| !map.is_empty());
    until("a value in the cache", LIMIT, || read(ours).is_ok_and(|value| full(&value)))?;
    let (theirs, ours) = (read(theirs)?, read(ours)?);
    ensure!(theirs == ours, "{}", interop::differences(&theirs, &ours).join("\n"));
    Ok(())
}

#[test]
fn redis_is_shared_with_3008() {
    shares_redis("3008.5", 3008);
}

#[test]
fn redis_is_shared_with_3006() {
    shares_redis("3006.30", 3006);
}

#[test]
fn an_unknown_driver_stops_the_start() {
    scenario("cache drivers that do not exist", |sandbox| {
        let mut master = Master::build(&Salt::ours()?, "master").option("cache", "etcd3").prepare(sandbox)?;
        master.launch(sandbox)?;
        let code = master.daemon()?.wait(LIMIT)?;
        let printed = master.printed() + &master.log();
        ensure!(code != 0 && printed.contains("option 'cache': the driver etcd3 is not supported yet"), "{printed}");
        Ok(())
    });
}
