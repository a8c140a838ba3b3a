//! Sign-ins: pending and deleted keys, a full disk, many at once.

use std::time::Duration;

use channel::client::SignIn;
use event::{Endpoints, Remote};
use rt::Rt;
use value::{Map, Value, map};

use crate::common::{Master, event, open_house, subscribe};
use crate::logged;

/// Far longer than this test may take: the test fails if the minion is not answered at once.
const ACCEPTANCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pending_saltern_minion_hears_at_once_that_its_key_is_accepted() {
    let pki = tempfile::tempdir().unwrap();
    let master = Master::start(Map::new()).await;
    let mut events = master.events().await;
    let minion = master.minion_of_ours("web1", pki.path());
    assert!(!minion.channel.may_await_key());
    assert!(matches!(minion.channel.sign_in().await, Ok(SignIn::Pending)));
    assert!(minion.channel.may_await_key());
    event(&mut events, "salt/auth").await;
    let accepting = async {
        // It has asked by now.
        event(&mut events, "salt/auth").await;
        master.accept("web1");
    };
    let told = async { tokio::join!(minion.channel.await_key(ACCEPTANCE), accepting).0 };
    let answer = tokio::time::timeout(ACCEPTANCE / 4, told).await.expect("it was told");
    assert!(matches!(answer, Ok(SignIn::Accepted(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_sign_in_is_answered_once_the_pending_key_is_gone() {
    let (pki, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let master = Master::start(Map::new()).await;
    let mut events = master.events().await;
    let (minion, other) = (master.minion_of_ours("web1", pki.path()), master.minion_of_ours("web2", other.path()));
    assert!(matches!(minion.channel.sign_in().await, Ok(SignIn::Pending)));
    event(&mut events, "salt/auth").await;
    let accepting = async {
        // It has asked by now.
        event(&mut events, "salt/auth").await;
        let pending = master.path("pki/minions_pre/web1");
        std::fs::copy(&pending, master.path("pki/minions/web1")).unwrap();
        // The master has time to answer between the two steps.
        for _ in 0..5 {
            assert!(matches!(other.channel.sign_in().await, Ok(SignIn::Pending)));
        }
        std::fs::remove_file(&pending).unwrap();
    };
    let told = async { tokio::join!(minion.channel.await_key(ACCEPTANCE), accepting).0 };
    let told = tokio::time::timeout(ACCEPTANCE / 4, told).await.expect("it was told");
    assert!(matches!(told, Ok(SignIn::Accepted(_))));
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_disk_makes_a_minion_try_again_and_is_named_in_the_log() {
    logged::keep();
    let pki = tempfile::tempdir().unwrap();
    let master = Master::start(open_house()).await;
    let minion = master.minion("web1", pki.path());
    // As with a full disk, neither the key nor, once that is there, the session key can be written.
    let (keys, sessions) = (master.path("pki/minions"), master.path("cache/sessions"));
    for directory in [&keys, &sessions] {
        let _ = std::fs::remove_dir_all(directory);
        std::fs::write(directory, "").unwrap();
        let answer = minion.channel.sign_in().await;
        assert!(matches!(answer, Err(channel::client::Error::TryAgain)), "{}", directory.display());
        let path = directory.display().to_string();
        let line = logged::line(&["web1, which is to try again", &path]).await;
        assert!(line.starts_with("failed to "), "{line}");
        std::fs::remove_file(directory).unwrap();
        std::fs::create_dir(directory).unwrap();
    }
    assert!(matches!(minion.channel.sign_in().await, Ok(SignIn::Accepted(_))));
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_key_ends_the_session() {
    let place = tempfile::tempdir().unwrap();
    let master = Master::start(open_house()).await;
    let minion = master.minion("web1", place.path());
    minion.ask(map! { "cmd" => "_file_envs" }).await;
    let session = master.path("cache/sessions/web1");
    assert!(session.exists());
    // Like `salt-key -d` in another process: the file first, then the event.
    std::fs::remove_file(master.path("pki/minions/web1")).unwrap();
    let mut bus = Remote::new(Rt::real(), Endpoints::master(&master.path("sock")));
    bus.fire("salt/key", map! { "result" => true, "act" => "delete", "id" => "web1" }).await.unwrap();
    let gone = async {
        while session.exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.unwrap();
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minion_whose_key_is_deleted_is_told_to_sign_in() {
    let place = tempfile::tempdir().unwrap();
    let master = Master::start(open_house()).await;
    let minion = master.minion_of_ours("web1", place.path());
    minion.channel.sign_in().await.unwrap();
    let mut publications = subscribe(&master, "web1").await;
    // Its first encrypted request says what it understands.
    minion.ask(map! { "cmd" => "_file_envs" }).await;
    std::fs::remove_file(master.path("pki/minions/web1")).unwrap();
    let mut bus = Remote::new(Rt::real(), Endpoints::master(&master.path("sock")));
    bus.fire("salt/key", map! { "result" => true, "act" => "delete", "id" => "web1" }).await.unwrap();
    let told = async {
        loop {
            let sealed = publications.next().await.unwrap();
            let notice = minion.channel.open(&sealed).await.unwrap().and_then(|load| load.get("saltern").cloned());
            if notice.and_then(|notice| notice.get("rotated").cloned()) == Some(true.into()) {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), told).await.expect("it hears that it must sign in");
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_sign_ins_do_not_delay_a_return() {
    let place = tempfile::tempdir().unwrap();
    let master = std::sync::Arc::new(Master::start(open_house()).await);
    let minion = master.minion("web1", place.path());
    minion.channel.sign_in().await.unwrap();
    let text = std::fs::read_to_string(master.path("pki/minions/web1")).unwrap();
    // Signing in costs an operation with the private key; a return must not wait behind them.
    let storm: Vec<_> = (0..200)
        .map(|number| {
            let (master, public) = (master.clone(), text.clone());
            let load = map! {
                "cmd" => "_auth", "id" => format!("stranger{number}"), "nonce" => format!("{number:032x}"), "pub" => public,
                "enc_algo" => "OAEP-SHA1", "sig_algo" => "PKCS1v15-SHA1",
            };
            tokio::spawn(async move { master.ask(load).await })
        })
        .collect();
    assert_eq!(minion.answer("20240229131415678901", true).await, Value::Null);
    for answer in storm {
        assert!(answer.await.unwrap().get("load").is_some(), "each is answered");
    }
}
