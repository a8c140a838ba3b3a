//! What minions choose: returns full of escape characters, ids in any script. It stays text on every route.

use serde_json::{Value as Json, json};
use value::{Map, Value, list, map};

use crate::support::{Answer, FRED, Running};

const HOSTILE: &str =
    "<script>alert(1)</script>\u{1b}[2J\u{1b}]0;title\u{7}\0\u{202e}\u{2028}\r\n\r\ndata: forged\n\n\"}]}'&amp;";

/// Latin with marks, Cyrillic, Han, kana, Hebrew, Devanagari.
const IDS: [&str; 6] = ["größe-é1", "веб1", "网站1", "サーバー1", "שרת1", "सर्वर1"];

/// Letters that must not be sent as they are, where a browser or a terminal could take them for more than text.
const CONTROLS: [char; 5] = ['\u{1b}', '\u{7}', '\0', '\u{202e}', '\u{2028}'];

async fn get(running: &Running, path: &str, headers: Json) -> Answer {
    running.send(&json!({"method": "GET", "path": path, "headers": headers})).await
}

/// Lets the master return this from minions.
fn expect_returns(running: &Running, returns: Json) {
    let body = json!({"return": [returns]}).to_string();
    running.expect(&json!({"name": "returns", "request": {"path": "/"}, "response": {"status": 200, "body": body}}));
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_return_stays_text_in_answers() {
    let running = Running::start().await;
    let session = running.log_in(FRED).await;
    let ping = r#"{"client": "local", "tgt": "*", "fun": "test.ping"}"#;
    for accept in ["application/json", "application/x-yaml"] {
        expect_returns(&running, json!({"min1": HOSTILE}));
        let headers = json!({"X-Auth-Token": session, "Content-Type": "application/json", "Accept": accept});
        let answer = running.send(&json!({"method": "POST", "path": "/", "headers": headers, "body": ping})).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(accept)), "{answer:?}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        // YAML has letters beyond ASCII as they are, as in Salt.
        let controls = if accept.ends_with("json") { &CONTROLS[..] } else { &CONTROLS[..3] };
        assert!(!answer.body.contains(controls), "{accept}: {:?}", answer.body);
        let read: Value = yaml::load(&answer.body, yaml::UNNAMED).unwrap();
        assert_eq!(read.traverse("return:0:min1", ":").and_then(Value::as_str), Some(HOSTILE), "{accept}");
    }
    // An error repeats what a client has sent, in a page.
    let page = json!({"Accept": "text/html, */*;q=0.1", "X-Auth-Token": session, "Content-Type": "application/json"});
    let body = json!({"client": "<script>alert(1)</script>", "fun": "test.ping", "tgt": "*"}).to_string();
    let answer = running.send(&json!({"method": "POST", "path": "/", "headers": page, "body": body})).await;
    assert!(answer.status == 400 && answer.header("content-type").unwrap().starts_with("text/html"), "{answer:?}");
    assert!(answer.body.contains("&lt;script&gt;") && !answer.body.contains("<script>"), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_return_stays_text_in_streams() {
    let running = Running::start().await;
    let session = running.log_in(FRED).await;
    let mut streams = Vec::new();
    for path in ["/events", "/v1/events"] {
        let mut stream = running.open(path, &session, "").await;
        stream.until("retry").await;
        streams.push(stream);
    }
    let tag = format!("salt/job/20261124160511953300/ret/{}", IDS[1]);
    running.fire(&tag, map! { "id" => IDS[1], "return" => HOSTILE });
    running.fire("last", Map::new());
    for stream in &mut streams {
        let text = stream.until("\"tag\": \"last\"").await;
        assert!(!text.contains(CONTROLS), "{text:?}");
        let data: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        assert_eq!(data.len(), 2, "{text:?}");
        let first: Json = serde_json::from_str(data[0]).unwrap();
        assert_eq!((&first["data"]["return"], &first["tag"]), (&json!(HOSTILE), &json!(tag)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_may_have_any_script() {
    let running = Running::start().await;
    let session = running.log_in(FRED).await;
    let token = || json!({"X-Auth-Token": session});
    let minion = |id: &str| {
        map! { "id" => id, "status" => "up", "masters" => list![], "last_seen" => Value::Null, "version" => Value::Null,
        "os" => Value::Null, "highstate" => Value::Null }
    };
    let items: Vec<Map> = IDS.iter().map(|id| minion(id)).collect();
    running.expect_fleet("minions", map! { "items" => items, "next" => Value::Null });
    let listed = get(&running, "/v1/minions", token()).await;
    let listed: Json = serde_json::from_str(&listed.body).unwrap();
    let cookie = json!({"Accept": "text/html", "Cookie": format!("session_id={session}")});
    let page = get(&running, "/console/minions", cookie).await;
    assert_eq!(page.status, 200, "{page:?}");
    for (number, id) in IDS.iter().enumerate() {
        assert_eq!(listed["minions"][number]["id"], *id);
        assert!(page.body.contains(&format!(">{id}<")), "{id} is not on the page");
        expect_returns(&running, json!({*id: {"id": id}}));
        let grains = get(&running, &format!("/minions/{}", encoded(id)), token()).await;
        let grains: Json = serde_json::from_str(&grains.body).unwrap();
        assert_eq!(grains["return"][0][id]["id"], *id, "{grains}");
    }
}
