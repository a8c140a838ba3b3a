//! Two masters as one set: jobs for minions that are connected to the other one, and who is connected where.

use std::time::Duration;

use channel::client::SignIn;
use crypto::PrivateKey;
use transport::Subscription;
use value::{Map, Value, list, map};

use crate::common::{Master, Minion, event, jobs, open_house, subscribe};
use crate::sharing::{Pair, ask, becomes, own_user};

/// Waits until a question has this answer.
async fn answers(master: &Master, question: Map, expected: Value) {
    let mut last = Value::Null;
    let wait = async {
        loop {
            last = ask(master, question.clone()).await.get("sharing").cloned().unwrap_or_default();
            if last == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), wait).await;
    waited.unwrap_or_else(|_| panic!("{question:?} is answered with {last:?}, not with {expected:?}"));
}

fn who(id: &str) -> Map {
    map! { "what" => "who", "minion" => id }
}

/// Starts a minion that is connected to one master only, and waits until both masters know.
async fn connect(to: &Master, name: &str, minion: &Minion, others: &[&Master]) -> Box<dyn Subscription> {
    let id = minion.id.as_str();
    if matches!(minion.channel.sign_in().await, Ok(SignIn::Pending)) {
        to.accept(id);
        assert!(matches!(minion.channel.sign_in().await, Ok(SignIn::Accepted(_))));
    }
    for other in others {
        becomes(other, id, &["minions"]).await;
    }
    let publications = subscribe(to, id).await;
    // Its first encrypted request says where it is.
    minion.ask(map! { "cmd" => "_file_envs" }).await;
    for master in others.iter().chain([&to]) {
        answers(master, who(id), list![name]).await;
    }
    publications
}

/// Returns the next job of a minion.
async fn next_job(minion: &Minion, publications: &mut Box<dyn Subscription>) -> Map {
    let next = async {
        loop {
            let sealed = publications.next().await.unwrap();
            // Notices are no jobs.
            match minion.channel.open(&sealed).await.unwrap() {
                Some(load) if load.contains_key("fun") => return load,
                _ => {}
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), next).await.expect("no job arrives")
}

fn jid_of(published: &Value) -> String {
    let jid = published.get("load").and_then(|load| load.get("jid")).and_then(Value::as_str);
    jid.unwrap_or_else(|| panic!("nothing is published: {published:?}")).to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_reaches_a_minion_that_is_connected_to_the_other_master() {
    let pki = tempfile::tempdir().unwrap();
    let (one, two) = Pair::new().start().await;
    let (mut events, mut waiting) = (two.events().await, one.events().await);
    let minion = two.minion_of_ours("web1", pki.path());
    let mut publications = connect(&two, "m2", &minion, &[&one]).await;

    let published = one.publish("web1", "test.ping").await;
    assert_eq!(published.get("load").and_then(|load| load.get("minions")), Some(&list!["web1"]));
    let jid = jid_of(&published);
    let job = next_job(&minion, &mut publications).await;
    assert_eq!((job.get_str("fun"), job.get_str("jid")), (Some("test.ping"), Some(jid.as_str())));
    let new = event(&mut events, &format!("salt/job/{jid}/new")).await;
    assert_eq!(new.data().get("minions"), Some(&list!["web1"]));
    assert_eq!(minion.answer(&jid, true).await, Value::Null);
    let returned = event(&mut events, &format!("salt/job/{jid}/ret/web1")).await;
    assert_eq!(returned.data().get("return"), Some(&true.into()));
    // What `salt` waits for on the first master.
    let returned = event(&mut waiting, &format!("salt/job/{jid}/ret/web1")).await;
    assert_eq!(returned.data().get("return"), Some(&true.into()));
    // The second master knows the job as if it was its own.
    let load = jobs(&two).load(&jid).unwrap().expect("the job is stored");
    assert_eq!(load.get("fun"), Some(&"test.ping".into()));
    assert!(!load.contains_key("key"), "the key of the user stays on the first master");

    // Job ids of the two end differently, so that they are never the same.
    let other = jid_of(&two.publish("web1", "test.ping").await);
    assert_ne!(jid[18..], other[18..], "{jid} {other}");
    assert_eq!(next_job(&minion, &mut publications).await.get_str("jid"), Some(other.as_str()));
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minion_that_connects_later_gets_the_job_from_the_master_it_connects_to() {
    let pki = tempfile::tempdir().unwrap();
    let pair = Pair::new();
    let one = Master::start(pair.options(0, open_house())).await;
    let two = Master::start(pair.options(1, open_house())).await;
    crate::sharing::linked(&one, "m2").await;
    crate::sharing::linked(&two, "m1").await;
    let minion = two.minion_of_ours("web1", pki.path());
    minion.channel.sign_in().await.unwrap();
    becomes(&one, "web1", &["minions"]).await;

    // It is connected nowhere.
    let mut events = two.events().await;
    let jid = jid_of(&one.publish("web1", "test.ping").await);
    event(&mut events, &format!("salt/job/{jid}/publish")).await;
    let missed = minion.ask(map! { "cmd" => "saltern_missed", "known" => list![] }).await;
    let offered = missed.get("jobs").and_then(Value::as_list).unwrap_or_default();
    let jids: Vec<_> = offered.iter().map(|job| job.get("load").and_then(|load| load.get("jid")).cloned()).collect();
    assert_eq!(jids, [Some(jid.as_str().into())], "{missed:?}");
    let left = offered[0].get("left").and_then(Value::as_f64).unwrap();
    assert!(left > 0.0 && left <= 30.0, "as long as it is valid at its publisher: {left}");
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_was_away_for_a_moment_delivers_what_is_still_valid() {
    let (before, after) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let pair = Pair::new();
    let options = |number| pair.options(number, map! { "auto_accept" => true, "job_grace" => 300 });
    let one = Master::start(options(0)).await;
    let two = Master::start(options(1)).await;
    crate::sharing::linked(&one, "m2").await;
    let key = PrivateKey::generate(2048).unwrap();
    two.minion_of_ours_with("web1", key.clone(), before.path()).channel.sign_in().await.unwrap();
    becomes(&one, "web1", &["minions"]).await;
    let directory = two.stop().await;
    let jid = jid_of(&one.publish("web1", "test.ping").await);
    let two = Master::start_in(directory, options(1)).await;
    let minion = two.minion_of_ours_with("web1", key, after.path());
    let mut publications = connect(&two, "m2", &minion, &[&one]).await;
    assert_eq!(next_job(&minion, &mut publications).await.get_str("jid"), Some(jid.as_str()));
    assert_eq!(minion.answer(&jid, true).await, Value::Null);
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_master_knows_who_is_connected_where() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let pair = Pair::new();
    let (one, two) = pair.start().await;
    let here = one.minion_of_ours("web1", first.path());
    let there = two.minion_of_ours("web2", second.path());
    let _here = connect(&one, "m1", &here, &[&two]).await;
    let leaving = connect(&two, "m2", &there, &[&one]).await;
    answers(&two, map! { "what" => "connected" }, list!["web1", "web2"]).await;
    let masters = ask(&one, map! { "what" => "masters" }).await;
    let masters = masters.get("sharing").and_then(|found| found.get("masters")).cloned().unwrap_or_default();
    let counts = ["m1", "m2"].map(|name| masters.get(name).and_then(|shown| shown.get("minions")).cloned());
    assert_eq!(counts, [Some(1.into()), Some(1.into())], "{masters:?}");
    // Without asking the minions: the one of the second master is up as well.
    let name = own_user();
    let alive =
        map! { "cmd" => "saltern_alive", "key" => two.user_key(), "user" => name, "tgt" => "*", "tgt_type" => "glob" };
    let alive = two.ask(alive).await;
    let up = alive.get("alive").and_then(|alive| alive.get("up")).cloned();
    assert_eq!(up, Some(list!["web2"]), "the first was never connected here, so it is pinged: {alive:?}");

    // A minion that leaves, and a master that stops.
    drop(leaving);
    answers(&one, who("web2"), list![]).await;
    let directory = one.stop().await;
    answers(&two, who("web1"), list![]).await;
    let one = Master::start_in(directory, pair.options(0, Map::new())).await;
    crate::sharing::linked(&two, "m1").await;
    answers(&one, who("web2"), list![]).await;
    one.stop().await;
    two.stop().await;
}
