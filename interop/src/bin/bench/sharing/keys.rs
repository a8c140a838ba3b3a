//! From `salt-key -a` until the minion of the second master has answered a command there.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use client::Job;
use interop::{Minion, Salt, Sandbox};
use tokio::time::timeout;

use super::pair::{Pair, block_on, client, listen};
use super::{Line, milliseconds, quantile};

/// How many keys are accepted one after the other.
const KEYS: usize = 12;

/// Until a minion asks again whether it is accepted. From then on the master answers when that is decided.
const ASKED_AGAIN: Duration = Duration::from_millis(2_500);

/// The time limit for a minion to be there.
const LIMIT: Duration = Duration::from_secs(30);

/// The goals: 99 of 100, and always.
const MOST: Duration = Duration::from_millis(100);
const ALWAYS: Duration = Duration::from_secs(1);

/// Accepts on the first master if the two share, and on the second one otherwise.
pub fn measure(sandbox: &Sandbox, ours: &Salt) -> Result<Vec<Line>> {
    let alone = accept_all(sandbox, ours, false)?;
    let sharing = accept_all(sandbox, ours, true)?;
    let line = |what, part, goal, wanted| {
        let (alone, sharing) = (quantile(&alone, part), quantile(&sharing, part));
        let reached = sharing <= wanted;
        Line { what, alone: Some(milliseconds(alone)), sharing: milliseconds(sharing), goal, reached }
    };
    Ok(vec![
        line("key accepted until its minion answers the other master, median", 0.5, "100 ms", MOST),
        line("the same, the longest of twelve", 1.0, "1 s", ALWAYS),
    ])
}

fn accept_all(sandbox: &Sandbox, ours: &Salt, shares: bool) -> Result<Vec<Duration>> {
    let pair = Pair::start(sandbox, ours, shares, false)?;
    let decides = if shares { &pair.one } else { &pair.two };
    let word = if shares { "sharing" } else { "alone" };
    let mut times = Vec::new();
    for number in 0..KEYS {
        let id = format!("{word}-{number:02}");
        let _minion = Minion::build(ours, &id).master(&pair.two).start(sandbox)?;
        decides.wait_pending(&id)?;
        std::thread::sleep(ASKED_AGAIN);
        times.push(block_on(accept(&pair, decides, &id))?);
    }
    pair.stop()?;
    times.sort();
    Ok(times)
}

async fn accept(pair: &Pair, decides: &interop::Master, id: &str) -> Result<Duration> {
    let mut client = client(&pair.two)?;
    let mut bus = listen(&pair.two)?.listen(event::Filter::prefix("salt/")).await?;
    let program = decides.program("salt-key").args(["-y", "-a", id]);
    let begun = Instant::now();
    let accepted = tokio::task::spawn_blocking(move || program.run()?.ok());
    let started = format!("salt/minion/{id}/start");
    let event = async {
        while bus.next().await?.tag() != started {}
        anyhow::Ok(())
    };
    timeout(LIMIT, event).await.with_context(|| format!("{id} did not start"))??;
    let job = Job { target: id.into(), target_type: "glob".into(), function: "test.ping".into(), ..Job::default() };
    let Some(ticket) = client.publish(&job).await? else { bail!("nobody matches {id}") };
    let wanted = format!("salt/job/{}/ret/{id}", ticket.jid);
    let answer = async {
        while bus.next().await?.tag() != wanted {}
        anyhow::Ok(())
    };
    timeout(LIMIT, answer).await.with_context(|| format!("{id} did not answer"))??;
    let took = begun.elapsed();
    accepted.await??;
    Ok(took)
}
