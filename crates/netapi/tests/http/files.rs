//! Files for browsers: `static`, `app` and `favicon`.

use crate::support::{Answer, FRED, Running};
use serde_json::json;
use value::map;

struct Site {
    running: Running,
    place: tempfile::TempDir,
}

impl Site {
    async fn start() -> Self {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(place.path().join("static/scripts")).unwrap();
        for (name, text) in [
            ("index.html", "<!DOCTYPE html>the page"),
            ("icon", "the icon"),
            ("secret", "the secret"),
            ("static/scripts/a.js", "let a = 1;"),
            ("static/empty.txt", ""),
        ] {
            std::fs::write(place.path().join(name), text).unwrap();
        }
        std::os::unix::fs::symlink("../secret", place.path().join("static/link")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", place.path().join("static/device")).unwrap();
        let named = |name: &str| place.path().join(name).display().to_string();
        let options = map! { "static" => named("static"), "app" => named("index.html"), "favicon" => named("icon") };
        Site { running: Running::start_with(options).await, place }
    }

    async fn get(&self, path: &str, headers: serde_json::Value) -> Answer {
        self.running.send(&json!({"method": "GET", "path": path, "headers": headers})).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn browsers_get_the_page_and_its_files() {
    let site = Site::start().await;
    let browser = || json!({"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"});
    for path in ["/", "/app", "/app/x/y", "/minions", "/nosuch/path", "/?a=b", "/app?v=1"] {
        let answer = site.get(path, browser()).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, "<!DOCTYPE html>the page"), "{path}");
        assert_eq!(answer.header("content-type"), Some("text/html;charset=utf-8"), "{path}");
    }
    let script = site.get("/static/scripts/a.js?v=2", json!({"Accept": "*/*"})).await;
    assert_eq!((script.status, script.body.as_str()), (200, "let a = 1;"));
    assert_eq!(script.header("content-type"), Some("text/javascript;charset=utf-8"));
    assert_eq!(script.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(site.get("/favicon.ico", json!({})).await.body, "the icon");
    let empty = site.get("/static/empty.txt", browser()).await;
    assert_eq!((empty.status, empty.header("content-length")), (200, Some("0")));
    let since = script.header("last-modified").unwrap();
    let again = site.get("/static/scripts/a.js", json!({"If-Modified-Since": since})).await;
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    let head = json!({"method": "HEAD", "path": "/static/scripts/a.js"});
    let head = site.running.send(&head).await;
    assert_eq!((head.status, head.header("content-length"), head.body.as_str()), (200, Some("10"), ""));
    // Nobody has to wait for a new release of the page.
    std::fs::write(site.place.path().join("index.html"), "the next page").unwrap();
    assert_eq!(site.get("/", browser()).await.body, "the next page");
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_get_data_though_there_is_a_page() {
    let site = Site::start().await;
    for accept in ["*/*", "application/json", "application/json, text/plain, */*"] {
        assert!(site.get("/", json!({"Accept": accept})).await.body.contains("Welcome"), "{accept}");
    }
    assert_eq!(site.get("/nosuch", json!({"Accept": "*/*"})).await.status, 404);
    assert_eq!(site.get("/events", json!({"Accept": "text/html"})).await.status, 401);
    let login = json!({"method": "POST", "path": "/login", "body": "username=fred&password=x&eauth=auto",
        "headers": {"Accept": "text/html, */*", "Content-Type": "application/x-www-form-urlencoded"}});
    let answer = site.running.send(&login).await;
    assert!(answer.body.contains("\"user\": \"fred\""), "{answer:?}");
    assert!(!site.running.log_in(FRED).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_other_file_is_served() {
    let site = Site::start().await;
    for (path, status) in [
        ("/static/../secret", 403),
        ("/static/%2e%2e/secret", 403),
        ("/static/scripts/..%2f..%2fsecret", 403),
        ("/static/%2fetc/passwd", 403),
        ("/static/link", 403),
        ("/static/device", 403),
        ("/static/link%00", 404),
        // A file below the directory: empty parts of a path mean nothing.
        ("/static//etc/passwd", 404),
        ("/static/%252e%252e/secret", 404),
        ("/static/scripts/a.js%00.png", 404),
        ("/static/scripts", 404),
        ("/static/", 404),
        ("/static", 404),
        ("/static/nosuch", 404),
        ("/static/%ff", 400),
        ("/staticsecret", 404),
    ] {
        let answer = site.get(path, json!({"Accept": "*/*"})).await;
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert!(!answer.body.contains("the secret") && !answer.body.contains("root:"), "{path}");
    }
    let range = site.get("/static/scripts/a.js", json!({"Range": "bytes=0-1,0-1,0-1,0-1,0-1"})).await;
    assert_eq!((range.status, range.body.as_str()), (200, "let a = 1;"), "ranges are not made");
    let flood = format!("bytes={}", vec!["0-"; 5000].join(","));
    let range = site.get("/static/scripts/a.js", json!({"Range": flood})).await;
    assert_eq!((range.status, range.body.as_str()), (200, "let a = 1;"));
    let post = json!({"method": "POST", "path": "/static/scripts/a.js"});
    assert_eq!(site.running.send(&post).await.status, 405);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_file_arrives_whole() {
    let site = Site::start().await;
    let text: String = (0..400_000).map(|number| format!("{number:07}\n")).collect();
    std::fs::write(site.place.path().join("static/large.txt"), &text).unwrap();
    let answer = site.get("/static/large.txt", json!({})).await;
    assert_eq!(answer.body.len(), text.len());
    assert!(answer.body == text, "the order is that of the file");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_paths_have_the_prefix() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("index.html"), "the page").unwrap();
    let page = place.path().join("index.html").display().to_string();
    let running = Running::start_with(map! { "root_prefix" => "/salt/api/", "app" => page }).await;
    let get = async |path: &str, accept: &str| {
        running.send(&json!({"method": "GET", "path": path, "headers": {"Accept": accept}})).await
    };
    assert!(get("/salt/api/", "*/*").await.body.contains("Welcome"));
    let moved = get("/salt/api", "*/*").await;
    assert_eq!((moved.status, moved.header("location")), (301, Some("/salt/api/")));
    for path in ["/salt/api/", "/salt/api/x", "/salt/api/app"] {
        assert_eq!(get(path, "text/html").await.body, "the page", "{path}");
    }
    for path in ["/", "/login", "/app", "/salt/apix", "/salt"] {
        assert_eq!(get(path, "text/html").await.status, 404, "{path}");
    }
}
