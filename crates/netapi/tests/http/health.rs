//! What supervisors and Prometheus ask.

use serde_json::json;
use value::{Map, list, map};

use crate::support::{Answer, FRED, Running, WILMA};

async fn get(running: &Running, path: &str, headers: serde_json::Value) -> Answer {
    running.send(&json!({"method": "GET", "path": path, "headers": headers})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_without_a_master_is_alive_and_not_ready() {
    let running = Running::start().await;
    // The first login has waited for the bus.
    running.open("/v1/events", &running.log_in(FRED).await, "").await.until("retry").await;
    let ready = get(&running, "/readyz", json!({})).await;
    assert_eq!((ready.status, ready.body.as_str()), (200, "ready\n"));
    let running = Running::start_with(Map::new()).await;
    std::fs::remove_file(running.path("s/publish_pull.ipc")).unwrap();
    assert_eq!(get(&running, "/healthz", json!({})).await.status, 200);
    let ready = get(&running, "/readyz", json!({})).await;
    assert_eq!((ready.status, ready.header("content-type")), (503, Some("application/problem+json")));
    assert_eq!(running.send(&json!({"method": "POST", "path": "/healthz"})).await.status, 405);
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_for_this_host_and_those_who_may_read_them() {
    let running = Running::start().await;
    let (fred, wilma) = (running.log_in(FRED).await, running.log_in(WILMA).await);
    get(&running, "/v1/nothing", json!({"X-Auth-Token": fred})).await;
    let page = get(&running, "/metrics", json!({})).await;
    assert_eq!(page.status, 200);
    for line in [
        "saltern_api_logins_total{eauth=\"auto\",result=\"granted\"} 2",
        "saltern_api_requests_total{route=\"/login\",method=\"POST\",status=\"200\"} 2",
        "saltern_api_requests_total{route=\"/v1\",method=\"GET\",status=\"404\"} 1",
        "saltern_api_sessions 2",
    ] {
        assert!(page.body.lines().any(|found| found == line), "{line}\n{}", page.body);
    }
    // A web server on this host has passed it on.
    let forwarded = |session: &str| json!({"X-Forwarded-For": "192.0.2.1", "X-Auth-Token": session});
    assert_eq!(get(&running, "/metrics", forwarded("")).await.status, 401);
    assert_eq!(get(&running, "/metrics", forwarded(&wilma)).await.status, 403);
    assert_eq!(get(&running, "/metrics", forwarded(&fred)).await.status, 200);
    let running = Running::start_with(map! { "metrics_allow" => list!["127.0.0.1"] }).await;
    assert_eq!(get(&running, "/metrics", forwarded("")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_in_the_file_of_the_option() {
    let place = tempfile::tempdir().unwrap();
    let [access, errors] = ["access", "errors"].map(|name| place.path().join("log").join(name));
    let named = |path: &std::path::Path| path.display().to_string();
    let running =
        Running::start_with(map! { "log_access_file" => named(&access), "log_error_file" => named(&errors) }).await;
    get(&running, "/jobs?timeout=1", json!({"User-Agent": "an \"agent\""})).await;
    std::fs::remove_file(running.path("s/publish_pull.ipc")).unwrap();
    assert_eq!(get(&running, "/readyz", json!({})).await.status, 503);
    let lines = async |file: &std::path::Path, count: usize| loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if text.lines().count() >= count {
            return text;
        }
        tokio::task::yield_now().await;
    };
    let text = lines(&access, 2).await;
    assert!(text.starts_with("127.0.0.1 - - [") && text.contains(r#"] "GET /jobs HTTP/1.1" 401 "#), "{text}");
    assert!(text.contains(r#" "" "an \"agent\"""#) && text.contains(r#""GET /readyz HTTP/1.1" 503 "#), "{text}");
    let text = lines(&errors, 2).await;
    assert!(
        text.contains("ENGINE Serving on http://127.0.0.1:") && text.contains("HTTP GET /readyz HTTP/1.1: 503"),
        "{text}"
    );
    drop(running);
}
