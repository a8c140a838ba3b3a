//! What one client may take away from the others.

use serde_json::json;

use crate::support::Running;

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
