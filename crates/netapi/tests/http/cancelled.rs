//! Clients that close their connections while they wait for an answer.

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{FRED, Running};

/// How many clients wait at the same time.
const AT_ONCE: usize = 100;

/// How many clients give up; `SALTERN_CANCELS` says how many in a full run.
fn cancels() -> usize {
    std::env::var("SALTERN_CANCELS").map_or(1000, |count| count.parse().expect("SALTERN_CANCELS is a number"))
}

/// Reads a number of `/metrics` until it is as expected. Each look is a request, so the program gets on meanwhile.
async fn until(running: &Running, gauge: &str, expected: usize) {
    let line = format!("saltern_api_{gauge} {expected}");
    let asked = async {
        loop {
            let page = running.send(&json!({"method": "GET", "path": "/metrics"})).await.body;
            if page.lines().any(|found| found == line) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(std::time::Duration::from_secs(60), asked).await;
    assert!(waited.is_ok(), "there never is: {line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_give_up_leave_nothing_behind() {
    let running = Running::start().await;
    let session = running.log_in(FRED).await;
    // It fits all commands: the minion and the runner never end.
    let begun = json!({"tag": "salt/run/20261126160511953300", "jid": "20261126160511953300", "minions": ["min1"]});
    let body = json!({"return": vec![begun; AT_ONCE]}).to_string();
    let commands = ["local", "runner", "local_batch", "local_subset"].map(|client| {
        let command = json!({"client": client, "tgt": "*", "fun": "test.sleep", "timeout": 600, "subset": 1});
        let text = command.to_string();
        format!(
            "POST / HTTP/1.1\r\nHost: a\r\nX-Auth-Token: {session}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{text}",
            text.len()
        )
    });
    let stream = format!("GET /events HTTP/1.1\r\nHost: a\r\nX-Auth-Token: {session}\r\n\r\n");
    let mut left = cancels();
    while left > 0 {
        running.expect(&json!({"name": "jobs", "request": {"path": "/"}, "response": {"status": 200, "body": body}}));
        let mut waiting = Vec::new();
        for number in 0..AT_ONCE {
            let mut client = TcpStream::connect(running.address).await.unwrap();
            // Every fifth reads events.
            let request = commands.get(number % 5).unwrap_or(&stream);
            client.write_all(request.as_bytes()).await.unwrap();
            waiting.push(client);
        }
        until(&running, "waiting_requests", AT_ONCE / 5 * 4).await;
        until(&running, "streams", AT_ONCE / 5).await;
        // Half of them say that they send nothing more, the others are gone at once.
        let mut closing = waiting.split_off(AT_ONCE / 2);
        drop(waiting);
        for client in &mut closing {
            client.shutdown().await.unwrap();
        }
        until(&running, "waiting_requests", 0).await;
        for client in &mut closing {
            let _ = client.read_to_end(&mut Vec::new()).await;
        }
        until(&running, "streams", 0).await;
        left = left.saturating_sub(AT_ONCE);
    }
    // The connections to the master are free again.
    let one = json!({"return": [{"jid": "20261126160511953300", "minions": ["min1"]}]}).to_string();
    running.expect(&json!({"name": "job", "request": {"path": "/"}, "response": {"status": 200, "body": one}}));
    let headers = json!({"X-Auth-Token": session, "Content-Type": "application/json"});
    let job = json!({"client": "local_async", "tgt": "*", "fun": "test.ping"}).to_string();
    let job = json!({"method": "POST", "path": "/", "headers": headers, "body": job});
    assert_eq!(running.send(&job).await.status, 200);
}
