//! The driver `redis` against a server that each test starts. Where `redis-server` is not installed, the tests are skipped
//! and say so.

mod server;

use std::path::Path;
use std::sync::Arc;

use saltern_cache::redis::Server;
use saltern_cache::{Banks, Cache, Error, Part, Place};
use server::{PASSWORD, Redis};
use store::Layout;
use value::{Map, map};
use wire::MinionId;

/// Describes a server in one layout, with Salt's usual names.
fn server(redis: &Redis, layout: Layout) -> Server {
    let (banks, keys) = if layout == Layout::Since3008 { ("$BANKS_", "$KEYS_") } else { ("$BANK_", "$KEY_") };
    Server {
        host: String::new(),
        port: 0,
        socket: Some(redis.socket()),
        db: 0,
        password: Some(PASSWORD.into()),
        banks: banks.into(),
        keys: keys.into(),
        timestamps: "$TSTAMP_".into(),
        bank_keys: "$BANKEYS_".into(),
        layout,
    }
}

async fn listed(banks: &dyn Banks, bank: &str) -> Vec<String> {
    let mut names = banks.list(bank).await.unwrap();
    names.sort();
    names
}

/// Tests the operations of each driver in each layout.
async fn conforms(banks: Arc<dyn Banks>) {
    let (web1, web10) = (Place::new("minions/web1", "data"), Place::new("minions/web10", "data"));
    banks.store(&web1, b"one".into(), 1_700_000_000).await.unwrap();
    banks.store(&web10, b"\xff\0ten".into(), 7).await.unwrap();
    banks.store(&Place::new("minions/web1", "mine"), b"mine".into(), 8).await.unwrap();
    banks.store(&Place::new("minions/web1/below", "x"), b"y".into(), 9).await.unwrap();
    let nothing = Place::new("minions/web2", "data");
    let found = banks.fetch(&[web10.clone(), nothing.clone(), web1.clone()]).await.unwrap();
    assert_eq!(found, [Some(b"\xff\0ten".to_vec()), None, Some(b"one".to_vec())]);
    assert_eq!(banks.fetch(&[]).await.unwrap(), Vec::<Option<Vec<u8>>>::new());
    assert_eq!(banks.updated(&web1).await.unwrap(), Some(1_700_000_000));
    assert_eq!(banks.updated(&nothing).await.unwrap(), None);
    assert!(banks.contains(&web1).await.unwrap() && !banks.contains(&nothing).await.unwrap());
    assert_eq!(listed(&*banks, "minions").await, ["web1", "web10"]);
    assert_eq!(listed(&*banks, "minions/web1").await, ["below", "data", "mine"]);
    assert_eq!(listed(&*banks, "min").await, Vec::<String>::new());
    assert!(banks.flush(&web10).await.unwrap() && !banks.flush(&web10).await.unwrap());
    assert_eq!(banks.updated(&web10).await.unwrap(), None);
    banks.store(&web10, b"again".into(), 7).await.unwrap();
    // A bank takes the banks below it along, and none whose name only begins like it.
    assert!(banks.flush_bank("minions/web1").await.unwrap());
    assert!(!banks.flush_bank("minions/web1").await.unwrap());
    assert_eq!(listed(&*banks, "minions").await, ["web10"]);
    let gone = [web1, Place::new("minions/web1/below", "x"), web10];
    assert_eq!(banks.fetch(&gone).await.unwrap(), [None, None, Some(b"again".to_vec())]);
}

#[tokio::test]
async fn both_layouts_conform() {
    let Some(redis) = Redis::start() else { return };
    for layout in [Layout::Since3008, Layout::Until3007] {
        conforms(server(&redis, layout).banks().unwrap()).await;
    }
}

fn cache(socket: &Path, more: Map) -> Cache {
    let mut options = map! {
        "cache" => "redis", "cache.redis.unix_socket_path" => socket.to_str().unwrap(),
        "cache.redis.password" => PASSWORD,
    };
    options.update(more);
    Cache::of_master(&config::Master::from_options(options).unwrap()).unwrap()
}

fn id(id: &str) -> MinionId {
    MinionId::new(id).unwrap()
}

fn stored(cache: &Cache, id: &MinionId) {
    cache.store(id, map! { "os" => "Debian" }, map! { "a" => 1 }, None).unwrap();
}

#[test]
fn data_of_minions_are_kept_and_forgotten_in_both_layouts() {
    let Some(redis) = Redis::start() else { return };
    for layout in [3008, 3006] {
        let cache = cache(&redis.socket(), map! { "cache_layout" => layout });
        let web1 = id("web1");
        stored(&cache, &web1);
        cache.store_mine(&web1, map! { "test.ping" => true }).unwrap();
        assert_eq!(*cache.grains(&web1).unwrap().unwrap(), map! { "os" => "Debian", "id" => "web1" });
        assert_eq!(*cache.mine(&web1).unwrap().unwrap(), map! { "test.ping" => true });
        let many = cache.read(Part::Pillar, &["web0", "web1"]).unwrap();
        assert_eq!((many.len(), many["web1"].get("a")), (1, Some(&1.into())));
        assert_eq!(cache.ids().unwrap(), ["web1"]);
        cache.remove_part(Part::Pillar, &web1).unwrap();
        assert!(cache.pillar(&web1).unwrap().is_none() && cache.grains(&web1).unwrap().is_some(), "{layout}");
        cache.remove(&web1).unwrap();
        assert_eq!(cache.ids().unwrap(), Vec::<String>::new(), "{layout}");
        assert_eq!(cache.mine(&web1).unwrap().is_some(), layout == 3008);
    }
}

#[test]
fn pillars_of_environments_are_limited() {
    let Some(redis) = Redis::start() else { return };
    let cache = cache(&redis.socket(), map! {});
    let web1 = id("web1");
    stored(&cache, &web1);
    for number in 0..40 {
        cache.store(&web1, map! {}, map! {}, Some(&format!("env{number}"))).unwrap();
    }
    assert_eq!(cache.list("pillar_env/web1").unwrap().len(), store::minion_data::MOST_ENVIRONMENTS);
    cache.remove(&web1).unwrap();
    assert_eq!(cache.list("pillar_env/web1").unwrap(), Vec::<String>::new());
}

#[test]
fn an_expired_value_is_absent_and_bad_names_are_refused() {
    let Some(redis) = Redis::start() else { return };
    let cache = cache(&redis.socket(), map! {});
    stored(&cache, &id("web1"));
    let now = std::time::SystemTime::now();
    cache.put("tokens", "old", &map! { "data" => 7, "_expires" => 1_000 }.into()).unwrap();
    cache.put("tokens", "new", &map! { "data" => 7, "_expires" => i64::from(u32::MAX) }.into()).unwrap();
    assert_eq!(cache.fetch("tokens", "old", now).unwrap(), None);
    assert_eq!(cache.fetch("tokens", "new", now).unwrap(), Some(7.into()));
    assert!(cache.updated("tokens", "new").unwrap().is_some());
    assert!(matches!(cache.fetch("a/../b", "x", now), Err(Error::BadName { .. })));
}

#[test]
fn values_are_read_from_memory_until_they_expire() {
    let Some(redis) = Redis::start() else { return };
    let options = map! { "memcache_expire_seconds" => 3_600 };
    let (cache, other) = (cache(&redis.socket(), options), cache(&redis.socket(), map! {}));
    let web1 = id("web1");
    stored(&other, &web1);
    assert!(cache.grains(&web1).unwrap().is_some());
    other.remove(&web1).unwrap();
    assert!(cache.grains(&web1).unwrap().is_some() && other.grains(&web1).unwrap().is_none());
    cache.remove(&web1).unwrap();
    assert!(cache.grains(&web1).unwrap().is_none());
}

#[test]
fn a_server_that_is_away_fails_once_and_is_used_again() {
    let Some(redis) = Redis::start() else { return };
    let cache = cache(&redis.socket(), map! {});
    let web1 = id("web1");
    stored(&cache, &web1);
    let socket = redis.socket();
    std::fs::rename(&socket, socket.with_extension("away")).unwrap();
    // The open connection has not been closed.
    assert!(cache.grains(&web1).unwrap().is_some());
    std::fs::rename(socket.with_extension("away"), &socket).unwrap();
    let wrong = self::cache(&redis.socket(), map! { "cache.redis.password" => "other" });
    let error = wrong.grains(&web1).unwrap_err();
    assert!(error.is_logged());
    let text = format!("{error} {error:?}");
    assert!(text.contains("redis") && text.contains(socket.to_str().unwrap()), "{text}");
    assert!(!text.contains("other"), "{text}");
    drop(redis);
    assert!(cache.grains(&web1).unwrap_err().is_logged());
}
