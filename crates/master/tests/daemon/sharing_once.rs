//! What several masters of a set do once: runs of the schedule.

use std::time::Duration;

use channel::client::SignIn;
use crypto::PrivateKey;
use event::Listening;
use value::{Map, Value, list, map};

use crate::common::{Master, event, free_port, jobs};
use crate::sharing::{Pair, ask, becomes, linked};

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

/// Where three masters listen for each other.
struct Trio([u16; 3]);

impl Trio {
    fn options(&self, number: usize) -> Map {
        let others = (0..3).filter(|other| *other != number).map(|other| format!("127.0.0.1:{}", self.0[other]));
        map! {
            "cluster_id" => "prod", "cluster_secret" => "a secret of more than twenty characters",
            "cluster_pool_port" => self.0[number], "cluster_peers" => others.map(Value::from).collect::<Value>(),
            "cluster_lease_time" => 2, "id" => format!("m{}_master", number + 1),
            "schedule" => map! { "look" => job(map! { "seconds" => 1 }) },
        }
    }

    async fn start(&self) -> Vec<Master> {
        let mut all = Vec::new();
        for number in 0..3 {
            all.push(Master::start(self.options(number)).await);
        }
        all
    }
}

async fn says_of_once(master: &Master, wanted: &str) {
    let wait = async {
        loop {
            let masters = ask(master, map! { "what" => "masters" }).await;
            let said = masters.get("sharing").and_then(|masters| masters.get("once").cloned());
            let said = said.map(|said| said.to_string()).unwrap_or_default();
            if said.starts_with(wanted) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(40), wait).await.unwrap_or_else(|_| panic!("it does not say {wanted:?}"));
}

/// Waits until one of these masters holds the lease of the job, and returns its place.
async fn holder(masters: &[Master]) -> usize {
    let wait = async {
        loop {
            for (place, master) in masters.iter().enumerate() {
                let leases = ask(master, map! { "what" => "leases" }).await;
                let look = leases.get("sharing").and_then(|leases| leases.get("duties")?.get("look").cloned());
                if look.as_ref().and_then(|look| look.get("held")) == Some(&true.into()) {
                    assert!(look.is_some_and(|look| look.get("fence").is_some() && look.get("holder").is_some()));
                    return place;
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(40), wait).await.expect("nobody holds the lease")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_three_masters_a_majority_decides_who_runs_the_schedule() {
    let trio = Trio([free_port(), free_port(), free_port()]);
    let mut masters = trio.start().await;
    for master in &masters {
        says_of_once(master, "majority: 3 of 3 voters").await;
    }
    let place = holder(&masters).await;
    let directory = masters.remove(place).stop().await;
    // The lease moves to one of the two that are left.
    let second = masters.remove(holder(&masters).await);
    let mut events = second.events().await;
    assert!(next_run(&mut events).await.starts_with('m'));
    // The first one votes again, so that it moves once more.
    masters.push(Master::start_in(directory, trio.options(place)).await);
    for master in &masters {
        says_of_once(master, "majority: 3 of 3 voters").await;
    }
    second.stop().await;
    let third = masters.remove(holder(&masters).await);
    let last = masters.remove(0);
    says_of_once(&last, "majority: 2 of 3 voters").await;
    third.stop().await;
    says_of_once(&last, "majority: 1 of 3 voters, which is no majority").await;
    holds(&last, false).await;
    last.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_is_removed_from_three_runs_the_schedule_no_more() {
    let trio = Trio([free_port(), free_port(), free_port()]);
    let mut masters = trio.start().await;
    let holding = holder(&masters).await;
    let removed = masters.remove(holding);
    for master in &masters {
        says_of_once(master, "majority: 3 of 3 voters").await;
    }
    let name = format!("m{}", holding + 1);
    let answer = ask(&masters[0], map! { "what" => "remove", "name" => name }).await;
    assert!(answer.get("sharing").is_some(), "{answer}");
    holds(&removed, false).await;
    holder(&masters).await;
    // Two are too few to vote, and agree on that.
    for master in &masters {
        says_of_once(master, "available").await;
    }
    for master in masters.into_iter().chain([removed]) {
        master.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_is_left_alone_for_good_goes_on_when_a_person_has_said_so() {
    let trio = Trio([free_port(), free_port(), free_port()]);
    let mut masters = trio.start().await;
    for master in &masters {
        says_of_once(master, "majority: 3 of 3 voters").await;
    }
    let refused = ask(&masters[0], map! { "what" => "forget_voters", "yes" => true }).await;
    assert!(refused.to_string().contains("3 of 3 voters are linked"), "{refused}");
    let left = masters.remove(0);
    for gone in masters {
        gone.stop().await;
    }
    says_of_once(&left, "majority: 1 of 3 voters, which is no majority").await;
    for gone in ["m2", "m3"] {
        let removed = ask(&left, map! { "what" => "remove", "name" => gone }).await;
        let text = removed.get("sharing").and_then(|removed| removed.get("voters")).map(Value::to_string);
        assert!(text.is_some_and(|text| text.contains("salt-run saltern.forget_voters")), "{removed}");
    }
    let shown = ask(&left, map! { "what" => "forget_voters" }).await;
    assert_eq!(shown.get("sharing").and_then(|shown| shown.get("linked")), Some(&1.into()), "{shown}");
    holds(&left, false).await;
    let forgotten = ask(&left, map! { "what" => "forget_voters", "yes" => true }).await;
    assert!(forgotten.get("sharing").is_some_and(|done| done.get("forgotten").is_some()), "{forgotten}");
    says_of_once(&left, "available").await;
    holds(&left, true).await;
    left.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_witness_one_of_two_masters_goes_on_and_the_witness_serves_nobody() {
    let trio = Trio([free_port(), free_port(), free_port()]);
    let mut masters = vec![Master::start(trio.options(0)).await, Master::start(trio.options(1)).await];
    let mut options = trio.options(2);
    options.insert("cluster_role", "witness");
    let witness = Master::start(options).await;
    for master in masters.iter().chain([&witness]) {
        says_of_once(master, "majority: 3 of 3 voters").await;
    }
    let directory = tempfile::tempdir().unwrap();
    let minion = witness.channel("web1", PrivateKey::generate(2048).unwrap(), directory.path());
    assert!(matches!(minion.sign_in().await, Ok(SignIn::Full)));
    assert!(!witness.path("pki/minions_pre/web1").exists());
    let refused = witness.publish("*", "test.ping").await;
    assert!(refused.to_string().contains("publish the job on another master"), "{refused}");
    let refused = ask(&witness, map! { "what" => "begin_once", "name" => "backup" }).await;
    assert!(refused.to_string().contains("this master is a witness and runs nothing"), "{refused}");
    // It has the keys, and no jobs.
    let minion = masters[0].channel("web1", PrivateKey::generate(2048).unwrap(), directory.path());
    assert!(matches!(minion.sign_in().await, Ok(SignIn::Pending)));
    becomes(&witness, "web1", &["minions_pre"]).await;
    masters[0].accept("web1");
    becomes(&witness, "web1", &["minions"]).await;
    let published = masters[0].publish("web1", "test.ping").await;
    let jid = published.get("load").and_then(|load| load.get("jid")).map(Value::to_string).unwrap_or_default();
    let first = masters.remove(holder(&masters).await);
    first.stop().await;
    assert_eq!(holder(&masters).await, 0);
    says_of_once(&masters[0], "majority: 2 of 3 voters").await;
    assert!(!jid.is_empty() && jobs(&witness).load(&jid).unwrap().is_none(), "{published}");
    for master in masters.into_iter().chain([witness]) {
        master.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_programs_run_once_under_a_name_runs_on_one_of_two_masters() {
    let pair = Pair::new();
    let (one, two) = pair.start().await;
    let begin = async |master: &Master| {
        let answer = ask(master, map! { "what" => "begin_once", "name" => "backup" }).await;
        answer.get("sharing").cloned().unwrap_or_else(|| panic!("{answer}"))
    };
    // As cron does at the same second.
    let (here, there) = tokio::join!(begin(&one), begin(&two));
    assert_eq!((here.get("runs"), there.get("runs")), (Some(&true.into()), Some(&false.into())), "{here} {there}");
    assert!(there.get("reason").is_some_and(|reason| reason.to_string().contains("m1 began it")), "{there}");
    let again = begin(&one).await;
    assert!(again.get("reason").is_some_and(|reason| reason.to_string().contains("runs it since")), "{again}");
    let run = |what: &str, fence: i64| map! { "what" => what, "name" => "backup", "fence" => fence };
    let fence = here.get("fence").and_then(Value::as_i64).unwrap();
    assert_eq!(ask(&one, run("go_on_once", fence)).await.get("sharing"), Some(&true.into()));
    assert!(ask(&one, run("go_on_once", fence + 1)).await.get("error").is_some(), "that is another run");
    assert_eq!(ask(&one, run("end_once", fence)).await.get("sharing"), Some(&true.into()));
    assert!(ask(&one, run("go_on_once", fence)).await.get("error").is_some(), "it has ended");
    one.stop().await;
    two.stop().await;
}
