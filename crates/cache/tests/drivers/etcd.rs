//! The driver `etcd` against a real server.

use saltern_cache::etcd::{Api, Server};
use saltern_cache::http::Target;

use crate::conformity::{self, cache, conforms, id, stored};
use crate::servers::etcd::Etcd;

#[tokio::test]
async fn the_driver_conforms() {
    let Some(etcd) = Etcd::start() else { return };
    let port = etcd.options().get("etcd.port").unwrap().as_i64().unwrap();
    for prefix in ["", "salt_cache", "a/b c"] {
        let server = Server {
            target: Target::new("http", "127.0.0.1", port.try_into().unwrap()).unwrap(),
            login: Some(("salt".into(), "secret".into())),
            prefix: prefix.into(),
            reconnect: true,
            api: Api::V2 { suffix: ".tstamp".into() },
        };
        conforms(server.banks().unwrap()).await;
    }
}

#[test]
fn the_cache_conforms() {
    let Some(etcd) = Etcd::start() else { return };
    conformity::data_of_minions_are_kept_and_forgotten(&etcd.options());
    conformity::a_minion_without_data_is_not_listed(&etcd.options());
    conformity::pillars_of_environments_are_limited(etcd.options());
    conformity::an_expired_value_is_absent_and_bad_names_are_refused(etcd.options());
    conformity::values_are_read_from_memory_until_they_expire(etcd.options());
}

#[test]
fn a_restart_is_survived_and_a_missing_api_is_named() {
    let Some(mut etcd) = Etcd::start() else { return };
    let (cache, web1) = (cache(etcd.options()), id("web1"));
    stored(&cache, &web1);
    etcd.stop();
    assert!(cache.grains(&web1).unwrap_err().is_logged());
    assert!(etcd.run(&["--enable-v2=true"]));
    assert!(cache.grains(&web1).unwrap().is_some());
    assert!(etcd.run(&["--enable-v2=false"]));
    let error = cache.grains(&web1).unwrap_err();
    assert!(format!("{error:?}").contains("--enable-v2"), "{error:?}");
}

#[test]
fn another_member_of_the_cluster_is_asked() {
    let Some(mut members) = Etcd::start_cluster() else { return };
    let (cache, web1) = (cache(members[0].options()), id("web1"));
    stored(&cache, &web1);
    // A member answers from what it has, which may be a little less than the others have.
    for member in &members {
        let cache = conformity::cache(member.options());
        while cache.grains(&web1).unwrap().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
    let mut alone = members[0].options();
    alone.insert("etcd.allow_reconnect", false);
    let alone = conformity::cache(alone);
    assert!(alone.grains(&web1).unwrap().is_some());
    members[0].stop();
    assert!(cache.grains(&web1).unwrap().is_some());
    assert!(alone.grains(&web1).unwrap_err().is_logged());
    members[1].stop();
    assert!(cache.grains(&web1).unwrap().is_some());
    members[2].stop();
    assert!(cache.grains(&web1).unwrap_err().is_logged());
}
