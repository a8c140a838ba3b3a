//! Permissions: credentials, `publisher_acl`, `peer`.

use value::{Map, Value, list, map};

use crate::common::{Master, event, jobs, open_house};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_without_valid_credentials_are_refused() {
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
async fn runners_and_wheel_functions_run_for_a_user_with_a_key() {
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
async fn publisher_acl_permits_only_what_it_lists() {
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
    for (user, fun, arguments, allowed) in [
        ("daemon", "test.try", list!["cmd.which"], false),
        ("daemon", "test.try", list![map! { "__kwarg__" => true, "module" => "cmd.which", "cmd" => "id" }], false),
        // A text that only the minion reads.
        ("daemon", "test.try", list!["module=cmd.which", "cmd=id"], false),
        ("daemon", "test.cross_test", list!["test.cross_test", list!["cmd.which", list!["id"]]], false),
        ("daemon", "test.try", list!["test.ping"], true),
        ("bin", "test.try", list!["cmd.which"], true),
        ("bin", "test.try", list!["cmd.run"], false),
    ] {
        let mut request = publish(user, fun, "", map! {});
        request.insert("arg", arguments.clone());
        let answer = master.ask(request).await;
        assert_eq!(refusal(&answer).truthy(), !allowed, "{user} {fun} {arguments}: {answer}");
    }
    for (user, jid, allowed) in [
        ("daemon", "20240229131415678901", true),
        ("daemon", "20990101000000000000", false),
        ("root", "20990101000000000000", true),
    ] {
        let mut request = publish("daemon", "test.ping", "", map! {});
        request.insert("jid", jid);
        if user == "root" {
            request.update(map! { "user" => user, "key" => master.user_key() });
        }
        let answer = master.ask(request).await;
        assert_eq!(answer.traverse("load:jid", ":").is_some_and(Value::truthy), allowed, "{user} {jid}: {answer}");
    }
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn minion_publishes_only_what_peer_permits() {
    let place = tempfile::tempdir().unwrap();
    let mut options = map! {
    "peer" => map! { "web.*" => list!["test.*", "publish.*"] }, "peer_run" => map! { "web.*" => list!["test.*"] },
       };
    options.update(open_house());
    let master = Master::start(options).await;
    let minion = master.minion("web1", place.path());
    let order = |fun: &str| {
        map! { "cmd" => "minion_pub", "fun" => fun, "arg" => list!["1"], "tgt" => "*", "tgt_type" => "glob", "ret" => "" }
    };
    assert_eq!(minion.ask(order("cmd.run")).await, Map::new().into());
    // No list grants that one minion makes others publish, nor that it hides a function behind another one.
    for fun in
        ["publish.publish", "publish.full_data", "test.ping,publish.publish", "test.ping,cmd.run", "saltutil.runner"]
    {
        assert_eq!(minion.ask(order(fun)).await, Map::new().into(), "{fun}");
    }
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
    for nothing in ["20990101000000000000", "../../pki", "..", "", "a\0b", &format!("{jid}/../{jid}")] {
        assert_eq!(minion.ask(returns(nothing)).await, Map::new().into(), "{nothing:?}");
    }
    let runner = map! { "cmd" => "minion_runner", "fun" => "test.metasyntactic", "arg" => list![] };
    assert!(minion.ask(runner).await.truthy());
    for fun in ["jobs.list_jobs", "salt.cmd", "saltutil.runner", "publish.publish"] {
        let runner = map! { "cmd" => "minion_runner", "fun" => fun, "arg" => list!["cmd.run", "id"] };
        assert_eq!(minion.ask(runner).await, Map::new().into(), "{fun}");
    }
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_publication_is_announced_under_no_jid_but_its_own() {
    const OWN: &str = "20240229131415678901";
    let pki = tempfile::tempdir().unwrap();
    let mut options = map! { "publisher_acl" => map! { "daemon" => list!["test.*"] } };
    options.update(open_house());
    let master = Master::start(options).await;
    master.minion("web1", pki.path()).channel.sign_in().await.unwrap();
    let key = std::fs::read_to_string(master.path("cache/.daemon_key")).unwrap();
    let publish = |user: &str, key: &str, fun: &str, jid: &str| {
        map! {
            "cmd" => "publish", "tgt" => "*", "fun" => fun, "arg" => list![], "tgt_type" => "glob", "ret" => "", "jid" => jid,
            "user" => user, "key" => key, "kwargs" => Map::new(),
        }
    };
    let job = master.ask(publish("root", &master.user_key(), "test.ping", "")).await;
    let foreign = job.traverse("load:jid", ":").and_then(Value::as_str).unwrap().to_owned();
    let mut events = master.events().await;
    for jid in [&foreign, "x", "2024", "../../jobs", &format!("{OWN}/ret/web1"), OWN] {
        let answer = master.ask(publish("daemon", &key, "grains.items", jid)).await;
        assert_eq!(refusal(&answer), "AuthorizationError".into(), "{jid}");
    }
    assert_eq!(event(&mut events, "salt/job/").await.tag(), format!("salt/job/{OWN}/error"));
    master.stop().await;
}
