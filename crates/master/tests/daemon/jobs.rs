//! Jobs, from publication to return, and those that a minion missed.

use channel::client::SignIn;
use value::{Map, Value, list, map};

use crate::common::{Master, event, jobs, open_house, subscribe};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accepted_minion_gets_a_job_and_returns_it() {
    let pki = tempfile::tempdir().unwrap();
    let master = Master::start(Map::new()).await;
    let mut events = master.events().await;
    let minion = master.minion("web1", pki.path());
    assert!(matches!(minion.channel.sign_in().await, Ok(SignIn::Pending)));
    assert_eq!(event(&mut events, "salt/auth").await.data().get_str("act"), Some("pend"));
    // A pending key must not get jobs.
    let nobody = master.publish("*", "test.ping").await;
    let error = nobody.get("load").unwrap().get("error").and_then(Value::as_str).unwrap();
    assert_eq!(error, "Master could not resolve minions for target *");

    master.accept("web1");
    minion.channel.sign_in().await.unwrap();
    assert_eq!(event(&mut events, "salt/auth").await.data().get_str("act"), Some("accept"));
    let mut publications = subscribe(&master, "web1").await;
    let pong = minion.ask(map! { "cmd" => "_file_envs" }).await;
    assert_eq!(pong, list!["base"]);

    let published = master.publish("*", "test.ping").await;
    let load = published.get("load").unwrap();
    assert_eq!((load.get("minions"), load.get("missing")), (Some(&list!["web1"]), Some(&list![])));
    let jid = load.get("jid").and_then(Value::as_str).unwrap().to_owned();
    let new = event(&mut events, &format!("salt/job/{jid}/new")).await;
    assert_eq!(new.data().get("minions"), Some(&list!["web1"]));
    event(&mut events, &format!("salt/job/{jid}/publish")).await;
    let job = minion.channel.open(&publications.next().await.unwrap()).await.unwrap().unwrap();
    assert_eq!((job.get_str("fun"), job.get_str("jid")), (Some("test.ping"), Some(jid.as_str())));

    assert_eq!(minion.answer(&jid, true).await, Value::Null);
    // What is acknowledged is on disk.
    let jobs = jobs(&master);
    let kept = jobs.return_of(&jid, &minion.id).unwrap().unwrap();
    assert_eq!(kept.value, true.into());
    assert!(!jobs.load(&jid).unwrap().unwrap().contains_key("key"), "the key of the user is no part of the job");
    let returned = event(&mut events, &format!("salt/job/{jid}/ret/web1")).await;
    assert_eq!(returned.data().get("return"), Some(&true.into()));
    // Resources return under names of their own, which must not be those of minions.
    let forged = map! { "cmd" => "_return", "jid" => jid.as_str(), "return" => 1, "resource_id" => "web1" };
    assert_eq!(minion.ask(forged).await, false.into(), "in the name of an accepted minion");
    // The first return counts.
    minion.answer(&jid, false).await;
    assert_eq!(jobs.return_of(&jid, &minion.id).unwrap().unwrap().value, true.into());
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missed_job_is_offered_until_the_minion_has_it() {
    let place = tempfile::tempdir().unwrap();
    let master = Master::start(open_house()).await;
    let minion = master.minion_of_ours("web1", place.path());
    minion.channel.sign_in().await.unwrap();
    let answer = master.publish("web1", "test.ping").await;
    let jid = answer.get("load").and_then(|load| load.get("jid")).and_then(Value::as_str).unwrap().to_owned();
    let missed = || async {
        let answer = minion.ask(map! { "cmd" => "saltern_missed", "known" => Value::List(Vec::new()) }).await;
        let jobs = answer.get("jobs").and_then(Value::as_list).unwrap().to_vec();
        let left = |job: &Value| job.get("left").and_then(Value::as_f64).is_some_and(|left| left > 20.0 && left < 30.0);
        // The time left, because the clocks of master and minion may differ.
        assert!(jobs.iter().all(left), "{jobs:?}");
        let jid = |job: &Value| job.get("load").and_then(|load| load.get("jid")).cloned();
        jobs.iter().filter_map(jid).collect::<Vec<Value>>()
    };
    assert_eq!(missed().await, [Value::from(jid.as_str())]);
    let receipt = map! { "cmd" => "saltern_received", "received" => list![jid.as_str(), "20240229131415678901"] };
    let answer = minion.ask(receipt).await;
    assert_eq!(answer.get("gone"), Some(&list!["20240229131415678901"]), "only what was published is to begin");
    assert_eq!(missed().await, []);
    minion.answer(&jid, true).await;
    assert_eq!(missed().await, []);
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_a_minion_starts_itself_are_bounded() {
    let place = tempfile::tempdir().unwrap();
    let mut options = map! { "return_max_size" => 1000, "minion_data_max_size" => 1000, "own_jobs_max_size" => 10_000 };
    options.update(open_house());
    let master = Master::start(options).await;
    let minion = master.minion("web1", place.path());
    let told = |jid: &str, value: Value| {
        map! {
            "cmd" => "_return", "id" => "web1", "jid" => jid, "fun" => "test.ping", "fun_args" => list![1], "return" => value,
            "success" => true, "tgt" => "*", "tgt_type" => "compound", "user" => "root", "Minions" => list!["db1"],
        }
    };
    let jid = "20240229131415678901";
    assert_eq!(minion.ask(told(jid, "x".repeat(2000).into())).await, Value::Null);
    let jobs = jobs(&master);
    let load = jobs.load(jid).unwrap().unwrap();
    assert_eq!((load.get_str("tgt"), load.get_str("tgt_type")), (Some("web1"), Some("glob")));
    assert_eq!(load.get("arg"), Some(&list![1]));
    assert_eq!(jobs.minions(jid).unwrap(), ["web1"]);
    let kept = jobs.return_of(jid, &minion.id).unwrap().unwrap().value;
    assert!(kept.as_str().unwrap().contains("return_max_size"), "{kept}");
    let future = "29990229131415678901";
    minion.ask(told(future, true.into())).await;
    // Somebody may publish a job with this id later, and would find its return.
    assert_eq!(jobs.load(future).unwrap(), None, "of the future");
    for number in 2..=3 {
        minion.ask(told(&format!("2024022913141567890{number}"), true.into())).await;
    }
    assert_eq!(jobs.load("20240229131415678903").unwrap(), None, "more than its share");
    let mine = |size: usize| map! { "cmd" => "_mine", "data" => map! { "x" => "y".repeat(size) } };
    assert_eq!([minion.ask(mine(10)).await, minion.ask(mine(2000)).await], [Value::Bool(true), Value::Bool(false)]);
    master.stop().await;
}
