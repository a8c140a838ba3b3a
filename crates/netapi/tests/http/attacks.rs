//! Hostile requests: what must be refused, and what must not happen.

use crate::support::{Answer, FRED, Running};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use value::map;

const PING: &str = r#"{"client": "local_async", "tgt": "*", "fun": "test.ping"}"#;

async fn post(running: &Running, path: &str, headers: serde_json::Value, body: &str) -> Answer {
    running.send(&json!({"method": "POST", "path": path, "headers": headers, "body": body})).await
}

/// Prepares the master for one job.
fn expect_job(running: &Running) {
    let body = r#"{"return": [{"jid": "20261124160511953300", "minions": ["min1"], "tag": "salt/wheel/1"}]}"#;
    running.expect(&json!({"name": "job", "request": {"path": "/"}, "response": {"status": 200, "body": body}}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_site_cannot_use_the_cookie() {
    let running = Running::start().await;
    let session = running.log_in(FRED).await;
    let cookie = format!("a=b; session_id={session}");
    for (name, value) in [("Origin", "https://evil.example"), ("Origin", "null"), ("Sec-Fetch-Site", "cross-site")] {
        let headers = json!({"Cookie": cookie, "Content-Type": "application/json", name: value});
        let answer = post(&running, "/", headers, PING).await;
        assert_eq!(answer.status, 403, "{name}: {value}");
        assert!(answer.headers.iter().all(|(name, _)| !name.starts_with("access-control")), "{answer:?}");
    }
    // A form of any page can send JSON as text.
    let plain = json!({"Cookie": cookie, "Content-Type": "text/plain"});
    let answer = post(&running, "/", plain.clone(), PING).await;
    assert!(answer.status == 403 && answer.body.contains("a text/plain body needs X-Auth-Token"), "{answer:?}");
    assert_eq!(post(&running, "/hook/a", plain, "text").await.body, answer.body);
    let image = json!({"method": "GET", "path": "/logout", "headers": {"Cookie": cookie}});
    assert_eq!(running.send(&image).await.status, 405);
    expect_job(&running);
    let own = json!({"Cookie": cookie, "Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"});
    assert_eq!(post(&running, "/", own, PING).await.status, 200);
    expect_job(&running);
    let header = json!({"X-Auth-Token": session, "Content-Type": "text/plain", "Origin": "https://evil.example"});
    assert_eq!(post(&running, "/", header, PING).await.status, 200, "a page cannot know the token");
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_never_those_of_others() {
    let running = Running::start().await;
    let chosen = "a".repeat(40);
    let form = "username=fred&password=x&eauth=auto";
    let headers =
        json!({"Cookie": format!("session_id={chosen}"), "Content-Type": "application/x-www-form-urlencoded"});
    let answer = post(&running, "/login", headers, form).await;
    let session = answer.header("x-auth-token").unwrap().to_owned();
    assert_ne!(session, chosen, "the id comes from the server");
    let cookie = answer.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    // As in Salt, the old session goes on: other programs may use it.
    let headers = json!({"X-Auth-Token": session, "Content-Type": "application/x-www-form-urlencoded"});
    let second = post(&running, "/login", headers, form).await.header("x-auth-token").unwrap().to_owned();
    let stats = |session: &str| json!({"method": "GET", "path": "/stats", "headers": {"X-Auth-Token": session}});
    assert_ne!(session, second, "an id is never that of another login");
    assert_eq!(running.send(&stats(&session)).await.status, 200);
    assert_eq!(running.send(&stats(&second)).await.status, 200);
    assert_eq!(post(&running, "/logout", json!({"X-Auth-Token": second}), "").await.status, 200);
    assert_eq!(running.send(&stats(&second)).await.status, 401);
    // The header counts, even if it is wrong.
    let third = running.log_in(FRED).await;
    let both = json!({"X-Auth-Token": "zzz", "Cookie": format!("session_id={third}")});
    let both = json!({"method": "GET", "path": "/stats", "headers": both});
    assert_eq!(running.send(&both).await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_preflight_makes_a_session() {
    let running = Running::start().await;
    for path in
        ["/", "/login", "/logout", "/minions", "/jobs/1", "/keys", "/run", "/token", "/events", "/hook/a", "/stats"]
    {
        let headers = json!({"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"});
        let answer = running.send(&json!({"method": "OPTIONS", "path": path, "headers": headers})).await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!((answer.header("set-cookie"), answer.header("access-control-allow-origin")), (None, None), "{path}");
    }
    assert_eq!(running.send(&json!({"method": "GET", "path": "/stats"})).await.status, 401);
    assert_eq!(running.send(&json!({"method": "GET", "path": "/events"})).await.status, 401);
    let query = json!({"method": "GET", "path": "/events?token=abcd"});
    assert_eq!(running.send(&query).await.status, 400, "a token in an address would be in logs");
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_need_a_login_and_a_proper_tag() {
    let running = Running::start().await;
    let json = || json!({"Content-Type": "application/json"});
    assert_eq!(post(&running, "/hook/a", json(), "{}").await.status, 401);
    let headers = json!({"X-Auth-Token": running.log_in(FRED).await, "Content-Type": "application/json"});
    assert_eq!(post(&running, "/hook/a/b", headers.clone(), "{}").await.status, 200);
    let long = format!("/hook/{}", "a".repeat(2000));
    for path in ["/hook/a%2f%2fb", "/hook/../login", "/hook/%2e%2e/x", "/hook/a%0ab", "/hook/a%00", "/hook/a%ff", &long]
    {
        assert_eq!(post(&running, path, headers.clone(), "{}").await.status, 400, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_have_bounds() {
    let running = Running::start().await;
    let status = async |request: &[u8]| running.send_raw(request).await.map(|answer| answer.status);
    let login = "POST /login HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\n";
    let large = format!("{login}Content-Length: 1073741824\r\n\r\n");
    assert_eq!(status(large.as_bytes()).await, Some(413));
    let chunks = format!(
        "{login}Transfer-Encoding: chunked\r\n\r\n{}",
        format!("10000\r\n{}\r\n", "x".repeat(65536)).repeat(17)
    );
    assert_eq!(status(chunks.as_bytes()).await, Some(413));
    let packed = format!("{login}Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{{}}");
    assert_eq!(status(packed.as_bytes()).await, Some(415));
    let head = format!("GET / HTTP/1.1\r\nHost: a\r\nX-Long: {}\r\n\r\n", "x".repeat(64 << 10));
    assert!(matches!(status(head.as_bytes()).await, None | Some(400..=499)));
    let headers = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(500));
    assert!(matches!(status(headers.as_bytes()).await, None | Some(400..=499)));
    for broken in [
        "GET /\r\n\r\n",
        "GET / HTTP/1.1\r\nHost a\r\n\r\n",
        "\0\0\0\0\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ] {
        assert!(matches!(status(broken.as_bytes()).await, None | Some(400..=499)), "{broken:?}");
    }
    let deep = format!("{login}Content-Length: 100000\r\n\r\n{}", "[".repeat(100_000));
    assert_eq!(status(deep.as_bytes()).await, Some(400));
    // Others are served all the time.
    assert_eq!(running.send(&json!({"method": "GET", "path": "/"})).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_a_hundred_megabytes_is_not_kept() {
    let running = Running::start().await;
    let session = running.log_in(FRED).await;
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nX-Auth-Token: {session}\r\nContent-Type: application/json\r\n");
    let part = format!("10000\r\n{}\r\n", " ".repeat(65536));
    for announced in [true, false] {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        let how = if announced { "Content-Length: 104857600" } else { "Transfer-Encoding: chunked" };
        stream.write_all(format!("{head}{how}\r\n\r\n").as_bytes()).await.unwrap();
        let mut sent = 0;
        // Until the program closes the connection.
        while sent < 100 << 20 && stream.write_all(part.as_bytes()).await.is_ok() {
            sent += part.len();
        }
        assert!(sent < 50 << 20, "{how}: {sent} bytes were taken");
        let ping = json!({"method": "GET", "path": "/stats", "headers": {"X-Auth-Token": session}});
        assert_eq!(running.send(&ping).await.status, 200, "others are served");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_in_an_address_is_never_repeated() {
    let running = Running::start().await;
    let secret = "5ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2";
    for path in ["/", "/nosuch", "/events", "/jobs", "/stats", "/hook/a"] {
        for accept in ["text/html", "application/json"] {
            let headers = json!({"Accept": accept, "X-Auth-Token": secret, "Cookie": format!("session_id={secret}")});
            let request = json!({"method": "GET", "path": format!("{path}?token={secret}"), "headers": headers});
            let answer = running.send(&request).await;
            assert!(!format!("{answer:?}").contains(secret), "{path}: {answer:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_parts_of_a_path_mean_nothing() {
    let running = Running::start().await;
    let headers = json!({"X-Auth-Token": running.log_in(FRED).await, "Content-Type": "application/json"});
    for path in ["/hook/", "/hook/a/", "/hook//a///b/", "//hook"] {
        assert_eq!(post(&running, path, headers.clone(), "{}").await.status, 200, "{path}");
    }
    assert_eq!(post(&running, "/login/", json!({"Content-Type": "application/json"}), "{").await.status, 400);
    for (path, status) in [("//", 200), ("///login", 200), ("/run/", 200), ("//nosuch", 404), ("/stats//", 401)] {
        let answer = running.send(&json!({"method": "GET", "path": path})).await;
        assert_eq!(answer.status, status, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_without_a_login_are_limited() {
    let running = Running::start_with(map! { "webhook_disable_auth" => true }).await;
    let headers = || json!({"Content-Type": "application/json"});
    let mut answers = Vec::new();
    // More than come in again while they are sent.
    while answers.len() < 5000 && answers.last().is_none_or(|status| *status == 200) {
        answers.push(post(&running, "/hook/a", headers(), "{}").await.status);
    }
    assert!(answers.len() > 1000, "{} are allowed at once", answers.len());
    assert_eq!(answers.last(), Some(&429));
    let logged_in = json!({"X-Auth-Token": running.log_in(FRED).await, "Content-Type": "application/json"});
    assert_eq!(post(&running, "/hook/a", logged_in, "{}").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_has_one_length() {
    let running = Running::start().await;
    // A proxy in front may count otherwise, and take the rest of the body for a request of somebody else.
    for lengths in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Content-Length: 5\r\nContent-Length: 6",
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: xchunked",
    ] {
        let request = format!(
            "POST /login HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n{lengths}\r\n\r\n0\r\n\r\n\
             GET /stats HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        );
        let answer = running.send_raw(request.as_bytes()).await;
        assert!(answer.as_ref().is_none_or(|answer| answer.status == 400), "{lengths}: {answer:?}");
        assert!(answer.is_none_or(|answer| !answer.body.contains("HTTP/1.1")), "{lengths}: the rest is a request");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_that_name_a_user_are_never_passed_on() {
    let running = Running::start().await;
    let session = running.log_in(FRED).await;
    let headers = || json!({"X-Auth-Token": session, "Content-Type": "application/json"});
    // The master of the test fails if a key arrives.
    for client in ["local_async", "runner_async", "wheel_async"] {
        expect_job(&running);
        let body = json!({"client": client, "tgt": "*", "fun": "test.ping", "user": "root", "key": "stolen", "id": "min1",
            "cmd": "mk_token", "auth_list": [".*"], "print_event": true, "__user__": "root", "__kwarg__": true});
        assert_eq!(post(&running, "/", headers(), &body.to_string()).await.status, 200, "{client}");
    }
    for client in [json!(["local"]), json!({"local": 1}), json!("destroy"), json!("__init__"), json!("_prep_auth_info")]
    {
        let body = json!({"client": client, "tgt": "*", "fun": "test.ping"});
        assert_eq!(post(&running, "/", headers(), &body.to_string()).await.status, 400, "{client}");
    }
    // There is no salt-ssh, whoever asks for it.
    let ssh = json!({"client": "ssh", "tgt": "*", "fun": "test.ping"});
    let answer = post(&running, "/", headers(), &ssh.to_string()).await;
    assert_eq!(answer.status, 501);
    assert!(answer.body.contains("is not supported: there is no salt-ssh"), "{answer:?}");
    assert_eq!(post(&running, "/", json!({"Content-Type": "application/json"}), &ssh.to_string()).await.status, 401);
    for jid in ["20200101000000000000", "../../etc", "x"] {
        let body = json!({"client": "local_async", "tgt": "*", "fun": "test.ping", "jid": jid});
        assert_eq!(post(&running, "/", headers(), &body.to_string()).await.status, 400, "{jid}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn key_pairs_are_made_for_those_who_may() {
    let running = Running::start().await;
    let headers = || json!({"Content-Type": "application/x-www-form-urlencoded"});
    let login = "username=fred&password=x&eauth=auto";
    let pair = |body: &str| {
        let body = json!({"return": serde_json::from_str::<serde_json::Value>(body).unwrap()}).to_string();
        running
            .expect(&json!({"name": "pair", "request": {"path": "/keys"}, "response": {"status": 200, "body": body}}));
    };
    assert_eq!(post(&running, "/keys", headers(), "mid=web1").await.status, 401);
    for id in ["..%2Fweb1", "a%2Fb", "", "%00"] {
        let body = format!("{login}&mid={id}");
        assert_eq!(post(&running, "/keys", headers(), &body).await.status, 400, "{id}");
    }
    let refusal = "Authentication failure of type \"eauth\" occurred for user fred.";
    running.expect(
        &json!({"name": "no right", "request": {"path": "/keys"}, "response": {"status": 401, "message": refusal}}),
    );
    assert_eq!(post(&running, "/keys", headers(), &format!("{login}&mid=web1")).await.status, 401);
    pair("{}");
    assert_eq!(post(&running, "/keys", headers(), &format!("{login}&mid=web1")).await.status, 409);
    pair(r#"{"pub": "the public half", "priv": "the private half"}"#);
    let answer = post(&running, "/keys", headers(), &format!("{login}&mid=web1&keysize=2048&force=true")).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/x-tar")), "{answer:?}");
    assert!(answer.body.starts_with("minion.pub") && answer.body.contains("the private half"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_goes_away_is_not_a_silent_minion() {
    let running = Running::start().await;
    let headers = json!({"X-Auth-Token": running.log_in(FRED).await, "Content-Type": "application/json"});
    running.lose_master("min1");
    let command = r#"{"client": "local", "tgt": "*", "fun": "test.ping", "timeout": 0, "gather_job_timeout": 0}"#;
    let answer = post(&running, "/", headers, command).await;
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(answer.body.contains("jobs.lookup_jid 20261124160511953300"), "{answer:?}");
}
