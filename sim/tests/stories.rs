//! Stories that storms have told, each as short as it can be told.

use std::time::Duration;

use rt::sim::Sim;
use sim::{Cluster, Plan};

async fn seconds(number: u64) {
    tokio::time::sleep(Duration::from_secs(number)).await;
}

/// Over tcp the connection of a minion that stands still stays open, and what waits in it may be sealed with a key that came and
/// went meanwhile.
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
        // Sealed with a key the minion never had, and never will have.
        let job = cluster.publish_held("m1", "*", "test.ping", Vec::new(), 600).await.unwrap();
        cluster.rotate("m1");
        seconds(90).await;
        sim.resume("web1");
        seconds(30).await;
        assert_eq!(cluster.ear.begun(&job.jid, "web1").len(), 1, "{}", sim.trace().join("\n"));
        assert_eq!(cluster.jobs("m1").count_returns(&job.jid).unwrap(), 1);
    });
}
