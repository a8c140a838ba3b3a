//! Jobs that the swarm publishes itself, through the master on this machine.

use anyhow::{Context, Result};
use client::{Job, LocalClient};
use swarm::Swarm;
use tokio::time::{MissedTickBehavior, interval};

use super::args::Arguments;

/// Publishes jobs once all minions are ready, until it is dropped. Without a function it only waits.
pub async fn jobs(arguments: &Arguments, swarm: &Swarm) -> Result<()> {
    let Some(function) = &arguments.publish else { return std::future::pending().await };
    let path = arguments.config_dir.join("master");
    let source = config::Source { path: path.clone() };
    let config = config::Master::load(&source, &config::LoadOptions::default())
        .with_context(|| format!("failed to read the master's configuration {}", path.display()))?;
    let mut client = LocalClient::new(rt::Rt::real(), client::settings::from_config(&config));
    let job = Job {
        target: format!("{}*", arguments.prefix).into(),
        target_type: "glob".into(),
        function: function.as_str().into(),
        ..Job::default()
    };
    let everybody = arguments.minions as u64;
    swarm.until(|counts| counts.ready >= everybody).await;
    let mut times = interval(arguments.publish_every);
    // After a slow job the next one waits its whole time, or jobs would pile up.
    times.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        times.tick().await;
        let at = swarm.elapsed();
        let ticket = client.publish(&job).await.with_context(|| format!("failed to publish {function}"))?;
        if let Some(ticket) = ticket {
            swarm.published(&ticket.jid, at);
        }
    }
}
