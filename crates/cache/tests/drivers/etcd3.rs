//! The driver `etcd3` against a real server.

use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use saltern_cache::etcd::{Api, Server};
use saltern_cache::http::Target;
use saltern_cache::{Cache, Part, Place};
use serde_json::{Value as Json, json};
use value::{Map, map};

use crate::conformity::{self, cache, conforms, fetched, id, packed, stored};
use crate::servers::etcd::Etcd;
use crate::servers::http::{Listener, answer};

const PASSWORD: &str = "tr0ub4dor";

/// Makes logins cheap, so that they take no time on a busy machine.
const CHEAP: &[&str] = &["--bcrypt-cost=4"];

fn server(etcd: &Etcd, prefix: &str) -> Server {
    let port = etcd.options_v3().get("etcd.port").unwrap().as_i64().unwrap();
    Server {
        target: Target::new("http", "127.0.0.1", port.try_into().unwrap()).unwrap(),
        login: Some(("salt".into(), PASSWORD.into())),
        prefix: prefix.into(),
        reconnect: true,
        api: Api::V3,
    }
}

fn start() -> Option<Etcd> {
    Etcd::start_with(&[])
}

fn with_password(etcd: &Etcd, password: &str) -> Map {
    let mut options = etcd.options_v3();
    options.extend(map! { "etcd.username" => "salt", "etcd.password" => password });
    options
}

/// Returns why the grains of a minion cannot be read.
fn failure(cache: &Cache) -> String {
    let error = cache.grains(&id("web1")).unwrap_err();
    assert!(error.is_logged());
    format!("{error} {error:?}")
}

fn key(text: &str) -> Json {
    STANDARD.encode(text).into()
}

#[tokio::test]
async fn the_driver_conforms() {
    let Some(etcd) = start() else { return };
    for prefix in ["salt_cache", "a/b c", "a//b"] {
        conforms(server(&etcd, prefix).banks().unwrap()).await;
    }
}

#[test]
fn the_cache_conforms() {
    let Some(etcd) = start() else { return };
    conformity::data_of_minions_are_kept_and_forgotten(&etcd.options_v3());
    conformity::a_minion_without_data_is_not_listed(&etcd.options_v3());
    conformity::pillars_of_environments_are_limited(etcd.options_v3());
    conformity::an_expired_value_is_absent_and_bad_names_are_refused(etcd.options_v3());
    conformity::values_are_read_from_memory_until_they_expire(etcd.options_v3());
}

#[tokio::test]
async fn more_values_are_read_than_a_transaction_allows() {
    let Some(etcd) = start() else { return };
    let banks = server(&etcd, "salt_cache").banks().unwrap();
    let places: Vec<Place> = (0..300).map(|number| Place::new("grains", format!("web{number}"))).collect();
    for place in places.iter().step_by(3) {
        banks.store(place, packed(place.key.as_str()), 7).await.unwrap();
    }
    let expected = places.iter().enumerate();
    let expected = expected.map(|(number, place)| (number % 3 == 0).then(|| packed(place.key.as_str())));
    assert_eq!(fetched(&*banks, &places).await, expected.collect::<Vec<_>>());
    assert_eq!(banks.list("grains").await.unwrap().len(), 100);
}

#[test]
fn the_layout_is_that_of_salt() {
    let Some(etcd) = start() else { return };
    cache(etcd.options_v3()).put("minions/web1", "data", &map! { "a" => 1 }.into()).unwrap();
    let found = etcd.call("kv/range", "", &json!({"key": key("/salt_cache/minions/web1/data")}));
    let value = STANDARD.decode(found["kvs"][0]["value"].as_str().unwrap()).unwrap();
    let time = value.strip_prefix(b"\x82\xa1d\x81\xa1a\x01\xa1t\xce").unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!(now - u64::from(u32::from_be_bytes(time.try_into().unwrap())) < 600, "{value:?}");
}

#[test]
fn a_value_lives_as_long_as_its_lease_until_it_is_replaced() {
    let Some(etcd) = start() else { return };
    let cache = cache(etcd.options_v3());
    let lease = etcd.call("lease/grant", "", &json!({"TTL": 3_600}))["ID"].clone();
    let envelope = STANDARD.encode(b"\x82\xa1d\x81\xa1a\x01\xa1t\x07");
    for name in ["web1", "web2"] {
        let place = key(&format!("/salt_cache/grains/{name}"));
        etcd.call("kv/put", "", &json!({"key": place, "value": envelope, "lease": lease}));
    }
    assert_eq!(*cache.grains(&id("web1")).unwrap().unwrap(), map! { "a" => 1 });
    stored(&cache, &id("web2"));
    etcd.call("lease/revoke", "", &json!({"ID": lease}));
    assert!(cache.grains(&id("web1")).unwrap().is_none());
    assert_eq!(cache.ids().unwrap(), ["web2"]);
}

#[test]
fn a_value_of_others_is_named_and_hides_no_other() {
    let Some(etcd) = start() else { return };
    let cache = cache(etcd.options_v3());
    stored(&cache, &id("web1"));
    etcd.call(
        "kv/put",
        "",
        &json!({"key": key("/salt_cache/grains/web2"), "value": STANDARD.encode(b"\x81\xa1a\x01")}),
    );
    etcd.call("kv/put", "", &json!({"key": key("/salt_cache/grains/web3")}));
    let found = cache.read(Part::Grains, &["web1", "web2", "web3"]).unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), ["web1"]);
    let error = cache.fetch("grains", "web2", std::time::SystemTime::now()).unwrap_err().to_string();
    assert!(error.contains("etcd3") && error.contains("web2") && error.contains("not a map of a value"), "{error}");
    assert_eq!(cache.updated("grains", "web3").unwrap(), None);
}

#[test]
fn a_value_that_etcd_does_not_take_is_named() {
    let Some(etcd) = start() else { return };
    let large = "x".repeat(1_600_000);
    let error = cache(etcd.options_v3()).put("grains", "web1", &large.into()).unwrap_err();
    assert!(format!("{error:?}").contains("request is too large"), "{error:?}");
}

#[test]
fn logins_may_be_turned_on_and_off_and_a_restart_is_survived() {
    let Some(mut etcd) = Etcd::start_with(CHEAP) else { return };
    let (cache, none) = (cache(with_password(&etcd, PASSWORD)), cache(etcd.options_v3()));
    stored(&cache, &id("web1"));
    etcd.want_logins(PASSWORD);
    assert!(cache.grains(&id("web1")).unwrap().is_some());
    assert!(failure(&none).contains("user name is empty"));
    // A server forgets its tokens with its end.
    etcd.stop();
    assert!(failure(&cache).contains("refused"));
    assert!(etcd.run(CHEAP));
    assert!(cache.grains(&id("web1")).unwrap().is_some());
    etcd.call("auth/disable", &etcd.token_of_root(), &json!({}));
    assert!(cache.grains(&id("web1")).unwrap().is_some() && none.grains(&id("web1")).unwrap().is_some());
}

#[test]
fn a_wrong_password_or_prefix_is_refused_in_the_words_of_etcd() {
    let Some(etcd) = Etcd::start_with(CHEAP) else { return };
    etcd.want_logins(PASSWORD);
    let refused = failure(&cache(with_password(&etcd, "some other password")));
    assert!(refused.contains("authentication failed") && !refused.contains("some other password"), "{refused}");
    let mut elsewhere = with_password(&etcd, PASSWORD);
    elsewhere.insert("etcd.path_prefix", "/others");
    let elsewhere = cache(elsewhere);
    assert!(failure(&elsewhere).contains("permission denied"));
    assert!(format!("{:?}", elsewhere.flush("grains").unwrap_err()).contains("permission denied"));
}

#[test]
fn a_missing_api_is_named() {
    let Some(etcd) = Etcd::start_with(&["--enable-grpc-gateway=false"]) else { return };
    for options in [etcd.options_v3(), with_password(&etcd, PASSWORD)] {
        let refused = failure(&cache(options));
        assert!(refused.contains("--enable-grpc-gateway"), "{refused}");
    }
}

#[test]
fn another_member_of_the_cluster_is_asked() {
    let Some(mut members) = Etcd::start_cluster() else { return };
    let (cache, web1) = (cache(members[0].options_v3()), id("web1"));
    stored(&cache, &web1);
    let mut alone = members[0].options_v3();
    alone.insert("etcd.allow_reconnect", false);
    let alone = conformity::cache(alone);
    assert!(alone.grains(&web1).unwrap().is_some());
    members[0].stop();
    assert!(failure(&alone).contains("refused"));
    // The others may have to elect a leader first.
    while cache.grains(&web1).map_or(true, |grains| grains.is_none()) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn a_list_asks_for_keys_only() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let listener = Listener::start(0, move |stream| {
        answer(stream, |request| {
            seen.lock().unwrap().push((request.path, serde_json::from_slice::<Json>(&request.body).unwrap()));
            let body = json!({"header": {"cluster_id": "1"}, "kvs": [{"key": key("/salt_cache/grains/web1")}]});
            (200, Vec::new(), body.to_string().into_bytes())
        });
    });
    let cache = cache(map! { "cache" => "etcd3", "etcd.port" => i64::from(listener.port) });
    assert_eq!(cache.list("grains").unwrap(), ["web1"]);
    let asked = asked.lock().unwrap();
    assert_eq!(asked[0].0, "/v3/kv/range");
    let (first, end) = (key("/salt_cache/grains/"), key("/salt_cache/grains0"));
    assert_eq!(asked[0].1, json!({"key": first, "range_end": end, "keys_only": true}));
}

#[test]
fn one_login_is_for_all_requests_and_for_the_members() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let listener = Listener::start(0, move |stream| {
        answer(stream, |request| {
            let token = request.headers.get("authorization").cloned().unwrap_or_default();
            seen.lock().unwrap().push((request.path, token));
            let body = json!({"header": {"cluster_id": "1"}, "token": "a token"});
            (200, Vec::new(), body.to_string().into_bytes())
        });
    });
    let cache = cache(map! {
        "cache" => "etcd3", "etcd.port" => i64::from(listener.port), "etcd.username" => "salt", "etcd.password" => PASSWORD,
    });
    cache.list("grains").unwrap();
    cache.list("grains").unwrap();
    let expected = [
        ("/v3/auth/authenticate", ""),
        ("/v3/kv/range", "a token"),
        ("/v3/cluster/member/list", "a token"),
        ("/v3/kv/range", "a token"),
    ];
    assert_eq!(*asked.lock().unwrap(), expected.map(|(path, token)| (path.to_owned(), token.to_owned())));
}
