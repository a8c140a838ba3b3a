//! Sessions, from the login to the logout.

use crate::support::{Answer, FRED, Running, TOKEN};
use serde_json::json;

async fn stats(running: &Running, session: &str) -> Answer {
    running.send(&json!({"method": "GET", "path": "/stats", "headers": {"X-Auth-Token": session}})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_logs_nobody_out() {
    let mut running = Running::start().await;
    let session = running.log_in(FRED).await;
    running.restart().await;
    assert_eq!(stats(&running, &session).await.status, 200);
    let cookie = json!({"method": "GET", "path": "/stats", "headers": {"Cookie": format!("session_id={session}")}});
    assert_eq!(running.send(&cookie).await.status, 200);
    let files: Vec<_> = std::fs::read_dir(running.path("cache/api_sessions")).unwrap().collect();
    assert_eq!(files.len(), 1);
    let name = files[0].as_ref().unwrap().file_name().into_string().unwrap();
    assert_eq!(stats(&running, &name).await.status, 401, "the name of the file opens nothing");
    let out = json!({"method": "POST", "path": "/logout", "headers": {"X-Auth-Token": session}});
    assert_eq!(running.send(&out).await.status, 200);
    running.restart().await;
    assert_eq!(stats(&running, &session).await.status, 401, "a logout lasts");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_logout_revokes_the_token() {
    let running = Running::start().await;
    let session = running.log_in(FRED).await;
    std::fs::create_dir_all(running.path("cache/tokens")).unwrap();
    let token = running.path("cache/tokens").join(format!("{TOKEN}.p"));
    std::fs::write(&token, "").unwrap();
    // A second login ends the first session, but the user may use the token elsewhere.
    let again = json!({"method": "POST", "path": "/login", "body": "username=fred&password=x&eauth=auto",
        "headers": {"X-Auth-Token": session, "Content-Type": "application/x-www-form-urlencoded"}});
    let session = running.send(&again).await.header("x-auth-token").unwrap().to_owned();
    assert!(token.exists());
    // SaltGUI sends an empty map as text.
    let out = json!({"method": "POST", "path": "/logout", "body": "{}",
        "headers": {"X-Auth-Token": session, "Content-Type": "text/plain;charset=UTF-8"}});
    assert_eq!(running.send(&out).await.status, 200);
    assert!(!token.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_when_its_token_is_revoked() {
    let running = Running::start().await;
    let session = running.log_in(FRED).await;
    assert_eq!(stats(&running, &session).await.status, 200);
    running.revoke_token();
    for (method, path) in [("POST", "/hook/x"), ("GET", "/stats"), ("GET", "/events")] {
        let request = json!({"method": method, "path": path, "headers": {"X-Auth-Token": session}});
        assert_eq!(running.send(&request).await.status, 401, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_header_leaves_the_cookie() {
    let running = Running::start().await;
    let session = running.log_in(FRED).await;
    let headers = json!({"X-Auth-Token": "", "Cookie": format!("session_id={session}")});
    let stats = json!({"method": "GET", "path": "/stats", "headers": headers});
    assert_eq!(running.send(&stats).await.status, 200);
    // It is the cookie that proves the request, so a page of another site cannot send it.
    let headers = json!({"X-Auth-Token": "", "Cookie": format!("session_id={session}"), "Content-Type": "text/plain"});
    let ping = json!({"method": "POST", "path": "/", "headers": headers, "body": "{}"});
    assert_eq!(running.send(&ping).await.status, 403);
}
