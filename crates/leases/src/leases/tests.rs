//! Several processes over one store in memory, in time that does not pass by itself.

use super::*;
use crate::memory::{Faults, MemoryBucket, Password};

const T: Duration = Duration::from_secs(6);

struct Process {
    leases: Leases,
    task: tokio::task::JoinHandle<()>,
}

fn process(place: u8, bucket: &MemoryBucket) -> Process {
    process_that_knows("ours", place, bucket)
}

fn process_that_knows(word: &'static str, place: u8, bucket: &MemoryBucket) -> Process {
    let leases = Leases::new(Who { node: [place; 8], boot: 1 }, T, u64::from(place));
    let (own, bucket) = (leases.clone(), bucket.clone());
    let task = tokio::spawn(async move { own.run(&bucket, &Password(word)).await });
    Process { leases, task }
}

async fn taken(leases: &Leases) -> u64 {
    loop {
        for change in leases.changed().await {
            if let Change::Taken { fence, .. } = change {
                return fence;
            }
        }
    }
}

async fn lost(leases: &Leases) {
    while !leases.changed().await.iter().any(|change| matches!(change, Change::Lost { .. })) {}
}

async fn health(leases: &Leases, wanted: impl Fn(&Health) -> bool) {
    while !wanted(&leases.health()) {
        leases.changed().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_was_never_used_is_used_after_a_lease_time() {
    let bucket = MemoryBucket::new(T, 1);
    let one = process(1, &bucket);
    let began = Instant::now();
    one.leases.want("a");
    health(&one.leases, |health| *health == Health::New).await;
    assert_eq!(taken(&one.leases).await, 1);
    assert!(began.elapsed() >= T, "an earlier store may have granted it");
    let two = process(2, &bucket);
    let began = Instant::now();
    two.leases.want("b");
    taken(&two.leases).await;
    assert!(began.elapsed() < Duration::from_secs(1), "the first one has waited");
}

#[tokio::test(start_paused = true)]
async fn the_next_one_follows_who_died_and_who_gave_back() {
    let bucket = MemoryBucket::new(T, 1);
    let [one, two] = [1, 2].map(|place| process(place, &bucket));
    one.leases.want("a");
    taken(&one.leases).await;
    two.leases.want("a");
    one.task.abort();
    let died = Instant::now();
    let fence = taken(&two.leases).await;
    assert!(fence > 1 && died.elapsed() < T + Duration::from_secs(3));
    assert_eq!(one.leases.held("a"), None);
    let three = process(3, &bucket);
    three.leases.want("a");
    while three.leases.holder("a").is_none_or(|holder| holder.node != [2; 8]) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    two.leases.stop().await;
    let gone = Instant::now();
    taken(&three.leases).await;
    assert!(gone.elapsed() < Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn without_a_quorum_nobody_holds_anything_and_all_goes_on_later() {
    let bucket = MemoryBucket::new(T, 1);
    let [one, two] = [1, 2].map(|place| process(place, &bucket));
    one.leases.want("a");
    two.leases.want("a");
    tokio::select! { _ = taken(&one.leases) => {}, _ = taken(&two.leases) => {} }
    bucket.set_faults(Faults { no_quorum: true, ..Faults::default() });
    tokio::select! { () = lost(&one.leases) => {}, () = lost(&two.leases) => {} }
    health(&one.leases, |health| matches!(health, Health::NoAnswer(_))).await;
    health(&two.leases, |health| matches!(health, Health::NoAnswer(_))).await;
    assert_eq!((one.leases.held("a"), two.leases.held("a")), (None, None));
    bucket.set_faults(Faults::default());
    tokio::select! { _ = taken(&one.leases) => {}, _ = taken(&two.leases) => {} }
    health(&one.leases, |health| matches!(health, Health::Sound(1))).await;
}

#[tokio::test(start_paused = true)]
async fn many_leases_with_lost_answers_have_one_holder_each() {
    let bucket = MemoryBucket::new(T, 9);
    bucket.set_faults(Faults { lost_answers: 50, late: 50, delay: Duration::from_millis(50), ..Faults::default() });
    let all: Vec<Process> = (1..4).map(|place| process(place, &bucket)).collect();
    let names: Vec<String> = (0..200).map(|number| format!("duty {number}")).collect();
    all.iter().for_each(|process| names.iter().for_each(|name| process.leases.want(name)));
    let mut held = 0;
    for _ in 0..600 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        for name in &names {
            let holders = all.iter().filter(|process| process.leases.held(name).is_some()).count();
            assert!(holders <= 1, "{name}");
            held += holders;
        }
    }
    assert!(held > 600 * 200 / 2, "{held}");
}

#[tokio::test(start_paused = true)]
async fn a_store_from_a_backup_takes_all_leases_away_and_grants_none_for_a_lease_time() {
    let bucket = MemoryBucket::new(T, 1);
    let one = process(1, &bucket);
    one.leases.want("a");
    taken(&one.leases).await;
    let backup = MemoryBucket::new(T, 1);
    backup.restore(&bucket);
    // More is stored than the backup has.
    for name in ["b", "c", "d"] {
        one.leases.want(name);
        taken(&one.leases).await;
    }
    bucket.restore(&backup);
    // The next one that asks has not seen the store before, and would be granted what is held.
    one.leases.want("e");
    health(&one.leases, |health| *health == Health::New).await;
    let began = Instant::now();
    assert!(["a", "b", "c", "d", "e"].iter().all(|name| one.leases.held(name).is_none()));
    taken(&one.leases).await;
    assert!(began.elapsed() >= T, "others may still hold what it has forgotten");
}

#[tokio::test(start_paused = true)]
async fn answers_that_overtake_each_other_are_no_backup() {
    let bucket = MemoryBucket::new(T, 5);
    bucket.set_faults(Faults { delay: Duration::from_millis(200), ..Faults::default() });
    let all: Vec<Process> = (1..4).map(|place| process(place, &bucket)).collect();
    for process in &all {
        health(&process.leases, |health| matches!(health, Health::Sound(_))).await;
        (0..50).for_each(|number| process.leases.want(&format!("duty {number}")));
    }
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(all.iter().all(|process| process.leases.health() != Health::New));
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_stranger_holds_is_taken_from_it_and_told_once() {
    let bucket = MemoryBucket::new(T, 1);
    let stranger = process_that_knows("theirs", 9, &bucket);
    stranger.leases.want("a");
    taken(&stranger.leases).await;
    let one = process_that_knows("ours", 1, &bucket);
    let began = Instant::now();
    one.leases.want("a");
    let (mut fence, mut told) = (None, 0);
    while fence.is_none() {
        for change in one.leases.changed().await {
            match change {
                Change::Stranger(stranger) => {
                    assert_eq!(stranger, Stranger { node: Some([9; 8]), is_replaced: true });
                    told += 1;
                }
                Change::Taken { fence: taken, .. } => fence = Some(taken),
                _ => {}
            }
        }
    }
    assert_eq!((told, stranger.leases.held("a")), (1, None));
    assert!((T..=2 * T + Duration::from_secs(3)).contains(&began.elapsed()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_old_answer_does_not_prove_that_a_majority_of_the_servers_is_there() {
    let leases = Leases::new(Who { node: [1; 8], boot: 1 }, T, 1);
    let read = |sequence| {
        let entry = Entry { sequence, token: None, verdict: Verdict::Unsure };
        Answered { name: "a".into(), highest: 5, answer: Answer::Last(Ok(Some(entry))) }
    };
    leases.lock().highest = 5;
    leases.set_health(Health::NoAnswer("a test".into()));
    assert!(!leases.take(read(5)));
    assert!(matches!(leases.health(), Health::NoAnswer(_)), "a server that is alone has read this before");
    assert!(!leases.take(read(6)));
    assert!(matches!(leases.health(), Health::Sound(_)), "somebody could write since");
}
