//! The driver `redis`.

use saltern_cache::redis::Server;
use store::Layout;
use value::{Map, map};

use crate::conformity::{self, cache, conforms, id, stored};
use crate::servers::redis::{PASSWORD, Redis};

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

fn options(redis: &Redis) -> Map {
    map! {
        "cache" => "redis", "cache.redis.unix_socket_path" => redis.socket().to_str().unwrap(),
        "cache.redis.password" => PASSWORD,
    }
}

#[tokio::test]
async fn both_layouts_conform() {
    let Some(redis) = Redis::start() else { return };
    for layout in [Layout::Since3008, Layout::Until3007] {
        conforms(server(&redis, layout).banks().unwrap()).await;
    }
}

#[test]
fn the_cache_conforms() {
    let Some(redis) = Redis::start() else { return };
    conformity::data_of_minions_are_kept_and_forgotten(&options(&redis));
    conformity::pillars_of_environments_are_limited(options(&redis));
    conformity::an_expired_value_is_absent_and_bad_names_are_refused(options(&redis));
    conformity::values_are_read_from_memory_until_they_expire(options(&redis));
}

#[test]
fn a_server_that_is_away_fails_once_and_is_used_again() {
    let Some(redis) = Redis::start() else { return };
    let cache = cache(options(&redis));
    let web1 = id("web1");
    stored(&cache, &web1);
    let socket = redis.socket();
    std::fs::rename(&socket, socket.with_extension("away")).unwrap();
    // The open connection has not been closed.
    assert!(cache.grains(&web1).unwrap().is_some());
    std::fs::rename(socket.with_extension("away"), &socket).unwrap();
    let mut options = options(&redis);
    options.insert("cache.redis.password", "other");
    let error = conformity::cache(options).grains(&web1).unwrap_err();
    assert!(error.is_logged());
    let text = format!("{error} {error:?}");
    assert!(text.contains("redis") && text.contains(socket.to_str().unwrap()), "{text}");
    assert!(!text.contains("other"), "{text}");
    drop(redis);
    assert!(cache.grains(&web1).unwrap_err().is_logged());
}
