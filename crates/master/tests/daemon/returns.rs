//! Returns: stored before they are acknowledged, and announced once.

use channel::client::SignIn;
use crypto::{HashType, PrivateKey};
use store::jobs::JobCache;
use value::{Map, Value, list, map};
use wire::msgpack::Decode;

use crate::common::{Master, Minion, event, jobs, open_house};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_returns_and_sessions_survive_a_restart() {
    let place = tempfile::tempdir().unwrap();
    let master = Master::start(open_house()).await;
    let key = PrivateKey::generate(2048).unwrap();
    let pem = key.to_pem(None).unwrap();
    let minion = master.channel("web1", key, place.path());
    minion.sign_in().await.unwrap();
    let returned = map! {
        "cmd" => "_return", "id" => "web1", "return" => "x", "jid" => "req", "fun" => "test.ping", "fun_args" => list![],
    };
    minion.request(returned, None, Decode::Default).await.unwrap();
    // If the session were new, every minion would have to sign in after a restart.
    let session = std::fs::read_to_string(master.path("cache/sessions/web1")).unwrap();
    let directory = master.stop().await;
    let master = Master::start_in(directory, Map::new()).await;
    assert_eq!(std::fs::read_to_string(master.path("cache/sessions/web1")).unwrap(), session);
    let minion = master.channel("web1", PrivateKey::from_pem(pem.as_bytes(), None).unwrap(), place.path());
    assert!(matches!(minion.sign_in().await, Ok(SignIn::Accepted(_))), "the same master key");
    let jobs = jobs(&master);
    let (jid, load) = jobs.heads().unwrap().pop().unwrap();
    assert_eq!((load.get_str("fun"), load.get_str("tgt")), (Some("test.ping"), Some("web1")));
    assert_eq!(jobs.returns(&jid).unwrap().len(), 1);
    assert_eq!(jobs.minions(&jid).unwrap(), ["web1"], "nobody else was to run it");
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded_job_cache_also_finds_jobs_in_salts_layout() {
    let pki = tempfile::tempdir().unwrap();
    let mut in_files = open_house();
    in_files.insert("master_job_cache", "local_cache");
    let master = Master::start(in_files).await;
    let minion = master.minion("web1", pki.path());
    minion.channel.sign_in().await.unwrap();
    let publish = async |master: &Master| {
        let published = master.publish("*", "test.ping").await;
        published.get("load").unwrap().get("jid").and_then(Value::as_str).unwrap().to_owned()
    };
    let old = publish(&master).await;
    let master = Master::start_in(master.stop().await, open_house()).await;
    let pki = tempfile::tempdir().unwrap();
    let minion = master.minion("web2", pki.path());
    minion.channel.sign_in().await.unwrap();
    let new = publish(&master).await;
    for jid in [&old, &new] {
        assert_eq!(minion.answer(jid, true).await, Value::Null);
    }
    let files = JobCache::new(&master.path("cache"), HashType::Sha256);
    // Programs of Salt may still wait for it there.
    assert_eq!(files.returns(&old).unwrap().len(), 1, "a job goes on where it is");
    assert!(!files.contains(&new).unwrap());
    let beside = jobs(&master);
    assert_eq!(beside.return_of(&new, &minion.id).unwrap().unwrap().value, true.into());
    drop(beside);
    let master = Master::start_in(master.stop().await, Map::new()).await;
    let beside = jobs(&master);
    assert_eq!(beside.returns(&new).unwrap().len(), 1);
    assert_eq!(beside.heads().unwrap().len(), 2);
    master.stop().await;
}

/// Sends a return for a fresh job and expects its event to be the next of its kind: nothing was announced before it.
async fn nothing_announced(minion: &Minion, events: &mut event::Listening, jid: &str) {
    minion.answer(jid, "the next").await;
    let next = loop {
        let event = event(events, "salt/job/").await;
        if event.tag().contains("/ret/") {
            break event;
        }
    };
    assert_eq!(next.tag(), format!("salt/job/{jid}/ret/{}", minion.id));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_return_is_acknowledged_and_announced_once() {
    let place = tempfile::tempdir().unwrap();
    let master = Master::start(open_house()).await;
    let key = PrivateKey::generate(2048).unwrap();
    let pem = key.to_pem(None).unwrap();
    let minion =
        Minion { id: wire::MinionId::new("web1").unwrap(), channel: master.channel("web1", key, place.path()) };
    minion.channel.sign_in().await.unwrap();
    let mut events = master.events().await;
    let jid = "20240229131415678901";
    assert_eq!(minion.answer(jid, f64::NAN).await, Value::Null);
    assert_eq!(event(&mut events, "salt/job/").await.tag(), format!("salt/job/{jid}/ret/web1"));
    assert_eq!(minion.answer(jid, f64::NAN).await, Value::Null);
    nothing_announced(&minion, &mut events, "20240229131415678902").await;
    assert_eq!(minion.answer(jid, "another").await, Value::Null);
    assert_eq!(event(&mut events, "salt/job/").await.tag(), format!("salt/job/{jid}/ret/web1"), "as Salt does");

    let master = Master::start_in(master.stop().await, open_house()).await;
    let mut events = master.events().await;
    let key = PrivateKey::from_pem(pem.as_bytes(), None).unwrap();
    let minion = Minion { channel: master.channel("web1", key, place.path()), ..minion };
    assert_eq!(minion.answer(jid, f64::NAN).await, Value::Null);
    nothing_announced(&minion, &mut events, "20240229131415678903").await;
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn return_for_another_master_is_kept_without_its_event() {
    let place = tempfile::tempdir().unwrap();
    let master = Master::start(open_house()).await;
    let minion = master.minion("web1", place.path());
    minion.channel.sign_in().await.unwrap();
    let mut events = master.events().await;
    let jid = "20240229131415678901";
    let copy = |id: &str| {
        map! {
            "cmd" => "saltern_return", "publisher" => map! { "id" => "other_master", "address" => "192.0.2.1:4506" },
            "job" => map! { "tgt" => "web*", "tgt_type" => "glob" },
            "load" => map! {
                "cmd" => "_return", "id" => id, "success" => true, "return" => true, "retcode" => 0, "jid" => jid,
                "fun" => "test.ping", "fun_args" => list![1], "user" => "root",
            },
        }
    };
    assert_eq!(minion.ask(copy("web2")).await, Value::Bool(false), "in the name of another");
    assert_eq!(minion.ask(copy("web1")).await, Value::Bool(true));
    assert_eq!(minion.ask(copy("web1")).await, Value::Bool(true));
    let told = event(&mut events, "saltern/job/").await;
    assert_eq!(told.tag(), format!("saltern/job/{jid}/peer/web1"));
    assert_eq!(told.data().get("publisher").and_then(|publisher| publisher.get("id")), Some(&"other_master".into()));
    nothing_announced(&minion, &mut events, "20240229131415678902").await;

    let jobs = jobs(&master);
    let load = jobs.load(jid).unwrap().unwrap();
    assert_eq!(
        (load.get_str("fun"), load.get_str("tgt"), load.get_str("user")),
        (Some("test.ping"), Some("web1"), Some("root"))
    );
    assert_eq!(load.get("arg"), Some(&list![1]));
    assert_eq!(jobs.returns(jid).unwrap()[0].1.value, Value::Bool(true));

    assert_eq!(minion.answer(jid, true).await, Value::Null);
    assert_eq!(event(&mut events, "salt/job/").await.tag(), format!("salt/job/{jid}/ret/web1"));
    minion.answer(jid, true).await;
    nothing_announced(&minion, &mut events, "20240229131415678903").await;
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn master_without_job_cache_refuses_returns_for_another() {
    let place = tempfile::tempdir().unwrap();
    let mut options = open_house();
    options.insert("job_cache", false);
    let master = Master::start(options).await;
    let minion = master.minion("web1", place.path());
    minion.channel.sign_in().await.unwrap();
    let copy = map! {
        "cmd" => "saltern_return", "publisher" => map! {}, "job" => map! {},
        "load" => map! { "id" => "web1", "jid" => "20240229131415678901", "return" => true, "fun" => "test.ping" },
    };
    assert_eq!(minion.ask(copy).await, Value::Bool(false));
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn return_that_cannot_be_stored_is_not_acknowledged() {
    let place = tempfile::tempdir().unwrap();
    let mut options = open_house();
    options.insert("master_job_cache", "local_cache");
    let master = Master::start(options).await;
    let minion = master.minion_of_ours("web1", place.path());
    minion.channel.sign_in().await.unwrap();
    let mut events = master.events().await;
    let (jobs, jid) = (master.path("cache/jobs"), "20240229131415678901");
    // A file in the place of the directory fails for root as well, unlike permissions.
    let _ = std::fs::remove_dir_all(&jobs);
    std::fs::write(&jobs, "in the way").unwrap();
    assert_eq!(minion.answer(jid, true).await, Value::from(""), "not acknowledged");
    std::fs::remove_file(&jobs).unwrap();
    assert_eq!(minion.answer(jid, true).await, Value::Null);
    assert_eq!(event(&mut events, "salt/job/").await.tag(), format!("salt/job/{jid}/ret/web1"));
    nothing_announced(&minion, &mut events, "20240229131415678902").await;
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minion_does_not_write_the_record_of_a_runner_under_way() {
    let pki = tempfile::tempdir().unwrap();
    let master = Master::start(open_house()).await;
    let minion = master.minion("web1", pki.path());
    minion.channel.sign_in().await.unwrap();
    let (jid, own) = ("20261126160511953300", "20261126160511953301");
    let note = map! { "jid" => jid, "fun" => "runner.test.sleep" };
    let running = store::proc_dir::ProcDir::new(&master.path("cache")).enter(jid, std::process::id(), &note).unwrap();
    for job in [jid, own] {
        assert_eq!(minion.answer(job, true).await, Value::Null, "it is not sent again");
    }
    let jobs = jobs(&master);
    assert_eq!((jobs.has_load(jid).unwrap(), jobs.has_load(own).unwrap()), (false, true));
    drop((jobs, running));
    master.stop().await;
}
