//! `saltern swarm` — thousands of minions, to put a master under load.

mod args;
mod progress;
mod publish;

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use crypto::PrivateKey;
use swarm::{KeyPool, RsaSpeed, Swarm};

use crate::exit_codes;
use crate::terminal::print;
use args::Arguments;
use progress::Line;

/// How often the line and `--lines` are updated.
const SECOND: Duration = Duration::from_secs(1);

/// Runs the program with the arguments behind `swarm`.
pub fn main(words: &[String]) -> ExitCode {
    let all = std::iter::once("saltern swarm").chain(words.iter().map(String::as_str));
    let arguments = match Arguments::try_parse_from(all) {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => {
            let text = error.to_string();
            rt::complain!("{}", text.strip_suffix('\n').unwrap_or(&text));
            return ExitCode::from(exit_codes::USAGE);
        }
        Err(help) => {
            print(&help.to_string());
            return ExitCode::SUCCESS;
        }
    };
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            rt::complain!("saltern swarm: error: {}", value::error::chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let master = resolve(arguments)?;
    let master_key = arguments.master_key.as_deref().map(read).transpose()?;
    let options = arguments.options(master, master_key);
    let count = arguments.key_count.clamp(1, arguments.minions.max(1));
    let keys = keys(arguments, count)?;
    if let Some(pki_dir) = &arguments.place_keys {
        let minions = (0..arguments.minions).map(|place| (options.id(place), &keys[place % keys.len()]));
        swarm::place(pki_dir, minions)?;
    }
    // Before there is any load, which would take part of the processors.
    let rsa = RsaSpeed::measure(keys.first().context("there are no keys")?)?;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = arguments.threads {
        builder.worker_threads(threads.max(1));
    }
    let runtime = builder.enable_all().build().context("failed to start threads")?;
    let mut report = runtime.block_on(async {
        let swarm = Swarm::start(options, &keys)?;
        // Thousands of private keys; each minion has taken its own.
        drop(keys);
        stay(arguments, &swarm).await?;
        Ok::<_, anyhow::Error>(swarm.report())
    })?;
    runtime.shutdown_background();
    report.sign_in.rsa = Some(rsa.into());
    match arguments.report.as_deref() {
        None => print(&progress::summary(&report)),
        Some(path) if path == Path::new("-") => print(&report.to_json()),
        Some(path) => {
            std::fs::write(path, report.to_json()).with_context(|| format!("failed to write {}", path.display()))?;
            print(&progress::summary(&report));
        }
    }
    Ok(())
}

/// Returns the first address of the master's name.
fn resolve(arguments: &Arguments) -> Result<SocketAddr> {
    let (host, port) = arguments.host_and_port()?;
    let found =
        (host.as_str(), port).to_socket_addrs().with_context(|| format!("failed to resolve the master {host}"))?;
    found.into_iter().next().with_context(|| format!("the master {host} has no address"))
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("failed to read the master's key {}", path.display()))
}

fn keys(arguments: &Arguments, count: usize) -> Result<Vec<PrivateKey>> {
    let dir = arguments.keys.clone().map_or_else(default_keys, Ok)?;
    let line = Line::of_keys();
    let keys = KeyPool::new(dir, arguments.key_size).take(count, |done, all| line.keys(done, all))?;
    line.clear();
    Ok(keys)
}

fn default_keys() -> Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let home = || std::env::var_os("HOME").filter(|dir| !dir.is_empty()).map(|home| PathBuf::from(home).join(".cache"));
    let cache = cache.or_else(home).context("there is no home directory to keep keys in: say where with --keys")?;
    Ok(cache.join("saltern/swarm-keys"))
}

/// Keeps the swarm until its time has passed or the user ends it, and reports all along.
async fn stay(arguments: &Arguments, swarm: &Swarm) -> Result<()> {
    let line = Line::of_swarm(arguments.minions);
    let over = async {
        match arguments.duration {
            Some(duration) => tokio::time::sleep(duration).await,
            None => std::future::pending().await,
        }
    };
    let publishing = publish::jobs(arguments, swarm);
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let telling = async {
        let mut seconds = tokio::time::interval(SECOND);
        loop {
            seconds.tick().await;
            line.swarm(&swarm.counts());
            if arguments.lines {
                print(&progress::json_line(&swarm.counts()));
            }
        }
    };
    tokio::select! {
        () = over => {}
        done = tokio::signal::ctrl_c() => done?,
        _ = terminate.recv() => {}
        () = telling => {}
        failed = publishing => failed?,
    }
    line.clear();
    Ok(())
}
