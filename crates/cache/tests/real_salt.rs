//! Compares what the real Salt's driver and ours write to a Redis server; each reads what the other wrote.
//!
//! `SALTERN_SALT_DIR` (by default `~/.cache/saltern/salt`) has a directory per release (`<release>/bin/python`), and one with
//! the Python client of Redis (`clients`). Without them there is nothing to compare with, and the tests say so.

mod server;

use std::path::PathBuf;
use std::process::Command;
use std::time::SystemTime;

use saltern_cache::Cache;
use serde_json::{Value as Json, json};
use server::{PASSWORD, Redis};
use value::{Value, list, map};
use wire::MinionId;

/// A release of the real Salt, and the server that both use.
struct Both {
    python: PathBuf,
    clients: PathBuf,
    layout: i64,
    redis: Redis,
}

impl Both {
    fn find(release: &str, layout: i64) -> Option<Self> {
        let root = std::env::var_os("SALTERN_SALT_DIR").map(PathBuf::from).unwrap_or_else(|| {
            PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(".cache/saltern/salt")
        });
        let (python, clients) = (root.join(release).join("bin/python"), root.join("clients"));
        if !python.exists() || !clients.join("redis").exists() {
            let sentence = format!("no Salt {release}, or no client of Redis, is installed below {}", root.display());
            assert!(std::env::var("CI").as_deref() != Ok("true"), "{sentence}; `cargo xtask salt` installs them");
            println!("skipped: {sentence}; `cargo xtask salt` installs them");
            return None;
        }
        Some(Both { python, clients, layout, redis: Redis::start()? })
    }

    fn options(&self, db: i64) -> value::Map {
        map! {
            "cache" => "redis", "cache.redis.unix_socket_path" => self.redis.socket().to_str().unwrap(),
            "cache.redis.password" => PASSWORD, "cache.redis.db" => db.to_string(), "cache_layout" => self.layout,
        }
    }

    fn ours(&self, db: i64) -> Cache {
        Cache::of_master(&config::Master::from_options(self.options(db)).unwrap()).unwrap()
    }

    /// Runs operations of the real Salt's cache, and returns their results.
    fn theirs(&self, db: i64, operations: &Json) -> Vec<Json> {
        let options = serde_json::to_string(&Value::from(self.options(db))).unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/salt_cache.py");
        let mut command = Command::new(&self.python);
        command.env("PYTHONPATH", &self.clients).arg(script).args([options, operations.to_string()]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn dump(&self, db: i64) -> Json {
        self.theirs(db, &json!([["dump"]])).remove(0)
    }
}

const GRAINS: &str = r#"{"os": "Debian", "list": [1, -70000, 2.5, null, true, "grün", {"a": []}], "id": "web1"}"#;

fn grains() -> value::Map {
    serde_json::from_str::<Value>(GRAINS).unwrap().into_map().unwrap()
}

fn long() -> Value {
    // Longer than 31 and 255 bytes: the old form has no `str8`.
    list!["x".repeat(40), "y".repeat(300)]
}

/// Writes the same with both into separate databases, and makes each remove the same.
fn leaves_the_same(release: &str, layout: i64) {
    let Some(both) = Both::find(release, layout) else { return };
    let (ours, web1) = (both.ours(0), MinionId::new("web1").unwrap());
    ours.store(&web1, grains(), map! { "long" => long() }, None).unwrap();
    ours.store_mine(&web1, map! { "test.ping" => true }).unwrap();
    ours.put("minions/web10", "data", &map! {}.into()).unwrap();
    let (grains, pillar): (Json, Json) = (serde_json::from_str(GRAINS).unwrap(), json!({"long": long()}));
    let (data, mine) = (json!({"grains": grains, "pillar": pillar}), json!({"test.ping": true}));
    let mut stores = match layout {
        3008 => vec![
            json!(["store", "grains", "web1", grains]),
            json!(["store", "pillar", "web1", pillar]),
            json!(["store", "mine", "web1", mine]),
        ],
        _ => vec![json!(["store", "minions/web1", "data", data]), json!(["store", "minions/web1", "mine", mine])],
    };
    stores.push(json!(["store", "minions/web10", "data", {}]));
    both.theirs(1, &stores.into());
    assert_eq!(both.dump(0), both.dump(1));
    // Each reads the database of the other.
    let foreign = both.ours(1);
    assert_eq!(foreign.grains(&web1).unwrap(), ours.grains(&web1).unwrap());
    assert_eq!(foreign.pillar(&web1).unwrap(), ours.pillar(&web1).unwrap());
    assert_eq!(foreign.mine(&web1).unwrap(), ours.mine(&web1).unwrap());
    assert_eq!(foreign.ids().unwrap(), ours.ids().unwrap());
    let (bank, key) = if layout == 3008 { ("grains", "web1") } else { ("minions/web1", "data") };
    let expected = if layout == 3008 { grains } else { data };
    let read = json!([
        ["fetch", bank, key],
        ["list", bank],
        ["list", "minions"],
        ["contains", bank, key],
        ["updated", bank, key]
    ]);
    let [fetched, listed, minions, contained, updated] = <[Json; 5]>::try_from(both.theirs(0, &read)).unwrap();
    assert_eq!(fetched, expected);
    assert_eq!(listed, json!(ours.list(bank).unwrap()));
    assert_eq!(minions, json!(ours.list("minions").unwrap()));
    // Until 3007 it is the number that Redis answers.
    assert!(contained == json!(true) || contained == json!(1), "{contained}");
    let at = ours.updated(bank, key).unwrap().unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(updated, json!(at.as_secs()));
    // A key, then whole banks.
    ours.delete(bank, key).unwrap();
    both.theirs(1, &json!([["flush", bank, key]]));
    assert_eq!(both.dump(0), both.dump(1));
    ours.flush("minions").unwrap();
    both.theirs(1, &json!([["flush", "minions"]]));
    assert_eq!(both.dump(0), both.dump(1));
}

#[test]
fn the_layout_of_3008_is_the_same() {
    leaves_the_same("3008.5", 3008);
}

#[test]
fn the_layout_of_3006_is_the_same() {
    leaves_the_same("3006.30", 3006);
}

#[test]
fn the_layout_of_3007_is_the_same() {
    leaves_the_same("3007.17", 3007);
}
