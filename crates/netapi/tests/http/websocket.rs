//! `/ws`: events over a WebSocket.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{Bytes, Message};
use value::{list, map};

use crate::support::{FRED, Running, Socket, TOKEN, WILMA};

const READY: &str = "websocket client ready";
const RECEIVED: &str = "server received message";
const JID: &str = "20261124160511953300";

async fn next(socket: &mut Socket) -> Message {
    let message = tokio::time::timeout(Duration::from_secs(20), socket.next()).await.expect("nothing comes");
    message.expect("the connection has ended").unwrap()
}

async fn text(socket: &mut Socket) -> String {
    next(socket).await.into_text().unwrap().to_string()
}

async fn say(socket: &mut Socket, text: &str) -> String {
    socket.send(Message::text(text)).await.unwrap();
    self::text(socket).await
}

/// Opens a WebSocket that gets events.
async fn ready(running: &Running, path: &str) -> Socket {
    let mut socket = running.open_socket(path, &[]).await.unwrap();
    assert_eq!(say(&mut socket, READY).await, RECEIVED);
    socket
}

/// Reads to the end of a connection, and returns the code.
async fn code(socket: &mut Socket) -> u16 {
    loop {
        if let Message::Close(frame) = next(socket).await {
            return frame.expect("no code").code.into();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_ready_gets_events() {
    let running = Running::start().await;
    let session = running.log_in(FRED).await;
    let mut socket = running.open_socket(&format!("/ws/{session}"), &[]).await.unwrap();
    let mut other = ready(&running, &format!("/ws/{session}")).await;
    assert_eq!(say(&mut socket, "hello").await, RECEIVED);
    running.fire("a/early", map! {});
    assert!(text(&mut other).await.contains("a/early"));
    assert_eq!(say(&mut socket, READY).await, RECEIVED, "no event comes before");
    running.fire("a/b", map! { "n" => 1, "text" => "a\n\nb" });
    assert_eq!(text(&mut socket).await, "data: {\"data\": {\"n\": 1, \"text\": \"a\\n\\nb\"}, \"tag\": \"a/b\"}\n\n");
    // Some clients send what they have to say as bytes.
    socket.send(Message::binary(READY)).await.unwrap();
    assert_eq!(text(&mut socket).await, RECEIVED);
    socket.send(Message::Ping(Bytes::from_static(b"there?"))).await.unwrap();
    assert_eq!(next(&mut socket).await, Message::Pong(Bytes::from_static(b"there?")));
    socket.close(None).await.unwrap();
    assert!(matches!(next(&mut socket).await, Message::Close(_)));
    assert!(socket.next().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_may_have_maps_of_jobs_and_minions() {
    let running = Running::start().await;
    let session = running.log_in(FRED).await;
    let mut socket = ready(&running, &format!("/ws/{session}?format_events")).await;
    let new = map! { "jid" => JID, "_stamp" => "2026-11-24", "fun" => "test.ping", "tgt" => "*", "tgt_type" => "glob",
    "minions" => list!["min1"] };
    running.fire(&format!("salt/job/{JID}/new"), new);
    let told: Json = serde_json::from_str(&text(&mut socket).await).unwrap();
    assert_eq!(told["jobs"][JID]["state"], "running");
    running.fire("salt/auth", map! { "id" => "min1" });
    let returned = map! { "fun" => "test.ping", "return" => "<script>", "retcode" => 0, "success" => true };
    running.fire(&format!("salt/job/{JID}/ret/min1"), returned);
    let told: Json = serde_json::from_str(&text(&mut socket).await).unwrap();
    let minion = json!({"return": "<script>", "retcode": 0, "success": true});
    assert_eq!((&told["jobs"][JID]["state"], &told["jobs"][JID]["minions"]["min1"]), (&json!("complete"), &minion));
    running.fire("salt/key", map! { "act" => "accept", "id" => "min2", "result" => true });
    assert_eq!(text(&mut socket).await, r#"{"minions": [{"id": "min2"}]}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_those_who_have_logged_in_get_in() {
    let running = Running::start_with(map! { "cors_origin" => "https://gui.example" }).await;
    let session = running.log_in(FRED).await;
    let status = async |path: &str, headers: &[(&str, &str)]| running.open_socket(path, headers).await.err();
    let wrong = "5ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2";
    for path in ["/ws", &format!("/ws/{wrong}"), &format!("/ws/{session}/more"), "/ws/..%2f..%2fetc"] {
        assert_eq!(status(path, &[]).await, Some(401), "{path}");
    }
    assert_eq!(status(&format!("/ws/{session}"), &[]).await, None);
    assert_eq!(status(&format!("/ws/{TOKEN}"), &[]).await, None, "a token counts as well");
    assert_eq!(status("/ws", &[("X-Auth-Token", &session)]).await, None);
    assert_eq!(status(&format!("/ws?token={session}"), &[]).await, Some(400), "addresses are in logs");
    let cookie = format!("session_id={session}");
    let own = format!("http://{}", running.address);
    for (origin, refused) in
        [(own.as_str(), None), ("https://gui.example", None), ("https://evil.example", Some(403)), ("null", Some(403))]
    {
        assert_eq!(status("/ws", &[("Cookie", &cookie), ("Origin", origin)]).await, refused, "{origin}");
    }
    // The session in the path is the proof, which no other page knows.
    assert_eq!(status(&format!("/ws/{session}"), &[("Origin", "https://evil.example")]).await, None);
    running.revoke_token();
    assert_eq!(status(&format!("/ws/{session}"), &[]).await, Some(401));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_handshake_gets_an_answer_without_the_session() {
    let running = Running::start().await;
    let session = running.log_in(FRED).await;
    for (method, path, status) in [("GET", "", 400), ("POST", "", 405), ("HEAD", "", 405), ("GET", "/a/b", 401)] {
        let request = json!({"method": method, "path": format!("/ws/{session}{path}")});
        let answer = running.send(&request).await;
        assert_eq!(answer.status, status, "{method} {path}");
        assert!(!format!("{answer:?}").contains(&session), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poor_user_sees_only_own_jobs() {
    let running = Running::start().await;
    let wilma = running.log_in(WILMA).await;
    let mut sockets =
        [ready(&running, &format!("/ws/{wilma}")).await, ready(&running, &format!("/ws/{wilma}?format_events")).await];
    running.fire("salt/job/20261124160511953311/ret/min1", map! { "id" => "min1", "return" => "a secret" });
    running.fire("salt/key", map! { "act" => "accept", "id" => "min9" });
    running.expect_answer(map! { "jid" => JID, "minions" => list!["min1"] });
    let body = r#"{"client": "local_async", "tgt": "min1", "fun": "test.ping"}"#;
    let headers = json!({"X-Auth-Token": wilma, "Content-Type": "application/json"});
    let request = json!({"method": "POST", "path": "/", "headers": headers, "body": body});
    assert_eq!(running.send(&request).await.status, 200);
    running.fire(&format!("salt/job/{JID}/ret/min1"), map! { "id" => "min1", "return" => true });
    for socket in &mut sockets {
        let first = text(socket).await;
        assert!(first.contains(JID) && !first.contains("secret") && !first.contains("min9"), "{first}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_ends_with_a_code_that_says_why() {
    let mut running = Running::start().await;
    let session = running.log_in(FRED).await;
    let path = format!("/ws/{session}");
    let mut large = running.open_socket(&path, &[]).await.unwrap();
    large.send(Message::text("x".repeat(5000))).await.unwrap();
    assert_eq!(code(&mut large).await, 1009);
    let mut binary = running.open_socket(&path, &[]).await.unwrap();
    binary.send(Message::binary(vec![0xff, 0xfe])).await.unwrap();
    assert_eq!(code(&mut binary).await, 1007);
    let mut cut_off = ready(&running, &path).await;
    running.restart_bus().await;
    assert_eq!(code(&mut cut_off).await, 1012);
    // The session has outlived that.
    let mut open = ready(&running, &path).await;
    running.fire("a/b", map! {});
    let shown = text(&mut open).await;
    assert!(shown.contains("a/b"), "{shown}");
    let out = json!({"method": "POST", "path": "/logout", "headers": {"X-Auth-Token": session}});
    assert_eq!(running.send(&out).await.status, 200);
    running.fire("a/c", map! {});
    assert_eq!(code(&mut open).await, 1008);
    let mut last = ready(&running, &format!("/ws/{}", running.log_in(FRED).await)).await;
    running.restart().await;
    assert_eq!(code(&mut last).await, 1001);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_ends_with_its_token() {
    let running = Running::start().await;
    running.expire_after(Duration::from_secs(2));
    let session = running.log_in(FRED).await;
    let mut socket = ready(&running, &format!("/ws/{session}")).await;
    let mut stream = running.open("/events", &session, "").await;
    stream.until("retry").await;
    loop {
        running.fire("a/b", map! {});
        if let Message::Close(frame) = next(&mut socket).await {
            assert_eq!(u16::from(frame.unwrap().code), 1008);
            break;
        }
    }
    running.fire("a/b", map! {});
    stream.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_that_are_none_end_the_connection_only() {
    let running = Running::start().await;
    let session = running.log_in(FRED).await;
    // Without a mask, with a reserved kind, a control frame in parts, 2^62 bytes announced, text that is none.
    for frame in [
        &b"\x81\x02hi"[..],
        b"\x83\x80\0\0\0\0",
        b"\x09\x80\0\0\0\0",
        b"\x81\xff\x40\0\0\0\0\0\0\0\0\0\0\0",
        b"\x81\x82\0\0\0\0\xff\xfe",
    ] {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        let head = format!(
            "GET /ws/{session} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(frame).await.unwrap();
        let mut answer = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await;
        let _ = read.unwrap_or_else(|_| panic!("{frame:?}: the connection stays open"));
        assert!(answer.starts_with(b"HTTP/1.1 101"), "{frame:?}: {}", String::from_utf8_lossy(&answer));
    }
    ready(&running, &format!("/ws/{session}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_is_cut_off() {
    let running = Running::start().await;
    let session = running.log_in(FRED).await;
    let mut slow = ready(&running, &format!("/ws/{session}")).await;
    let mut quick = ready(&running, &format!("/ws/{session}")).await;
    let large = "x".repeat(8 << 10);
    // More than the queue and the buffers of the system hold.
    for number in 0..3000 {
        running.fire("a/b", map! { "n" => number, "large" => large.as_str() });
        assert!(text(&mut quick).await.starts_with(&format!("data: {{\"data\": {{\"n\": {number}, ")));
    }
    assert_eq!(code(&mut slow).await, 1013);
}
