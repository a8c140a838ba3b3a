//! Stories of masters that share: jobs on their way between them.

use rt::sim::Sim;
use sim::{Cluster, Job, Mode, Plan, Traffic};
use tracing::subscriber::DefaultGuard;
use value::{Value, list, map};

use crate::seconds;

/// Each minion has one master for ever: `web1` has `m1`, `web2` has `m2`.
fn single() -> Plan {
    Plan { masters: 2, minions: 2, mode: Mode::Single, sharing: true, ..Plan::default() }
}

/// A minion that follows one of three masters, `m1` first.
fn failover() -> Plan {
    Plan { masters: 3, minions: 1, mode: Mode::Failover, sharing: true, ..Plan::default() }
}

/// Starts a cluster, and waits until all of it is connected.
async fn begin(sim: &Sim, plan: Plan) -> (Cluster, DefaultGuard) {
    let cluster = Cluster::new(sim.clone(), plan);
    let ear = cluster.ear.listen();
    cluster.start_all();
    seconds(30).await;
    (cluster, ear)
}

async fn ping(cluster: &Cluster, master: &str) -> Job {
    cluster.publish(master, "web*", "test.ping", Vec::new()).await.unwrap()
}

fn trace(cluster: &Cluster) -> String {
    cluster.sim.trace().join("\n")
}

/// Checks that a minion has not begun a job.
fn waits(cluster: &Cluster, job: &Job, minion: &str) {
    assert!(cluster.ear.begun(&job.jid, minion).is_empty(), "{}", trace(cluster));
}

/// Checks that each minion has begun a job once, and that all masters have all returns.
fn ran_once(cluster: &Cluster, job: &Job) {
    for minion in &job.targets {
        assert_eq!(cluster.ear.begun(&job.jid, minion).len(), 1, "{minion}: {}", trace(cluster));
    }
    for master in cluster.masters() {
        let returns = cluster.jobs(&master).count_returns(&job.jid).unwrap();
        assert_eq!(returns, job.targets.len(), "{master}: {}", trace(cluster));
    }
    assert_eq!(cluster.ear.told_twice(), []);
}

/// No other member delivers a job that one has been told to deliver.
#[test]
fn a_job_reaches_the_minions_of_a_member_whose_disk_was_full() {
    Sim::run(86, async |sim| {
        let (cluster, _ear) = begin(&sim, single()).await;
        cluster.set_disk_full("m1", true);
        let job = cluster.publish_held("m2", "web*", "test.ping", Vec::new(), 300).await.unwrap();
        seconds(20).await;
        waits(&cluster, &job, "web1");
        cluster.set_disk_full("m1", false);
        seconds(20).await;
        ran_once(&cluster, &job);
    });
}

/// Job ids and records go by the time of the set, and returns of jobs that seem to be of the future are kept.
#[test]
fn a_master_whose_clock_is_two_days_wrong_works_like_any_other() {
    for (days, restarts) in [(-2, false), (-2, true), (2, false), (2, true)] {
        Sim::run(93, async |sim| {
            let (cluster, _ear) = begin(&sim, single()).await;
            sim.move_clock("m1", days * 86_400);
            if restarts {
                sim.kill("m1");
                cluster.start("m1");
            }
            seconds(60).await;
            for master in cluster.masters() {
                let job = ping(&cluster, &master).await;
                seconds(20).await;
                assert_eq!(job.targets.len(), 2);
                ran_once(&cluster, &job);
            }
            // The minions run what they have in their schedule.
            seconds(300).await;
            sim.move_clock("m1", -days * 86_400);
            seconds(90).await;
            let job = ping(&cluster, "m1").await;
            seconds(20).await;
            ran_once(&cluster, &job);
            for minion in cluster.minions() {
                assert_eq!(cluster.waiting_returns(&minion), [""; 0], "{}", trace(&cluster));
                let (jid, _) = cluster.ear.scheduled(&minion).pop().unwrap();
                for master in cluster.masters() {
                    assert_eq!(cluster.jobs(&master).count_returns(&jid).unwrap(), 1, "{master}: {}", trace(&cluster));
                }
            }
            let said = if days > 0 { "is 2 days ahead of" } else { "is 2 days behind" };
            for words in [format!("the clock of the master m1 {said}"), format!("the clock of this host {said}")] {
                assert!(trace(&cluster).contains(&words), "{words}: {}", trace(&cluster));
            }
        });
    }
}

/// A new disk knows no time. What the master does not take, its minion keeps.
#[test]
fn a_return_is_kept_by_the_minion_while_nobody_knows_which_clock_is_right() {
    Sim::run(94, async |sim| {
        let (cluster, _ear) = begin(&sim, failover()).await;
        sim.move_clock("m1", -2 * 86_400);
        sim.kill("m1");
        let _removed = cluster.ask_set("m2", map! { "what" => "remove", "name" => cluster.first_node("m1") }).await;
        seconds(1).await;
        cluster.empty("m1");
        cluster.start("m1");
        seconds(330).await;
        sim.move_clock("m1", 2 * 86_400);
        seconds(120).await;
        let job = ping(&cluster, "m1").await;
        seconds(20).await;
        for master in cluster.masters() {
            assert_eq!(cluster.jobs(&master).count_returns(&job.jid).unwrap(), 1, "{master}: {}", trace(&cluster));
        }
        assert_eq!(cluster.waiting_returns("web1"), [""; 0], "{}", trace(&cluster));
        for (jid, _) in cluster.ear.scheduled("web1") {
            let found =
                cluster.masters().iter().filter(|master| cluster.jobs(master).count_returns(&jid).unwrap() > 0).count();
            assert_eq!(found, 3, "{jid}: {}", trace(&cluster));
        }
    });
}

/// Its minion goes to another member meanwhile.
#[test]
fn a_member_that_starts_with_a_full_disk_waits_for_room() {
    Sim::run(90, async |sim| {
        let (cluster, _ear) = begin(&sim, failover()).await;
        cluster.set_disk_full("m1", true);
        sim.kill("m1");
        cluster.start("m1");
        seconds(20).await;
        assert!(cluster.runs("m1"), "{}", trace(&cluster));
        let job = ping(&cluster, "m2").await;
        seconds(20).await;
        assert_eq!(cluster.jobs("m2").count_returns(&job.jid).unwrap(), 1, "{}", trace(&cluster));
        cluster.set_disk_full("m1", false);
        seconds(90).await;
        ran_once(&cluster, &job);
    });
}

/// What was sent into a link that breaks is lost, and so it is sent again over the next one.
#[test]
fn a_job_that_is_lost_with_a_link_is_sent_again_when_the_link_is_back() {
    for hold in [0, 300] {
        Sim::run(87, async |sim| {
            let (cluster, _ear) = begin(&sim, single()).await;
            sim.partition("m1", "m2");
            let job = cluster.publish_held("m1", "web*", "test.ping", Vec::new(), hold).await.unwrap();
            // A job that is held outlives the time in which others may be begun.
            seconds(if hold > 0 { 100 } else { 10 }).await;
            waits(&cluster, &job, "web2");
            sim.repair("m1", "m2");
            seconds(15).await;
            ran_once(&cluster, &job);
            for master in cluster.masters() {
                assert!(cluster.held_jobs(&master).is_empty(), "{master}: {}", trace(&cluster));
            }
        });
    }
}

/// All members hold the job, and the minion may connect to any of them.
#[test]
fn a_held_job_that_is_dropped_on_one_member_is_delivered_by_none() {
    for master in ["m1", "m2", "m3"] {
        Sim::run(91, async |sim| {
            let (cluster, _ear) = begin(&sim, Plan { minions: 2, ..failover() }).await;
            sim.kill("web1");
            seconds(10).await;
            let job = cluster.publish_held("m2", "web1", "test.ping", Vec::new(), 300).await.unwrap();
            seconds(2).await;
            let answer = cluster.drop_held(master, &job.jid).await.unwrap();
            let dropped = map! { "dropped" => true, "away" => Value::List(Vec::new()) };
            assert_eq!(answer, Value::from(dropped), "{}", trace(&cluster));
            seconds(2).await;
            for master in cluster.masters() {
                assert!(cluster.held_jobs(&master).is_empty(), "{master}: {}", trace(&cluster));
            }
            cluster.start("web1");
            seconds(60).await;
            waits(&cluster, &job, "web1");
        });
    }
}

#[test]
fn who_drops_a_held_job_hears_which_members_are_away() {
    Sim::run(92, async |sim| {
        let (cluster, _ear) = begin(&sim, failover()).await;
        sim.kill("web1");
        seconds(10).await;
        let job = cluster.publish_held("m2", "web1", "test.ping", Vec::new(), 300).await.unwrap();
        sim.kill("m3");
        seconds(10).await;
        let answer = cluster.drop_held("m1", &job.jid).await.unwrap();
        assert_eq!(answer.get("away"), Some(&list!["m3"]), "{}", trace(&cluster));
    });
}

/// Nobody knows whether the job had arrived.
#[test]
fn a_job_that_had_arrived_before_the_link_broke_runs_once() {
    Sim::run(88, async |sim| {
        let (cluster, _ear) = begin(&sim, single()).await;
        let sleep = vec![Value::from(15)];
        let job = cluster.publish("m1", "web*", "test.sleep", sleep).await.unwrap();
        seconds(1).await;
        sim.partition("m1", "m2");
        seconds(5).await;
        sim.repair("m1", "m2");
        seconds(5).await;
        for master in cluster.masters() {
            assert_eq!(cluster.jobs(&master).count_returns(&job.jid).unwrap(), 0, "it still runs");
        }
        seconds(25).await;
        ran_once(&cluster, &job);
    });
}

#[test]
fn a_minion_that_moves_before_the_job_arrives_gets_it_where_it_goes() {
    // From the member that was to deliver it, or from the publisher; to the publisher, or to a third one.
    for (publisher, dies) in [("m3", true), ("m3", false), ("m2", true), ("m2", false), ("m1", false)] {
        Sim::run(89, async |sim| {
            let (cluster, _ear) = begin(&sim, failover()).await;
            sim.partition("m1", "web1");
            let job = ping(&cluster, publisher).await;
            if dies {
                sim.kill("m1");
            }
            seconds(25).await;
            assert_eq!(cluster.ear.begun(&job.jid, "web1").len(), 1, "{publisher}, {dies}: {}", trace(&cluster));
            sim.repair("m1", "web1");
            if dies {
                cluster.start("m1");
            }
            seconds(60).await;
            ran_once(&cluster, &job);
        });
    }
}

#[test]
fn a_member_that_dies_with_a_job_in_its_hands_delivers_it_later() {
    for without_power in [false, true] {
        Sim::run(90, async |sim| {
            let (cluster, _ear) = begin(&sim, single()).await;
            sim.partition("m2", "web2");
            let job = ping(&cluster, "m1").await;
            seconds(1).await;
            match without_power {
                true => sim.power_off("m2"),
                false => sim.kill("m2"),
            }
            sim.repair("m2", "web2");
            seconds(5).await;
            waits(&cluster, &job, "web2");
            if without_power {
                sim.power_on("m2");
            }
            cluster.start("m2");
            seconds(20).await;
            ran_once(&cluster, &job);
        });
    }
}

#[test]
fn a_publisher_that_dies_after_it_has_sent_a_job_gets_the_return_later() {
    Sim::run(91, async |sim| {
        let (cluster, _ear) = begin(&sim, single()).await;
        let sleep = vec![Value::from(5)];
        let job = cluster.publish("m1", "web*", "test.sleep", sleep).await.unwrap();
        seconds(1).await;
        sim.kill("m1");
        seconds(10).await;
        assert_eq!(cluster.jobs("m2").count_returns(&job.jid).unwrap(), 1, "{}", trace(&cluster));
        cluster.start("m1");
        seconds(60).await;
        ran_once(&cluster, &job);
    });
}

#[test]
fn a_job_at_another_member_can_be_found_while_it_runs() {
    Sim::run(92, async |sim| {
        let (cluster, _ear) = begin(&sim, single()).await;
        let job = cluster.publish("m1", "web2", "test.sleep", vec![Value::from(20)]).await.unwrap();
        seconds(2).await;
        let arg = vec![Value::from(job.jid.as_str())];
        let found = cluster.publish("m1", "web2", "saltutil.find_job", arg).await.unwrap();
        seconds(5).await;
        let id = wire::MinionId::new("web2").unwrap();
        let returned = cluster.jobs("m1").return_of(&found.jid, &id).unwrap();
        let returned = returned.unwrap_or_else(|| panic!("{}", trace(&cluster)));
        assert_eq!(returned.value.get("jid").and_then(Value::as_str), Some(job.jid.as_str()), "{returned:?}");
        seconds(20).await;
        ran_once(&cluster, &job);
    });
}

/// With the default options, whatever the members decided before.
#[test]
fn members_with_nothing_to_do_send_each_other_less_than_a_kilobyte_a_second() {
    for plan in [single(), Plan { witness: true, ..failover() }] {
        Sim::run(95, async |sim| {
            let (cluster, _ear) = begin(&sim, plan).await;
            ping(&cluster, "m1").await;
            seconds(60).await;
            let before = Traffic::count(&cluster);
            seconds(240).await;
            let pairs = Traffic::count(&cluster).since(&before);
            assert!(pairs.iter().all(|(_, bytes)| (1..1_000).contains(bytes)), "{pairs:?}");
        });
    }
}
