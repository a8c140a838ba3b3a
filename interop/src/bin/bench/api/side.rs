//! One side: a master, two minions and salt-api, and the measured values.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{Daemon, Master, Minion, Salt, Sandbox, measure, password_file};
use reqwest::Client;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::load::{self, Load};
use super::streams;

const PASSWORD: &str = "correct-horse-battery";
const PORT: u16 = 8000;
const MINIONS: [&str; 2] = ["one", "two"];

/// The jobs that are listed.
const JOBS: usize = 100;

/// The rest before memory is measured.
const REST: Duration = Duration::from_secs(3);

/// The longest that salt-api may take to start, or to stop.
const LONGEST: Duration = Duration::from_secs(60);

/// The measured values.
#[derive(Debug)]
pub struct Numbers {
    /// By kind, in the order of [`load::KINDS`].
    pub loads: Vec<Load>,
    /// Memory after the start, after the requests, and with the streams, in MiB.
    pub idle: f64,
    pub loaded: f64,
    pub streaming: f64,
    pub streams: streams::Measured,
}

/// Starts everything, measures, and stops it.
pub fn measure(sandbox: &Sandbox, salt: &Salt, name: &str, runtime: &Runtime) -> Result<Numbers> {
    eprintln!("{}", salt.name());
    let address = sandbox.address(&[PORT]);
    let master = start_master(sandbox, salt, name, address)?;
    let ours = Salt::ours()?;
    let minions = MINIONS.map(|id| Minion::build(&ours, &format!("{name}-{id}")).master(&master).start(sandbox));
    let minions = minions.into_iter().collect::<Result<Vec<_>>>()?;
    let ids: Vec<&str> = minions.iter().map(Minion::id).collect();
    master.wait_answering(&ids)?;
    let url = format!("http://{}", SocketAddr::from((address, PORT)));

    let mut api = master.start_api(SocketAddr::from((address, PORT)))?;
    let session = runtime.block_on(log_in(&url))?;
    std::thread::sleep(REST);
    let idle = memory(&api)?;
    let mut loads = Vec::new();
    runtime.block_on(async {
        publish(&url, &session).await?;
        for kind in &load::KINDS {
            loads.push(load::run(&url, &session, kind).await?);
        }
        anyhow::Ok(())
    })?;
    std::thread::sleep(REST);
    let loaded = memory(&api)?;
    api.terminate(LONGEST)?;

    // Streams take a thread each at the real one.
    let settings = format!("rest_cherrypy: {}\n", rest(address, streams::STREAMS + 100));
    fs::write(master.conf().join("master.d/streams.conf"), settings)?;
    let mut api = master.start_api(SocketAddr::from((address, PORT)))?;
    let (_open, streams) = runtime.block_on(async {
        let session = log_in(&url).await?;
        streams::open(&url, &session).await
    })?;
    let streaming = memory(&api)?;
    api.kill();
    let numbers = Numbers { loads, idle, loaded, streaming, streams };
    eprintln!("  {numbers:?}");
    Ok(numbers)
}

fn rest(address: Ipv4Addr, threads: usize) -> Value {
    json!({"host": address, "port": PORT, "disable_ssl": true, "thread_pool": threads})
}

fn start_master(sandbox: &Sandbox, salt: &Salt, name: &str, address: Ipv4Addr) -> Result<Master> {
    let passwords = password_file(&sandbox.root().join(format!("{name}-passwords")), &["fred"], PASSWORD)?;
    Master::build(salt, name)
        .option("auto_accept", true)
        .option("log_level_logfile", "warning")
        .option("external_auth", json!({"file": {"^filename": passwords, "fred": [".*", "@runner", "@wheel"]}}))
        .option("netapi_enable_clients", json!(["local", "local_async", "runner"]))
        .option("rest_cherrypy", rest(address, 100))
        .option("api_logfile", json!(sandbox.root().join(format!("{name}-api.log"))))
        .option("api_pidfile", json!(sandbox.root().join(format!("{name}-api.pid"))))
        .start(sandbox)
}

fn memory(api: &Daemon) -> Result<f64> {
    Ok(measure::pss(api.pid())? as f64 / f64::from(1 << 20))
}

async fn log_in(url: &str) -> Result<String> {
    let login = json!({"username": "fred", "password": PASSWORD, "eauth": "file"});
    let answer = send(url, "/login", None, &login).await?;
    Ok(answer["return"][0]["token"].as_str().with_context(|| format!("no token in {answer}"))?.to_owned())
}

/// Publishes the jobs that are listed later.
async fn publish(url: &str, session: &str) -> Result<()> {
    let job = json!({"client": "local_async", "tgt": "*", "fun": "test.ping"});
    for _ in 0..JOBS / 10 {
        let answer = send(url, "/", Some(session), &json!(vec![&job; 10])).await?;
        ensure!(answer["return"][9]["jid"].is_string(), "{answer}");
    }
    Ok(())
}

async fn send(url: &str, path: &str, session: Option<&str>, body: &Value) -> Result<Value> {
    let request = Client::new().post(format!("{url}{path}")).header("Content-Type", "application/json");
    let request = request.header("Accept", "application/json").body(body.to_string());
    let request = match session {
        Some(session) => request.header("X-Auth-Token", session),
        None => request,
    };
    let text = request.send().await?.text().await?;
    serde_json::from_str(&text).with_context(|| format!("{path}: {text}"))
}
