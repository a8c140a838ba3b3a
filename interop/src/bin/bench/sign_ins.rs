//! `cargo xtask bench sign-ins`: minions that sign in again and again, beside what RSA alone would allow.
//!
//! Master and minions share this machine, so what the processors could do is told of both: the operations of the master and
//! those of the minion that each sign-in takes, done by all processors at once and nothing else ([`swarm::RsaSpeed`]).

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{Master, Salt, Sandbox, Slot};
use swarm::{Behaviour, Kind, Operations, Options, PrivateKey, RsaSpeed, SigningCost, Swarm};
use tokio::time::{sleep, timeout};

/// As many as keep the master busy without any of them waiting for long.
const MINIONS: usize = 300;

/// Rest of a minion between its sign-ins.
const REST: Duration = Duration::from_millis(100);

/// Until it goes on evenly, and how long sign-ins are counted then.
const SETTLING: Duration = Duration::from_secs(4);
const COUNTED: Duration = Duration::from_secs(12);

/// How long the first sign-ins may take.
const LONGEST: Duration = Duration::from_secs(60);

/// The part of what RSA allows that ours should reach.
const WANTED: f64 = 0.8;

/// Measures, prints a table, and fails if ours is too slow.
pub fn main() -> Result<()> {
    let real = Salt::real("3008.5").context("the real Salt 3008.5 is not installed; `cargo xtask salt` does")?;
    let ours = Salt::ours()?;
    let _alone = Slot::all()?;
    let sandbox = Sandbox::new()?;
    let keys = [PrivateKey::generate(2048)?];
    println!("| master | minions | sign-ins per second | RSA alone | part |");
    println!("|-------:|--------:|--------------------:|----------:|-----:|");
    let mut reached = true;
    for (name, salt, kind) in [("real", &real, Kind::Salt), ("ours", &ours, Kind::Salt), ("both", &ours, Kind::Saltern)]
    {
        let measured = measure(&sandbox, salt, name, kind, &keys);
        if measured.is_err() {
            sandbox.show_logs();
        }
        let (rate, limit) = measured?;
        let minions = if matches!(kind, Kind::Salt) { "Salt's" } else { "ours" };
        let part = rate / limit;
        println!("| {:>6} | {minions:>7} | {rate:>19.0} | {limit:>9.0} | {:>3.0}% |", salt.name(), part * 100.0);
        reached &= part >= WANTED || matches!(kind, Kind::Salt);
    }
    let cost = SigningCost::measure(&keys[0])?;
    println!();
    println!("| signature of a publication, RSA 2048 | µs |");
    println!("|:-------------------------------------|---:|");
    println!("| the master signs it, once for all    | {:>2.0} |", cost.sign_us);
    println!("| each minion verifies it              | {:>2.0} |", cost.verify_us);
    ensure!(reached, "our minions at our master reach less than {:.0}% of what RSA allows", WANTED * 100.0);
    Ok(())
}

/// Sign-ins per second, and how many RSA alone would allow.
fn measure(sandbox: &Sandbox, salt: &Salt, name: &str, kind: Kind, keys: &[PrivateKey]) -> Result<(f64, f64)> {
    let before = RsaSpeed::measure(&keys[0])?;
    let built = Master::build(salt, name).option("auto_accept", true).option("log_level_logfile", "warning");
    let mut master = built.prepare(sandbox)?;
    master.launch(sandbox)?;
    master.wait_ready()?;
    let key = master.pki().join("master.pub");
    let key = std::fs::read_to_string(&key).with_context(|| format!("failed to read {}", key.display()))?;
    let behaviour =
        Behaviour { kind, reauth: Some(REST), auth_timeout: LONGEST, start_event: false, ..Behaviour::default() };
    let address = std::net::SocketAddr::from((master.address(), 4506));
    let options = Options { master_key: Some(key), behaviour, ..Options::new(address, MINIONS) };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("failed to start tokio")?;
    let rate = runtime.block_on(async {
        let swarm = Swarm::start(options, keys)?;
        let all = swarm.until(|counts| counts.signed_in == MINIONS as u64);
        timeout(LONGEST, all).await.context("some minions could not sign in")?;
        sleep(SETTLING).await;
        let (began, first) = (swarm.elapsed(), swarm.counts());
        sleep(COUNTED).await;
        let (ended, last) = (swarm.elapsed(), swarm.counts());
        ensure!(last.errors == first.errors, "{} requests failed", last.errors - first.errors);
        Ok((last.sign_ins - first.sign_ins) as f64 / (ended - began).as_secs_f64())
    });
    runtime.shutdown_background();
    let rate = rate?;
    master.daemon()?.terminate(LONGEST)?;
    let after = RsaSpeed::measure(&keys[0])?;
    // The machine may be slower at times: what it can do counts.
    let limit = [before, after].map(|speed| speed.sign_ins_per_second(Operations::AGAIN));
    Ok((rate, limit[0].max(limit[1])))
}
