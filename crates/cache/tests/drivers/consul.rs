//! The driver `consul`.

use saltern_cache::consul::{Consistency, Server};
use saltern_cache::http::Target;

use crate::conformity::{self, cache, conforms, id, stored};
use crate::servers::consul::{Consul, TOKEN};

#[tokio::test]
async fn the_driver_conforms() {
    let consul = Consul::start();
    let port = consul.options().get("consul.port").unwrap().as_i64().unwrap();
    let server = Server {
        target: Target::new("http", "127.0.0.1", port.try_into().unwrap()).unwrap(),
        token: Some(TOKEN.into()),
        consistency: Consistency::Consistent,
        dc: Some("east".into()),
        suffix: ".tstamp".into(),
    };
    conforms(server.banks().unwrap()).await;
    // The data centre is part of each request, and only reads say how current their answers must be.
    let asked = consul.asked();
    assert!(asked.iter().all(|(_, query)| query.contains(&"dc".to_owned())), "{asked:?}");
    let current = |query: &[String]| query.contains(&"consistent".to_owned());
    assert!(asked.iter().all(|(method, query)| (method == "GET") == current(query)), "{asked:?}");
}

#[test]
fn the_cache_conforms() {
    let consul = Consul::start();
    conformity::data_of_minions_are_kept_and_forgotten(&consul.options());
    conformity::a_minion_without_data_is_not_listed(&consul.options());
    conformity::pillars_of_environments_are_limited(consul.options());
    conformity::an_expired_value_is_absent_and_bad_names_are_refused(consul.options());
    conformity::values_are_read_from_memory_until_they_expire(consul.options());
}

#[test]
fn a_closed_connection_is_opened_again_and_a_restart_is_survived() {
    let mut consul = Consul::start();
    let (cache, web1) = (cache(consul.options()), id("web1"));
    stored(&cache, &web1);
    for _ in 0..20 {
        consul.hang_up();
        assert!(cache.grains(&web1).unwrap().is_some());
    }
    consul.stop();
    assert!(cache.grains(&web1).unwrap_err().is_logged());
    assert!(cache.ids().unwrap_err().is_logged());
    consul.resume();
    assert_eq!(cache.ids().unwrap(), ["web1"]);
}

#[test]
fn a_wrong_token_is_refused_in_the_words_of_consul() {
    let consul = Consul::start();
    let mut options = consul.options();
    options.insert("consul.token", "some other token");
    let error = cache(options).grains(&id("web1")).unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(text.contains("HTTP 403") && text.contains("Permission denied"), "{text}");
    assert!(!text.contains("some other token"), "{text}");
}

#[test]
fn a_value_is_not_written_in_the_place_of_a_time() {
    let consul = Consul::start();
    let cache = cache(consul.options());
    stored(&cache, &id("web1"));
    let error = cache.store_mine(&id("web1.tstamp"), value::map! {}).unwrap_err();
    assert!(format!("{error:?}").contains(".tstamp"), "{error:?}");
    assert!(cache.updated("grains", "web1").unwrap().is_some());
}
