//! One row: starts a master and all minions at once, publishes jobs, and measures times and resources.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use client::{Job, LocalClient};
use interop::{Master, Salt, Sandbox, Transport, measure};
use swarm::{Behaviour, Options, PrivateKey, Report, Swarm};
use tokio::time::{sleep, timeout};

/// Keys the minions share in turn.
pub const KEYS: usize = 100;

/// Returns how often `test.ping` is published: more often to few, so that there is processor time to count.
fn pings(minions: usize) -> usize {
    (3000 / minions).clamp(3, 20)
}

/// Size of the return of a highstate, in bytes.
const HIGHSTATE: usize = 10_000;

/// Size of the file that each minion fetches at its start, in bytes.
const FILE: usize = 64 << 10;

/// The rest before memory is measured.
const REST: Duration = Duration::from_secs(2);

/// The longest anything may take.
const LONGEST: Duration = Duration::from_secs(420);

/// Addresses the minions come from; masters of the sandbox are elsewhere in 127.0.0.0/8.
const SOURCES: &str = "127.1.0.0/16";

/// The measured values for a number of minions.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    /// The number of minions.
    pub minions: usize,
    /// From the first try until all had signed in, in seconds.
    pub signed_in: f64,
    /// The time until all had also reported their start, and had their pillar and a file, in seconds.
    pub ready: f64,
    /// Processor time of the master until then, in seconds.
    pub ready_processor: f64,
    /// From publishing `test.ping` to acknowledged returns, in milliseconds: the first, half, 99 of a hundred, the last.
    pub returns: [f64; 4],
    /// Processor time of the master for that, in seconds.
    pub ping_processor: f64,
    /// From publishing a highstate to its last acknowledged return, in seconds.
    pub highstate: f64,
    /// The program `salt '*' test.ping` from start to exit, in seconds.
    pub program: f64,
    /// Memory (PSS) of the master's processes before the minions came, and the most there was, in bytes.
    pub idle: u64,
    pub memory: u64,
    /// The most open files and threads of the master's processes.
    pub files: u64,
    pub threads: u64,
    /// Requests that failed and were tried again.
    pub failed: u64,
}

/// Measures a row.
pub fn run(sandbox: &Sandbox, salt: &Salt, minions: usize, wire: Transport, keys: &[PrivateKey]) -> Result<Numbers> {
    // As installed, except for the addresses, `auto_accept`, and the log at its default level.
    let built = Master::build(salt, "master").transport(wire).option("auto_accept", true);
    let built = built.option("worker_threads", 5).option("loop_interval", 60).option("log_level_logfile", "warning");
    let mut master = built.prepare(sandbox)?;
    let mut file = vec![0; FILE];
    // Random, so that no compression on the way makes the file smaller.
    rand::fill(file.as_mut_slice());
    master.serve("app.bin", &file)?;
    master.launch(sandbox)?;
    master.wait_ready()?;
    // The ports accept connections before any worker of a real master is ready.
    let nobody = master.program("salt").limit(LONGEST).args(["*", "test.ping"]).run()?;
    let said = nobody.stdout.clone() + &nobody.stderr;
    ensure!(said.contains("No minions matched"), "expected nobody to answer {nobody}");
    // Idle memory is measured after a first request and a rest, so that it includes what a master loads lazily.
    std::thread::sleep(REST);
    let idle = measure::pss(master.daemon()?.pid())?;
    let options = options(&mut master, minions)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("failed to start tokio")?;
    let numbers = runtime.block_on(scenario(&master, options, keys, idle));
    runtime.shutdown_background();
    master.daemon()?.terminate(Duration::from_secs(60))?;
    numbers
}

fn options(master: &mut Master, minions: usize) -> Result<Options> {
    let address = std::net::SocketAddr::from((master.address(), 4506));
    let behaviour = Behaviour {
        return_size: HIGHSTATE,
        grains: true,
        pillar: true,
        files: vec!["app.bin".into()],
        // Thousands of simultaneous sign-ins take longer than the default timeout of five seconds, and retries make it
        // worse.
        auth_timeout: patience(minions),
        request_timeout: patience(minions),
        ..Behaviour::default()
    };
    Ok(Options {
        transport: match master.transport() {
            Transport::Zeromq => swarm::Transport::Zeromq,
            Transport::Tcp => swarm::Transport::Tcp,
        },
        sources: Some(SOURCES.parse()?),
        watch: vec![master.daemon()?.pid().as_raw()],
        behaviour,
        ..Options::new(address, minions)
    })
}

/// Returns how long anything may take with this number of minions.
fn patience(minions: usize) -> Duration {
    (Duration::from_secs(60) + Duration::from_millis(150) * minions as u32).min(LONGEST)
}

async fn scenario(master: &Master, options: Options, keys: &[PrivateKey], idle: u64) -> Result<Numbers> {
    let minions = options.minions;
    let swarm = Swarm::start(options, keys)?;
    until(&swarm, minions, "to be ready", |counts| counts.ready == minions as u64).await?;
    let ready = swarm.elapsed();
    let began = swarm.report();
    sleep(REST).await;
    let source = config::Source { path: master.conf().join("master") };
    let config = config::Master::load(&source, &config::LoadOptions::default())?;
    let mut client = LocalClient::new(rt::Rt::real(), client::settings::from_config(&config));
    let mut pings = Vec::new();
    let before = processor(&swarm.report());
    for _ in 0..self::pings(minions) {
        pings.push(job(&swarm, &mut client, minions, "test.ping").await?);
    }
    let ping_processor = (processor(&swarm.report()) - before) / pings.len() as f64;
    let [.., highstate] = job(&swarm, &mut client, minions, "state.highstate").await?;
    let program = program(master, minions).await?;
    let report = swarm.report();
    let watched = report.watched.context("the master was watched")?;
    let (files, threads) = watched.peak_files_and_threads();
    Ok(Numbers {
        minions,
        signed_in: began.sign_in.all_after_seconds.context("some have not signed in")?,
        ready: ready.as_secs_f64(),
        ready_processor: processor(&began),
        returns: medians(&pings),
        ping_processor,
        highstate: highstate / 1000.0,
        program,
        idle,
        memory: watched.peak_pss(),
        files,
        threads,
        failed: report.counts.errors,
    })
}

fn processor(report: &Report) -> f64 {
    report.watched.map_or(0.0, |watched| watched.cpu_seconds())
}

/// Publishes a job to all and waits for their returns: the first, half, 99 %, the last, in milliseconds.
async fn job(swarm: &Swarm, client: &mut LocalClient, minions: usize, function: &str) -> Result<[f64; 4]> {
    let wanted = swarm.counts().returns + minions as u64;
    let everybody = Job { target: "*".into(), target_type: "glob".into(), function: function.into(), ..Job::default() };
    let published = swarm.elapsed();
    let Some(ticket) = client.publish(&everybody).await? else { bail!("the master knows no minion") };
    swarm.published(&ticket.jid, published);
    until(swarm, minions, &format!("to return {function}"), |counts| counts.returns >= wanted).await?;
    let report = swarm.report();
    let job = report.jobs.iter().find(|job| job.jid == ticket.jid).context("nobody heard of the job")?;
    let times = job.since_published.context("it was published")?;
    Ok([times.least, times.p50, times.p99, times.most])
}

async fn until(
    swarm: &Swarm,
    minions: usize,
    what: &str,
    holds: impl FnMut(&swarm::Counts) -> bool,
) -> Result<swarm::Counts> {
    let come = timeout(patience(minions), swarm.until(holds)).await;
    come.map_err(|_| {
        let report = swarm.report();
        let failed = |error: &swarm::ErrorReport| format!("; {} × {:?} {}", error.count, error.request, error.last);
        let failed: String = report.errors.iter().map(failed).collect();
        anyhow::anyhow!("waited in vain for all {minions} minions {what}: {:?}{failed}", report.counts)
    })
}

/// The program a person would type.
async fn program(master: &Master, minions: usize) -> Result<f64> {
    let limit = patience(minions);
    let salt = master.program("salt").limit(limit).args(["*", "test.ping", "-t", &limit.as_secs().to_string()]);
    let output = tokio::task::spawn_blocking(move || salt.run()).await??.ok()?;
    let answers = output.stdout.lines().filter(|line| line.trim() == "True").count();
    ensure!(answers == minions, "{answers} of {minions} minions answered the program");
    Ok(output.took.as_secs_f64())
}

fn medians(jobs: &[[f64; 4]]) -> [f64; 4] {
    std::array::from_fn(|place| crate::table::median(&jobs.iter().map(|job| job[place]).collect::<Vec<_>>()))
}
