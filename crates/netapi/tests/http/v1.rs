//! `/v1`: pages, problems, jobs that are published once, keys, and events that go on.

use serde_json::{Value as Json, json};
use value::{Map, Value, list, map};

use crate::support::{Answer, FRED, Running, TOKEN, WILMA};

const JID: &str = "20261124160511953300";

async fn send(running: &Running, session: &str, method: &str, path: &str, body: Option<Json>) -> Answer {
    let mut headers = json!({"X-Auth-Token": session});
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    if !body.is_empty() {
        headers["Content-Type"] = json!("application/json");
    }
    running.send(&json!({"method": method, "path": path, "headers": headers, "body": body})).await
}

async fn get(running: &Running, session: &str, path: &str) -> Answer {
    send(running, session, "GET", path, None).await
}

fn body(answer: &Answer) -> Json {
    serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

/// Checks that an answer is a problem with this status, and returns its detail.
fn problem(answer: &Answer, status: u16) -> String {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    let problem = body(answer);
    assert_eq!(problem["status"], status);
    problem["detail"].as_str().unwrap().to_owned()
}

/// Says where a value does not fit a schema of the description.
fn misfit(schema: &Json, value: &Json, schemas: &Json) -> Option<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap();
        return misfit(&schemas[name], value, schemas).map(|what| format!("{name}: {what}"));
    }
    if let Some(either) = schema["anyOf"].as_array() {
        return either.iter().all(|one| misfit(one, value, schemas).is_some()).then(|| format!("{value}"));
    }
    let kind = match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    };
    let fits = match &schema["type"] {
        Json::Null => true,
        Json::String(known) => known == kind,
        kinds => kinds.as_array().unwrap().iter().any(|known| known == kind),
    };
    if !fits {
        return Some(format!("{value} is no {}", schema["type"]));
    }
    match value {
        Json::Array(items) => items.iter().find_map(|item| misfit(&schema["items"], item, schemas)),
        Json::Object(fields) if schema["properties"].is_object() => {
            let needed = schema["required"].as_array().unwrap().iter().map(|name| name.as_str().unwrap());
            let missing = needed.filter(|name| !fields.contains_key(*name)).map(|name| format!("{name} is missing"));
            let properties = schema["properties"].as_object().unwrap();
            let wrong = |(name, value): (&String, &Json)| match properties.get(name) {
                Some(schema) => misfit(schema, value, schemas).map(|what| format!("{name}: {what}")),
                None => Some(format!("{name} is not described")),
            };
            missing.chain(fields.iter().filter_map(wrong)).next()
        }
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_as_they_are_described() {
    let running = Running::start().await;
    let session = running.log_in(FRED).await;
    let description = body(&get(&running, &session, "/v1/openapi.json").await);
    let schemas = &description["components"]["schemas"];
    let minion = map! {
        "id" => "web1", "status" => "up", "masters" => list!["m1"], "last_seen" => "2026-11-24T16:05:11Z",
        "version" => "3008.5", "os" => Value::Null,
        "highstate" => map! { "jid" => JID, "time" => "2026-11-24T16:05:11Z", "total" => 3, "failed" => 0, "changed" => 1 },
    };
    let returned = map! { "id" => "web1", "return" => true, "retcode" => 0, "success" => true, "out" => Value::Null };
    let key = map! { "id" => "web1", "state" => "pending", "fingerprint" => "aa:bb" };
    let page = |item: Map| map! { "items" => list![item], "next" => Value::Null };
    let master = map! { "name" => "m1", "state" => "linked", "node" => "n", "rtt_ms" => 0.5, "clock_ms" => 3, "dialled" => list![] };
    let masters = map! { "cluster_id" => "c", "masters" => list![master], "others" => list![], "keys" => map! {}, "once" => "here" };
    let kind = map! { "kind" => "pillar", "state" => "differs", "on" => list!["m2"], "since" => "2026-11-24 16:05:11" };
    let entry = map! { "name" => "top.sls", "on" => map! { "m2" => "differs" } };
    let drift = map! {
        "kinds" => list![kind], "entries" => list![entry], "more" => false, "compared_with" => list!["m2"], "not_compared" => list![],
    };
    let preview = map! {
        "count" => 1, "minions" => list!["web1"], "away_count" => 0, "away" => list![], "allowed" => true, "refused_count" => 0,
        "refused" => list![], "granted_by" => list![map! { "entry" => "test.*", "count" => 1 }],
    };
    for (of, answer) in [
        ("jobs", page(job())),
        ("job", job()),
        ("returns", page(returned)),
        ("minions", page(minion)),
        ("keys", page(key)),
        ("masters", masters),
        ("drift", drift),
        ("whoami", map! { "list" => list!["test.*"] }),
        ("preview", preview),
    ] {
        running.expect_fleet(of, answer);
    }
    let paths = description["paths"].as_object().unwrap();
    let mut looked_at = 0;
    for (path, operations) in paths {
        for (method, operation) in operations.as_object().unwrap() {
            let reads = method == "get" && path != "/v1/events" || path == "/v1/preview";
            if !reads {
                continue;
            }
            let place = path.replace("{jid}", JID).replace("{kind}", "pillar");
            let sent = (path == "/v1/preview").then(|| json!({"tgt": "*", "fun": "test.ping"}));
            let answer = send(&running, &session, &method.to_uppercase(), &place, sent).await;
            assert_eq!(answer.status, 200, "{place}: {answer:?}");
            let schema = &operation["responses"]["200"]["content"]["application/json"]["schema"];
            assert_eq!(misfit(schema, &body(&answer), schemas), None, "{place}");
            looked_at += 1;
        }
    }
    assert_eq!(looked_at, 11);
    let refused = send(&running, &session, "POST", "/v1/preview", Some(json!({"tgt": {}}))).await;
    assert_eq!(misfit(&json!({"$ref": "Problem"}), &body(&refused), schemas), None);
}

fn job() -> Map {
    map! {
        "jid" => JID, "fun" => "test.ping", "arg" => list![], "tgt" => "*", "tgt_type" => "glob", "user" => "fred",
        "start" => "2026-11-24T16:05:11.9533Z", "end" => Value::Null, "state" => "running",
        "counts" => map! { "expected" => 2, "returned" => 1, "failed" => 0, "running" => 1, "silent" => 0 },
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_asked_for_with_the_token_of_the_session() {
    let running = Running::start().await;
    let session = running.log_in(FRED).await;
    running.expect_fleet("jobs", map! { "items" => list![job()], "next" => JID });
    let answer = get(&running, &session, "/v1/jobs?limit=1&fun=test.*&state=running").await;
    assert_eq!((answer.status, answer.header("cache-control")), (200, Some("no-store")));
    let page = body(&answer);
    assert_eq!((&page["jobs"][0]["counts"]["expected"], &page["next"]), (&json!(2), &json!(JID)));
    let asked = &running.asked()[0];
    assert_eq!((asked.get_str("of"), asked.get_str("token")), (Some("jobs"), Some(TOKEN)));
    let field = |name: &str| asked.get("question")?.get(name)?.as_str();
    assert_eq!((field("fun"), field("state")), (Some("test.*"), Some("running")));
    // A request with `id` would be one of a minion.
    assert!(!asked.contains_key("id") && !asked.contains_key("jid"));
    running.expect_fleet("whoami", map! { "list" => list!["test.*", map! { "@jobs" => list!["list_jobs"] }] });
    let whoami = body(&get(&running, &session, "/v1/whoami").await);
    assert_eq!((&whoami["user"], &whoami["grants"][0]["entry"]), (&json!("fred"), &json!("test.*")));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_is_a_problem() {
    let running = Running::start().await;
    let session = running.log_in(WILMA).await;
    assert!(problem(&get(&running, &session, "/v1/keys").await, 403).contains("does not grant"));
    for (path, status) in [
        ("/v1", 404),
        ("/v1/", 404),
        ("/v1/nothing", 404),
        ("/v1/jobs?limit=0", 400),
        ("/v1/jobs?token=abc", 400),
        ("/v1/jobs/1", 400),
        ("/v1/jobs/%2e%2e", 400),
        ("/v1/jobs?before=20261124", 400),
        ("/v1/masters?x=1", 400),
        ("/v1/preview", 405),
    ] {
        problem(&get(&running, &session, path).await, status);
    }
    let stranger = get(&running, "", "/v1/jobs").await;
    problem(&stranger, 401);
    assert_eq!(stranger.header("www-authenticate"), Some("Session"));
    problem(&get(&running, &"a".repeat(40), "/v1/whoami").await, 401);
    // A page is for browsers, and never here.
    let request = json!({"method": "GET", "path": "/v1/jobs", "headers": {"Accept": "text/html"}});
    problem(&running.send(&request).await, 401);
    assert!(running.asked().iter().all(|load| load.get_str("of") == Some("keys")), "the others have asked nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_bodies_are_refused() {
    let running = Running::start().await;
    let session = running.log_in(FRED).await;
    let post = async |kind: &str, body: String| {
        let headers = json!({"X-Auth-Token": session, "Content-Type": kind});
        running.send(&json!({"method": "POST", "path": "/v1/jobs", "headers": headers, "body": body})).await
    };
    let json_type = "application/json";
    for (kind, body, status) in [
        ("text/plain", r#"{"tgt": "*", "fun": "test.ping"}"#.to_owned(), 415),
        (json_type, "[".repeat(100_000), 400),
        (json_type, r#"{"tgt": "*", "tgt": "a", "fun": "test.ping"}"#.to_owned(), 400),
        (json_type, r#"{"tgt": "*", "fun": "test.arg", "arg": [1e400]}"#.to_owned(), 400),
        (json_type, r#"{"tgt": "*", "fun": "test.arg", "arg": ["\ud800"]}"#.to_owned(), 400),
        (json_type, r#"[]"#.to_owned(), 400),
        (json_type, r#"{"fun": "test.ping"}"#.to_owned(), 400),
        (json_type, r#"{"tgt": "*", "tgt_type": "odd", "fun": "test.ping"}"#.to_owned(), 400),
        // Nobody chooses who they are, or an id.
        (json_type, r#"{"tgt": "*", "fun": "test.ping", "user": "root"}"#.to_owned(), 400),
        (json_type, r#"{"tgt": "*", "fun": "test.ping", "jid": "20261124160511953300"}"#.to_owned(), 400),
        (json_type, r#"{"tgt": "*", "fun": "test.ping", "token": "aa"}"#.to_owned(), 400),
    ] {
        let shown = body.chars().take(60).collect::<String>();
        let answer = post(kind, body).await;
        assert_eq!(answer.status, status, "{shown}");
    }
    let cookie = |more: Json| {
        let mut headers = json!({"Cookie": format!("session_id={session}")});
        headers.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        headers
    };
    let foreign = cookie(json!({"Origin": "https://evil.example"}));
    for method in ["POST", "DELETE"] {
        let path = if method == "POST" { "/v1/jobs".to_owned() } else { format!("/v1/jobs/{JID}") };
        let request = json!({"method": method, "path": path, "headers": foreign, "body": "{}"});
        problem(&running.send(&request).await, 403);
    }
}

/// Lets the master publish one job.
fn expect_job(running: &Running) {
    running.expect_answer(map! { "jid" => JID, "minions" => list!["min1"] });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_published_once_for_each_key_of_a_user() {
    let running = Running::start().await;
    let (fred, wilma) = (running.log_in(FRED).await, running.log_in(WILMA).await);
    let post = async |session: &str, key: &str, fun: &str| {
        let body = json!({"tgt": "*", "fun": fun}).to_string();
        let headers = json!({"X-Auth-Token": session, "Content-Type": "application/json", "Idempotency-Key": key});
        running.send(&json!({"method": "POST", "path": "/v1/jobs", "headers": headers, "body": body})).await
    };
    expect_job(&running);
    let first = post(&fred, "deploy-1", "test.ping").await;
    assert_eq!((first.status, first.header("idempotent-replayed")), (202, None));
    assert_eq!(first.header("location"), Some(&*format!("/v1/jobs/{JID}")));
    assert_eq!(body(&first), json!({"jid": JID, "minions": ["min1"]}));
    // The master would publish another one now.
    running.expect_answer(map! { "jid" => "20261124160511953399", "minions" => list!["min1"] });
    let again = post(&fred, "deploy-1", "test.ping").await;
    assert_eq!((&body(&again)["jid"], again.header("idempotent-replayed")), (&json!(JID), Some("true")));
    problem(&post(&fred, "deploy-1", "test.version").await, 409);
    let other = post(&wilma, "deploy-1", "test.ping").await;
    assert_eq!(body(&other)["jid"], "20261124160511953399", "nobody gets the job of another user");
    problem(&post(&fred, &"x".repeat(300), "test.ping").await, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn returns_come_while_a_client_waits() {
    let running = Running::start().await;
    let session = running.log_in(FRED).await;
    let whole = |returned: bool| map! { "ret" => returned, "retcode" => 0, "jid" => JID };
    let returns = map! { "min1" => whole(true), "min2" => whole(false) };
    running.expect_answer(returns);
    let request = json!({"tgt": "*", "fun": "test.ping"});
    let answer = send(&running, &session, "POST", "/v1/jobs?wait=20", Some(request)).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/jsonl")));
    for part in
        [r#""minions":["min1","min2"]"#, r#"{"id":"min1","return":true"#, r#"{"end":true,"missing":[],"running":[]}"#]
    {
        assert!(answer.body.contains(part), "{part}: {}", answer.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_accepted_by_its_fingerprint() {
    let running = Running::start().await;
    let session = running.log_in(FRED).await;
    let key = |state: &str| map! { "items" => list![map! { "id" => "web1", "state" => state, "fingerprint" => "aa:bb" }], "next" => Value::Null };
    running.expect_fleet("keys", key("pending"));
    let wrong = send(&running, &session, "POST", "/v1/keys/web1/accept", Some(json!({"fingerprint": "cc:dd"}))).await;
    assert!(problem(&wrong, 409).contains("look at the key again"));
    assert!(running.asked().iter().all(|load| load.get_str("cmd") != Some("wheel")));
    problem(&send(&running, &session, "POST", "/v1/keys/web1/accept", Some(json!({}))).await, 400);
    problem(&send(&running, &session, "POST", "/v1/keys/..%2f/accept", Some(json!({"fingerprint": "a"}))).await, 400);
    running.expect_answer(map! { "data" => map! { "success" => true, "return" => map! {} } });
    running.expect_fleet("keys", key("pending"));
    // The master says that nothing has changed.
    let fingerprint = json!({"fingerprint": "AA:BB"});
    let answer = send(&running, &session, "POST", "/v1/keys/web1/accept", Some(fingerprint.clone())).await;
    problem(&answer, 409);
    let wheel = running.asked().into_iter().find(|load| load.get_str("cmd") == Some("wheel")).unwrap();
    assert_eq!(wheel.get_str("fun"), Some("key.accept_dict"));
    running.expect_fleet("keys", key("accepted"));
    let answer = send(&running, &session, "POST", "/v1/keys/web1/accept", Some(fingerprint.clone())).await;
    assert_eq!((answer.status, &body(&answer)["state"]), (200, &json!("accepted")));
    let batch = json!({"action": "accept", "keys": [{"id": "web1", "fingerprint": "aa:bb"}, {"id": "web1", "fingerprint": "x"}]});
    let answer = body(&send(&running, &session, "POST", "/v1/keys:batch", Some(batch)).await);
    assert_eq!([&answer["keys"][0]["status"], &answer["keys"][1]["status"]], [&json!(200), &json!(409)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_go_on_where_a_client_was_cut_off() {
    let running = Running::start().await;
    let session = running.log_in(FRED).await;
    let mut stream = running.open("/v1/events?tag=a/*", &session, "").await;
    stream.until("retry: 1000").await;
    running.fire("a/b/c", map! { "n" => 1 });
    running.fire("x/y", map! {});
    running.fire("a/b/d", map! { "n" => 2 });
    let text = stream.until("a/b/d").await;
    assert!(text.contains("event: a/b\ndata: {\"tag\": \"a/b/c\"") && !text.contains("x/y"), "{text}");
    let id = text.lines().find_map(|line| line.strip_prefix("id: ")).unwrap().to_owned();
    drop(stream);
    running.fire("a/b/e", map! {});
    let mut again = running.open("/v1/events?tag=a/*", &session, &format!("Last-Event-ID: {id}\r\n")).await;
    let text = again.until("a/b/e").await;
    assert!(text.contains("a/b/d") && !text.contains("a/b/c") && !text.contains("reset"), "{text}");
    for forged in ["000000000000-1", "x", &id[..id.len() - 1], &format!("{id}9999")] {
        let mut stream = running.open("/v1/events", &session, &format!("Last-Event-ID: {forged}\r\n")).await;
        stream.until("event: reset").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poor_user_sees_only_events_of_own_jobs() {
    let running = Running::start().await;
    let wilma = running.log_in(WILMA).await;
    let mut stream = running.open("/v1/events", &wilma, "").await;
    stream.until("retry: 1000").await;
    running.fire("salt/job/20261124160511953311/ret/min1", map! { "id" => "min1", "return" => "a secret" });
    running.fire("salt/auth", map! { "id" => "min9" });
    running.expect_answer(map! { "jid" => JID, "minions" => list!["min1"] });
    let request = json!({"tgt": "min1", "fun": "test.ping"});
    assert_eq!(send(&running, &wilma, "POST", "/v1/jobs", Some(request)).await.status, 202);
    running.fire(&format!("salt/job/{JID}/ret/min1"), map! { "id" => "min1", "return" => true });
    let text = stream.until("/ret/min1").await;
    assert!(text.contains(JID) && !text.contains("secret") && !text.contains("min9"), "{text}");
}
