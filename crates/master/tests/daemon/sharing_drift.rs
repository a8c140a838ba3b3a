//! What two masters have alike, and where they differ.

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use value::{Map, Value, list, map};

use crate::common::Master;
use crate::sharing::{Pair, ask, linked};

async fn drift(master: &Master, kind: Option<&str>) -> Map {
    let answer = ask(master, map! { "what" => "drift", "kind" => kind }).await;
    answer.get("sharing").and_then(Value::as_map).cloned().unwrap_or_else(|| panic!("{kind:?}: {answer:?}"))
}

/// Returns what differs in a kind, path by path.
async fn differs(master: &Master, kind: &str) -> Map {
    let found = drift(master, Some(kind)).await;
    assert_eq!(found.get("not_compared"), None, "{found:?}");
    found.get("differs").and_then(Value::as_map).cloned().unwrap_or_default()
}

/// Waits until the overview of a master says this.
async fn overview(master: &Master, name: &str, expected: impl Fn(&Value) -> bool) {
    let mut last = Map::new();
    let wait = async {
        loop {
            last = drift(master, None).await;
            if last.get(name).is_some_and(&expected) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap_or_else(|_| panic!("{name}: {last:?}"));
}

async fn start(one: Map, two: Map) -> (Master, Master) {
    let pair = Pair::new();
    let one = Master::start(pair.options(0, one)).await;
    let two = Master::start(pair.options(1, two)).await;
    linked(&one, "m2").await;
    linked(&two, "m1").await;
    (one, two)
}

fn kinds(value: &Value) -> Vec<&str> {
    match value {
        Value::Map(map) => map.text_keys().collect(),
        value => value.as_list().unwrap_or_default().iter().filter_map(Value::as_str).collect(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn options_that_differ_are_named_on_both_masters() {
    let common = map! { "peer" => map! { "web.*" => list!["test.ping"] }, "mysql.pass" => "the same" };
    let options = |more: Map| {
        let mut all = common.clone();
        all.update(more);
        all
    };
    let one = options(map! {
        "nodegroups" => map! { "web" => "web*", "db" => "db*" }, "publisher_acl" => map! { "fred" => list!["test.*"] },
        "state_output" => "terse", "redis.password" => "one",
    });
    let two = options(map! {
        "nodegroups" => map! { "web" => "www*", "db" => "db*" }, "schedule" => map! { "look" => map! { "function" => "test.arg", "hours" => 1 } },
        "redis.password" => "two",
    });
    let (one, two) = start(one, two).await;
    overview(&one, "differs", |found| kinds(found) == ["acl", "config", "schedule", "master_key"]).await;
    overview(&two, "same", |found| ["files", "pillar", "version"].iter().all(|kind| kinds(found).contains(kind))).await;
    let acl = map! {
        "nodegroups:web" => map! { "m2" => "differs" }, "publisher_acl" => map! { "m2" => "missing there" },
    };
    assert_eq!(differs(&one, "acl").await, acl);
    assert_eq!(differs(&two, "acl").await.get("publisher_acl"), Some(&map! { "m1" => "only there" }.into()));
    // They differ in directories and ports as well.
    let config = map! { "redis.password" => map! { "m2" => "differs" }, "state_output" => map! { "m2" => "differs" } };
    assert_eq!(differs(&one, "config").await, config);
    assert_eq!(differs(&two, "schedule").await, map! { "look" => map! { "m1" => "missing there" } });
    assert_eq!(differs(&one, "master_key").await, map! { "master key" => map! { "m2" => "differs" } });
    assert_eq!(differs(&one, "version").await, Map::new());
    let refused = ask(&one, map! { "what" => "drift", "kind" => "color" }).await;
    assert!(refused.to_string().contains("unknown kind color; the kinds are files, pillar, git,"), "{refused:?}");
    two.stop().await;
    let found = drift(&one, Some("acl")).await;
    assert_eq!(found.get("not_compared"), Some(&list!["m2"]), "a master that is away is not the same by that");
    one.stop().await;
}

fn put(directory: &TempDir, path: &str, content: &str) {
    let path = directory.path().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

fn trees(directory: &TempDir) -> Map {
    let at = |name: &str| list![directory.path().join(name).to_str().unwrap()];
    map! {
        "file_roots" => map! { "base" => at("files"), "dev" => at("dev") }, "pillar_roots" => map! { "base" => at("pillar") },
        "extension_modules" => "/extmods", "file_ignore_glob" => list!["*.bak"],
        "reactor" => list![map! { "salt/start" => at("reactor.sls") }],
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_differ_are_named_as_soon_as_somebody_asks() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for directory in [&here, &there] {
        put(directory, "files/top.sls", "base: {}");
        put(directory, "pillar/web.sls", "password: one");
        put(directory, "reactor.sls", "{}");
    }
    put(&here, "files/web/init.sls", "x: test.nop");
    put(&there, "files/web/old.bak", "ignored");
    put(&there, "files/.git/index", "differs on each host");
    let (one, two) = start(trees(&here), trees(&there)).await;
    // That is below its `root_dir`.
    put(&one.directory, "extmods/runners/own.py", "");
    assert_eq!(differs(&one, "files").await, map! { "base/web" => map! { "m2" => "missing there" } });
    assert_eq!(differs(&two, "extmods").await, map! { "runners" => map! { "m1" => "only there" } });
    assert_eq!(differs(&one, "pillar").await, Map::new());
    put(&there, "pillar/web.sls", "password: two");
    put(&there, "files/web/init.sls", "x: test.nop");
    assert_eq!(differs(&one, "pillar").await, map! { "base/web.sls" => map! { "m2" => "differs" } });
    overview(&two, "differs", |found| kinds(found).contains(&"pillar")).await;
    assert_eq!(differs(&one, "files").await, Map::new());
    set_mode(&there.path().join("files/top.sls"), 0o755);
    assert_eq!(differs(&one, "files").await, map! { "base/top.sls" => map! { "m2" => "another mode" } });
    put(&there, "pillar/web.sls", "password: one");
    assert_eq!(differs(&one, "pillar").await, Map::new());
    overview(&two, "same", |found| kinds(found).contains(&"pillar")).await;
    one.stop().await;
    two.stop().await;
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn git(directory: &Path, arguments: &[&str]) {
    let mut command = std::process::Command::new("git");
    command.arg("-C").arg(directory).args(["-c", "user.name=t", "-c", "user.email=t@example.com"]).args(arguments);
    let output = command.output().expect("git runs");
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_has_not_fetched_the_latest_commit_is_named() {
    let repository = tempfile::tempdir().unwrap();
    git(repository.path(), &["init", "-q", "-b", "master"]);
    git(repository.path(), &["commit", "-q", "--allow-empty", "-m", "first"]);
    let url = format!("file://{}", repository.path().display());
    let gitfs = || map! { "fileserver_backend" => list!["gitfs"], "gitfs_remotes" => list![url.clone()] };
    let pair = Pair::new();
    let one = Master::start(pair.options(0, gitfs())).await;
    let work = one.path("cache/gitfs/work");
    let fetched = || {
        let remotes = std::fs::read_dir(&work).into_iter().flatten().filter_map(Result::ok);
        remotes.into_iter().any(|remote| remote.path().join("_/refs").is_file())
    };
    crate::sharing::until("the remote is fetched", fetched).await;
    git(repository.path(), &["commit", "-q", "--allow-empty", "-m", "second"]);
    let two = Master::start(pair.options(1, gitfs())).await;
    linked(&one, "m2").await;
    let expected = map! { format!("gitfs {url} branch master") => map! { "m2" => "differs" } };
    let mut last = Map::new();
    let wait = async {
        while last != expected {
            last = differs(&one, "git").await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap_or_else(|_| panic!("{last:?}"));
    one.stop().await;
    two.stop().await;
}
