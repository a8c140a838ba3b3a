//! What each driver does in the same way.

use std::sync::Arc;

use saltern_cache::{Banks, Cache, Error, Part, Place};
use value::{Map, Value, map};
use wire::MinionId;
use wire::msgpack::{Packing, pack};

/// Returns the cache of a master with these options.
pub fn cache(options: Map) -> Cache {
    Cache::of_master(&config::Master::from_options(options).unwrap()).unwrap()
}

/// Returns an id.
pub fn id(id: &str) -> MinionId {
    MinionId::new(id).unwrap()
}

/// Stores grains and pillar of a minion.
pub fn stored(cache: &Cache, id: &MinionId) {
    cache.store(id, map! { "os" => "Debian" }, map! { "a" => 1 }, None).unwrap();
}

async fn listed(banks: &dyn Banks, bank: &str) -> Vec<String> {
    let mut names = banks.list(bank).await.unwrap();
    names.sort();
    names
}

/// Returns a value as the cache hands it to a driver.
pub fn packed(value: impl Into<Value>) -> Vec<u8> {
    pack(&value.into(), Packing::Wire)
}

/// Reads packed values, as the cache does.
pub async fn fetched(banks: &dyn Banks, places: &[Place]) -> Vec<Option<Vec<u8>>> {
    let stored = banks.fetch(places).await.unwrap();
    stored.into_iter().map(|stored| Some(banks.value(stored?.into()).unwrap().into())).collect()
}

/// Tests the operations of a driver.
pub async fn conforms(banks: Arc<dyn Banks>) {
    let (web1, web10) = (Place::new("minions/web1", "data"), Place::new("minions/web10", "data"));
    let (one, ten, again) = (packed("one"), packed(&b"\xff\0ten"[..]), packed("again"));
    banks.store(&web1, one.clone(), 1_700_000_000).await.unwrap();
    banks.store(&web10, ten.clone(), 7).await.unwrap();
    banks.store(&Place::new("minions/web1", "mine"), packed("mine"), 8).await.unwrap();
    banks.store(&Place::new("minions/web1/below", "x"), packed("y"), 9).await.unwrap();
    let nothing = Place::new("minions/web2", "data");
    let found = fetched(&*banks, &[web10.clone(), nothing.clone(), web1.clone()]).await;
    assert_eq!(found, [Some(ten), None, Some(one)]);
    assert_eq!(banks.fetch(&[]).await.unwrap(), Vec::<Option<Vec<u8>>>::new());
    assert_eq!(banks.updated(&web1).await.unwrap(), Some(1_700_000_000));
    assert_eq!(banks.updated(&nothing).await.unwrap(), None);
    assert!(banks.contains(&web1).await.unwrap() && !banks.contains(&nothing).await.unwrap());
    assert_eq!(listed(&*banks, "minions").await, ["web1", "web10"]);
    assert_eq!(listed(&*banks, "minions/web1").await, ["below", "data", "mine"]);
    assert_eq!(listed(&*banks, "min").await, Vec::<String>::new());
    assert!(banks.flush(&web10).await.unwrap() && !banks.flush(&web10).await.unwrap());
    assert_eq!(banks.updated(&web10).await.unwrap(), None);
    banks.store(&web10, again.clone(), 7).await.unwrap();
    // A bank takes the banks below it along, and none whose name only begins like it.
    assert!(banks.flush_bank("minions/web1").await.unwrap());
    assert!(!banks.flush_bank("minions/web1").await.unwrap());
    assert_eq!(listed(&*banks, "minions").await, ["web10"]);
    let gone = [web1, Place::new("minions/web1/below", "x"), web10];
    assert_eq!(fetched(&*banks, &gone).await, [None, None, Some(again)]);
    strange_names(&*banks).await;
}

/// Any character that a name may have stays itself.
async fn strange_names(banks: &dyn Banks) {
    let places =
        ["a b", "50%25", "q?x=1&y", "#1", "grün", "+", "..dots", "a:b;c,d@e"].map(|name| Place::new("odd", name));
    for place in &places {
        banks.store(place, packed(place.key.as_str()), 5).await.unwrap();
    }
    let found = fetched(banks, &places).await;
    assert_eq!(found, places.clone().map(|place| Some(packed(place.key))));
    let mut names = places.map(|place| place.key);
    names.sort();
    assert_eq!(listed(banks, "odd").await, names);
    assert!(banks.flush_bank("odd").await.unwrap());
}

/// Tests what the programs do with the data of minions, in both layouts.
pub fn data_of_minions_are_kept_and_forgotten(options: &Map) {
    for layout in [3008, 3006] {
        let mut options = options.clone();
        options.insert("cache_layout", layout);
        let cache = cache(options);
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

/// Tests that a minion is not listed when its last part is removed. In Salt's old layout of Redis it is.
pub fn a_minion_without_data_is_not_listed(options: &Map) {
    for layout in [3008, 3006] {
        let mut options = options.clone();
        options.insert("cache_layout", layout);
        let (cache, web1) = (cache(options), id("web1"));
        stored(&cache, &web1);
        cache.store_mine(&web1, map! { "test.ping" => true }).unwrap();
        cache.remove_mine(&web1).unwrap();
        cache.remove_part(Part::Pillar, &web1).unwrap();
        cache.remove_part(Part::Grains, &web1).unwrap();
        assert_eq!(cache.ids().unwrap(), Vec::<String>::new(), "{layout}");
    }
}

/// Tests that the environments of a minion's pillar have a limit.
pub fn pillars_of_environments_are_limited(options: Map) {
    let cache = cache(options);
    let web1 = id("web1");
    stored(&cache, &web1);
    for number in 0..store::minion_data::MOST_ENVIRONMENTS + 8 {
        cache.store(&web1, map! {}, map! {}, Some(&format!("env{number}"))).unwrap();
    }
    assert_eq!(cache.list("pillar_env/web1").unwrap().len(), store::minion_data::MOST_ENVIRONMENTS);
    cache.remove(&web1).unwrap();
    assert_eq!(cache.list("pillar_env/web1").unwrap(), Vec::<String>::new());
}

/// Tests values that expire, and names.
pub fn an_expired_value_is_absent_and_bad_names_are_refused(options: Map) {
    let cache = cache(options);
    stored(&cache, &id("web1"));
    let now = std::time::SystemTime::now();
    cache.put("tokens", "old", &map! { "data" => 7, "_expires" => 1_000 }.into()).unwrap();
    cache.put("tokens", "new", &map! { "data" => 7, "_expires" => i64::from(u32::MAX) }.into()).unwrap();
    assert_eq!(cache.fetch("tokens", "old", now).unwrap(), None);
    assert_eq!(cache.fetch("tokens", "new", now).unwrap(), Some(7.into()));
    assert!(cache.updated("tokens", "new").unwrap().is_some());
    assert!(matches!(cache.fetch("a/../b", "x", now), Err(Error::BadName { .. })));
}

/// Tests that values in memory are read without the server.
pub fn values_are_read_from_memory_until_they_expire(options: Map) {
    let mut remembering = options.clone();
    remembering.insert("memcache_expire_seconds", 3_600);
    let (cache, other) = (cache(remembering), cache(options));
    let web1 = id("web1");
    stored(&other, &web1);
    assert!(cache.grains(&web1).unwrap().is_some());
    other.remove(&web1).unwrap();
    assert!(cache.grains(&web1).unwrap().is_some() && other.grains(&web1).unwrap().is_none());
    cache.remove(&web1).unwrap();
    assert!(cache.grains(&web1).unwrap().is_none());
}
