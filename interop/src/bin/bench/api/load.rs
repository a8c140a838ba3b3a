//! Requests of several clients at once, each of which keeps its connection.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use reqwest::{Client, StatusCode};

/// The clients.
const CLIENTS: usize = 8;

/// A row ends after this time.
const TIME: Duration = Duration::from_secs(6);

/// Requests of each client before those that count.
const WARM_UP: usize = 2;

/// What clients ask for.
pub struct Kind {
    /// The name of the row.
    pub name: &'static str,
    /// The path.
    path: &'static str,
    /// The body of a POST; `None` for a GET.
    body: Option<&'static str>,
    /// A part of each right answer.
    expected: &'static str,
    /// The largest number of requests of each client.
    most: usize,
}

/// The rows. The list of jobs comes first, while there are equally many on both sides.
pub const KINDS: [Kind; 3] = [
    Kind {
        name: "runner jobs.list_jobs, requests per second",
        path: "/",
        body: Some(r#"{"client": "runner", "fun": "jobs.list_jobs"}"#),
        expected: r#""Function": "test.ping""#,
        // The master keeps each call with its return as a further job, so the list gets longer by each.
        most: 5,
    },
    Kind {
        name: "local test.ping, requests per second",
        path: "/",
        body: Some(r#"{"client": "local", "tgt": "*", "fun": "test.ping"}"#),
        expected: r#"": true"#,
        most: usize::MAX,
    },
    Kind {
        name: "GET /minions, requests per second",
        path: "/minions",
        body: None,
        expected: r#""osfullname": "#,
        most: usize::MAX,
    },
];

/// The measured values of a row.
#[derive(Debug)]
pub struct Load {
    /// Requests per second.
    pub rate: f64,
    /// The time that 99 of a hundred did not take, in milliseconds.
    pub p99: f64,
}

/// Sends a request and checks the answer.
pub async fn ask(client: &Client, url: &str, session: &str, kind: &Kind) -> Result<()> {
    let url = format!("{url}{}", kind.path);
    let request = match kind.body {
        Some(body) => client.post(url).header("Content-Type", "application/json").body(body),
        None => client.get(url),
    };
    let answer = request.header("X-Auth-Token", session).header("Accept", "application/json").send().await?;
    let (status, text) = (answer.status(), answer.text().await?);
    ensure!(status == StatusCode::OK && text.contains(kind.expected), "{}: {status} {text}", kind.name);
    Ok(())
}

/// Loads salt-api with requests of one kind.
pub async fn run(url: &str, session: &str, kind: &'static Kind) -> Result<Load> {
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (url, session) = (url.to_owned(), session.to_owned());
            tokio::spawn(async move { of_client(&url, &session, kind).await })
        })
        .collect();
    let (mut times, mut rate) = (Vec::new(), 0.0);
    for client in clients {
        let (of_client, took) = client.await.context("a client has failed")??;
        rate += of_client.len() as f64 / took.as_secs_f64();
        times.extend(of_client);
    }
    times.sort_unstable();
    let slowest = times.get((times.len() * 99).div_ceil(100).saturating_sub(1)).context("no request")?;
    let load = Load { rate, p99: slowest.as_secs_f64() * 1000.0 };
    eprintln!("  {}: {load:.1?} of {} requests", kind.name, times.len());
    Ok(load)
}

/// Returns how long each request took, and all of them together.
async fn of_client(url: &str, session: &str, kind: &Kind) -> Result<(Vec<Duration>, Duration)> {
    // One for each: they share no connections.
    let client = Client::builder().pool_max_idle_per_host(1).build()?;
    for _ in 0..WARM_UP {
        ask(&client, url, session, kind).await?;
    }
    let (begin, mut times) = (Instant::now(), Vec::new());
    while begin.elapsed() < TIME && times.len() < kind.most {
        let before = Instant::now();
        ask(&client, url, session, kind).await?;
        times.push(before.elapsed());
    }
    Ok((times, begin.elapsed()))
}
