//! Requests of operators: metrics, status, which minions are connected.

use std::time::Duration;

use rt::Rt;
use tokio::io::AsyncWriteExt as _;
use transport::Target;
use value::{Value, list, map};

use crate::common::{Master, free_port, open_house, subscribe};
use crate::sharing::{Pair, becomes, linked};

/// Sends a raw request and returns the whole answer, which is empty if the connection is closed early.
async fn http(port: u16, request: &str) -> String {
    use tokio::io::AsyncReadExt as _;
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let mut answer = String::new();
    if stream.write_all(request.as_bytes()).await.is_ok() {
        let _ = stream.read_to_string(&mut answer).await;
    }
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_page_and_status_count_jobs_and_returns() {
    let port = free_port();
    let mut options = open_house();
    options.insert(
        "metrics",
        map! { "enabled" => true, "exporter" => "prometheus", "prometheus" => map! { "host" => "127.0.0.1", "port" => port } },
    );
    let pki = tempfile::tempdir().unwrap();
    let master = Master::start(options).await;
    let minion = master.minion("web1", pki.path());
    minion.channel.sign_in().await.unwrap();
    let published = master.publish("*", "test.ping").await;
    let jid = published.get("load").unwrap().get("jid").and_then(Value::as_str).unwrap().to_owned();
    minion.answer(&jid, true).await;

    let page = http(port, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(page.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"), "{page}");
    // Salt's own names among them, which dashboards already use.
    for line in [
        "salt_auth_attempts_total{result=\"accept\"} 1",
        "salt_jobs_published_total{fun=\"test.ping\"} 1",
        "salt_jobs_completed_total{fun=\"test.ping\"} 1",
        "salt_master_requests_handled_total{cmd=\"_return\"} 1",
        "saltern_return_store_milliseconds_count 1",
        "saltern_minions_accepted 1",
        "saltern_returns_not_stored_total 0",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is not in {page}");
    }
    assert!(http(port, "GET / HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 404"));
    assert!(http(port, "POST /metrics HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 405"));
    assert!(http(port, &"x".repeat(20_000)).await.is_empty(), "no end of the headers");

    let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap().name;
    let ask = |key: String| map! { "cmd" => "saltern_status", "user" => user.as_str(), "key" => key };
    let status = master.ask(ask(master.user_key())).await;
    let count = |path: &[&str]| path.iter().try_fold(&status, |value, name| value.get(name)).and_then(Value::as_i64);
    assert_eq!(count(&["status", "minions", "accepted"]), Some(1));
    assert_eq!(count(&["status", "returns", "by_function", "test.ping"]), Some(1));
    assert!(master.ask(ask("wrong".into())).await.get("status").is_none());
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_page_tells_of_other_masters_of_the_set() {
    let (port, pair) = (free_port(), Pair::new());
    let exporter = map! {
        "metrics" => map! {
            "enabled" => true, "exporter" => "prometheus", "prometheus" => map! { "host" => "127.0.0.1", "port" => port },
        },
    };
    let one = Master::start(pair.options(0, exporter)).await;
    let two = Master::start(pair.options(1, value::Map::new())).await;
    linked(&one, "m2").await;
    let text = crypto::PrivateKey::generate(2048).unwrap().public().to_pem();
    std::fs::write(one.path("pki/minions/web1"), text).unwrap();
    becomes(&two, "web1", &["minions"]).await;
    let page = async || http(port, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let found = async |line: &str| page().await.lines().any(|found| found.starts_with(line));
    for line in [
        "saltern_peer_up{master=\"m2\"} 1",
        "saltern_peer_queue_bytes{master=\"m2\"} 0",
        "saltern_peer_dropped_total{master=\"m2\"} 0",
        "saltern_records_total{class=\"keys\",way=\"sent\"} 1",
        "saltern_conflicts 0",
    ] {
        assert!(found(line).await, "{line} is not in {}", page().await);
    }
    two.stop().await;
    let away = async {
        while !found("saltern_peer_up{master=\"m2\"} 0").await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), away).await.expect("m2 is away");
    one.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn presence_is_known_without_asking_minions() {
    for auth_events in [true, false] {
        presence(auth_events).await;
    }
}

async fn presence(auth_events: bool) {
    let places = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let master = Master::start(map! { "auto_accept" => true, "auth_events" => auth_events }).await;
    let anything = || map! { "cmd" => "_file_envs" };
    for (id, place) in [("away", &places[0]), ("there", &places[1])] {
        master.minion_of_ours(id, place.path()).ask(anything()).await;
    }
    let stock = master.minion("stock", places[2].path());
    stock.ask(anything()).await;
    let _listening = [subscribe(&master, "there").await, subscribe(&master, "stock").await];
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap().name;
    let key = master.user_key();
    let ask = async |tgt: Value, kind: &str| {
        let load = map! { "cmd" => "saltern_alive", "user" => user.as_str(), "key" => key.as_str(), "tgt" => tgt, "tgt_type" => kind };
        master.ask(load).await.get("alive").cloned()
    };
    let known =
        |up: Value, down: Value, unknown: Value| Some(map! { "up" => up, "down" => down, "unknown" => unknown }.into());
    let all = known(list!["there"], list!["away"], list!["stock"]);
    // The master hears of a subscriber a moment after that does.
    while ask("*".into(), "glob").await != all {
        tokio::task::yield_now().await;
    }
    // Public keys are no secret: a sign-in says nothing about the minion.
    let public = std::fs::read_to_string(master.path("pki/minions/there")).unwrap();
    let nonce = Rt::real().nonce();
    let sign_in = map! {
        "cmd" => "_auth", "id" => "there", "pub" => public, "nonce" => nonce, "enc_algo" => "OAEP-SHA1",
        "sig_algo" => "PKCS1v15-SHA1",
    };
    assert!(master.ask(sign_in).await.get("sig").is_some(), "the master lets it in");
    assert_eq!(ask("*".into(), "glob").await, all);
    assert_eq!(ask(list!["there", "stock", "nobody"], "list").await, known(list!["there"], list![], list!["stock"]));
    assert_eq!(ask("os:*".into(), "grain").await, Some(Value::Null));
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_introduction_that_is_sent_again_from_elsewhere_names_nobody() {
    let places = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let master = Master::start(map! { "auto_accept" => true, "transport" => "tcp" }).await;
    let [victim, other] =
        [("victim", &places[0]), ("other", &places[1])].map(|(id, place)| master.minion_of_ours(id, place.path()));
    for minion in [&victim, &other] {
        minion.ask(map! { "cmd" => "_file_envs" }).await;
    }
    let introduction = victim.channel.introduction().unwrap();
    let elsewhere = tokio::net::TcpSocket::new_v4().unwrap();
    elsewhere.bind(([127, 0, 0, 2], 0).into()).unwrap();
    let mut elsewhere = elsewhere.connect(master.publications).await.unwrap();
    let frame = wire::tcp::Frame::plain(introduction.to_value()).encode();
    elsewhere.write_all(&frame).await.unwrap();
    let introduction = other.channel.introduction().unwrap();
    let listening =
        transport::tcp::subscribe(&Rt::real(), &Target::plain(master.publications), &introduction).await.unwrap();
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap().name;
    let load = map! { "cmd" => "saltern_status", "user" => user, "key" => master.user_key() };
    let connected = async || {
        let status = master.ask(load.clone()).await;
        status.get("status").and_then(|status| status.get("minions")?.get("connected")?.as_i64()).unwrap()
    };
    let until = async |count: i64| {
        while connected().await != count {
            tokio::task::yield_now().await;
        }
    };
    // Introductions are checked one after the other.
    tokio::time::timeout(Duration::from_secs(20), until(1)).await.expect("one is connected");
    drop(listening);
    tokio::time::timeout(Duration::from_secs(20), until(0)).await.expect("the other one was never here");
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_jobs_has_that_of_a_moment_ago() {
    let pki = tempfile::tempdir().unwrap();
    let master = Master::start(open_house()).await;
    master.minion("web1", pki.path()).channel.sign_in().await.unwrap();
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap().name;
    let asked = map! { "cmd" => "saltern_status", "of" => "jobs", "user" => user, "key" => master.user_key() };
    let latest = async || master.ask(asked.clone()).await.traverse("fleet:items:0:jid", ":").cloned();
    assert_eq!(latest().await, None);
    for _ in 0..3 {
        let published = master.publish("*", "test.ping").await;
        assert_eq!(latest().await.as_ref(), published.traverse("load:jid", ":"));
    }
    master.stop().await;
}
