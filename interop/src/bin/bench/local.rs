//! Saltern's client in this process: the time from publishing a job to its first return.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use client::{Job, LocalClient};

const LIMIT: Duration = Duration::from_secs(20);

/// Publishes `test.ping` `count` times and returns how long each first return took.
pub fn jobs(conf: &Path, minion: &str, count: usize) -> Result<Vec<Duration>> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("failed to start tokio")?;
    runtime.block_on(async {
        let source = config::Source { path: conf.to_owned() };
        let config = config::Master::load(&source, &config::LoadOptions::default())?;
        let mut client = LocalClient::new(rt::Rt::real(), client::settings::from_config(&config));
        // Before the first job: connecting to the event bus is not part of the measured time, and no return can be
        // missed.
        let mut bus = client.listen().await?;
        let mut took = Vec::with_capacity(count);
        for _ in 0..count {
            took.push(
                tokio::time::timeout(LIMIT, one(&mut client, &mut bus, minion)).await.context("no return came")??,
            );
        }
        Ok(took)
    })
}

async fn one(client: &mut LocalClient, bus: &mut event::Listening, minion: &str) -> Result<Duration> {
    let job = Job { target: minion.into(), target_type: "glob".into(), function: "test.ping".into(), ..Job::default() };
    let begin = Instant::now();
    let Some(ticket) = client.publish(&job).await? else { bail!("nobody matches {minion}") };
    let wanted = format!("salt/job/{}/ret/{minion}", ticket.jid);
    while bus.next().await?.tag() != wanted {}
    Ok(begin.elapsed())
}
