//! Compares what the real Salt's drivers and ours write to a server; each reads what the other wrote.
//!
//! `SALTERN_SALT_DIR` (by default `~/.cache/saltern/salt`) has a directory per release (`<release>/bin/python`), and one with
//! the Python clients of the servers (`clients`). Without them there is nothing to compare with, and the tests say so.

use std::path::PathBuf;
use std::process::Command;
use std::time::SystemTime;

use saltern_cache::Cache;
use serde_json::{Value as Json, json};
use value::{Map, Value, list, map};

use crate::conformity::{cache, id};
use crate::servers::consul::Consul;
use crate::servers::etcd::Etcd;
use crate::servers::mysql::MySql;
use crate::servers::redis::{PASSWORD, Redis};

/// What a driver of Salt knows of the banks below a bank.
#[derive(Clone, Copy, PartialEq)]
enum Below {
    /// It lists and removes them.
    Known,
    /// It neither lists nor removes them.
    Unknown,
}

/// A release of the real Salt, and options for two empty stores that both programs use.
struct Both {
    python: PathBuf,
    clients: PathBuf,
    stores: [Map; 2],
}

impl Both {
    fn find(release: &str, layout: i64, client: &str, stores: [Map; 2]) -> Option<Self> {
        let root = std::env::var_os("SALTERN_SALT_DIR").map(PathBuf::from).unwrap_or_else(|| {
            PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(".cache/saltern/salt")
        });
        let (python, clients) = (root.join(release).join("bin/python"), root.join("clients"));
        if !python.exists() || !clients.join(client).exists() {
            let sentence =
                format!("no Salt {release}, or no client of {client}, is installed below {}", root.display());
            assert!(std::env::var("CI").as_deref() != Ok("true"), "{sentence}; `cargo xtask salt` installs them");
            println!("skipped: {sentence}; `cargo xtask salt` installs them");
            return None;
        }
        let stores = stores.map(|mut store| {
            store.insert("cache_layout", layout);
            store
        });
        Some(Both { python, clients, stores })
    }

    fn ours(&self, store: usize) -> Cache {
        cache(self.stores[store].clone())
    }

    /// Runs operations of the real Salt's cache, and returns their results.
    fn theirs(&self, store: usize, operations: &Json) -> Vec<Json> {
        let options = serde_json::to_string(&Value::from(self.stores[store].clone())).unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/drivers/salt_cache.py");
        let mut command = Command::new(&self.python);
        command.env("PYTHONPATH", &self.clients).arg(script).args([options, operations.to_string()]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn dump(&self, store: usize) -> Json {
        self.theirs(store, &json!([["dump"]])).remove(0)
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

/// Writes the same with both into separate stores, and makes each remove the same.
fn leave_the_same(both: &Both, layout: i64, below: Below) {
    let (ours, web1) = (both.ours(0), id("web1"));
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
    // Each reads the store of the other.
    let foreign = both.ours(1);
    assert_eq!(foreign.grains(&web1).unwrap(), ours.grains(&web1).unwrap());
    assert_eq!(foreign.pillar(&web1).unwrap(), ours.pillar(&web1).unwrap());
    assert_eq!(foreign.mine(&web1).unwrap(), ours.mine(&web1).unwrap());
    assert_eq!(foreign.ids().unwrap(), ours.ids().unwrap());
    assert_eq!(ours.ids().unwrap(), ids(layout));
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
    match below {
        Below::Known => assert_eq!(minions, json!(ours.list("minions").unwrap())),
        Below::Unknown => assert_eq!(minions, json!([])),
    }
    // The driver redis until 3007 returns the number that the server answers.
    assert!(contained == json!(true) || contained == json!(1), "{contained}");
    let at = ours.updated(bank, key).unwrap().unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(updated, json!(at.as_secs()));
    // A key, then whole banks.
    ours.delete(bank, key).unwrap();
    both.theirs(1, &json!([["flush", bank, key]]));
    assert_eq!(both.dump(0), both.dump(1));
    ours.flush("minions").unwrap();
    match below {
        Below::Known => drop(both.theirs(1, &json!([["flush", "minions"]]))),
        Below::Unknown => {
            both.theirs(1, &json!([["flush", "minions/web1"], ["flush", "minions/web10"]]));
        }
    }
    assert_eq!(both.dump(0), both.dump(1));
}

/// The ids with data after [`leave_the_same`] has written them.
fn ids(layout: i64) -> Vec<&'static str> {
    if layout == 3008 { vec!["web1"] } else { vec!["web1", "web10"] }
}

fn on_redis(release: &str, layout: i64) {
    let Some(redis) = Redis::start() else { return };
    let stores = ["0", "1"].map(|db| {
        map! {
            "cache" => "redis", "cache.redis.unix_socket_path" => redis.socket().to_str().unwrap(),
            "cache.redis.password" => PASSWORD, "cache.redis.db" => db,
        }
    });
    if let Some(both) = Both::find(release, layout, "redis", stores) {
        leave_the_same(&both, layout, Below::Known);
    }
}

#[test]
fn redis_in_the_layout_of_3008() {
    on_redis("3008.5", 3008);
}

#[test]
fn redis_in_the_layout_of_3006() {
    on_redis("3006.30", 3006);
}

#[test]
fn redis_in_the_layout_of_3007() {
    on_redis("3007.17", 3007);
}

#[test]
fn etcd_with_the_banks_of_each_release() {
    let Some(etcd) = Etcd::start() else { return };
    for (release, layout) in [("3008.5", 3008), ("3007.17", 3007), ("3006.30", 3006)] {
        let stores = ["ours", "theirs"].map(|name| {
            let mut options = etcd.options();
            options.insert("etcd.path_prefix", format!("/{layout}/{name}"));
            options
        });
        if let Some(both) = Both::find(release, layout, "etcd", stores) {
            leave_the_same(&both, layout, Below::Known);
        }
    }
}

#[test]
fn consul_with_the_banks_of_each_release() {
    for (release, layout) in [("3008.5", 3008), ("3007.17", 3007), ("3006.30", 3006)] {
        let agents = [Consul::start(), Consul::start()];
        if let Some(both) = Both::find(release, layout, "consul", agents.each_ref().map(Consul::options)) {
            leave_the_same(&both, layout, Below::Known);
        }
    }
}

#[test]
fn mysql_with_the_banks_of_each_release() {
    let Some(mysql) = MySql::start() else { return };
    for (release, layout) in [("3008.5", 3008), ("3007.17", 3007), ("3006.30", 3006)] {
        let stores = ["ours", "theirs"].map(|database| {
            mysql.run(&format!("DROP TABLE IF EXISTS {database}.salt"));
            mysql.options(database)
        });
        if let Some(both) = Both::find(release, layout, "pymysql", stores) {
            leave_the_same(&both, layout, Below::Unknown);
            write_into_the_table_of_the_other(&both);
        }
    }
}

/// Their tables differ in their collation.
fn write_into_the_table_of_the_other(both: &Both) {
    let (bank, key, value) = ("odd", "grün %_=", json!({"a": "grün"}));
    let ours = both.ours(1);
    let old = json!([["store", bank, key, {"a": "old"}]]);
    both.theirs(1, &old);
    ours.put(bank, key, &map! { "a" => "grün" }.into()).unwrap();
    let read = json!([["fetch", bank, key], ["list", bank], ["updated", bank, key], ["flush", bank, key]]);
    let answers = both.theirs(1, &read);
    let at = ours.updated(bank, key).unwrap();
    assert_eq!(answers[..2], [value, json!([key])]);
    assert!(answers[2].is_i64() && at.is_none(), "{answers:?} {at:?}");
    both.theirs(0, &old);
    let ours = both.ours(0);
    let found = ours.fetch(bank, key, SystemTime::now()).unwrap();
    assert_eq!(found, Some(map! { "a" => "old" }.into()));
    assert!(ours.updated(bank, key).unwrap().is_some() && ours.delete(bank, key).unwrap());
}
