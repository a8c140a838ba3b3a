//! An honest minion's pings, one after the other, during an attack.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use client::{Job, LocalClient};

/// The time limit for one ping.
const LIMIT: Duration = Duration::from_secs(30);

/// The rest between two pings: one at a time, so that they are not a flood.
const REST: Duration = Duration::from_millis(5);

/// Pings in a separate thread.
pub struct Pings {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Vec<Duration>>>,
}

impl Pings {
    /// Begins to ping a minion through its master.
    pub fn begin(conf: &Path, minion: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (conf, minion, stopped) = (conf.to_owned(), minion.to_owned(), stop.clone());
        Pings { stop, thread: std::thread::spawn(move || pings(conf, &minion, &stopped)) }
    }

    /// Ends them.
    pub fn end(self) -> Result<Times> {
        self.stop.store(true, Ordering::Relaxed);
        let Ok(took) = self.thread.join() else { bail!("the pings panicked") };
        let mut took = took?;
        took.sort();
        let part = |of_hundred: usize| took.get(took.len().saturating_sub(1) * of_hundred / 100).copied();
        let (half, p99) = part(50).zip(part(99)).context("no ping was answered")?;
        Ok(Times { count: took.len(), half, p99 })
    }
}

/// How long pings took.
pub struct Times {
    /// The number of pings.
    pub count: usize,
    /// The median.
    pub half: Duration,
    /// What 99 of 100 stayed below.
    pub p99: Duration,
}

impl fmt::Display for Times {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        write!(out, "{} pings, p50 {:.1} ms, p99 {:.1} ms", self.count, ms(self.half), ms(self.p99))
    }
}

fn pings(conf: PathBuf, minion: &str, stopped: &AtomicBool) -> Result<Vec<Duration>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("failed to start tokio")?.block_on(async {
        let config = config::Master::load(&config::Source { path: conf }, &config::LoadOptions::default())?;
        let mut client = LocalClient::new(rt::Rt::real(), client::settings::from_config(&config));
        let mut bus = client.listen().await?;
        let mut took = Vec::new();
        while !stopped.load(Ordering::Relaxed) {
            let one = tokio::time::timeout(LIMIT, ping(&mut client, &mut bus, minion)).await;
            took.push(one.context("a ping was not answered")??);
            tokio::time::sleep(REST).await;
        }
        Ok(took)
    })
}

async fn ping(client: &mut LocalClient, bus: &mut event::Listening, minion: &str) -> Result<Duration> {
    let job = Job { target: minion.into(), target_type: "glob".into(), function: "test.ping".into(), ..Job::default() };
    let begin = Instant::now();
    let Some(ticket) = client.publish(&job).await? else { bail!("nobody matches {minion}") };
    let wanted = format!("salt/job/{}/ret/{minion}", ticket.jid);
    while bus.next().await?.tag() != wanted {}
    Ok(begin.elapsed())
}
