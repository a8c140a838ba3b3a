//! Requests of minions: malformed ones, files and pillar, events.

use channel::client::SignIn;
use crypto::PrivateKey;
use value::{Map, Value, list, map};
use wire::envelope::{Clear, Envelope, Sealed};
use wire::msgpack::Decode;

use crate::common::{Master, free_port, open_house};
use crate::logged;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_requests_get_the_answers_of_salt() {
    let pki = tempfile::tempdir().unwrap();
    let master = Master::start(open_house()).await;
    let minion = master.minion("web1", pki.path());
    minion.channel.sign_in().await.unwrap();
    let clear = |load: Map, version| Envelope::Clear(Clear { load, version });
    let sealed = |id: &str| {
        let load = bytes::Bytes::from_static(b"nothing that opens");
        Envelope::Sealed(Sealed { load, version: 3, id: Some(id.into()), enc_algo: None, sig_algo: None })
    };
    let cases = [
        (clear(map! { "cmd" => "ping", "x" => 1 }, 3), map! { "cmd" => "ping", "x" => 1 }.into()),
        (clear(map! { "cmd" => "ping", "x" => "y".repeat(2000) }, 3), map! { "cmd" => "ping" }.into()),
        (clear(map! { "cmd" => "rm_token" }, 3), Map::new().into()),
        (clear(map! { "cmd" => "ping" }, 2), "bad load".into()),
        (clear(map! { "cmd" => "ping", "id" => "a\0b" }, 3), "bad load: id contains a null byte".into()),
        (clear(map! { "cmd" => "ping", "id" => 1 }, 3), "bad load: id 1 is not a string".into()),
        (sealed("web1"), "bad load".into()),
        (sealed("../web1"), "bad load".into()),
        (sealed(&"x".repeat(10_000)), "bad load".into()),
        (sealed("stranger"), "bad load".into()),
    ];
    for (envelope, answer) in cases {
        let shown = format!("{envelope:?}").chars().take(200).collect::<String>();
        assert_eq!(master.send(envelope).await, answer, "{shown}");
    }
    assert_eq!(minion.ask(map! { "cmd" => "__init__" }).await, Map::new().into());
    assert_eq!(minion.ask(map! { "cmd" => "_ext_nodes" }).await, Map::new().into());
    assert!(!master.path("cache/sessions/stranger").exists());
    // Another key under a known id is refused, and the minion goes on.
    // Its own directory, since a minion also stores the master's key.
    let (other, thief) = (tempfile::tempdir().unwrap(), PrivateKey::generate(2048).unwrap());
    let thief = master.channel("web1", thief, other.path());
    assert!(!matches!(thief.sign_in().await, Ok(SignIn::Accepted(_))));
    assert_eq!(minion.ask(map! { "cmd" => "_file_envs" }).await, list!["base"]);
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn command_that_is_none_is_logged_in_salts_words() {
    logged::keep();
    let pki = tempfile::tempdir().unwrap();
    let master = Master::start(open_house()).await;
    let minion = master.minion("web1", pki.path());
    let peer = master.requests.ip();
    for (cmd, sealed) in [("_no_such_clear", false), ("_no_such_sealed", true)] {
        let load = map! { "cmd" => cmd };
        let _ = if sealed { minion.ask(load).await } else { master.ask(load).await };
        let line = logged::line(&[cmd]).await;
        assert_eq!(line, format!("Bad request from {peer}: Requested method not exposed: {cmd}"));
    }
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_whose_data_cannot_be_read_is_refused() {
    let mut options = map! { "cache" => "redis", "cache.redis.host" => "127.0.0.1", "cache.redis.port" => free_port() };
    options.update(open_house());
    let master = Master::start(options).await;
    let pki = tempfile::tempdir().unwrap();
    master.minion("web1", pki.path()).channel.sign_in().await.unwrap();
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap();
    let load = map! {
        "cmd" => "publish", "fun" => "test.ping", "arg" => list![], "tgt" => "os:Debian", "tgt_type" => "grain", "jid" => "", "ret" => "",
        "kwargs" => map! {}, "user" => user.name, "key" => master.user_key(),
    };
    let error = map! { "name" => "PublishError", "message" => "the minion data cache gives no answer" };
    assert_eq!(master.ask(load).await, map! { "error" => error }.into());
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn external_pillars_see_what_the_minion_adds() {
    let place = tempfile::tempdir().unwrap();
    let include = map! { "extra_minion_data_in_pillar" => map! { "include" => list!["site:rack", "row"] } };
    let mut options = map! { "ext_pillar" => list![include] };
    options.update(open_house());
    let master = Master::start(options).await;
    let minion = master.minion("web1", place.path());
    let ask = async |extra: Map| {
        let request = map! {
            "cmd" => "_pillar", "id" => "web1", "grains" => map! {}, "saltenv" => Value::Null, "ver" => "2",
            "extra_minion_data" => extra,
        };
        minion.channel.request_pillar(request, None).await.unwrap()
    };
    let extra = map! { "site" => map! { "rack" => 7, "room" => 1 }, "row" => list![2], "floor" => 3 };
    let expected = map! { "site" => map! { "rack" => 7 }, "row" => list![2] };
    assert_eq!(ask(extra).await, expected.into());
    assert_eq!(ask(map! {}).await, Map::new().into());
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_pillar_and_mine_are_served() {
    let place = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("srv/a.txt", "hello"),
        ("pillar/top.sls", "base: {'os:Debian': [{match: grain}, web]}"),
        ("pillar/web.sls", "role: web"),
    ] {
        let path = place.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let roots = |name: &str| map! { "base" => list![place.path().join(name).to_str().unwrap()] };
    let mut options = map! { "file_roots" => roots("srv"), "pillar_roots" => roots("pillar"), "file_recv" => true };
    options.update(open_house());
    let master = Master::start(options).await;
    let minion = master.minion("web1", place.path());
    let request = map! {
        "cmd" => "_pillar", "id" => "web1", "grains" => map! { "os" => "Debian" }, "saltenv" => Value::Null, "ver" => "2",
    };
    let pillar = minion.channel.request_pillar(request, None).await.unwrap();
    assert_eq!(pillar, map! { "role" => "web" }.into());
    let chunk = map! { "cmd" => "_serve_file", "path" => "a.txt", "saltenv" => "base", "loc" => 1 };
    assert_eq!(minion.ask(chunk.clone()).await.get("data").unwrap(), &Value::from("ello"));
    let mut compressed = chunk;
    compressed.insert("gzip", 9);
    assert_eq!(minion.ask(compressed).await.get("gzip"), Some(&6.into()), "no better than that");
    let push = map! { "cmd" => "_file_recv", "path" => list!["t", "f"], "loc" => 0, "data" => "x", "size" => 1 };
    assert_eq!(minion.ask(push).await, true.into());
    assert!(master.path("cache/minions/web1/files/t/f").exists());
    let hostile =
        map! { "cmd" => "_file_recv", "path" => list!["..", "..", "f"], "loc" => 0, "data" => "x", "size" => 1 };
    assert_eq!(minion.ask(hostile).await, false.into());
    let options = minion.ask(map! { "cmd" => "_master_opts" }).await;
    // Names of environments only: minions need not know the master's paths.
    assert_eq!(options.get("file_roots"), Some(&map! { "base" => list![] }.into()));
    assert_eq!(options.get("state_top"), Some(&"top.sls".into()));
    assert_eq!(minion.ask(map! { "cmd" => "_mine", "data" => map! { "a" => 1, "b" => 2 } }).await, true.into());
    let mine = |fun: Value| map! { "cmd" => "_mine_get", "tgt" => "os:Debian", "tgt_type" => "grain", "fun" => fun };
    assert_eq!(minion.ask(mine("a".into())).await, map! { "web1" => 1 }.into());
    assert_eq!(minion.ask(mine(list!["a"])).await, map! { "a" => map! { "web1" => 1 } }.into());
    minion.ask(map! { "cmd" => "_mine_delete", "fun" => "a" }).await;
    assert_eq!(minion.ask(mine("a".into())).await, Map::new().into());
    // Salt's form of a mine function that only some minions may read.
    let hidden = map! { "__data__" => 3, "__saltmine_acl__" => 1, "allow_tgt" => "db*" };
    minion.ask(map! { "cmd" => "_mine", "data" => map! { "c" => hidden } }).await;
    assert_eq!(minion.ask(mine("c".into())).await, Map::new().into());
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn minion_cannot_fire_the_events_of_a_master() {
    let place = tempfile::tempdir().unwrap();
    let master = Master::start(open_house()).await;
    let minion = master.minion("web1", place.path());
    let mut events = master.events().await;
    let batch = map! {
        "cmd" => "_minion_event", "pretag" => Value::Null,
        "events" => list![
            // Programs trust these tags: only masters fire them.
            map! { "tag" => "salt/run/1/new", "data" => map! { "forged" => true } },
            map! { "tag" => "salt/job/20240229131415678901/ret/web2", "data" => map! { "id" => "web2", "return" => 1 } },
            map! { "tag" => "my/tag", "data" => map! { "n" => 1 } },
        ],
    };
    assert_eq!(minion.ask(batch).await, Value::Null);
    let first = events.next().await.unwrap();
    let first = if first.tag() == "salt/auth" { events.next().await.unwrap() } else { first };
    assert_eq!((first.tag(), first.data().get("n")), ("my/tag", Some(&1.into())));
    for (pretag, tag) in [("salt", "auth"), ("salt/job/20240229131415678901/ret", "web2"), ("syndic/web1", "x")] {
        let batch = list![map! { "tag" => tag, "data" => map! { "id" => "web2", "return" => 1 } }];
        let ask = map! { "cmd" => "_minion_event", "pretag" => pretag, "events" => batch };
        assert_eq!(minion.ask(ask).await, Value::Null);
        // The tag without what stood in front of it is one of their own.
        assert_eq!(events.next().await.unwrap().tag(), tag);
    }
    let single =
        map! { "cmd" => "_minion_event", "tag" => "other", "data" => map! { "n" => 2 }, "pretag" => Value::Null };
    minion.ask(single).await;
    let other = events.next().await.unwrap();
    assert_eq!(other.tag(), "other");
    assert_eq!(other.data().get("data"), Some(&map! { "n" => 2 }.into()));
    assert_eq!(other.data().get_str("id"), Some("web1"));
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minion_that_leaves_a_large_answer_unread_still_gets_its_files() {
    let place = tempfile::tempdir().unwrap();
    let master = Master::start(open_house()).await;
    let key = PrivateKey::generate(2048).unwrap();
    let channel = master.channel("web1", key.clone(), place.path());
    let ask = async |load| channel.request(load, None, Decode::Default).await.unwrap();
    let mine = map! { "cmd" => "_mine", "data" => map! { "large" => "x".repeat(15 << 20) }, "clear" => true };
    assert_eq!(ask(mine).await, true.into());
    let load = map! { "cmd" => "_mine_get", "tgt" => "web1", "fun" => "large", "tgt_type" => "glob" };
    let unread = master.unread_channel("web1", key, place.path());
    assert!(unread.request(load, None, Decode::Default).await.is_err());
    let list = map! { "cmd" => "_file_list", "saltenv" => "base" };
    assert_eq!(ask(list).await, list![]);
    drop(unread);
    master.stop().await;
}
