//! The console: who gets in, what browsers are told, and forms.

use crate::support::{Answer, FRED, Running, WILMA};
use serde_json::json;
use value::{list, map};

const PAGES: [&str; 9] = ["/", "/minions", "/keys", "/jobs", "/highstate", "/events", "/run", "/access", "/nosuch"];

async fn get(running: &Running, path: &str, cookie: &str) -> Answer {
    let headers = json!({"Accept": "text/html", "Cookie": format!("session_id={cookie}")});
    running.send(&json!({"method": "GET", "path": path, "headers": headers})).await
}

async fn post(running: &Running, path: &str, cookie: &str, origin: &str, body: &str) -> Answer {
    let headers = json!({
        "Cookie": format!("session_id={cookie}"), "Content-Type": "application/x-www-form-urlencoded",
        "Origin": origin.replace("{self}", &format!("http://{}", running.address)),
    });
    running.send(&json!({"method": "POST", "path": path, "headers": headers, "body": body})).await
}

fn assert_strict(answer: &Answer, path: &str) {
    let policy = answer.header("content-security-policy").unwrap_or_else(|| panic!("{path}: no policy"));
    for part in
        ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"]
    {
        assert!(policy.contains(part), "{path}: {policy}");
    }
    assert!(!policy.contains("unsafe"), "{path}: {policy}");
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{path}");
    }
    assert_eq!(answer.header("access-control-allow-origin"), None, "{path}");
    assert!(!answer.body.contains(" style=") && !answer.body.contains("onclick="), "{path}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_session_each_page_leads_to_the_login() {
    let running = Running::start().await;
    for page in PAGES {
        let answer = get(&running, &format!("/console{page}"), "0123456789abcdef0123456789abcdef01234567").await;
        assert_eq!(answer.status, 303, "{page}");
        assert!(answer.header("location").unwrap().starts_with("/console/login"), "{page}");
        assert_strict(&answer, page);
    }
    let deep = get(&running, "/console/jobs/20261126160511953300?failed=1", "").await;
    assert_eq!(deep.header("location"), Some("/console/login?next=jobs%2F20261126160511953300%3Ffailed%3D1"));
    let login = get(&running, "/console/login", "").await;
    assert_eq!(login.status, 200);
    assert_strict(&login, "login");
    assert!(login.body.contains("type=\"password\"") && login.body.contains("<option"));
    // A token proves programs, and an address is no place for it.
    let header =
        json!({"method": "GET", "path": "/console/keys", "headers": {"X-Auth-Token": running.log_in(FRED).await}});
    assert_eq!(running.send(&header).await.status, 303);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_makes_a_new_session_and_leads_to_pages_of_the_console_only() {
    let running = Running::start().await;
    let login = "username=fred&password=x&eauth=auto";
    for (next, place) in [
        ("", "/console/"),
        ("&next=jobs", "/console/jobs"),
        ("&next=//evil.example", "/console/"),
        ("&next=https://evil.example/", "/console/https://evil.example/"),
        ("&next=..%2F..%2Flogin", "/console/"),
    ] {
        let answer = post(&running, "/console/login", "planted", "{self}", &format!("{login}{next}")).await;
        assert_eq!((answer.status, answer.header("location")), (303, Some(place)), "{next}");
        let cookie = answer.header("set-cookie").unwrap();
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && !cookie.contains("planted"));
    }
    let old = running.log_in(FRED).await;
    let answer = post(&running, "/console/login", &old, "{self}", login).await;
    let new = answer.header("set-cookie").unwrap().split([';', '=']).nth(1).unwrap().to_owned();
    assert_ne!(new, old);
    assert_eq!(get(&running, "/console/events", &old).await.status, 303, "the old session has ended");
    assert_eq!(get(&running, "/console/events", &new).await.status, 200);
    let wrong = post(&running, "/console/login", "", "{self}", "username=fred&password=bad&eauth=auto").await;
    assert_eq!((wrong.status, wrong.header("set-cookie")), (401, None));
    assert!(wrong.body.contains("role=\"alert\"") && !wrong.body.contains("bad&"));
    let out = post(&running, "/console/logout", &new, "{self}", "").await;
    assert_eq!((out.status, out.header("location")), (303, Some("/console/login")));
    assert_eq!(get(&running, "/console/events", &new).await.status, 303);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_sites_send_no_forms() {
    let running = Running::start().await;
    let session = running.log_in(FRED).await;
    for path in ["/console/login", "/console/logout", "/console/keys", "/console/run"] {
        let body = "username=fred&password=x&eauth=auto&tgt=*&fun=test.ping&act=run";
        for origin in ["https://evil.example", "null"] {
            let answer = post(&running, path, &session, origin, body).await;
            assert_eq!((answer.status, answer.header("set-cookie")), (403, None), "{path} {origin}");
            assert_strict(&answer, path);
        }
    }
    let cross = json!({"Cookie": format!("session_id={session}"), "Sec-Fetch-Site": "cross-site", "Content-Type": "application/x-www-form-urlencoded"});
    let logout = json!({"method": "POST", "path": "/console/logout", "headers": cross});
    assert_eq!(running.send(&logout).await.status, 403);
    assert_eq!(get(&running, "/console/logout", &session).await.status, 404, "an image cannot log out");
    assert_eq!(get(&running, "/console/events", &session).await.status, 200);
    let json = json!({"method": "POST", "path": "/console/run", "body": "{}",
        "headers": {"Cookie": format!("session_id={session}"), "Content-Type": "application/json"}});
    assert_eq!(running.send(&json).await.status, 415);
    let put = json!({"method": "PUT", "path": "/console/", "headers": {"Cookie": format!("session_id={session}")}});
    assert_eq!(running.send(&put).await.status, 405);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_kept_for_ever_and_browsers_find_the_console() {
    let running = Running::start().await;
    let page = get(&running, "/console/login", "").await.body;
    for start in ["/console/assets/console-", "/console/assets/icon-"] {
        let (from, rest) = (page.find(start).unwrap(), &page[page.find(start).unwrap()..]);
        let path = &page[from..from + rest.find('"').unwrap()];
        let file = get(&running, path, "").await;
        assert_eq!(file.status, 200, "{path}");
        assert!(file.header("cache-control").unwrap().contains("immutable"));
        assert_eq!(file.header("x-content-type-options"), Some("nosniff"));
    }
    assert_eq!(get(&running, "/console/assets/console.css", "").await.status, 404);
    let root = get(&running, "/", "").await;
    assert_eq!((root.status, root.header("location")), (303, Some("/console/")));
    let program = json!({"method": "GET", "path": "/", "headers": {"Accept": "application/json, text/plain, */*"}});
    assert!(running.send(&program).await.body.contains("Welcome"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_can_be_switched_off_and_has_the_prefix() {
    let running = Running::start_with(map! { "console" => false }).await;
    assert_eq!(get(&running, "/console/login", "").await.status, 404);
    let root = json!({"method": "GET", "path": "/", "headers": {"Accept": "text/html, */*;q=0.8"}});
    assert_eq!(running.send(&root).await.status, 200);
    let running = Running::start_with(map! { "root_prefix" => "/salt" }).await;
    assert_eq!(get(&running, "/console/login", "").await.status, 404);
    let page = get(&running, "/salt/console/login", "").await;
    assert!(page.body.contains("action=\"/salt/console/login\"") && page.body.contains("\"/salt/console/assets/"));
    assert_eq!(get(&running, "/salt/", "").await.header("location"), Some("/salt/console/"));
    // A page that is configured and missing does not hide it.
    let running = Running::start_with(map! { "app" => "/no/such/gui/index.html" }).await;
    assert_eq!(get(&running, "/", "").await.header("location"), Some("/console/"));
}

/// The other parts of a page, which the user may see.
fn fleet(running: &Running, state: &str) {
    let key = |id: &str, finger: &str| map! { "id" => id, "state" => state, "fingerprint" => finger };
    let keys = list![key("web1", "aa:bb"), key("<script>alert(1)</script>\u{202e}", "cc:dd")];
    running.expect_fleet("keys", map! { "items" => keys, "next" => value::Value::Null });
    let masters = list![
        map! { "name" => "m1", "state" => "here", "minions" => 2 },
        map! { "name" => "m2", "state" => "away", "reason" => "no answer" }
    ];
    let set = map! {
        "cluster_id" => "harbor", "masters" => masters, "others" => list![], "keys" => map! {}, "once" => value::Value::Null,
    };
    running.expect_fleet("masters", set);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_accepted_as_it_was_seen_and_on_all_masters() {
    let running = Running::start().await;
    let session = running.log_in(FRED).await;
    fleet(&running, "pending");
    let page = get(&running, "/console/keys", &session).await;
    assert_eq!(page.status, 200, "{page:?}");
    assert_strict(&page, "keys");
    assert!(page.body.contains("aa:bb") && page.body.contains("value=\"accept|pending|aa:bb|web1\""));
    assert!(
        page.body.contains("&lt;script&gt;") && page.body.contains("\\u202e") && !page.body.contains("<script>alert")
    );
    assert!(page.body.contains("m2") && page.body.contains("away"), "all masters are in the strip");
    drop(running.asked());
    let answered = |running: &Running, changed: value::Value| {
        running.expect_answer(map! { "data" => map! { "return" => map! { "changed" => changed }, "success" => true } });
        fleet(running, "pending");
    };
    answered(&running, list!["web1"]);
    let accept = "one=accept%7Cpending%7Caa%3Abb%7Cweb1";
    let done = post(&running, "/console/keys", &session, "{self}", accept).await;
    assert_eq!(
        (done.status, done.header("location")),
        (303, Some("/console/keys?state=pending&done=accepted&count=1"))
    );
    let calls: Vec<value::Map> = running.asked().into_iter().filter(|load| load.contains_key("fun")).collect();
    assert_eq!(calls.iter().map(|load| load.get_str("fun")).collect::<Vec<_>>(), [Some("key.accept_dict")]);
    let named = calls[0].get("kwarg").and_then(|named| named.get("fingerprints")).cloned();
    assert_eq!(named, Some(map! { "web1" => "aa:bb" }.into()), "the master compares the key that was seen");
    // Another key has come under the same id.
    answered(&running, list![]);
    let changed = post(&running, "/console/keys", &session, "{self}", "one=accept%7Cpending%7Cee%3Aff%7Cweb1").await;
    assert_eq!(changed.header("location"), Some("/console/keys?state=pending&done=changed&count=0"));
    // A deletion is confirmed first.
    drop(running.asked());
    let ask = post(&running, "/console/keys", &session, "{self}", "act=delete&key=pending%7Caa%3Abb%7Cweb1").await;
    assert!(ask.status == 200 && ask.body.contains("Delete 1 key") && ask.body.contains("name=\"confirmed\""));
    assert!(running.asked().is_empty(), "nobody is asked to delete it yet");
    let ask = post(&running, "/console/keys", &session, "{self}", "act=reject&key=accepted%7Caa%3Abb%7Cweb1").await;
    assert!(ask.status == 200 && ask.body.contains("Reject 1 key") && running.asked().is_empty(), "nor to reject it");
    let none = post(&running, "/console/keys", &session, "{self}", "act=accept&state=pending").await;
    assert_eq!(none.header("location"), Some("/console/keys?state=pending&done=none"), "no key is selected");
    // Who may not, asks for nothing and reads which function is missing.
    let wilma = running.log_in(WILMA).await;
    let refused = post(&running, "/console/keys", &wilma, "{self}", accept).await;
    assert!(refused.status == 403 && refused.body.contains("key.accept_dict"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_few_rights_sees_pages_that_say_so() {
    let running = Running::start().await;
    let session = running.log_in(WILMA).await;
    for page in PAGES {
        let answer = get(&running, &format!("/console{page}"), &session).await;
        assert_strict(&answer, page);
        let expected = if page == "/nosuch" { 404 } else { 200 };
        assert_eq!(answer.status, expected, "{page}");
        if !["/nosuch", "/events", "/run"].contains(&page) {
            assert!(answer.body.contains("Your list does not grant it"), "{page}: {}", answer.body);
        }
    }
    assert_eq!(get(&running, "/console/jobs/20261126160511953300", &session).await.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_without_a_session_does_nothing_and_says_so() {
    let running = Running::start().await;
    let answer = post(&running, "/console/run", "", "{self}", "tgt=*&fun=test.ping&act=run").await;
    assert!(answer.status == 401 && answer.body.contains("Nothing was done"), "{answer:?}");
    assert_eq!(post(&running, "/console/logout", "", "{self}", "").await.status, 303);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_is_away_is_an_error_that_is_seen() {
    let running = Running::start().await;
    let session = running.log_in(FRED).await;
    running.leave();
    for page in ["/", "/minions", "/keys", "/jobs", "/highstate"] {
        let answer = get(&running, &format!("/console{page}"), &session).await;
        assert_eq!(answer.status, 503, "{page}");
        assert!(answer.body.contains("role=\"alert\"") && answer.body.contains("data-returns"), "{page}");
    }
}
