//! Failover in a simulated network: how long the change takes for each kind of loss, and what failback costs.

use std::time::Duration;

use rt::sim::Sim;
use sim::{Cluster, Mode, Plan};
use tracing::subscriber::DefaultGuard;
use value::{Map, Value, map};

const SECOND: Duration = Duration::from_secs(1);

/// Three missed heartbeats of 1.5 s, and a second for the sign-in at the next master.
const BOUND: Duration = Duration::from_millis(5500);

fn plan(transport: &'static str, options: Map) -> Plan {
    Plan { masters: 3, mode: Mode::Failover, transport, minion_options: options, ..Plan::default() }
}

/// Starts a cluster whose minions follow their first master. Every test installs a subscriber: in threads without one,
/// `tracing` may cache that there is no subscriber, and the others would miss messages.
async fn begin(sim: Sim, plan: Plan) -> (Cluster, DefaultGuard) {
    let cluster = Cluster::new(sim, plan);
    let ear = cluster.ear.listen();
    cluster.start_all();
    tokio::time::sleep(10 * SECOND).await;
    assert!(answers(&cluster, "m1").await, "the first of the list is followed");
    (cluster, ear)
}

/// Returns whether the first minion answers a master within half a second.
async fn answers(cluster: &Cluster, master: &str) -> bool {
    let Some(job) = cluster.publish(master, "web1", "test.ping", Vec::new()).await else { return false };
    tokio::time::sleep(SECOND / 2).await;
    cluster.jobs(master).count_returns(&job.jid).unwrap() == 1
}

/// Returns how long it takes until a master is answered; fails after five minutes.
async fn answered(cluster: &Cluster, master: &str) -> Duration {
    let began = cluster.sim.elapsed();
    while !answers(cluster, master).await {
        assert!(cluster.sim.elapsed() - began < 300 * SECOND, "{master} is not answered:\n{}", tail(cluster));
    }
    cluster.sim.elapsed() - began
}

fn tail(cluster: &Cluster) -> String {
    let trace = cluster.sim.trace();
    trace[trace.len().saturating_sub(60)..].join("\n")
}

#[test]
fn every_kind_of_loss_is_left_within_its_bound() {
    type Loss = fn(&Sim);
    let losses: [(&str, Loss); 6] = [
        ("killed", |sim| sim.kill("m1")),
        ("without power", |sim| sim.power_off("m1")),
        ("stopped", |sim| sim.pause("m1")),
        ("cut off", |sim| sim.partition("m1", "web1")),
        ("not heard", |sim| sim.cut("m1", "web1")),
        ("not reached", |sim| sim.cut("web1", "m1")),
    ];
    for transport in ["zeromq", "tcp"] {
        for (what, loss) in losses {
            let took = Sim::run(7, async |sim| {
                let (cluster, _ear) = begin(sim.clone(), plan(transport, map! {})).await;
                loss(&sim);
                answered(&cluster, "m2").await
            });
            println!("{what} over {transport}: {took:?}");
            assert!(took <= BOUND, "{what} over {transport} took {took:?}");
        }
    }
}

#[test]
fn a_second_master_that_is_silent_costs_two_seconds_and_a_name_that_is_lost_nothing() {
    Sim::run(8, async |sim| {
        let (cluster, _ear) = begin(sim.clone(), plan("zeromq", map! {})).await;
        sim.partition("m2", "web1");
        sim.kill("m1");
        let took = answered(&cluster, "m3").await;
        // The kernel closes the connections of a killed program, so the loss is noticed at once; only the silent second
        // master costs a timeout.
        assert!(took <= 3 * SECOND, "{took:?}");
    });
    Sim::run(9, async |sim| {
        let (cluster, _ear) = begin(sim.clone(), plan("zeromq", map! {})).await;
        sim.set_resolves("m2", false);
        sim.kill("m1");
        let took = answered(&cluster, "m3").await;
        assert!(took <= SECOND, "{took:?}");
    });
}

#[test]
fn with_all_masters_away_the_minion_goes_on_trying() {
    Sim::run(10, async |sim| {
        let (cluster, _ear) = begin(sim.clone(), plan("zeromq", map! { "master_tries" => 1 })).await;
        ["m1", "m2", "m3"].iter().for_each(|master| sim.power_off(master));
        tokio::time::sleep(300 * SECOND).await;
        sim.power_on("m2");
        cluster.start("m2");
        let took = answered(&cluster, "m2").await;
        assert!(took <= 40 * SECOND, "two dead ones at ten seconds each, and the wait: {took:?}");
    });
}

fn failback() -> Map {
    map! { "master_failback" => true, "master_failback_interval" => 5, "master_failback_healthy" => 10 }
}

#[test]
fn going_back_waits_for_health_and_for_running_jobs_and_loses_nothing() {
    Sim::run(11, async |sim| {
        let (cluster, _ear) = begin(sim.clone(), plan("zeromq", failback())).await;
        sim.power_off("m1");
        answered(&cluster, "m2").await;
        let long = cluster.publish("m2", "web1", "test.sleep", vec![Value::from(60)]).await.unwrap();
        sim.power_on("m1");
        cluster.start("m1");
        let back = sim.elapsed();
        let mut answers_of_m2 = 0;
        // Until shortly before the job is done.
        while sim.elapsed() < back + 55 * SECOND {
            assert!(!answers(&cluster, "m1").await, "the running job is finished first");
            assert!(answers(&cluster, "m2").await, "the current master commands on");
            answers_of_m2 += 1;
        }
        assert_eq!(cluster.jobs("m2").count_returns(&long.jid).unwrap(), 0);
        tokio::time::sleep(6 * SECOND).await;
        assert_eq!(cluster.jobs("m2").count_returns(&long.jid).unwrap(), 1);
        assert!(answers_of_m2 > 25);
        answered(&cluster, "m1").await;
        assert!(sim.elapsed() - back < 75 * SECOND, "{:?}", sim.elapsed() - back);
    });
    Sim::run(12, async |sim| {
        let (cluster, _ear) = begin(sim.clone(), plan("zeromq", failback())).await;
        sim.power_off("m1");
        answered(&cluster, "m2").await;
        sim.power_on("m1");
        cluster.start("m1");
        let took = answered(&cluster, "m1").await;
        assert!((10 * SECOND..25 * SECOND).contains(&took), "{took:?}");
    });
}

#[test]
fn a_preferred_master_that_refuses_us_costs_nothing() {
    Sim::run(13, async |sim| {
        let (cluster, _ear) = begin(sim.clone(), plan("zeromq", failback())).await;
        sim.power_off("m1");
        answered(&cluster, "m2").await;
        let pki = cluster.path("m1").join("pki");
        std::fs::create_dir_all(pki.join("minions_rejected")).unwrap();
        // The dangerous order would be to leave the current master first and to sign in afterwards.
        std::fs::rename(pki.join("minions/web1"), pki.join("minions_rejected/web1")).unwrap();
        sim.power_on("m1");
        cluster.start("m1");
        for _ in 0..180 {
            assert!(answers(&cluster, "m2").await, "{}", tail(&cluster));
            tokio::time::sleep(SECOND / 2).await;
        }
    });
}

#[test]
fn a_master_in_reserve_where_the_key_is_pending_keeps_no_minion() {
    Sim::run(14, async |sim| {
        let (cluster, _ear) = begin(sim.clone(), plan("zeromq", map! {})).await;
        let key = |master: &str, directory: &str| cluster.path(master).join("pki").join(directory).join("web1");
        std::fs::remove_file(key("m2", "minions")).unwrap();
        sim.kill("m1");
        let took = answered(&cluster, "m3").await;
        assert!(took <= BOUND, "{took:?}");
        assert!(key("m2", "minions_pre").exists(), "an operator can accept it now");
        // Nobody accepts: it comes back to the first master.
        sim.kill("m3");
        tokio::time::sleep(60 * SECOND).await;
        cluster.start("m1");
        let took = answered(&cluster, "m1").await;
        assert!(took <= 20 * SECOND, "a round and the pause after it: {took:?}");
        // The only master that is there holds the key as pending, and accepts it.
        sim.kill("m1");
        tokio::time::sleep(60 * SECOND).await;
        std::fs::rename(key("m2", "minions_pre"), key("m2", "minions")).unwrap();
        let took = answered(&cluster, "m2").await;
        assert!(took <= 20 * SECOND, "{took:?}");
    });
}

/// The number of storms of twenty rounds each. Every round spares one master.
const STORMS: u64 = 12;

#[test]
fn with_one_reachable_master_there_is_always_one_that_is_answered() {
    for seed in 100..100 + STORMS {
        Sim::run(seed, async |sim| {
            // Every combination of failback and transport is among the seeds.
            let options = if seed % 2 == 0 {
                failback()
            } else {
                map! {}
            };
            let transport = if seed % 5 == 0 { "tcp" } else { "zeromq" };
            let (cluster, _ear) = begin(sim.clone(), plan(transport, options)).await;
            let mut jobs = Vec::new();
            for _ in 0..20 {
                storm(&cluster, &mut jobs).await;
            }
            tokio::time::sleep(120 * SECOND).await;
            check_end(&cluster, seed, &jobs).await;
        });
    }
}

/// Strikes up to two masters, checks that the minion still answers one, and undoes it.
async fn storm(cluster: &Cluster, jobs: &mut Vec<(&'static str, String)>) {
    let sim = &cluster.sim;
    let spared = MASTERS[sim.below(3) as usize];
    let struck: Vec<_> = MASTERS.into_iter().filter(|master| *master != spared && sim.below(3) > 0).collect();
    let kinds: Vec<u64> = struck.iter().map(|_| sim.below(5)).collect();
    for (master, kind) in struck.iter().zip(&kinds) {
        match kind {
            0 => sim.kill(master),
            1 => sim.power_off(master),
            2 => sim.pause(master),
            3 => sim.partition(master, "web1"),
            _ => sim.cut(master, "web1"),
        }
    }
    // Enough to notice the loss, to try two dead masters, and perhaps for a pause between rounds that began before.
    tokio::time::sleep(25 * SECOND).await;
    let answering = any_answers(cluster, jobs).await;
    assert!(!answering.is_empty(), "{struck:?} {kinds:?}\n{}", tail(cluster));
    tokio::time::sleep(Duration::from_millis(sim.below(20_000))).await;
    for (master, kind) in struck.iter().zip(&kinds) {
        match kind {
            0 => cluster.start(master),
            1 => {
                sim.power_on(master);
                cluster.start(master);
            }
            2 => sim.resume(master),
            3 => sim.repair(master, "web1"),
            _ => sim.mend(master, "web1"),
        }
    }
    tokio::time::sleep(Duration::from_millis(sim.below(30_000))).await;
}

const MASTERS: [&str; 3] = ["m1", "m2", "m3"];

/// Returns the masters that the minion answers within a second.
async fn any_answers(cluster: &Cluster, jobs: &mut Vec<(&'static str, String)>) -> Vec<&'static str> {
    let publish = async |master| {
        let job = cluster.publish(master, "web1", "test.ping", Vec::new());
        // A dead master is not waited for.
        tokio::time::timeout(SECOND, job).await.ok().flatten().map(|job| (master, job.jid))
    };
    let published = tokio::join!(publish("m1"), publish("m2"), publish("m3"));
    tokio::time::sleep(SECOND).await;
    let published: Vec<_> = [published.0, published.1, published.2].into_iter().flatten().collect();
    let returned = |(master, jid): &&(&'static str, String)| cluster.jobs(master).count_returns(jid).unwrap() == 1;
    let answering = published.iter().filter(returned).map(|(master, _)| *master).collect();
    jobs.extend(published);
    answering
}

/// Checks that one master is followed, no job was begun twice, and every job that was begun has returned to its master.
async fn check_end(cluster: &Cluster, seed: u64, jobs: &[(&'static str, String)]) {
    let answering = any_answers(cluster, &mut Vec::new()).await;
    assert_eq!(answering.len(), 1, "seed {seed}: {answering:?} are answered\n{}", tail(cluster));
    assert_eq!(cluster.ear.begun_twice(), [], "seed {seed}");
    let mut begun = 0;
    for (master, jid) in jobs.iter().filter(|(_, jid)| !cluster.ear.begun(jid, "web1").is_empty()) {
        begun += 1;
        assert_eq!(cluster.jobs(master).count_returns(jid).unwrap(), 1, "seed {seed}: {jid} of {master}");
    }
    assert!(begun >= 20, "seed {seed}: {begun} of {} jobs were begun", jobs.len());
}
