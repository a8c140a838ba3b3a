//! Streams of `/events` that last: many, slow, and over restarts of the master.

use serde_json::json;
use value::map;

use crate::support::{FRED, Running};

/// The memory of this process in bytes, in which clients, program and master are.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_readers_keep_little_memory_and_hold_up_nobody() {
    let running = Running::start().await;
    let session = running.log_in(FRED).await;
    let mut slow = Vec::new();
    for _ in 0..500 {
        let mut stream = running.open("/events", &session, "").await;
        stream.until("retry").await;
        slow.push(stream);
    }
    let mut quick = running.open("/events", &session, "").await;
    quick.until("retry").await;
    let (before, large) = (resident(), "x".repeat(64 << 10));
    // 500 copies of each would be 1.5 GiB.
    for number in 0..50 {
        running.fire(&format!("a/{number}"), map! { "large" => large.as_str() });
        quick.until(&format!("\"tag\": \"a/{number}\"")).await;
    }
    let grown = resident().saturating_sub(before) >> 20;
    assert!(grown < 200, "{grown} MiB more");
    let stats = json!({"method": "GET", "path": "/stats", "headers": {"X-Auth-Token": session}});
    assert_eq!(running.send(&stats).await.status, 200);
    drop(slow);
    running.fire("a/last", map! {});
    quick.until("a/last").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_outlive_a_restart_of_the_master_and_streams_begin_again() {
    let mut running = Running::start().await;
    let session = running.log_in(FRED).await;
    let mut stream = running.open("/events", &session, "").await;
    stream.until("retry").await;
    running.restart_bus().await;
    // The client notices by the end of the stream that it misses something.
    stream.end().await;
    let mut again = running.open("/events", &session, "").await;
    again.until("retry").await;
    running.fire("a/b", map! { "n" => 1 });
    again.until("a/b").await;
    let stats = json!({"method": "GET", "path": "/stats", "headers": {"X-Auth-Token": session}});
    assert_eq!(running.send(&stats).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_has_a_bounded_number_of_streams() {
    let running = Running::start().await;
    let (fred, wilma) = (running.log_in(FRED).await, running.log_in(crate::support::WILMA).await);
    let mut open = Vec::new();
    for _ in 0..1000 {
        let mut stream = running.open("/events", &fred, "").await;
        stream.until("retry").await;
        open.push(stream);
    }
    let events = |path: &str| json!({"method": "GET", "path": path, "headers": {"X-Auth-Token": fred}});
    for path in ["/events", "/v1/events"] {
        assert_eq!(running.send(&events(path)).await.status, 429, "{path}");
    }
    assert_eq!(running.open_socket(&format!("/ws/{fred}"), &[]).await.err(), Some(429));
    running.open("/events", &wilma, "").await.until("retry").await;
    drop(open);
}
