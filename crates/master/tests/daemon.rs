//! A master as a whole: what minions and programs on its host see.

mod common;

use std::time::Duration;

use common::{Master, event};
use crypto::{HashType, PrivateKey};
use event::{Endpoints, Remote};
use rt::Rt;
use store::jobs::{EMBEDDED, JobCache};
use tokio::io::AsyncWriteExt as _;
use transport::{Subscription, Target};
use value::{Map, Value, list, map};
use wire::envelope::{Clear, Envelope, Sealed};
use wire::msgpack::Decode;

async fn subscribe(master: &Master, id: &str) -> Box<dyn Subscription> {
    transport::zeromq::subscribe(&Rt::real(), &Target::plain(master.publications), id, vec![]).await.unwrap()
}

fn open_house() -> Map {
    map! { "auto_accept" => true }
}

/// The job cache as another program sees it.
fn jobs(master: &Master) -> JobCache {
    JobCache::beside_master(&master.path("cache"), HashType::Sha256, EMBEDDED)
}

/// Far longer than this test may take: who is not told at once fails it.
const ACCEPTANCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minion_of_ours_is_told_at_once_that_its_key_was_accepted() {
    use channel::client::SignIn;
    let pki = tempfile::tempdir().unwrap();
    let master = Master::start(Map::new()).await;
    let mut events = master.events().await;
    let minion = master.minion_of_ours("web1", pki.path());
    assert!(!minion.channel.may_await_key());
    assert!(matches!(minion.channel.sign_in().await, Ok(SignIn::Pending)));
    assert!(minion.channel.may_await_key());
    event(&mut events, "salt/auth").await;
    let accepting = async {
        // It has asked by now.
        event(&mut events, "salt/auth").await;
        master.accept("web1");
    };
    let told = async { tokio::join!(minion.channel.await_key(ACCEPTANCE), accepting).0 };
    let answer = tokio::time::timeout(ACCEPTANCE / 4, told).await.expect("it was told");
    assert!(matches!(answer, Ok(SignIn::Accepted(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minion_waits_signs_in_and_does_a_job() {
    let pki = tempfile::tempdir().unwrap();
    let master = Master::start(Map::new()).await;
    let mut events = master.events().await;
    let minion = master.minion("web1", pki.path());
    assert!(matches!(minion.channel.sign_in().await, Ok(channel::client::SignIn::Pending)));
    assert_eq!(event(&mut events, "salt/auth").await.data().get_str("act"), Some("pend"));
    // A pending key must not get jobs.
    let nobody = master.publish("*", "test.ping").await;
    let error = nobody.get("load").unwrap().get("error").and_then(Value::as_str).unwrap();
    assert_eq!(error, "Master could not resolve minions for target *");

    master.accept("web1");
    minion.channel.sign_in().await.unwrap();
    assert_eq!(event(&mut events, "salt/auth").await.data().get_str("act"), Some("accept"));
    let mut publications = subscribe(&master, "web1").await;
    let pong = minion.ask(map! { "cmd" => "_file_envs" }).await;
    assert_eq!(pong, list!["base"]);

    let published = master.publish("*", "test.ping").await;
    let load = published.get("load").unwrap();
    assert_eq!((load.get("minions"), load.get("missing")), (Some(&list!["web1"]), Some(&list![])));
    let jid = load.get("jid").and_then(Value::as_str).unwrap().to_owned();
    let new = event(&mut events, &format!("salt/job/{jid}/new")).await;
    assert_eq!(new.data().get("minions"), Some(&list!["web1"]));
    event(&mut events, &format!("salt/job/{jid}/publish")).await;
    let job = minion.channel.open(&publications.next().await.unwrap()).await.unwrap().unwrap();
    assert_eq!((job.get_str("fun"), job.get_str("jid")), (Some("test.ping"), Some(jid.as_str())));

    assert_eq!(minion.answer(&jid, true).await, Value::Null);
    // What is acknowledged is on disk.
    let jobs = jobs(&master);
    let kept = jobs.return_of(&jid, &minion.id).unwrap().unwrap();
    assert_eq!(kept.value, true.into());
    assert!(!jobs.load(&jid).unwrap().unwrap().contains_key("key"), "the key of the user is no part of the job");
    let returned = event(&mut events, &format!("salt/job/{jid}/ret/web1")).await;
    assert_eq!(returned.data().get("return"), Some(&true.into()));
    // Resources return under names of their own, which must not be those of minions.
    let forged = map! { "cmd" => "_return", "jid" => jid.as_str(), "return" => 1, "resource_id" => "web1" };
    assert_eq!(minion.ask(forged).await, false.into(), "in the name of an accepted minion");
    // The first return counts.
    minion.answer(&jid, false).await;
    assert_eq!(jobs.return_of(&jid, &minion.id).unwrap().unwrap().value, true.into());
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_fails_rejects_no_minion() {
    let pki = tempfile::tempdir().unwrap();
    let master = Master::start(open_house()).await;
    let minion = master.minion("web1", pki.path());
    // As with a full disk, neither the key nor, once that is there, the session key can be written.
    let (keys, sessions) = (master.path("pki/minions"), master.path("cache/sessions"));
    for directory in [&keys, &sessions] {
        let _ = std::fs::remove_dir_all(directory);
        std::fs::write(directory, "").unwrap();
        let answer = minion.channel.sign_in().await;
        assert!(matches!(answer, Err(channel::client::Error::TryAgain)), "{}", directory.display());
        std::fs::remove_file(directory).unwrap();
        std::fs::create_dir(directory).unwrap();
    }
    assert!(matches!(minion.channel.sign_in().await, Ok(channel::client::SignIn::Accepted(_))));
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_decide() {
    let pki = tempfile::tempdir().unwrap();
    let master = Master::start(open_house()).await;
    master.minion("web1", pki.path()).channel.sign_in().await.unwrap();
    let mut events = master.events().await;
    let publish = |fields: Map| {
        let mut load = map! {
            "cmd" => "publish", "tgt" => "*", "fun" => "test.ping", "arg" => list![], "tgt_type" => "glob",
            "ret" => "", "jid" => "", "user" => "somebody", "kwargs" => Map::new(),
        };
        load.update(fields);
        load
    };
    let name = |answer: &Value| answer.traverse("error:name", ":").cloned().unwrap_or_default();
    let wrong = master.ask(publish(map! { "key" => "wrong" })).await;
    assert_eq!(name(&wrong), "AuthenticationError".into());
    // Strangers put nothing on the bus: a marker is the next event.
    let forged = map! { "key" => "wrong", "jid" => "20240229131415678901", "id" => "web1", "return" => true };
    assert_eq!(name(&master.ask(publish(forged)).await), "AuthenticationError".into());
    master.ask(publish(map! { "key" => master.user_key(), "user" => "root", "fun" => "test.marker" })).await;
    let next = event(&mut events, "salt/job/").await;
    assert_eq!(next.data().get_str("fun"), Some("test.marker"), "{}", next.tag());
    // What a target would cost is not found out for them.
    let slow = format!("E@(?:(a)|(aa))+(?!c)b\\1 or {}", "x or ".repeat(50_000));
    let slow = map! { "key" => "wrong", "tgt" => slow, "tgt_type" => "compound" };
    assert_eq!(name(&master.ask(publish(slow)).await), "AuthenticationError".into());
    // Salt's master fails on these with an exception; a function that is no text would escape from the checks of names.
    for fun in [Value::from(1), list![], list![1], map! { "test.ping" => 1 }.into()] {
        let refused = master.ask(publish(map! { "fun" => fun, "key" => master.user_key(), "user" => "root" })).await;
        assert_eq!(refused, "Some exception handling minion payload".into());
    }
    let eauth = map! { "eauth" => "pam", "username" => "u", "password" => "p" };
    let refused = master.ask(publish(map! { "kwargs" => eauth.clone() })).await;
    assert_eq!(name(&refused), "AuthenticationError".into());
    let runner = master.ask(map! { "cmd" => "runner", "fun" => "jobs.active", "key" => "wrong", "user" => "x" }).await;
    assert_eq!(name(&runner), "UserAuthenticationError".into());
    let mut wheel = map! { "cmd" => "wheel", "fun" => "key.list_all" };
    wheel.update(eauth.clone());
    assert_eq!(name(&master.ask(wheel).await), "EauthAuthenticationError".into());
    let mut token = eauth;
    token.insert("cmd", "mk_token");
    assert_eq!(master.ask(token).await, "".into());
    // The token is a file name, and must not lead out of its directory.
    assert_eq!(master.ask(map! { "cmd" => "get_token", "token" => "../../pki/master.pem" }).await, Map::new().into());
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runners_and_wheel_functions_are_called_for_those_who_have_a_key() {
    let master = Master::start(open_house()).await;
    let mut events = master.events().await;
    let call =
        |cmd: &str, fun: &str| map! { "cmd" => cmd, "fun" => fun, "key" => master.user_key(), "kwarg" => Map::new() };
    let begun = master.ask(call("runner", "test.metasyntactic")).await;
    let jid = begun.get("jid").and_then(Value::as_str).unwrap();
    assert_eq!(begun.get("tag").and_then(Value::as_str), Some(format!("salt/run/{jid}").as_str()));
    event(&mut events, &format!("salt/run/{jid}/ret")).await;
    let listed = master.ask(call("wheel", "key.list_all")).await;
    let data = listed.get("data").unwrap();
    assert_eq!(data.get("success"), Some(&true.into()), "{data}");
    assert_eq!(data.get("return").unwrap().get("minions"), Some(&list![]));
    master.stop().await;
}

/// The error of a refused request.
fn refusal(answer: &Value) -> Value {
    answer.traverse("error:name", ":").cloned().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_a_list_does_what_the_list_names_and_nothing_else() {
    let pki = tempfile::tempdir().unwrap();
    let mut options = map! {
        "publisher_acl" => map! {
            "daemon" => list!["test.*"], "bin" => list!["@jobs", map! { "@wheel" => list!["key.list_all"] }, ".*"],
        },
        "publisher_acl_blacklist" => map! { "modules" => list!["cmd.run"] },
    };
    options.update(open_house());
    let master = Master::start(options).await;
    master.minion("web1", pki.path()).channel.sign_in().await.unwrap();
    let key = |user: &str| std::fs::read_to_string(master.path(&format!("cache/.{user}_key"))).unwrap();
    let call = |user: &str, cmd: &str, fun: &str| {
        map! { "cmd" => cmd, "fun" => fun, "user" => user, "key" => key(user), "arg" => list!["cmd.run", "id"] }
    };
    for (user, cmd, fun) in [
        ("daemon", "runner", "test.metasyntactic"),
        // The runner would call an execution function that the list does not name.
        ("daemon", "runner", "salt.cmd"),
        ("daemon", "wheel", "key.list_all"),
        ("daemon", "wheel", "file_roots.write"),
        ("bin", "runner", "test.metasyntactic"),
        ("bin", "wheel", "key.gen_accept"),
    ] {
        let answer = master.ask(call(user, cmd, fun)).await;
        assert!(refusal(&answer).truthy(), "{user} {cmd} {fun}: {answer}");
    }
    let allowed = master.ask(call("bin", "runner", "jobs.list_jobs")).await;
    assert!(allowed.get("jid").is_some(), "{allowed}");
    assert!(master.ask(call("bin", "wheel", "key.list_all")).await.get("data").is_some());
    let mut root = call("daemon", "runner", "salt.cmd");
    root.update(map! { "user" => "root", "key" => master.user_key() });
    assert_eq!(refusal(&master.ask(root).await), "AuthorizationError".into(), "the blacklist is for everybody");

    let publish = |user: &str, fun: &str, ret: &str, kwargs: Map| {
        map! {
            "cmd" => "publish", "tgt" => "*", "fun" => fun, "arg" => list![], "tgt_type" => "glob", "ret" => ret, "jid" => "",
            "user" => user, "key" => key(user), "kwargs" => kwargs,
        }
    };
    for (user, ret, kwargs) in [("daemon", "", map! { "delimiter" => ":" }), ("bin", "rawfile_json", map! {})] {
        let answer = master.ask(publish(user, "test.ping", ret, kwargs)).await;
        assert!(answer.traverse("load:jid", ":").is_some_and(Value::truthy), "{user}: {answer}");
    }
    for (fun, ret, kwargs) in [
        ("grains.items", "", map! {}),
        ("test.ping", "rawfile_json", map! {}),
        // These make the minion, as root, write elsewhere or run through another program.
        ("test.ping", "", map! { "ret_config" => "x" }),
        ("test.ping", "", map! { "ret_kwargs" => map! { "filename" => "/x" } }),
        ("test.ping", "", map! { "module_executors" => list!["sudo"] }),
        ("test.ping", "", map! { "executor_opts" => map! { "x" => 1 } }),
        ("test.ping", "", map! { "id" => "web1" }),
    ] {
        let answer = master.ask(publish("daemon", fun, ret, kwargs)).await;
        assert_eq!(refusal(&answer), "AuthorizationError".into(), "{fun} {ret}: {answer}");
    }
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_requests_get_the_words_of_a_real_master() {
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
    assert!(!matches!(thief.sign_in().await, Ok(channel::client::SignIn::Accepted(_))));
    assert_eq!(minion.ask(map! { "cmd" => "_file_envs" }).await, list!["base"]);
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_pillar_and_data_are_served() {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn minions_command_others_as_far_as_peer_allows() {
    let place = tempfile::tempdir().unwrap();
    let mut options = map! {
        "peer" => map! { "web.*" => list!["test.*"] }, "peer_run" => map! { "web.*" => list!["test.*"] },
    };
    options.update(open_house());
    let master = Master::start(options).await;
    let minion = master.minion("web1", place.path());
    let order = |fun: &str| {
        map! { "cmd" => "minion_pub", "fun" => fun, "arg" => list!["1"], "tgt" => "*", "tgt_type" => "glob", "ret" => "" }
    };
    assert_eq!(minion.ask(order("cmd.run")).await, Map::new().into());
    let mut for_nobody = order("test.echo");
    for_nobody.insert("tgt", "nobody");
    // Salt's answer when nobody matches; its job id is a number here.
    assert_eq!(minion.ask(for_nobody).await, map! { "jid" => 0, "minions" => list![] }.into());
    let mut with_returner = order("test.echo");
    with_returner.insert("ret", "rawfile_json");
    assert_eq!(minion.ask(with_returner).await, Map::new().into());
    let mut order_with_more = order("test.echo");
    let more =
        map! { "ret_config" => "x", "ret_kwargs" => map! { "filename" => "/x" }, "module_executors" => list!["sudo"] };
    order_with_more.insert("kwargs", more);
    let published = minion.ask(order_with_more).await;
    let jid = published.get("jid").and_then(Value::as_str).unwrap().to_owned();
    assert_eq!(published.get("minions"), Some(&list!["web1"]));
    let load = jobs(&master).load(&jid).unwrap().unwrap();
    assert_eq!(load.get("kwargs"), Some(&map! { "id" => "web1" }.into()), "the peer's own arguments do not travel");
    minion.answer(&jid, 7).await;
    let returns = |jid: &str| map! { "cmd" => "pub_ret", "jid" => jid };
    assert_eq!(minion.ask(returns(&jid)).await, map! { "web1" => map! { "ret" => 7 } }.into());
    let other = tempfile::tempdir().unwrap();
    assert_eq!(master.minion("db1", other.path()).ask(returns(&jid)).await, Map::new().into());
    let runner = map! { "cmd" => "minion_runner", "fun" => "test.metasyntactic", "arg" => list![] };
    assert!(minion.ask(runner).await.truthy());
    let runner = map! { "cmd" => "minion_runner", "fun" => "jobs.list_jobs", "arg" => list![] };
    assert_eq!(minion.ask(runner).await, Map::new().into());
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_minions_reach_the_bus_but_not_those_of_masters() {
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
async fn a_drop_file_changes_the_key_at_once_and_no_job_is_lost() {
    let place = tempfile::tempdir().unwrap();
    let master = Master::start(open_house()).await;
    let minion = master.minion("web1", place.path());
    minion.channel.sign_in().await.unwrap();
    let mut publications = subscribe(&master, "web1").await;
    let mut events = master.events().await;
    keys::request_rotation(&master.path("cache"), "m_master", keys::Owner::NOBODY).unwrap();
    let rotated = event(&mut events, "key").await;
    assert_eq!(rotated.data().get("rotate_aes_key"), Some(&true.into()));
    master.publish("web1", "test.ping").await;
    let job = minion.channel.open(&publications.next().await.unwrap()).await.unwrap().unwrap();
    assert_eq!(job.get_str("fun"), Some("test.ping"));
    master.stop().await;
    let end = publications.next().await;
    // A goodbye would be a publication that it cannot understand.
    assert!(end.is_err(), "a minion of Salt gets nothing that is no job");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn minions_of_ours_are_told_of_a_new_key_and_of_the_end() {
    let place = tempfile::tempdir().unwrap();
    let master = Master::start(open_house()).await;
    let minion = master.minion_of_ours("web1", place.path());
    minion.ask(map! { "cmd" => "_file_envs" }).await;
    let mut publications = subscribe(&master, "web1").await;
    let mut events = master.events().await;
    keys::request_rotation(&master.path("cache"), "m_master", keys::Owner::NOBODY).unwrap();
    event(&mut events, "key").await;
    let word = minion.channel.open(&publications.next().await.unwrap()).await.unwrap().unwrap();
    assert_eq!(word.get("saltern").and_then(|word| word.get("rotated")), Some(&true.into()), "sealed with the old key");
    minion.channel.sign_in().await.unwrap();
    master.stop().await;
    let word = minion.channel.open(&publications.next().await.unwrap()).await.unwrap().unwrap();
    assert_eq!(word.get("saltern").and_then(|word| word.get("goodbye")), Some(&true.into()));
    assert_eq!(word.get("jid"), None, "no job for anybody");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_minion_missed_is_told_until_it_has_returned() {
    let place = tempfile::tempdir().unwrap();
    let master = Master::start(open_house()).await;
    let minion = master.minion_of_ours("web1", place.path());
    minion.channel.sign_in().await.unwrap();
    let answer = master.publish("web1", "test.ping").await;
    let jid = answer.get("load").and_then(|load| load.get("jid")).and_then(Value::as_str).unwrap().to_owned();
    let missed = || async {
        let answer = minion.ask(map! { "cmd" => "saltern_missed", "known" => Value::List(Vec::new()) }).await;
        let jobs = answer.get("jobs").and_then(Value::as_list).unwrap().to_vec();
        let left = |job: &Value| job.get("left").and_then(Value::as_f64).is_some_and(|left| left > 20.0 && left < 30.0);
        // The time left, because the clocks of master and minion may differ.
        assert!(jobs.iter().all(left), "{jobs:?}");
        let jid = |job: &Value| job.get("load").and_then(|load| load.get("jid")).cloned();
        jobs.iter().filter_map(jid).collect::<Vec<Value>>()
    };
    assert_eq!(missed().await, [Value::from(jid.as_str())]);
    let receipt =
        map! { "cmd" => "saltern_received", "received" => value::list![jid.as_str(), "20240229131415678901"] };
    let answer = minion.ask(receipt).await;
    assert_eq!(answer.get("gone"), Some(&value::list!["20240229131415678901"]), "only what was published is to begin");
    assert_eq!(missed().await, []);
    minion.answer(&jid, true).await;
    assert_eq!(missed().await, []);
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_key_ends_the_session() {
    let place = tempfile::tempdir().unwrap();
    let master = Master::start(open_house()).await;
    let minion = master.minion("web1", place.path());
    minion.ask(map! { "cmd" => "_file_envs" }).await;
    let session = master.path("cache/sessions/web1");
    assert!(session.exists());
    // Like `salt-key -d` in another process: the file first, then the event.
    std::fs::remove_file(master.path("pki/minions/web1")).unwrap();
    let mut bus = Remote::new(Rt::real(), Endpoints::master(&master.path("sock")));
    bus.fire("salt/key", map! { "result" => true, "act" => "delete", "id" => "web1" }).await.unwrap();
    let gone = async {
        while session.exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), gone).await.unwrap();
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_and_who_was_known_survive_a_restart() {
    let place = tempfile::tempdir().unwrap();
    let master = Master::start(open_house()).await;
    let key = PrivateKey::generate(2048).unwrap();
    let pem = key.to_pem(None).unwrap();
    let minion = master.channel("web1", key, place.path());
    minion.sign_in().await.unwrap();
    let returned = map! {
        "cmd" => "_return", "id" => "web1", "return" => "x", "jid" => "req", "fun" => "test.ping", "fun_args" => list![],
    };
    minion.request(returned, None, Decode::Default).await.unwrap();
    // If the session were new, every minion would have to sign in after a restart.
    let session = std::fs::read_to_string(master.path("cache/sessions/web1")).unwrap();
    let directory = master.stop().await;
    let master = Master::start_in(directory, Map::new()).await;
    assert_eq!(std::fs::read_to_string(master.path("cache/sessions/web1")).unwrap(), session);
    let minion = master.channel("web1", PrivateKey::from_pem(pem.as_bytes(), None).unwrap(), place.path());
    assert!(matches!(minion.sign_in().await, Ok(channel::client::SignIn::Accepted(_))), "the same master key");
    let jobs = jobs(&master);
    let (jid, load) = jobs.all().unwrap().pop().unwrap();
    assert_eq!((load.get_str("fun"), load.get_str("tgt")), (Some("test.ping"), Some("web1")));
    assert_eq!(jobs.returns(&jid).unwrap().len(), 1);
    assert_eq!(jobs.minions(&jid).unwrap(), ["web1"], "nobody else was to run it");
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_file_keeps_what_was_acknowledged_and_what_salts_layout_has_is_found() {
    let pki = tempfile::tempdir().unwrap();
    let mut in_files = open_house();
    in_files.insert("master_job_cache", "local_cache");
    let master = Master::start(in_files).await;
    let minion = master.minion("web1", pki.path());
    minion.channel.sign_in().await.unwrap();
    let publish = async |master: &Master| {
        let published = master.publish("*", "test.ping").await;
        published.get("load").unwrap().get("jid").and_then(Value::as_str).unwrap().to_owned()
    };
    let old = publish(&master).await;
    let master = Master::start_in(master.stop().await, open_house()).await;
    let pki = tempfile::tempdir().unwrap();
    let minion = master.minion("web2", pki.path());
    minion.channel.sign_in().await.unwrap();
    let new = publish(&master).await;
    for jid in [&old, &new] {
        assert_eq!(minion.answer(jid, true).await, Value::Null);
    }
    let files = JobCache::new(&master.path("cache"), HashType::Sha256);
    // Programs of Salt may still wait for it there.
    assert_eq!(files.returns(&old).unwrap().len(), 1, "a job goes on where it is");
    assert!(!files.contains(&new).unwrap());
    let beside = jobs(&master);
    assert_eq!(beside.return_of(&new, &minion.id).unwrap().unwrap().value, true.into());
    drop(beside);
    let master = Master::start_in(master.stop().await, Map::new()).await;
    let beside = jobs(&master);
    assert_eq!(beside.returns(&new).unwrap().len(), 1);
    assert_eq!(beside.all().unwrap().len(), 2);
    master.stop().await;
}

/// Sends a request as it is and returns all of the answer; a connection that is closed early has none.
async fn http(port: u16, request: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let mut answer = String::new();
    if stream.write_all(request.as_bytes()).await.is_ok() {
        let _ = stream.read_to_string(&mut answer).await;
    }
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn figures_are_served_and_told() {
    let port = common::free_port();
    let mut options = open_house();
    options.insert(
        "metrics",
        map! { "enabled" => true, "exporter" => "prometheus", "prometheus" => map! { "host" => "127.0.0.1", "port" => port } },
    );
    let pki = tempfile::tempdir().unwrap();
    let master = Master::start(options).await;
    let minion = master.minion("web1", pki.path());
    minion.channel.sign_in().await.unwrap();
    let published = master.publish("*", "test.ping").await;
    let jid = published.get("load").unwrap().get("jid").and_then(Value::as_str).unwrap().to_owned();
    minion.answer(&jid, true).await;

    let page = http(port, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(page.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"), "{page}");
    // Salt's own names among them, which dashboards already use.
    for line in [
        "salt_auth_attempts_total{result=\"accept\"} 1",
        "salt_jobs_published_total{fun=\"test.ping\"} 1",
        "salt_jobs_completed_total{fun=\"test.ping\"} 1",
        "salt_master_requests_handled_total{cmd=\"_return\"} 1",
        "saltern_return_store_milliseconds_count 1",
        "saltern_minions_accepted 1",
        "saltern_returns_not_stored_total 0",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is not in {page}");
    }
    assert!(http(port, "GET / HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 404"));
    assert!(http(port, "POST /metrics HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 405"));
    assert!(http(port, &"x".repeat(20_000)).await.is_empty(), "no end of the headers");

    let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap().name;
    let ask = |key: String| map! { "cmd" => "saltern_status", "user" => user.as_str(), "key" => key };
    let status = master.ask(ask(master.user_key())).await;
    let count = |path: &[&str]| path.iter().try_fold(&status, |value, name| value.get(name)).and_then(Value::as_i64);
    assert_eq!(count(&["status", "minions", "accepted"]), Some(1));
    assert_eq!(count(&["status", "returns", "by_function", "test.ping"]), Some(1));
    assert!(master.ask(ask("wrong".into())).await.get("status").is_none());
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_there_is_known_without_asking() {
    for auth_events in [true, false] {
        who_is_there(auth_events).await;
    }
}

async fn who_is_there(auth_events: bool) {
    let places = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let master = Master::start(map! { "auto_accept" => true, "auth_events" => auth_events }).await;
    let anything = || map! { "cmd" => "_file_envs" };
    for (id, place) in [("away", &places[0]), ("there", &places[1])] {
        master.minion_of_ours(id, place.path()).ask(anything()).await;
    }
    let stock = master.minion("stock", places[2].path());
    stock.ask(anything()).await;
    let _listening = [subscribe(&master, "there").await, subscribe(&master, "stock").await];
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap().name;
    let key = master.user_key();
    let ask = async |tgt: Value, kind: &str| {
        let load = map! { "cmd" => "saltern_alive", "user" => user.as_str(), "key" => key.as_str(), "tgt" => tgt, "tgt_type" => kind };
        master.ask(load).await.get("alive").cloned()
    };
    let known =
        |up: Value, down: Value, unknown: Value| Some(map! { "up" => up, "down" => down, "unknown" => unknown }.into());
    let all = known(list!["there"], list!["away"], list!["stock"]);
    // The master hears of a subscriber a moment after that does.
    while ask("*".into(), "glob").await != all {
        tokio::task::yield_now().await;
    }
    // Public keys are no secret: a sign-in says nothing about the minion.
    let public = std::fs::read_to_string(master.path("pki/minions/there")).unwrap();
    let nonce = Rt::real().nonce();
    let sign_in = map! {
        "cmd" => "_auth", "id" => "there", "pub" => public, "nonce" => nonce, "enc_algo" => "OAEP-SHA1",
        "sig_algo" => "PKCS1v15-SHA1",
    };
    assert!(master.ask(sign_in).await.get("sig").is_some(), "the master lets it in");
    assert_eq!(ask("*".into(), "glob").await, all);
    assert_eq!(ask(list!["there", "stock", "nobody"], "list").await, known(list!["there"], list![], list!["stock"]));
    assert_eq!(ask("os:*".into(), "grain").await, Some(Value::Null));
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_introduction_that_is_sent_again_from_elsewhere_names_nobody() {
    let places = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let master = Master::start(map! { "auto_accept" => true, "transport" => "tcp" }).await;
    let [victim, other] =
        [("victim", &places[0]), ("other", &places[1])].map(|(id, place)| master.minion_of_ours(id, place.path()));
    for minion in [&victim, &other] {
        minion.ask(map! { "cmd" => "_file_envs" }).await;
    }
    let introduction = victim.channel.introduction().unwrap();
    let elsewhere = tokio::net::TcpSocket::new_v4().unwrap();
    elsewhere.bind(([127, 0, 0, 2], 0).into()).unwrap();
    let mut elsewhere = elsewhere.connect(master.publications).await.unwrap();
    let frame = wire::tcp::Frame::plain(introduction.to_value()).encode();
    elsewhere.write_all(&frame).await.unwrap();
    let introduction = other.channel.introduction().unwrap();
    let listening =
        transport::tcp::subscribe(&Rt::real(), &Target::plain(master.publications), &introduction).await.unwrap();
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap().name;
    let load = map! { "cmd" => "saltern_status", "user" => user, "key" => master.user_key() };
    let connected = async || {
        let status = master.ask(load.clone()).await;
        status.get("status").and_then(|status| status.get("minions")?.get("connected")?.as_i64()).unwrap()
    };
    let until = async |count: i64| {
        while connected().await != count {
            tokio::task::yield_now().await;
        }
    };
    // Introductions are checked one after the other.
    tokio::time::timeout(Duration::from_secs(20), until(1)).await.expect("one is connected");
    drop(listening);
    tokio::time::timeout(Duration::from_secs(20), until(0)).await.expect("the other one was never here");
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_in_use_is_named() {
    let master = Master::start(Map::new()).await;
    let options = map! { "interface" => "127.0.0.1", "publish_port" => master.publications.port(), "user" => "" };
    let place = tempfile::tempdir().unwrap();
    let mut config = config::Master::from_options(options).unwrap();
    let paths = &mut config.paths;
    (paths.pki_dir, paths.cachedir) = (place.path().join("pki"), place.path().join("cache"));
    (paths.sock_dir, paths.token_dir) = (place.path().join("sock"), place.path().join("tokens"));
    let stop = tokio_util::sync::CancellationToken::new();
    let error =
        saltern_master::run(common::start(config), Rt::real(), stop, |_| panic!("it is not ready")).await.unwrap_err();
    assert!(error.to_string().contains("publish_port"), "{error}");
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_find_other_places_for_the_bus_and_the_interface() {
    let ports = [common::free_port(), common::free_port()];
    let options = map! {
        "ipc_mode" => "tcp", "tcp_master_pub_port" => ports[0], "tcp_master_pull_port" => ports[1], "ipv6" => true,
        "interface" => "::",
    };
    let master = Master::start(options).await;
    let mut bus = Remote::new(Rt::real(), Endpoints::tcp(ports[0], ports[1], true));
    let mut events = bus.listen(event::Filter::all()).await.unwrap();
    bus.fire("my/tag", map! { "n" => 1 }).await.unwrap();
    assert_eq!(events.next().await.unwrap().data().get("n"), Some(&1.into()));
    let address = std::net::SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, master.requests.port()));
    let requester = transport::zeromq::ZmqRequester::new(Rt::real(), Target::plain(address));
    let ping = Envelope::clear(map! { "cmd" => "ping" });
    let pong = transport::Requester::ask(&requester, ping, std::time::Duration::from_secs(20)).await.unwrap();
    assert_eq!(pong, map! { "cmd" => "ping" }.into());
    assert!(!master.path("sock/publish_pull.ipc").exists());
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_sign_ins_at_once_do_not_hold_up_a_return() {
    let place = tempfile::tempdir().unwrap();
    let master = std::sync::Arc::new(Master::start(open_house()).await);
    let minion = master.minion("web1", place.path());
    minion.channel.sign_in().await.unwrap();
    let text = std::fs::read_to_string(master.path("pki/minions/web1")).unwrap();
    // Signing in costs an operation with the private key; a return must not wait behind them.
    let storm: Vec<_> = (0..200)
        .map(|number| {
            let (master, public) = (master.clone(), text.clone());
            let load = map! {
                "cmd" => "_auth", "id" => format!("stranger{number}"), "nonce" => format!("{number:032x}"), "pub" => public,
                "enc_algo" => "OAEP-SHA1", "sig_algo" => "PKCS1v15-SHA1",
            };
            tokio::spawn(async move { master.ask(load).await })
        })
        .collect();
    assert_eq!(minion.answer("20240229131415678901", true).await, Value::Null);
    for answer in storm {
        assert!(answer.await.unwrap().get("load").is_some(), "each is answered");
    }
}

/// Sends a return for a fresh job and expects its event to be the next of its kind: nothing was announced before it.
async fn nothing_announced(minion: &common::Minion, events: &mut event::Listening, jid: &str) {
    minion.answer(jid, "the next").await;
    let next = loop {
        let event = event(events, "salt/job/").await;
        if event.tag().contains("/ret/") {
            break event;
        }
    };
    assert_eq!(next.tag(), format!("salt/job/{jid}/ret/{}", minion.id));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_return_that_comes_again_is_acknowledged_and_announced_once() {
    let place = tempfile::tempdir().unwrap();
    let master = Master::start(open_house()).await;
    let key = PrivateKey::generate(2048).unwrap();
    let pem = key.to_pem(None).unwrap();
    let minion =
        common::Minion { id: wire::MinionId::new("web1").unwrap(), channel: master.channel("web1", key, place.path()) };
    minion.channel.sign_in().await.unwrap();
    let mut events = master.events().await;
    let jid = "20240229131415678901";
    assert_eq!(minion.answer(jid, f64::NAN).await, Value::Null);
    assert_eq!(event(&mut events, "salt/job/").await.tag(), format!("salt/job/{jid}/ret/web1"));
    assert_eq!(minion.answer(jid, f64::NAN).await, Value::Null);
    nothing_announced(&minion, &mut events, "20240229131415678902").await;
    assert_eq!(minion.answer(jid, "another").await, Value::Null);
    assert_eq!(event(&mut events, "salt/job/").await.tag(), format!("salt/job/{jid}/ret/web1"), "as Salt does");

    let master = Master::start_in(master.stop().await, open_house()).await;
    let mut events = master.events().await;
    let key = PrivateKey::from_pem(pem.as_bytes(), None).unwrap();
    let minion = common::Minion { channel: master.channel("web1", key, place.path()), ..minion };
    assert_eq!(minion.answer(jid, f64::NAN).await, Value::Null);
    nothing_announced(&minion, &mut events, "20240229131415678903").await;
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_return_for_another_master_is_kept_and_announced_only_when_it_comes_itself() {
    let place = tempfile::tempdir().unwrap();
    let master = Master::start(open_house()).await;
    let minion = master.minion("web1", place.path());
    minion.channel.sign_in().await.unwrap();
    let mut events = master.events().await;
    let jid = "20240229131415678901";
    let copy = |id: &str| {
        map! {
            "cmd" => "saltern_return", "publisher" => map! { "id" => "other_master", "address" => "192.0.2.1:4506" },
            "job" => map! { "tgt" => "web*", "tgt_type" => "glob" },
            "load" => map! {
                "cmd" => "_return", "id" => id, "success" => true, "return" => true, "retcode" => 0, "jid" => jid,
                "fun" => "test.ping", "fun_args" => list![1], "user" => "root",
            },
        }
    };
    assert_eq!(minion.ask(copy("web2")).await, Value::Bool(false), "in the name of another");
    assert_eq!(minion.ask(copy("web1")).await, Value::Bool(true));
    assert_eq!(minion.ask(copy("web1")).await, Value::Bool(true));
    let told = event(&mut events, "saltern/job/").await;
    assert_eq!(told.tag(), format!("saltern/job/{jid}/peer/web1"));
    assert_eq!(told.data().get("publisher").and_then(|publisher| publisher.get("id")), Some(&"other_master".into()));
    nothing_announced(&minion, &mut events, "20240229131415678902").await;

    let jobs = jobs(&master);
    let load = jobs.load(jid).unwrap().unwrap();
    assert_eq!(
        (load.get_str("fun"), load.get_str("tgt"), load.get_str("user")),
        (Some("test.ping"), Some("web1"), Some("root"))
    );
    assert_eq!(load.get("arg"), Some(&list![1]));
    assert_eq!(jobs.returns(jid).unwrap()[0].1.value, Value::Bool(true));

    assert_eq!(minion.answer(jid, true).await, Value::Null);
    assert_eq!(event(&mut events, "salt/job/").await.tag(), format!("salt/job/{jid}/ret/web1"));
    minion.answer(jid, true).await;
    nothing_announced(&minion, &mut events, "20240229131415678903").await;
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_without_a_job_cache_takes_no_returns_for_others() {
    let place = tempfile::tempdir().unwrap();
    let mut options = open_house();
    options.insert("job_cache", false);
    let master = Master::start(options).await;
    let minion = master.minion("web1", place.path());
    minion.channel.sign_in().await.unwrap();
    let copy = map! {
        "cmd" => "saltern_return", "publisher" => map! {}, "job" => map! {},
        "load" => map! { "id" => "web1", "jid" => "20240229131415678901", "return" => true, "fun" => "test.ping" },
    };
    assert_eq!(minion.ask(copy).await, Value::Bool(false));
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_takes_no_return_sends_our_minion_away_with_it_and_announces_it_when_it_is_stored() {
    let place = tempfile::tempdir().unwrap();
    let mut options = open_house();
    options.insert("master_job_cache", "local_cache");
    let master = Master::start(options).await;
    let minion = master.minion_of_ours("web1", place.path());
    minion.channel.sign_in().await.unwrap();
    let mut events = master.events().await;
    let (jobs, jid) = (master.path("cache/jobs"), "20240229131415678901");
    // A file in the place of the directory fails for root as well, unlike permissions.
    let _ = std::fs::remove_dir_all(&jobs);
    std::fs::write(&jobs, "in the way").unwrap();
    assert_eq!(minion.answer(jid, true).await, Value::from(""), "not acknowledged");
    std::fs::remove_file(&jobs).unwrap();
    assert_eq!(minion.answer(jid, true).await, Value::Null);
    assert_eq!(event(&mut events, "salt/job/").await.tag(), format!("salt/job/{jid}/ret/web1"));
    nothing_announced(&minion, &mut events, "20240229131415678902").await;
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minion_tells_of_its_own_jobs_what_it_did_itself() {
    let place = tempfile::tempdir().unwrap();
    let mut options = map! { "return_max_size" => 1000, "minion_data_max_size" => 1000, "own_jobs_max_size" => 10_000 };
    options.update(open_house());
    let master = Master::start(options).await;
    let minion = master.minion("web1", place.path());
    let told = |jid: &str, value: Value| {
        map! {
            "cmd" => "_return", "id" => "web1", "jid" => jid, "fun" => "test.ping", "fun_args" => list![1], "return" => value,
            "success" => true, "tgt" => "*", "tgt_type" => "compound", "user" => "root", "Minions" => list!["db1"],
        }
    };
    let jid = "20240229131415678901";
    assert_eq!(minion.ask(told(jid, "x".repeat(2000).into())).await, Value::Null);
    let jobs = jobs(&master);
    let load = jobs.load(jid).unwrap().unwrap();
    assert_eq!((load.get_str("tgt"), load.get_str("tgt_type")), (Some("web1"), Some("glob")));
    assert_eq!(load.get("arg"), Some(&list![1]));
    assert_eq!(jobs.minions(jid).unwrap(), ["web1"]);
    let kept = jobs.return_of(jid, &minion.id).unwrap().unwrap().value;
    assert!(kept.as_str().unwrap().contains("return_max_size"), "{kept}");
    let future = "29990229131415678901";
    minion.ask(told(future, true.into())).await;
    // Somebody may publish a job with this id later, and would find its return.
    assert_eq!(jobs.load(future).unwrap(), None, "of the future");
    for number in 2..=3 {
        minion.ask(told(&format!("2024022913141567890{number}"), true.into())).await;
    }
    assert_eq!(jobs.load("20240229131415678903").unwrap(), None, "more than its share");
    let mine = |size: usize| map! { "cmd" => "_mine", "data" => map! { "x" => "y".repeat(size) } };
    assert_eq!([minion.ask(mine(10)).await, minion.ask(mine(2000)).await], [Value::Bool(true), Value::Bool(false)]);
    master.stop().await;
}
