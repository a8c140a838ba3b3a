//! Logins with `external_auth`: answers, tokens, permissions, and the attacks on them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tempfile::TempDir;
use value::{Map, Value, list, map};

use crate::common::{Master, event, jobs, open_house};
use crate::logged::{self, SECRET};

/// The password of fred and ann in the file.
pub const RIGHT: &str = "pw-never-told-right";
pub const WRONG: &str = "pw-never-told-wrong";

/// The secret of the backend `sharedsecret`.
const SHARED: &str = "pw-never-told-shared";

/// Options of a master with three backends, and the directory with the file.
pub fn options() -> (TempDir, Map) {
    logged::keep();
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("passwords");
    std::fs::write(&file, format!("fred:{RIGHT}\nann:{RIGHT}\npoor:{RIGHT}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let mut options = map! {
        "sharedsecret" => SHARED,
        "external_auth" => map! {
            "file" => map! {
                "^filename" => file.to_str().unwrap(),
                "fred" => list!["test.*", "@jobs", map! { "@wheel" => list!["key.list_all"] }],
                "ann" => list![".*", "@runner", "@wheel"],
                "poor" => list![],
                "mapped" => map! { "@runner" => list!["jobs.list_jobs"] },
            },
            "sharedsecret" => map! { "*" => list!["test.ping"], "dev.*" => list!["test.echo"], "text" => "test.ping" },
        },
    };
    options.update(open_house());
    (place, options)
}

pub fn login(username: impl Into<Value>, password: impl Into<Value>) -> Map {
    map! { "eauth" => "file", "username" => username, "password" => password }
}

fn shared(username: impl Into<Value>) -> Map {
    map! { "eauth" => "sharedsecret", "username" => username, "password" => SHARED }
}

pub fn publish(fun: impl Into<Value>, arg: Value, proof: Map) -> Map {
    map! {
        "cmd" => "publish", "tgt" => "*", "fun" => fun, "arg" => arg, "tgt_type" => "glob", "ret" => "", "jid" => "",
        "user" => "root", "key" => "", "kwargs" => proof,
    }
}

pub fn call(cmd: &str, fun: &str, proof: Map) -> Map {
    let mut load = map! { "cmd" => cmd, "fun" => fun, "kwarg" => Map::new(), "arg" => list![] };
    load.update(proof);
    load
}

pub fn make_token(proof: Map) -> Map {
    let mut load = map! { "cmd" => "mk_token" };
    load.update(proof);
    load
}

pub fn token(token: impl Into<Value>) -> Map {
    map! { "token" => token }
}

pub fn refusal(name: &str, message: &str) -> Value {
    map! { "error" => map! { "name" => name, "message" => message } }.into()
}

pub fn denied() -> [Value; 2] {
    [
        refusal("AuthenticationError", "Authentication error occurred."),
        refusal("AuthorizationError", "Authorization error occurred."),
    ]
}

pub async fn start(options: Map, pki: &Path) -> Master {
    let master = Master::start(options).await;
    master.minion("web1", pki).channel.sign_in().await.unwrap();
    master
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_request_answers_a_login_as_salt_does() {
    let (place, options) = options();
    let master = start(options, place.path()).await;
    let [unknown, forbidden] = denied();
    let published = master.ask(publish("test.ping", list![], login("fred", RIGHT))).await;
    let jid = published.traverse("load:jid", ":").and_then(Value::as_str).unwrap_or_else(|| panic!("{published}"));
    let load = jobs(&master).load(jid).unwrap().unwrap();
    assert_eq!(load.get_str("user"), Some("fred"), "and not the name that the client wrote");
    assert_eq!(master.ask(publish("test.ping", list![], login("fred", WRONG))).await, unknown);
    assert_eq!(master.ask(publish("cmd.run", list!["id"], login("fred", RIGHT))).await, forbidden);
    assert_eq!(master.ask(publish("test.ping", list![], login("poor", RIGHT))).await, forbidden);
    let asked = master.ask(publish("saltutil.find_job", list!["1"], login("poor", RIGHT))).await;
    assert!(asked.traverse("load:jid", ":").is_some_and(Value::truthy), "free for all who have logged in: {asked}");
    for hold in [Value::from(600), "10m".into(), list![1]] {
        let mut held = login("poor", RIGHT);
        held.insert("job_hold", hold.clone());
        let answer = master.ask(publish("saltutil.find_job", list!["1"], held)).await;
        assert_eq!(answer, forbidden, "the room for held jobs is not theirs to fill: {hold}");
    }

    let eauth = |user: &str| {
        let message = format!("Authentication failure of type \"eauth\" occurred for user {user}.");
        refusal("EauthAuthenticationError", &message)
    };
    for (cmd, granted, other) in
        [("runner", "jobs.list_jobs", "test.metasyntactic"), ("wheel", "key.list_all", "key.finger")]
    {
        let good = master.ask(call(cmd, granted, login("fred", RIGHT))).await;
        assert!(good.get("tag").is_some(), "{good}");
        assert_eq!(master.ask(call(cmd, other, login("fred", RIGHT))).await, eauth("fred"));
        assert_eq!(master.ask(call(cmd, granted, login("fred", WRONG))).await, eauth("fred"));
        assert_eq!(master.ask(call(cmd, granted, map! { "eauth" => "file" })).await, eauth("UNKNOWN"));
        let syntax = refusal("SaltInvocationError", "A command invocation error occurred: Check syntax.");
        assert_eq!(master.ask(call(cmd, "list", login("fred", RIGHT))).await, syntax);
        let key = map! { "key" => "wrong", "user" => "fred" };
        let user = refusal("UserAuthenticationError", "Authentication failure of type \"user\" occurred");
        assert_eq!(master.ask(call(cmd, granted, key)).await, user);
    }
    assert_eq!(master.ask(make_token(login("fred", WRONG))).await, "".into());
    assert_eq!(
        master.ask(make_token(map! { "eauth" => "pam", "username" => "fred", "password" => RIGHT })).await,
        "".into()
    );
    assert_eq!(master.ask(make_token(map! { "eauth" => "file", "username" => "fred" })).await, "".into());
    // The documented meaning of a map, where Salt grants all runners.
    std::fs::write(place.path().join("passwords"), format!("mapped:{RIGHT}\n")).unwrap();
    assert!(master.ask(call("runner", "jobs.list_jobs", login("mapped", RIGHT))).await.get("jid").is_some());
    assert_eq!(master.ask(call("runner", "jobs.active", login("mapped", RIGHT))).await, eauth("mapped"));
    assert_eq!(
        master.ask(publish("test.ping", list![], login("fred", RIGHT))).await,
        unknown,
        "the file is read at each login"
    );
    logged::line(&["user fred with file from 127.0.0.1 logged in"]).await;
    logged::line(&["user fred with file from 127.0.0.1 may not log in: wrong name or password"]).await;
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_stands_for_a_login() {
    let (place, mut options) = options();
    options.insert("token_expire_user_override", map! { "file" => list!["ann"] });
    let master = start(options, place.path()).await;
    let [unknown, forbidden] = denied();
    let made = master.ask(make_token(login("fred", RIGHT))).await;
    let made = made.as_map().unwrap_or_else(|| panic!("{made}"));
    let names: Vec<_> = made.text_keys().collect();
    assert_eq!(names, ["start", "expire", "name", "eauth", "token"]);
    assert_eq!((made.get_str("name"), made.get_str("eauth")), (Some("fred"), Some("file")));
    let time = |made: &Map, name: &str| made.get(name).and_then(Value::as_f64).unwrap();
    let life = |made: &Map| (time(made, "expire") - time(made, "start")).round();
    assert_eq!(life(made), 43200.0);
    let text = made.get_str("token").unwrap().to_owned();
    assert!(text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()), "{text}");
    let file = master.path(&format!("cache/tokens/{text}.p"));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let get = |token: Value| map! { "cmd" => "get_token", "token" => token };
    assert_eq!(master.ask(get(text.as_str().into())).await, made.clone().into());
    assert_eq!(master.ask(map! { "cmd" => "get_token" }).await, false.into());

    let published = master.ask(publish("test.ping", list![], token(text.as_str()))).await;
    let jid = published.traverse("load:jid", ":").and_then(Value::as_str).unwrap_or_else(|| panic!("{published}"));
    let load = jobs(&master).load(jid).unwrap().unwrap();
    assert_eq!(load.get_str("user"), Some("fred"));
    assert!(!format!("{load:?}").contains(&text), "a token is a secret");
    assert_eq!(master.ask(publish("cmd.run", list!["id"], token(text.as_str()))).await, forbidden);
    assert!(master.ask(call("wheel", "key.list_all", token(text.as_str()))).await.get("data").is_some());
    let message = "Authentication failure of type \"token\" occurred for user fred.";
    let listed = refusal("TokenAuthenticationError", message);
    assert_eq!(master.ask(call("wheel", "key.finger", token(text.as_str()))).await, listed);

    // A bad token is not helped by a good password, and a good one of a poor user not by that of a rich one.
    let mut mixed = login("ann", RIGHT);
    mixed.insert("token", "f".repeat(64));
    assert_eq!(master.ask(publish("test.ping", list![], mixed.clone())).await, unknown);
    let message = "Authentication failure of type \"token\" occurred.";
    assert_eq!(
        master.ask(call("runner", "jobs.active", mixed.clone())).await,
        refusal("TokenAuthenticationError", message)
    );
    mixed.insert("token", text.as_str());
    assert_eq!(master.ask(publish("cmd.run", list!["id"], mixed)).await, forbidden);

    // In Salt, null deletes all tokens, and paths lead to any of them.
    let path = format!("../tokens/{text}");
    for bad in
        [Value::Null, 1.into(), list![text.as_str()], path.as_str().into(), "../../etc/passwd".into(), "a\0b".into()]
    {
        assert_eq!(master.ask(get(bad.clone())).await, Map::new().into(), "{bad}");
        assert_eq!(master.ask(publish("test.ping", list![], token(bad.clone()))).await, unknown, "{bad}");
    }
    assert_eq!(master.ask(get("a".repeat(1 << 20).into())).await, Map::new().into());
    assert_eq!(master.ask(map! { "cmd" => "rm_token", "token" => text.as_str() }).await, Map::new().into());
    assert_eq!(master.ask(get(text.as_str().into())).await, made.clone().into(), "it is still there");

    // Only those who are listed choose the lifetime.
    let with = |user: &str, life: Value| {
        let mut fields = login(user, RIGHT);
        fields.insert("token_expire", life);
        make_token(fields)
    };
    assert_eq!(life(master.ask(with("fred", 60.into())).await.as_map().unwrap()), 43200.0);
    assert_eq!(life(master.ask(with("ann", 60.into())).await.as_map().unwrap()), 60.0);
    for wrong in [Value::Null, (-1).into(), "60".into()] {
        assert_eq!(master.ask(with("ann", wrong.clone())).await, "".into(), "{wrong}");
    }
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_token_is_refused_at_its_first_use() {
    let (place, options) = options();
    let master = start(options, place.path()).await;
    for (cmd, text) in ["publish", "get_token", "runner", "wheel"]
        .into_iter()
        .zip('a'..)
        .map(|(cmd, letter)| (cmd, letter.to_string().repeat(64)))
    {
        let store = store::tokens::TokenStore::new(master.path("cache/tokens"), store::Layout::Since3008);
        let expired =
            map! { "start" => 1.0, "expire" => 2.0, "name" => "ann", "eauth" => "file", "token" => text.as_str() };
        assert!(store.store(&expired).unwrap());
        match cmd {
            "publish" => {
                assert_eq!(master.ask(publish("test.ping", list![], token(text.as_str()))).await, denied()[0]);
            }
            "runner" | "wheel" => {
                let message = "Authentication failure of type \"token\" occurred.";
                let answer = master.ask(call(cmd, "jobs.list_jobs", token(text.as_str()))).await;
                assert_eq!(answer, refusal("TokenAuthenticationError", message), "{cmd}");
            }
            _ => {
                let asked = map! { "cmd" => "get_token", "token" => text.as_str() };
                assert_eq!(master.ask(asked).await, Map::new().into());
            }
        }
        assert!(!master.path(&format!("cache/tokens/{text}.p")).exists());
    }
    // The backend must still be there when a token is used.
    let text = "e".repeat(64);
    let store = store::tokens::TokenStore::new(master.path("cache/tokens"), store::Layout::Until3007);
    let of_pam = map! { "start" => 1.0, "expire" => 1e10, "name" => "ann", "eauth" => "pam", "token" => text.as_str() };
    assert!(store.store(&of_pam).unwrap());
    assert_eq!(master.ask(publish("test.ping", list![], token(text.as_str()))).await, denied()[0]);
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_gets_more_than_their_list() {
    let (place, mut options) = options();
    options.insert("publisher_acl_blacklist", map! { "users" => list!["evil"], "modules" => list!["cmd.shell"] });
    let master = start(options, place.path()).await;
    let [unknown, forbidden] = denied();
    // One function that is granted, or free, does not grant the other.
    for (functions, arguments) in [
        (list!["saltutil.find_job", "cmd.run"], list![list!["1"], list!["id"]]),
        (list!["test.ping", "cmd.run"], list![list![], list!["id"]]),
    ] {
        for user in ["poor", "fred"] {
            let request = publish(functions.clone(), arguments.clone(), login(user, RIGHT));
            assert_eq!(master.ask(request).await, forbidden, "{user} {functions}");
        }
    }
    // A name is no pattern, neither here nor in the list.
    for name in ["*", ".*", "d*", "[a-z]*", "dev?", "fred\n"] {
        assert_eq!(master.ask(publish("test.ping", list![], shared(name))).await, unknown, "{name:?}");
        assert_eq!(master.ask(make_token(shared(name))).await, "".into(), "{name:?}");
    }
    for name in [list!["fred"], Value::Null, 1.into(), map! { "a" => 1 }.into()] {
        assert_eq!(master.ask(publish("test.ping", list![], shared(name.clone()))).await, unknown, "{name}");
    }
    for (name, fun, granted) in [
        ("dev1", "test.echo", true),
        ("dev1", "test.ping", false),
        ("xdev1", "test.echo", false),
        ("anybody", "test.ping", true),
        ("anybody", "test.echo", false),
        // A text is one entry, and not a list of letters.
        ("text", "test.ping", true),
        ("text", "cmd.run", false),
    ] {
        let answer = master.ask(publish(fun, list!["x"], shared(name))).await;
        assert_eq!(answer.get("load").is_some(), granted, "{name} {fun}: {answer}");
        assert!(granted || answer == forbidden, "{name} {fun}: {answer}");
    }
    // The name that logs in is compared with the blacklist, not the one that the client writes.
    let mut evil = publish("test.ping", list![], shared("evil"));
    evil.insert("user", "x");
    assert_eq!(master.ask(evil).await, forbidden);
    let mut inside = call("runner", "salt.cmd", login("ann", RIGHT));
    inside.insert("arg", list!["cmd.shell", "id"]);
    assert_eq!(master.ask(inside).await, forbidden);
    // A name says nothing about whose job it is.
    let job = master.publish("*", "test.version").await;
    let jid = job.traverse("load:jid", ":").and_then(Value::as_str).unwrap_or_else(|| panic!("{job}")).to_owned();
    let user = jobs(&master).load(&jid).unwrap().unwrap().get_str("user").unwrap().to_owned();
    let mut over = publish("test.ping", list![], shared(user.as_str()));
    over.insert("jid", jid.as_str());
    assert_eq!(master.ask(over.clone()).await, forbidden);
    assert_eq!(jobs(&master).load(&jid).unwrap().unwrap().get_str("fun"), Some("test.version"));
    over.insert("jid", "");
    let own = master.ask(over.clone()).await.traverse("load:jid", ":").cloned();
    over.insert("jid", own.clone());
    assert_eq!(master.ask(over).await.traverse("load:jid", ":").cloned(), own, "as the parts of a batch");
    // What else is sent grants nothing.
    for (name, value) in [
        ("auth_list", list![".*"]),
        ("id", "web1".into()),
        ("ret_config", "x".into()),
        ("service", "other".into()),
        ("^filename", "/dev/null".into()),
        ("eauth_acl_module", "auto".into()),
    ] {
        let mut proof = login("fred", RIGHT);
        proof.insert(name, value);
        assert_eq!(master.ask(publish("cmd.run", list!["id"], proof)).await, forbidden, "{name}");
    }
    for cmd in ["_send_pub", "_prep_auth_info", "__init__", "_prep_pub", "_auth_info"] {
        let mut load = login("ann", RIGHT);
        load.insert("cmd", cmd);
        assert_eq!(master.ask(load).await, Map::new().into(), "{cmd}");
    }
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wheel_arguments_are_those_of_the_call() {
    let (place, mut options) = options();
    let entry = map! { "key.accept" => map! { "kwargs" => map! { "match" => "web.*" } } };
    options.insert(
        "external_auth",
        map! {
            "sharedsecret" => map! { "fred" => list![map! { "@wheel" => list![entry] }] },
        },
    );
    let master = start(options, place.path()).await;
    let mut request = call("wheel", "key.accept", shared("fred"));
    request.update(map! { "kwarg" => map! { "kwarg" => map! { "match" => "web1" } }, "match" => "*" });
    let answer = master.ask(request).await;
    assert_eq!(answer.traverse("error:name", ":"), Some(&"EauthAuthenticationError".into()), "{answer}");
    let mut good = call("wheel", "key.accept", shared("fred"));
    good.insert("kwarg", map! { "match" => "web1" });
    assert!(master.ask(good).await.get("data").is_some());
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_has_the_entries_of_all_with_permissive_acl() {
    let (place, mut options) = options();
    options.insert("permissive_acl", true);
    let master = start(options, place.path()).await;
    for fun in ["test.ping", "test.echo"] {
        let answer = master.ask(publish(fun, list!["x"], shared("dev1"))).await;
        assert!(answer.get("load").is_some(), "{fun}: {answer}");
    }
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_keeps_no_list_that_the_backend_does_not_have() {
    let (place, mut options) = options();
    options.insert("keep_acl_in_token", true);
    let master = start(options, place.path()).await;
    let made = master.ask(make_token(login("fred", RIGHT))).await;
    assert_eq!(made.get("auth_list"), Some(&Value::Null));
    let text = made.get("token").and_then(Value::as_str).unwrap();
    let answer = master.ask(publish("test.ping", list![], token(text))).await;
    assert!(answer.get("load").is_some(), "in Salt it grants nothing: {answer}");
    assert_eq!(master.ask(publish("cmd.run", list!["id"], token(text))).await, denied()[1]);
    master.stop().await;
}

/// A web server that knows the password of one user, and the entries of that user.
fn web_server(user: &'static str, entries: &'static str) -> String {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut request, mut part) = (stream.unwrap(), Vec::new(), [0; 4096]);
            let text = loop {
                let length = stream.read(&mut part).unwrap();
                request.extend_from_slice(&part[..length]);
                let text = String::from_utf8_lossy(&request).into_owned();
                if length == 0 || text.contains("password=") {
                    break text;
                }
            };
            let (status, body) = match text.ends_with(&format!("username={user}&password={RIGHT}")) {
                true => ("200 OK", entries),
                false => ("401 Unauthorized", ""),
            };
            let length = body.len();
            write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}").unwrap();
        }
    });
    url
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_web_server_has_entries_of_its_own() {
    if std::process::Command::new("curl").arg("--version").output().is_err() {
        eprintln!("skipped: curl is not installed");
        return;
    }
    let (place, mut options) = options();
    let url = web_server("fred", "[\"test.ping$\"]");
    options.insert(
        "external_auth",
        map! { "rest" => map! { "^url" => url, "fred" => list!["test.echo$"], "f.*" => list![".*"] } },
    );
    // The configuration of a master says so whenever it names this backend.
    options.insert("keep_acl_in_token", true);
    let master = start(options, place.path()).await;
    let rest = |user: &str, password: &str| map! { "eauth" => "rest", "username" => user, "password" => password };
    let [unknown, forbidden] = denied();
    let made = master.ask(make_token(rest("fred", RIGHT))).await;
    assert_eq!(made.get("auth_list"), Some(&list!["test.echo$", "test.ping$"]), "{made}");
    let kept = token(made.get("token").and_then(Value::as_str).unwrap());
    for proof in [rest("fred", RIGHT), kept] {
        for (fun, is_granted) in [("test.ping", true), ("test.echo", true), ("test.version", false)] {
            let answer = master.ask(publish(fun, list!["x"], proof.clone())).await;
            match is_granted {
                true => assert!(answer.get("load").is_some(), "{fun}: {answer}"),
                false => assert_eq!(answer, forbidden, "a pattern counts only without a list"),
            }
        }
    }
    for (user, password) in [("fred", WRONG), ("ann", RIGHT)] {
        assert_eq!(master.ask(publish("test.ping", list![], rest(user, password))).await, unknown, "{user}");
        assert_eq!(master.ask(make_token(rest(user, password))).await, "".into());
    }
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn wrong_passwords_delay_nobody_else() {
    let (place, mut options) = options();
    options.insert("worker_threads", 1);
    let master = std::sync::Arc::new(start(options, place.path()).await);
    let wrong: Vec<_> = (0..20)
        .map(|number| {
            let (master, password) = (master.clone(), format!("{WRONG}-{number}"));
            tokio::spawn(async move { master.ask(make_token(login("fred", password))).await })
        })
        .collect();
    let answer = master.publish("*", "test.ping").await;
    assert!(answer.get("load").is_some(), "{answer}");
    // With one worker, twenty refusals of a second each would have taken twenty.
    assert!(wrong.iter().any(|login| !login.is_finished()), "the publication waited for all of them");
    for login in wrong {
        assert_eq!(login.await.unwrap(), "".into());
    }
    let Ok(master) = std::sync::Arc::try_unwrap(master) else { panic!("a login still runs") };
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passwords_are_kept_nowhere() {
    let (place, mut options) = options();
    options.insert("event_return", list!["rawfile_json"]);
    options.insert("rawfile_json.filename", place.path().join("events").to_str().unwrap());
    let master = start(options, place.path()).await;
    let mut events = master.events().await;
    for proof in [login("fred", RIGHT), login("fred", WRONG), shared("*"), shared("fred")] {
        master.ask(publish("test.ping", list![], proof.clone())).await;
        let mut own = publish("cmd.run", list!["id"], proof.clone());
        own.insert("jid", "20240229131415678901");
        // A field too many, where nothing looks for it.
        own.insert("password", RIGHT);
        master.ask(own).await;
        master.ask(call("runner", "jobs.list_jobs", proof.clone())).await;
        master.ask(call("wheel", "key.list_all", proof.clone())).await;
        master.ask(make_token(proof)).await;
    }
    master.ask(publish("test.marker", list![], login("ann", RIGHT))).await;
    loop {
        let event = event(&mut events, "").await;
        assert!(!format!("{:?}", event.data()).contains(SECRET), "{}", event.tag());
        if event.data().get_str("fun") == Some("test.marker") {
            break;
        }
    }
    let directory = master.stop().await;
    assert_eq!(logged::leaks(), Vec::<String>::new());
    let mut files = vec![directory.path().to_owned()];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.is_file() && !path.ends_with("conf/master") {
            let content = std::fs::read(&path).unwrap();
            let found = content.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
            assert!(!found, "{}", path.display());
        }
    }
    let events = std::fs::read_to_string(place.path().join("events")).unwrap_or_default();
    assert!(!events.contains(SECRET));
}

#[tokio::test]
async fn what_nobody_could_log_in_with_stops_the_start() {
    for (external_auth, expected) in [
        (map! { "auto" => list!["fred"] }, "'auto' must be a map of users"),
        (map! { "sharedsecret" => map! { "fred" => list![".*"] } }, "needs the option 'sharedsecret'"),
        (map! { "file" => map! { "fred" => list![".*"] } }, "'^filename' is required"),
    ] {
        let place = tempfile::tempdir().unwrap();
        let options = map! { "external_auth" => external_auth, "root_dir" => place.path().to_str().unwrap() };
        let config = config::Master::from_options(options).unwrap();
        let stop = tokio_util::sync::CancellationToken::new();
        let ended = saltern_master::run(crate::common::start(config), rt::Rt::real(), stop, |_| {}).await;
        let error = ended.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
