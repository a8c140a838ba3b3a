//! What several masters of a set do once: runs of the schedule.

use std::time::Duration;

use event::Listening;
use value::{Map, list, map};

use crate::common::{Master, event};
use crate::sharing::{Pair, ask, linked};

/// Starts two masters with this job.
async fn start(pair: &Pair, job: &Map) -> (Master, Master) {
    let one = Master::start(options(pair, 0, job)).await;
    let two = Master::start(options(pair, 1, job)).await;
    linked(&one, "m2").await;
    linked(&two, "m1").await;
    (one, two)
}

fn options(pair: &Pair, number: usize, job: &Map) -> Map {
    pair.options(number, map! { "schedule" => map! { "look" => job.clone() } })
}

/// Waits until a master holds the lease of the job, or does not.
async fn holds(master: &Master, wanted: bool) {
    let held = async || {
        let leases = ask(master, map! { "what" => "leases" }).await;
        leases.get("sharing").and_then(|leases| leases.get("duties")?.get("look")?.get("held").cloned())
    };
    let wait = async {
        while held().await != Some(wanted.into()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(40), wait).await.unwrap_or_else(|_| panic!("held is not {wanted}"));
}

/// Waits until a master knows who ran the job last.
async fn last_run_by(master: &Master, name: &str) {
    let last = async || {
        let leases = ask(master, map! { "what" => "leases" }).await;
        leases.get("sharing").and_then(|leases| leases.get("duties")?.get("look")?.get("last")?.get("master").cloned())
    };
    let wait = async {
        while last().await != Some(name.into()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap_or_else(|_| panic!("{name} was not the last"));
}

/// Returns the name of the master that did the next run, as the bus of the first one tells it.
async fn next_run(events: &mut Listening) -> String {
    let ran = event(events, "__schedule_return").await;
    ran.data().get_str("id").unwrap_or_default().to_owned()
}

fn job(more: Map) -> Map {
    let mut job = map! { "function" => "test.arg", "args" => list!["x"] };
    job.update(more);
    job
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_masters_runs_the_schedule_and_the_other_when_it_is_away() {
    let (pair, job) = (Pair::new(), job(map! { "seconds" => 1 }));
    let (one, two) = start(&pair, &job).await;
    holds(&one, true).await;
    holds(&two, false).await;
    let mut there = two.events().await;
    for _ in 0..3 {
        assert_eq!(next_run(&mut there).await, "m1_master");
    }
    let directory = one.stop().await;
    holds(&two, true).await;
    let mut there = two.events().await;
    assert_eq!(next_run(&mut there).await, "m2_master");
    // The first one takes it back.
    let one = Master::start_in(directory, options(&pair, 0, &job)).await;
    holds(&two, false).await;
    holds(&one, true).await;
    let mut there = two.events().await;
    for _ in 0..2 {
        assert_eq!(next_run(&mut there).await, "m1_master");
    }
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_takes_over_does_not_repeat_what_was_run_less_than_an_interval_ago() {
    let (pair, job) = (Pair::new(), job(map! { "minutes" => 10 }));
    let one = Master::start(options(&pair, 0, &job)).await;
    // It joins without a schedule: alone it would run it at its start.
    let two = Master::start(pair.options(1, Map::new())).await;
    linked(&two, "m1").await;
    let two = Master::start_in(two.stop().await, options(&pair, 1, &job)).await;
    linked(&two, "m1").await;
    holds(&one, true).await;
    last_run_by(&two, "m1").await;
    one.stop().await;
    holds(&two, true).await;
    // Its own run of its start was due since then.
    last_run_by(&two, "m1").await;
    two.stop().await;
}
