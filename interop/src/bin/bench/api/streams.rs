//! Many open streams of events.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use reqwest::Client;
use tokio::sync::Notify;
use tokio::time::timeout;

/// The streams.
pub const STREAMS: usize = 500;

/// The events that each stream should get, and how long that may take. The real master gives up on readers that are slow.
const EVENTS: usize = 20;
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest that all streams may take to open. At the real one some never do: 452 to 500 of them open.
const LONGEST: Duration = Duration::from_secs(60);

/// The rest before events are counted.
const SETTLING: Duration = Duration::from_secs(3);

/// The tag of the events.
const TAG: &str = "salt/netapi/hook/bench";

/// What all streams have received.
#[derive(Default)]
struct Received {
    open: AtomicUsize,
    events: AtomicUsize,
    more: Notify,
}

impl Received {
    /// Waits until a number is reached.
    async fn until(&self, count: fn(&Self) -> &AtomicUsize, wanted: usize) {
        loop {
            let more = self.more.notified();
            if count(self).load(Ordering::SeqCst) >= wanted {
                return;
            }
            more.await;
        }
    }
}

/// Streams that stay open.
pub struct Streams(Vec<tokio::task::JoinHandle<Result<()>>>);

impl Drop for Streams {
    fn drop(&mut self) {
        self.0.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// What is measured while streams are open.
#[derive(Debug)]
pub struct Measured {
    /// How many of the streams are open.
    pub open: usize,
    /// Events that arrived in a second, at all streams together.
    pub events: f64,
}

/// Opens streams and fires events. An error if fewer than three of four open.
pub async fn open(url: &str, session: &str) -> Result<(Streams, Measured)> {
    let received = Arc::new(Received::default());
    let client = Client::builder().pool_max_idle_per_host(0).build()?;
    let streams = (0..STREAMS).map(|_| {
        let (client, url, session) = (client.clone(), format!("{url}/events"), session.to_owned());
        let received = received.clone();
        tokio::spawn(async move { read(&client, &url, &session, &received).await })
    });
    let streams = Streams(streams.collect());
    let _ = timeout(LONGEST, received.until(|received| &received.open, STREAMS)).await;
    let open = received.open.load(Ordering::SeqCst);
    eprintln!("  {open} of {STREAMS} streams are open");
    ensure!(open * 4 >= STREAMS * 3, "{open} of {STREAMS} streams are open");
    let hook = Client::new();
    let fire = async || {
        let body = format!(r#"{{"text": "{}"}}"#, "x".repeat(1000));
        let request = hook.post(format!("{url}/hook/bench")).header("Content-Type", "application/json").body(body);
        let answer = request.header("X-Auth-Token", session).send().await?;
        ensure!(answer.status().is_success(), "an event was refused: {}", answer.status());
        Ok(())
    };
    // A stream of the real one is open before it listens.
    fire().await?;
    tokio::time::sleep(SETTLING).await;
    let (begin, before) = (Instant::now(), received.events.load(Ordering::SeqCst));
    for _ in 0..EVENTS {
        fire().await?;
    }
    let wanted = before + EVENTS * open;
    let all = timeout(PATIENCE, received.until(|received| &received.events, wanted)).await.is_ok();
    let (arrived, took) = (received.events.load(Ordering::SeqCst) - before, begin.elapsed());
    eprintln!("  {arrived} of {} events in {took:.1?}{}", EVENTS * open, if all { "" } else { ", not all" });
    Ok((streams, Measured { open, events: arrived as f64 / took.as_secs_f64() }))
}

/// Reads a stream, for ever.
async fn read(client: &Client, url: &str, session: &str, received: &Received) -> Result<()> {
    let mut stream = client.get(url).header("X-Auth-Token", session).send().await?.error_for_status()?;
    let (mut line, mut open) = (Vec::new(), false);
    let wanted = format!("tag: {TAG}");
    while let Some(part) = stream.chunk().await? {
        for byte in part {
            if byte != b'\n' {
                line.push(byte);
                continue;
            }
            if !open {
                open = true;
                received.open.fetch_add(1, Ordering::SeqCst);
            }
            if line == wanted.as_bytes() {
                received.events.fetch_add(1, Ordering::SeqCst);
            }
            line.clear();
        }
        received.more.notify_one();
    }
    anyhow::bail!("a stream has ended")
}
