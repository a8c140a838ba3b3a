//! Requests with credentials that do not count, or not for this.

use std::time::Duration;

use serde_json::json;
use value::{list, map};

use crate::support::{Answer, FRED, Running, TOKEN};

async fn post(running: &Running, path: &str, session: &str, body: &serde_json::Value) -> Answer {
    let mut headers = json!({"Content-Type": "application/json"});
    if !session.is_empty() {
        headers["X-Auth-Token"] = session.into();
    }
    running.send(&json!({"method": "POST", "path": path, "headers": headers, "body": body.to_string()})).await
}

async fn stats(running: &Running, session: &str) -> u16 {
    running.send(&json!({"method": "GET", "path": "/stats", "headers": {"X-Auth-Token": session}})).await.status
}

#[tokio::test(flavor = "multi_thread")]
async fn no_client_works_without_credentials_that_count() {
    let running = Running::start().await;
    let refusal = "Authentication failure of type \"eauth\" occurred for user fred.";
    let refuse = || {
        let response = json!({"status": 401, "message": refusal});
        running.expect(&json!({"name": "refused", "request": {"path": "/"}, "response": response}));
    };
    let clients =
        ["local", "local_async", "local_batch", "local_subset", "runner", "runner_async", "wheel", "wheel_async"];
    for client in clients {
        let command = json!({"client": client, "tgt": "*", "fun": "test.ping", "subset": 1});
        let with = |more: serde_json::Value| {
            let mut command = command.clone();
            command.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            command
        };
        assert_eq!(post(&running, "/", "", &command).await.status, 401, "{client}: no session");
        assert_eq!(post(&running, "/", &"a".repeat(40), &command).await.status, 401, "{client}: no such session");
        assert_eq!(post(&running, "/run", "", &command).await.status, 401, "{client}: no login");
        for token in [json!(null), json!(""), json!("../../etc/passwd"), json!([TOKEN]), json!("a".repeat(300))] {
            let answer = post(&running, "/run", "", &with(json!({"token": token}))).await;
            assert_eq!(answer.status, 401, "{client}: {token}");
        }
        // What the master says about it counts.
        refuse();
        assert_eq!(post(&running, "/run", "", &with(json!({"token": "f".repeat(64)}))).await.status, 401, "{client}");
        refuse();
        let login = with(json!({"username": "fred", "password": "bad", "eauth": "auto"}));
        assert_eq!(post(&running, "/run", "", &login).await.status, 401, "{client}");
        assert_eq!(running.asked(), [], "{client}: nothing was called");
    }
    // The token of the session has expired.
    running.expire_after(Duration::ZERO);
    let session = running.log_in(FRED).await;
    for client in clients {
        let command = json!({"client": client, "tgt": "*", "fun": "test.ping"});
        assert_eq!(post(&running, "/", &session, &command).await.status, 401, "{client}");
    }
    assert_eq!(stats(&running, &session).await, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_round_of_a_batch_needs_the_permission() {
    let running = Running::start().await;
    let session = running.log_in(FRED).await;
    for (client, question) in [("local_batch", true.into()), ("local_subset", list!["cmd.run"])] {
        let command = json!({"client": client, "tgt": "*", "fun": "cmd.run", "arg": ["id"], "batch": 1});
        // The question who is there, and the job itself after it.
        for answers in [vec![], vec![map! { "min1" => question }.into()]] {
            let rounds = answers.len();
            running.expect_and_refuse(answers);
            let answer = post(&running, "/", &session, &command).await;
            assert_eq!(answer.status, 401, "{client} after {rounds} rounds: {answer:?}");
            assert!(answer.body.contains("Authorization error occurred."), "{answer:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_in_place_of_a_token_tells_nothing() {
    let running = Running::start().await;
    let token = running.path("cache/tokens");
    std::fs::create_dir_all(&token).unwrap();
    std::fs::write(token.join(format!("{TOKEN}.p")), "").unwrap();
    // One that leads to a file and one that does not.
    for pair in [
        ["../../etc/passwd", "../../etc/nosuch"],
        ["../master", "../nosuch"],
        [&format!("../tokens/{TOKEN}"), &format!("../tokens/{}", "0".repeat(64))],
        ["..%2f..%2fetc%2fpasswd", "..%2f..%2fetc%2fnosuch"],
    ] {
        let mut answers = Vec::new();
        for text in pair {
            let command = json!({"client": "local", "tgt": "*", "fun": "test.ping", "token": text});
            let in_body = post(&running, "/run", "", &command).await;
            let events = json!({"method": "GET", "path": "/events", "headers": {"X-Auth-Token": text}});
            let in_header = running.send(&events).await;
            let cookie =
                json!({"method": "GET", "path": "/events", "headers": {"Cookie": format!("session_id={text}")}});
            let in_cookie = running.send(&cookie).await;
            assert_eq!([in_body.status, in_header.status, in_cookie.status], [401; 3], "{text}");
            answers.push([in_body.body, in_header.body, in_cookie.body]);
        }
        assert_eq!(answers[0], answers[1], "{pair:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_counts_only_where_it_was_made() {
    let (here, other) = (Running::start().await, Running::start().await);
    let session = here.log_in(FRED).await;
    assert_eq!((stats(&here, &session).await, stats(&other, &session).await), (200, 401));
    // With `api_acl`, a session is of no use to who has stolen it elsewhere.
    let users = map! { "users" => map! { "fred" => list!["127.0.0.1"], "*" => list!["127.0.0.2"] } };
    let running = Running::start_with(map! { "api_acl" => users }).await;
    let session = running.log_in(FRED).await;
    for (path, proof) in [
        ("/stats", format!("X-Auth-Token: {session}")),
        ("/stats", format!("Cookie: session_id={session}")),
        ("/stats", format!("X-Auth-Token: {TOKEN}")),
        ("/events", format!("X-Auth-Token: {session}")),
        ("/v1/whoami", format!("X-Auth-Token: {session}")),
        ("/ws", format!("X-Auth-Token: {session}")),
        (&format!("/ws/{session}"), "X-Nothing: x".to_owned()),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{proof}\r\n\r\n");
        let answer = running.send_from_elsewhere(request.as_bytes()).await.unwrap();
        assert_eq!(answer.status, 401, "{path} {proof}");
    }
    let page =
        format!("GET /console/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\nCookie: session_id={session}\r\n\r\n");
    assert_eq!(running.send_from_elsewhere(page.as_bytes()).await.unwrap().status, 303, "to the login");
    assert_eq!(stats(&running, &session).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_of_a_client_name_neither_a_host_nor_an_address() {
    let running = Running::start_with(map! { "root_prefix" => "/salt", "authorized_ips" => list!["127.0.0.1"] }).await;
    let forged = "X-Forwarded-Host: evil.example\r\nX-Forwarded-Proto: https\r\nForwarded: host=evil.example\r\n";
    for (path, place) in [("/salt", "/salt/"), ("/salt/", "/salt/console/"), ("//salt", "/salt/")] {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: evil.example\r\nAccept: text/html\r\nConnection: close\r\n{forged}\r\n"
        );
        let answer = running.send_raw(request.as_bytes()).await.unwrap();
        assert_eq!(answer.header("location"), Some(place), "{path}: {answer:?}");
        assert!(!format!("{answer:?}").contains("evil"), "{answer:?}");
    }
    for path in ["//evil.example/salt", "/\\evil.example/", "/salt//evil.example", "http://evil.example/salt"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\nConnection: close\r\n\r\n");
        let answer = running.send_raw(request.as_bytes()).await;
        let place = answer.as_ref().and_then(|answer| answer.header("location")).unwrap_or_default();
        assert!(!place.contains("evil") && !place.starts_with("//"), "{path}: {answer:?}");
    }
    // A client chooses these headers, so none of them is its address.
    for name in ["X-Forwarded-For", "X-Real-IP", "Forwarded", "X-Client-IP"] {
        let request = format!("GET /salt/stats HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{name}: 127.0.0.1\r\n\r\n");
        assert_eq!(running.send_from_elsewhere(request.as_bytes()).await.unwrap().status, 403, "{name}");
    }
}
