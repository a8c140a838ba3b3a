//! Attacks on logins by users who may do little, and by strangers.

use std::os::unix::fs::PermissionsExt as _;

use value::{Map, Value, list, map};

use crate::common::{Master, event, jobs, open_house};
use crate::logged;
use crate::logins::{RIGHT, WRONG, call, denied, login, make_token, options, publish, refusal, start, token};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_chooses_neither_its_file_nor_its_service() {
    let (place, options) = options();
    // The file of the attacker: with it, the wrong password would be right.
    let other = place.path().join("other");
    std::fs::write(&other, format!("fred:{WRONG}\nann:{WRONG}\n")).unwrap();
    std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o600)).unwrap();
    let master = start(options, place.path()).await;
    let [unknown, _] = denied();
    let other = other.to_str().unwrap();
    let more = [
        ("^filename", Value::from(other)),
        ("filename", other.into()),
        ("^filetype", "text".into()),
        ("service", "other".into()),
        ("eauth_acl_module", "auto".into()),
        ("kwargs", map! { "^filename" => other }.into()),
        ("external_auth", map! { "auto" => map! { "ann" => list![".*"] } }.into()),
        ("show_timeout", true.into()),
    ];
    // Two users in turn: after twenty failures, nobody could log in as one of them.
    for ((name, value), user) in more.into_iter().zip(["ann", "fred"].into_iter().cycle()) {
        let with = |password: &str| {
            let mut proof = login(user, password);
            proof.insert(name, value.clone());
            proof
        };
        assert_eq!(master.ask(make_token(with(WRONG))).await, "".into(), "{name}");
        assert_eq!(master.ask(publish("test.ping", list![], with(WRONG))).await, unknown, "{name}");
        let answer = master.ask(call("wheel", "key.list_all", with(WRONG))).await;
        assert_eq!(answer.traverse("error:name", ":"), Some(&"EauthAuthenticationError".into()), "{name}: {answer}");
        // It is ignored, and refuses nobody.
        let made = master.ask(make_token(with(RIGHT))).await;
        assert_eq!(made.get("name"), Some(&user.into()), "{name}: {made}");
        assert_eq!(made.get("auth_list"), None, "{name}: {made}");
    }
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_order_masters_a_target_that_means_nobody_grants_nothing() {
    let (place, mut options) = options();
    options.insert("order_masters", true);
    options.insert("publisher_acl", map! { "daemon" => list!["test.ping", map! { "web*" => list!["test.echo"] }] });
    let master = start(options, place.path()).await;
    let [_, forbidden] = denied();
    let key = std::fs::read_to_string(master.path("cache/.daemon_key")).unwrap();
    let mut events = master.events().await;
    for tgt in ["nobody", "db*", "*.elsewhere"] {
        for (fun, proof) in
            [("cmd.run", None), ("cmd.run", Some(login("fred", RIGHT))), ("test.arg", None), ("test.echo", None)]
        {
            let mut request = publish(fun, list!["id"], proof.clone().unwrap_or_default());
            request.insert("tgt", tgt);
            if proof.is_none() {
                request.update(map! { "user" => "daemon", "key" => key.as_str() });
            }
            assert_eq!(master.ask(request).await, forbidden, "{tgt} {fun} {proof:?}");
        }
    }
    // Nothing was published: a marker is the next job.
    master.ask(publish("test.marker", list![], login("ann", RIGHT))).await;
    let next = event(&mut events, "salt/job/").await;
    assert_eq!(next.data().get_str("fun"), Some("test.marker"), "{}", next.tag());
    // What is granted everywhere goes to the masters below, which know their minions.
    let mut request = publish("test.ping", list![], Map::new());
    request.update(map! { "user" => "daemon", "key" => key.as_str(), "tgt" => "nobody" });
    let answer = master.ask(request).await;
    assert!(answer.traverse("load:jid", ":").is_some_and(Value::truthy), "{answer}");
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_brings_a_list_of_their_own() {
    let (place, mut options) = options();
    options.insert("publisher_acl", map! { "daemon" => list!["test.ping"] });
    let master = start(options, place.path()).await;
    let [_, forbidden] = denied();
    let key = std::fs::read_to_string(master.path("cache/.daemon_key")).unwrap();
    let made = master.ask(make_token(login("fred", RIGHT))).await;
    let text = made.get("token").and_then(Value::as_str).unwrap_or_else(|| panic!("{made}"));
    for (name, proof) in [("a token", token(text)), ("a login", login("fred", RIGHT)), ("a key", Map::new())] {
        for list in [list![".*"], list!["cmd.run"], list![map! { "*" => list![".*"] }]] {
            let mut fields = proof.clone();
            fields.insert("auth_list", list.clone());
            let mut request = publish("cmd.run", list!["id"], fields);
            request.insert("auth_list", list.clone());
            if name == "a key" {
                request.update(map! { "user" => "daemon", "key" => key.as_str() });
            }
            assert_eq!(master.ask(request).await, forbidden, "{name} {list}");
        }
    }
    let mut wheel = call("wheel", "key.finger", token(text));
    wheel.insert("auth_list", list!["@wheel"]);
    let message = "Authentication failure of type \"token\" occurred for user fred.";
    assert_eq!(master.ask(wheel).await, refusal("TokenAuthenticationError", message));
    // Nor in the token itself, whose file a program of Salt has written.
    let mut login = login("fred", RIGHT);
    login.insert("auth_list", list![".*"]);
    let made = master.ask(make_token(login)).await;
    assert_eq!(made.get("auth_list"), None, "{made}");
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_with_a_list_speak_for_no_minion_and_no_master() {
    let (place, options) = options();
    let master = start(options, place.path()).await;
    let [_, forbidden] = denied();
    for (name, value) in [
        ("id", Value::from("web1")),
        ("master_id", "other_master".into()),
        ("ret_config", "other".into()),
        ("ret_kwargs", map! { "filename" => "/x" }.into()),
        ("module_executors", list!["sudo"]),
        ("executor_opts", map! { "x" => 1 }.into()),
        ("nocache", true.into()),
    ] {
        let mut fields = login("fred", RIGHT);
        fields.insert(name, value);
        assert_eq!(master.ask(publish("test.ping", list![], fields)).await, forbidden, "{name}");
    }
    // Beside `kwargs` they have no meaning: the job has none of them.
    let mut request = publish("test.ping", list![], login("fred", RIGHT));
    request.update(map! { "id" => "web1", "master_id" => "other_master", "auth_list" => list![".*"] });
    let answer = master.ask(request).await;
    let jid = answer.traverse("load:jid", ":").and_then(Value::as_str).unwrap_or_else(|| panic!("{answer}"));
    let load = jobs(&master).load(jid).unwrap().unwrap();
    assert_eq!(load.get_str("user"), Some("fred"));
    let kwargs = load.get("kwargs").and_then(Value::as_map).cloned().unwrap_or_default();
    assert!(!kwargs.contains_key("id") && !kwargs.contains_key("master_id"), "{load:?}");
    master.stop().await;
}

/// A token that is sent unencrypted can be replayed by anyone who reads it, as in Salt. Each use is logged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_sent_again_is_a_job_of_its_own_in_the_log() {
    let (place, options) = options();
    let master = start(options, place.path()).await;
    let made = master.ask(make_token(login("fred", RIGHT))).await;
    let text = made.get("token").and_then(Value::as_str).unwrap_or_else(|| panic!("{made}"));
    let request = publish("test.echo", list!["again"], token(text));
    let mut jids = Vec::new();
    for _ in 0..2 {
        let answer = master.ask(request.clone()).await;
        let jid = answer.traverse("load:jid", ":").and_then(Value::as_str).unwrap_or_else(|| panic!("{answer}"));
        logged::line(&["User fred Published command test.echo with jid", jid]).await;
        jids.push(jid.to_owned());
    }
    assert_ne!(jids[0], jids[1]);
    // With the id of the first job it is no second one of somebody else.
    let mut other = publish("test.ping", list![], login("ann", RIGHT));
    other.insert("jid", jids[0].as_str());
    assert_eq!(master.ask(other).await, denied()[1]);
    // A token that has been deleted opens nothing any more.
    std::fs::remove_file(master.path(&format!("cache/tokens/{text}.p"))).unwrap();
    assert_eq!(master.ask(request).await, denied()[0]);
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wheel_functions_write_only_where_they_should() {
    let place = tempfile::tempdir().unwrap();
    let files = place.path().join("srv");
    std::fs::create_dir(&files).unwrap();
    std::fs::write(place.path().join("secret"), "the secret").unwrap();
    std::os::unix::fs::symlink("../secret", files.join("link")).unwrap();
    std::os::unix::fs::symlink("..", files.join("up")).unwrap();
    let roots = || map! { "base" => list![files.to_str().unwrap()] };
    let mut options = map! { "file_roots" => roots(), "pillar_roots" => roots() };
    options.update(open_house());
    let master = Master::start(options).await;
    let absolute = place.path().join("secret").display().to_string();
    let outside =
        ["../secret", "link", "up/secret", "up/new", "a/../../secret", "../../etc/cron.d/x", absolute.as_str()];
    let wheel = async |fun: &str, kwarg: Map| {
        let call =
            map! { "cmd" => "wheel", "fun" => fun, "key" => master.user_key(), "kwarg" => kwarg, "arg" => list![] };
        master.ask(call).await.traverse("data:return", ":").cloned().unwrap_or_default()
    };
    for path in outside {
        for fun in ["file_roots.write", "pillar_roots.write"] {
            let answer = wheel(fun, map! { "data" => "forged", "path" => path }).await;
            assert!(!answer.to_string().contains("Wrote"), "{fun} {path}: {answer}");
        }
        for fun in ["file_roots.read", "pillar_roots.read", "file_roots.find", "pillar_roots.find"] {
            let answer = wheel(fun, map! { "path" => path }).await;
            assert!(!answer.to_string().contains("the secret"), "{fun} {path}: {answer}");
        }
    }
    for name in ["../../x", "/etc/x", "a/b", "", "a\0b", absolute.as_str()] {
        let forged = map! { "file_name" => name, "yaml_contents" => map! { "forged" => true } };
        assert_eq!(wheel("config.update_config", forged).await, "Invalid path".into(), "{name:?}");
    }
    // The same with paths inside works.
    let written = wheel("file_roots.write", map! { "data" => "new", "path" => "a/b" }).await;
    assert!(written.to_string().starts_with("Wrote data to file "), "{written}");
    let good = map! { "file_name" => "good", "yaml_contents" => map! { "a" => 1 } };
    assert_eq!(wheel("config.update_config", good).await, "Wrote good.conf".into());
    assert_eq!(std::fs::read_to_string(place.path().join("secret")).unwrap(), "the secret");
    let names: Vec<_> = std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    master.stop().await;
}
