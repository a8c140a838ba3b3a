//! Leases in the JetStream of real servers. Skipped where none is installed.

mod server;

use std::time::Duration;

use peers::testing::nats_server_or_skip;
use saltern_leases::memory::Password;
use saltern_leases::{Bucket, BucketError, Change, Health, JetStreamBucket, Keep, KeepError, Leases, OpenError, Who};
use server::Servers;
use tokio::time::{Instant, timeout};

const T: Duration = Duration::from_secs(6);

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

struct Process {
    leases: Leases,
    task: tokio::task::JoinHandle<()>,
}

async fn process(place: u8, servers: &Servers, lease_time: Duration) -> Process {
    process_that_knows("ours", place, servers, lease_time).await
}

async fn process_that_knows(word: &'static str, place: u8, servers: &Servers, lease_time: Duration) -> Process {
    let leases = Leases::new(Who { node: [place; 8], boot: 1 }, lease_time, u64::from(place));
    let bucket = JetStreamBucket::new(servers.client().await, "a_b", lease_time);
    let own = leases.clone();
    let task = tokio::spawn(async move { own.run(&bucket, &Password(word)).await });
    Process { leases, task }
}

async fn until(leases: &Leases, mut wanted: impl FnMut(&Change) -> bool) {
    let waits = async { while !leases.changed().await.iter().any(&mut wanted) {} };
    timeout(PATIENCE, waits).await.expect("nothing of that kind happens");
}

async fn taken(leases: &Leases) -> u64 {
    let mut taken = 0;
    let is_taken = |change: &Change| match change {
        Change::Taken { fence, .. } => {
            taken = *fence;
            true
        }
        _ => false,
    };
    until(leases, is_taken).await;
    taken
}

async fn open(bucket: &JetStreamBucket) -> saltern_leases::Opened {
    let opens = async {
        loop {
            match bucket.open().await {
                Ok(opened) => return opened,
                Err(OpenError::NoAnswer(_)) => tokio::time::sleep(Duration::from_millis(100)).await,
                Err(error) => panic!("{error}"),
            }
        }
    };
    timeout(PATIENCE, opens).await.expect("it can be opened")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_taken_renewed_refused_given_back_and_taken_over() {
    let Some(program) = nats_server_or_skip() else { return };
    let servers = Servers::start(&program, 1, true);
    let time = Duration::from_secs(2);
    let bucket = JetStreamBucket::new(servers.client().await, "a_b", time);
    let opened = open(&bucket).await;
    assert_eq!((opened.replicas, opened.unused), (1, true));
    let first = bucket.publish("x", 0, "1".into()).await.unwrap();
    assert_eq!(bucket.publish("x", 0, "2".into()).await, Err(BucketError::OtherSequence));
    let second = bucket.publish("x", first, "3".into()).await.unwrap();
    assert_eq!(bucket.publish("x", first, "4".into()).await, Err(BucketError::OtherSequence));
    let last = bucket.last("x").await.unwrap().unwrap();
    assert_eq!((last.sequence, &last.value[..]), (second, &b"3"[..]));
    bucket.delete(second).await.unwrap();
    assert_eq!(bucket.last("x").await, Ok(None));
    let third = bucket.publish("x", 0, "5".into()).await.expect("nothing is left of what was removed");
    assert!(third > second);
    // The holder asks for nothing any more, and the next one follows when the entry has expired.
    let one = process(1, &servers, time).await;
    let began = Instant::now();
    one.leases.want("x");
    assert!(taken(&one.leases).await > third);
    assert!(began.elapsed() < time + Duration::from_secs(3));
    let two = process(2, &servers, time).await;
    two.leases.want("x");
    let renewed = Instant::now() + 3 * time;
    while Instant::now() < renewed {
        assert!(one.leases.held("x").is_some() && two.leases.held("x").is_none());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    one.leases.stop().await;
    let given_back = Instant::now();
    taken(&two.leases).await;
    assert!(given_back.elapsed() < time, "it does not wait for the end");
    one.leases.want("x");
    two.task.abort();
    taken(&one.leases).await;
    assert_eq!(one.leases.health(), Health::Sound(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_stranger_holds_and_what_somebody_writes_over_is_taken_back_and_never_held_twice() {
    let Some(program) = nats_server_or_skip() else { return };
    let servers = Servers::start(&program, 1, true);
    let time = Duration::from_secs(2);
    let stranger = process_that_knows("theirs", 9, &servers, time).await;
    stranger.leases.want("x");
    taken(&stranger.leases).await;
    let [one, two] = [process(1, &servers, time).await, process(2, &servers, time).await];
    [&one, &two].iter().for_each(|process| process.leases.want("x"));
    let held = || [&one, &two].map(|process| process.leases.held("x").is_some());
    tokio::select! { _ = taken(&one.leases) => {}, _ = taken(&two.leases) => {} }
    assert_eq!(stranger.leases.held("x"), None);
    stranger.task.abort();
    // The holder loses it to somebody who may write, and the other one must not hold it while the first one may.
    let bucket = JetStreamBucket::new(servers.client().await, "a_b", time);
    let token = saltern_leases::Token { who: Who { node: [9; 8], boot: 2 }, wish: 1, nonce: 1 };
    let overwrites = async {
        loop {
            let last = bucket.last("x").await.unwrap().map_or(0, |last| last.sequence);
            // The holder may renew in between.
            if bucket.publish("x", last, token.pack()).await.is_ok() {
                return;
            }
        }
    };
    timeout(PATIENCE, overwrites).await.expect("anybody may write");
    let again = async {
        let mut was_lost = false;
        loop {
            let held = held();
            assert_ne!(held, [true, true], "never two");
            was_lost |= held == [false, false];
            if was_lost && held != [false, false] {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, again).await.expect("a member holds it again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_with_other_settings_is_refused_and_the_setting_named() {
    let Some(program) = nats_server_or_skip() else { return };
    let servers = Servers::start(&program, 1, true);
    let client = servers.client().await;
    open(&JetStreamBucket::new(client.clone(), "a", T)).await;
    let other = JetStreamBucket::new(client.clone(), "a", Duration::from_secs(9)).open().await.unwrap_err().to_string();
    assert!(other.contains("cluster_lease_time") && other.contains("6 s") && other.contains("9 s"), "{other}");
    let wrong = async_nats::jetstream::stream::Config {
        name: "KV_saltern_b_lease".to_owned(),
        subjects: vec!["$KV.saltern_b_lease.>".to_owned()],
        max_messages_per_subject: 1,
        allow_direct: true,
        max_age: T,
        discard: async_nats::jetstream::stream::DiscardPolicy::New,
        ..Default::default()
    };
    async_nats::jetstream::new(client.clone()).create_stream(wrong).await.unwrap();
    let refused = JetStreamBucket::new(client, "b", T).open().await.unwrap_err();
    assert!(matches!(&refused, OpenError::Settings(text) if text.contains("allow_direct true")), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_without_jetstream_say_so() {
    let Some(program) = nats_server_or_skip() else { return };
    let servers = Servers::start(&program, 1, false);
    let bucket = JetStreamBucket::new(servers.client().await, "a", T);
    let says = async {
        loop {
            match bucket.open().await {
                Err(OpenError::Absent(reason)) => return reason,
                // It has not begun to listen.
                Err(OpenError::NoAnswer(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    };
    assert!(timeout(PATIENCE, says).await.unwrap().contains("JetStream"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_one_of_three_servers_gone_leases_go_on_and_with_two_gone_nobody_holds_any() {
    let Some(program) = nats_server_or_skip() else { return };
    let mut servers = Servers::start(&program, 3, true);
    assert_eq!(open(&JetStreamBucket::new(servers.client().await, "a_b", T)).await.replicas, 3);
    let [one, two] = [process(1, &servers, T).await, process(2, &servers, T).await];
    one.leases.want("x");
    taken(&one.leases).await;
    two.leases.want("x");
    for place in [0, 1] {
        let died = Instant::now();
        servers.kill(place);
        if place == 0 {
            // The holder dies in the same moment.
            one.task.abort();
            taken(&two.leases).await;
            assert!(one.leases.held("x").is_none(), "never two");
            assert!(died.elapsed() < T + Duration::from_secs(6), "{:?}", died.elapsed());
        }
    }
    until(&two.leases, |change| matches!(change, Change::Lost { .. })).await;
    // It may have been told before that.
    let is_silent = async {
        while !matches!(two.leases.health(), Health::NoAnswer(_)) {
            two.leases.changed().await;
        }
    };
    timeout(PATIENCE, is_silent).await.expect("operators see it");
    assert_eq!(two.leases.held("x"), None);
    servers.begin(0);
    taken(&two.leases).await;
}

async fn read(keep: &Keep) -> Vec<bytes::Bytes> {
    let (to, mut values) = tokio::sync::mpsc::channel(8);
    let mut all = Vec::new();
    let take = async {
        while let Some(value) = values.recv().await {
            all.push(value);
        }
    };
    let (done, ()) = timeout(PATIENCE, async { tokio::join!(keep.read("keys", to), take) }).await.unwrap();
    done.unwrap();
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_kept_is_read_again_and_only_the_last_of_each_key() {
    let Some(program) = nats_server_or_skip() else { return };
    let mut servers = Servers::start(&program, 1, true);
    let keep = Keep::new(servers.client().await, "a_b");
    let opens = async { while keep.open().await.is_err() {} };
    timeout(PATIENCE, opens).await.unwrap();
    assert_eq!(read(&keep).await.len(), 0);
    let long = "x".repeat(4_000);
    for number in 0..700 {
        keep.put("keys", &format!("web{number}"), 0, format!("{number}").into()).await.unwrap();
    }
    for (key, value) in [("web0", "again"), ("*.>", "odd"), (&long, "long")] {
        let sequence = keep.last("keys", key).await.unwrap().map_or(0, |last| last.sequence);
        keep.put("keys", key, sequence, value.into()).await.unwrap();
    }
    keep.put("members", "web0", 0, "of another class".into()).await.unwrap();
    assert_eq!(keep.put("keys", "a", 0, vec![0; saltern_leases::LONGEST + 1].into()).await, Err(KeepError::TooLong));
    servers.kill(0);
    servers.begin(0);
    timeout(PATIENCE, async { while keep.open().await.is_err() {} }).await.unwrap();
    let read = read(&keep).await;
    let last: Vec<&[u8]> = read.iter().rev().take(3).rev().map(|value| &value[..]).collect();
    assert_eq!(last, [&b"again"[..], b"odd", b"long"]);
    assert_eq!(read.len(), 702, "each key once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_arrives_late_replaces_no_newer_one_and_only_the_named_one_is_removed() {
    let Some(program) = nats_server_or_skip() else { return };
    let servers = Servers::start(&program, 1, true);
    let keep = Keep::new(servers.client().await, "a_b");
    timeout(PATIENCE, async { while keep.open().await.is_err() {} }).await.unwrap();
    keep.put("keys", "web1", 0, "first".into()).await.unwrap();
    let first = keep.last("keys", "web1").await.unwrap().unwrap();
    keep.put("keys", "web1", first.sequence, "second".into()).await.unwrap();
    // What was sent before the second one, and is tried again after it.
    for late in [0, first.sequence] {
        assert_eq!(keep.put("keys", "web1", late, "late".into()).await, Err(KeepError::OtherValue));
    }
    let second = keep.last("keys", "web1").await.unwrap().unwrap();
    assert_eq!(&second.value[..], b"second");
    keep.put("keys", "web2", 0, "another key".into()).await.unwrap();
    keep.remove("keys", "web1", first.sequence).await.unwrap();
    assert_eq!(keep.last("keys", "web1").await, Ok(Some(second.clone())), "a later one stays");
    keep.remove("keys", "web1", second.sequence).await.unwrap();
    assert_eq!(keep.last("keys", "web1").await, Ok(None));
    keep.put("keys", "web1", 0, "third".into()).await.unwrap();
    assert_eq!(read(&keep).await, ["another key", "third"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_earlier_stream_gets_the_bound_of_messages_and_a_refusal_names_it() {
    let Some(program) = nats_server_or_skip() else { return };
    let servers = Servers::with_users(&program);
    let client = servers.client().await;
    let jetstream = async_nats::jetstream::new(client.clone());
    let made = |set: &str, max_message_size: i32| async_nats::jetstream::stream::Config {
        name: format!("SALTERN_{set}_KEEP"),
        subjects: vec![format!("saltern.{set}.keep.>")],
        max_messages_per_subject: 1,
        max_bytes: 1 << 30,
        max_message_size,
        discard: async_nats::jetstream::stream::DiscardPolicy::New,
        deny_delete: true,
        ..Default::default()
    };
    for (set, bound) in [("a", -1), ("b", 10), ("c", 1 << 20)] {
        let create = async { while jetstream.create_stream(made(set, bound)).await.is_err() {} };
        timeout(PATIENCE, create).await.expect("JetStream begins to answer");
        Keep::new(client.clone(), set).open().await.unwrap();
        let mut stream = jetstream.get_stream(format!("SALTERN_{set}_KEEP")).await.unwrap();
        let config = &stream.info().await.unwrap().config;
        assert_eq!(config.max_message_size, saltern_leases::LONGEST as i32 + 1_024, "{bound}");
        assert_eq!((config.max_bytes, config.deny_delete), (1 << 30, true), "all else stays");
    }
    for (set, bound, is_used) in [("d", 10, false), ("e", -1, true)] {
        jetstream.create_stream(made(set, bound)).await.unwrap();
        let opened = Keep::new(servers.limited_client().await, set).open().await;
        assert_eq!(opened.is_ok(), is_used, "{opened:?}");
        if let Err(error) = opened {
            assert!(error.to_string().contains("max_msg_size 10"), "{error}");
        }
    }
}
