//! What one client may take away from the others.

use futures_util::future::select_all;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{FRED, Running, SLOW, from_elsewhere};

fn login(password: &str) -> String {
    let form = format!("username=fred&password={password}&eauth=auto");
    let kind = "Content-Type: application/x-www-form-urlencoded";
    let length = form.len();
    format!("POST /login HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{kind}\r\nContent-Length: {length}\r\n\r\n{form}")
}

/// Sends a request, and returns the beginning of the answer.
async fn exchange(mut stream: TcpStream, request: String) -> String {
    let _ = stream.write_all(request.as_bytes()).await;
    let mut status = [0; 12];
    let count = stream.read(&mut status).await.unwrap_or_default();
    String::from_utf8_lossy(&status[..count]).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_logins_hold_up_nobody_else() {
    let running = Running::start().await;
    let session = running.log_in(FRED).await;
    let address = running.address;
    let from_one = |_| Box::pin(async move { exchange(TcpStream::connect(address).await.unwrap(), login(SLOW)).await });
    // The master decides about none of them, so the first answer is that there are too many.
    let (first, _, _under_way) = select_all((0..41).map(from_one)).await;
    assert_eq!(first, "HTTP/1.1 429");
    let body = r#"{"client": "runner_async", "fun": "test.arg"}"#;
    let headers = json!({"X-Auth-Token": session, "Content-Type": "application/json"});
    running.expect_answer(value::map! { "tag" => "salt/run/1", "jid" => "1" });
    let run = json!({"method": "POST", "path": "/", "headers": headers, "body": body});
    assert_eq!(running.send(&run).await.status, 200, "the session of somebody else is as fast as ever");
    let right = exchange(from_elsewhere(running.address).await, login("x")).await;
    assert_eq!(right, "HTTP/1.1 200", "another address logs in");
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_without_a_session_have_little_room() {
    let running = Running::start().await;
    let head = "POST /run HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n";
    let unfinished = format!("{head}{}", " ".repeat(900_000));
    let send = |_| {
        let (address, unfinished) = (running.address, unfinished.clone());
        Box::pin(async move { exchange(TcpStream::connect(address).await.unwrap(), unfinished).await })
    };
    let (first, _, _under_way) = select_all((0..40).map(send)).await;
    assert_eq!(first, "HTTP/1.1 503");
    running.log_in(FRED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_of_one_user_have_little_room() {
    let running = Running::start().await;
    let session = running.log_in(FRED).await;
    for path in ["/v1/preview", "/"] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nX-Auth-Token: {session}\r\nContent-Type: application/json\r\n\
             Content-Length: 1000000\r\n\r\n"
        );
        let unfinished = format!("{head}{}", " ".repeat(900_000));
        let send = |_| {
            let (address, unfinished) = (running.address, unfinished.clone());
            Box::pin(async move { exchange(TcpStream::connect(address).await.unwrap(), unfinished).await })
        };
        let (first, _, _under_way) = select_all((0..40).map(send)).await;
        assert_eq!(first, "HTTP/1.1 429", "{path}");
    }
    running.log_in(FRED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_learn_nothing_about_jobs_and_groups() {
    let running = Running::start().await;
    let session = running.log_in(FRED).await;
    let command = |more: serde_json::Value| {
        let mut command =
            json!({"client": "local_async", "tgt": "nosuch", "tgt_type": "nodegroup", "fun": "test.ping"});
        command.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        command.to_string()
    };
    let post = async |path: &str, headers: serde_json::Value, body: String| {
        let request = json!({"method": "POST", "path": path, "headers": headers, "body": body});
        running.send(&request).await.status
    };
    let kind = json!({"Content-Type": "application/json"});
    assert_eq!(post("/run", kind.clone(), command(json!({"token": "00"}))).await, 401);
    let login = |password: &str| json!({"eauth": "auto", "username": "fred", "password": password});
    assert_eq!(post("/run", kind.clone(), command(login("bad"))).await, 401);
    assert_eq!(post("/run", kind, command(login("x"))).await, 400);
    let own = json!({"X-Auth-Token": session, "Content-Type": "application/json"});
    assert_eq!(post("/", own, command(json!({}))).await, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_site_does_not_log_its_visitor_in() {
    let running = Running::start().await;
    let form = "username=fred&password=x&eauth=auto";
    for (name, value, status) in [
        ("Sec-Fetch-Site", "cross-site", 403),
        ("Origin", "https://evil.example", 403),
        ("Sec-Fetch-Site", "same-origin", 200),
    ] {
        let headers = json!({"Content-Type": "application/x-www-form-urlencoded", name: value});
        let request = json!({"method": "POST", "path": "/login", "headers": headers, "body": form});
        let answer = running.send(&request).await;
        assert_eq!((answer.status, answer.header("set-cookie").is_some()), (status, status == 200), "{name}: {value}");
    }
}
