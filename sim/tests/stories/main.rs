//! Minimal scenarios that storms have revealed.

mod sharing;

use std::time::Duration;

use rt::sim::Sim;
use sim::{Cluster, Plan};

async fn seconds(number: u64) {
    tokio::time::sleep(Duration::from_secs(number)).await;
}

/// Over tcp the connection of a suspended minion stays open, and messages in it may be encrypted with a key that was
/// created and replaced in the meantime.
#[test]
fn a_held_job_reaches_a_minion_that_slept_through_two_rotations() {
    Sim::run(84, async |sim| {
        let cluster = Cluster::new(sim.clone(), Plan { transport: "tcp", ..Plan::default() });
        let _ear = cluster.ear.listen();
        cluster.start_all();
        seconds(30).await;
        sim.pause("web1");
        cluster.rotate("m1");
        seconds(90).await;
        // Encrypted with a key that the minion never had and never will have.
        let job = cluster.publish_held("m1", "*", "test.ping", Vec::new(), 600).await.unwrap();
        cluster.rotate("m1");
        seconds(90).await;
        sim.resume("web1");
        seconds(30).await;
        assert_eq!(cluster.ear.begun(&job.jid, "web1").len(), 1, "{}", sim.trace().join("\n"));
        assert_eq!(cluster.jobs("m1").count_returns(&job.jid).unwrap(), 1);
    });
}

/// Job ids are timestamps, and two busy masters may publish in the same microsecond.
#[test]
fn jobs_of_two_masters_under_one_id_both_return() {
    Sim::run(85, async |sim| {
        let cluster = Cluster::new(sim.clone(), Plan { masters: 2, ..Plan::default() });
        let _ear = cluster.ear.listen();
        cluster.start_all();
        seconds(30).await;
        for (jid, fun, runs) in [("20261122225505646901", "test.ping", 1), ("20261122225505646902", "test.true", 2)] {
            cluster.publish_as(jid, "m1", "*", "test.ping", Vec::new()).await.unwrap();
            cluster.publish_as(jid, "m2", "*", fun, Vec::new()).await.unwrap();
            seconds(5).await;
            let begun = cluster.ear.begun(jid, "web1").len();
            assert_eq!(begun, runs, "the same content runs once: {}", sim.trace().join("\n"));
            for master in ["m1", "m2"] {
                assert_eq!(cluster.jobs(master).count_returns(jid).unwrap(), 1, "{jid} at {master}");
            }
        }
    });
}
