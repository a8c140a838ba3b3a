//! Returns that one master stores and shares: how many, what they cost, and when the other one has them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use event::Listening;
use interop::{Salt, Sandbox};
use swarm::Behaviour;
use tokio::time::timeout;

use super::load;
use super::pair::{Pair, block_on, client, processor};
use super::{Line, seconds};

/// The number of minions; each job has as many returns.
const MINIONS: usize = 1_000;

/// How long small returns arrive.
const LENGTH: Duration = Duration::from_secs(10);

/// The size of a large return in bytes.
const LARGE: usize = 50_000;

/// After this time without an event of a return there are no more.
const SILENCE: Duration = Duration::from_secs(5);

/// The time limit for the other master to have everything.
const LIMIT: Duration = Duration::from_secs(60);

/// The goals: small returns a second, the price for the storing master, and the time for a thousand large ones.
const RATE: f64 = 10_000.0;
const PRICE: f64 = 1.25;
const LARGE_TIME: Duration = Duration::from_secs(2);

/// What a pair does.
struct Measured {
    returns: u64,
    /// Until the first master has acknowledged the last of them.
    stored: Duration,
    /// Until the second master has announced the last of them.
    shared: Duration,
    /// Processor time of the first master for each.
    price: Duration,
    /// From the last acknowledgement of the large ones until the second master has announced all of them.
    large: Duration,
}

/// Measures both pairs.
pub fn measure(sandbox: &Sandbox, ours: &Salt) -> Result<Vec<Line>> {
    let alone = pair(sandbox, ours, false)?;
    let sharing = pair(sandbox, ours, true)?;
    let rate = |measured: &Measured, time: Duration| measured.returns as f64 / time.as_secs_f64();
    let shown = |rate: f64| format!("{rate:.0}/s");
    let price = |measured: &Measured| format!("{:.0} µs", measured.price.as_secs_f64() * 1e6);
    let line = |what, alone, sharing, goal, reached| Line { what, alone, sharing, goal, reached };
    let shared = rate(&sharing, sharing.shared);
    Ok(vec![
        line(
            "returns of 1,000 minions, acknowledged",
            Some(shown(rate(&alone, alone.stored))),
            shown(rate(&sharing, sharing.stored)),
            "",
            true,
        ),
        line("the same, on both masters", None, shown(shared), "10,000/s", shared >= RATE),
        line(
            "processor time of the storing master for each",
            Some(price(&alone)),
            price(&sharing),
            "25 % more",
            sharing.price.as_secs_f64() <= alone.price.as_secs_f64() * PRICE,
        ),
        line(
            "1,000 returns of 50 kB: after the last one is stored, on both",
            None,
            seconds(sharing.large),
            "2 s",
            sharing.large <= LARGE_TIME,
        ),
    ])
}

fn pair(sandbox: &Sandbox, ours: &Salt, shares: bool) -> Result<Measured> {
    let mut pair = Pair::start(sandbox, ours, shares, true)?;
    let keys = load::keys()?;
    let options = load::options(&pair.one, MINIONS, Behaviour { return_size: LARGE, ..Behaviour::default() });
    let measured = block_on(async {
        let swarm = load::start(options, &keys).await?;
        let (mut client, other) = (client(&pair.one)?, client(&pair.two)?);
        // The first one warms the caches of everything.
        load::job(&swarm, &mut client, MINIONS, "test.ping").await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut bus = other.listen().await?;
        let (before, begun) = (processor(&mut pair.one)?, Instant::now());
        let mut jids = Vec::new();
        let published = async {
            while begun.elapsed() < LENGTH {
                jids.push(load::job(&swarm, &mut client, MINIONS, "test.ping").await?);
            }
            anyhow::Ok(begun.elapsed())
        };
        let (stored, seen) = match shares {
            // Read all the time: a bus drops a reader that falls behind.
            true => {
                let seen = tokio::spawn(async move {
                    let mut seen: HashMap<String, (usize, Instant)> = HashMap::new();
                    while let Ok(Ok(event)) = timeout(SILENCE, bus.next()).await {
                        if let Some(jid) = returned(event.tag()) {
                            let job = seen.entry(jid.to_owned()).or_insert((0, Instant::now()));
                            *job = (job.0 + 1, Instant::now());
                        }
                    }
                    seen
                });
                let stored = published.await?;
                (stored, Some(seen.await.context("the reader has failed")?))
            }
            false => (published.await?, None),
        };
        let returns = (jids.len() * MINIONS) as u64;
        let price = (processor(&mut pair.one)? - before) / u32::try_from(returns)?;
        let shared = match seen {
            None => stored,
            Some(seen) => {
                let jobs: Vec<_> = jids.iter().filter_map(|jid| seen.get(jid)).collect();
                let count: usize = jobs.iter().map(|(count, _)| count).sum();
                anyhow::ensure!(count as u64 == returns, "the other master announced {count} of {returns} returns");
                let last = jobs.iter().map(|(_, at)| *at).max().context("there were jobs")?;
                last.duration_since(begun)
            }
        };
        let large = match shares {
            true => large(&swarm, &mut client, other.listen().await?).await?,
            false => Duration::ZERO,
        };
        Ok(Measured { returns, stored, shared, price, large })
    })?;
    pair.stop()?;
    Ok(measured)
}

/// Returns the job of an event about a return.
fn returned(tag: &str) -> Option<&str> {
    let (jid, _) = tag.strip_prefix("salt/job/")?.split_once("/ret/")?;
    Some(jid)
}

/// Has all minions return a highstate, and waits until the other master has announced them.
async fn large(swarm: &swarm::Swarm, client: &mut client::LocalClient, mut bus: Listening) -> Result<Duration> {
    let seen = tokio::spawn(async move {
        let mut count = 0;
        while count < MINIONS {
            let event =
                timeout(LIMIT, bus.next()).await.with_context(|| format!("only {count} large returns came"))??;
            count += usize::from(event.tag().contains("/ret/"));
        }
        anyhow::Ok(Instant::now())
    });
    load::job(swarm, client, MINIONS, "state.highstate").await?;
    let stored = Instant::now();
    Ok(seen.await.context("the reader has failed")??.saturating_duration_since(stored))
}
