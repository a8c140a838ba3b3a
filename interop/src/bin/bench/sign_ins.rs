//! `cargo xtask bench sign-ins`: the rate of repeated sign-ins, compared to the limit set by RSA alone.
//!
//! Master and minions share this machine, so the limit counts the RSA operations of both sides: it is the rate at which
//! all processors together could do them and nothing else ([`swarm::RsaSpeed`]).

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{Master, Salt, Sandbox, Slot};
use swarm::{Behaviour, Kind, Operations, Options, PrivateKey, RsaSpeed, SigningCost, Swarm};
use tokio::time::{sleep, timeout};

/// Enough to keep the master busy without long waits.
const MINIONS: usize = 300;

/// Rest of a minion between its sign-ins.
const REST: Duration = Duration::from_millis(100);

/// The time until the rate is steady, and the time for which sign-ins are counted then.
const SETTLING: Duration = Duration::from_secs(4);
const COUNTED: Duration = Duration::from_secs(12);

/// The time limit for the first sign-ins.
const LONGEST: Duration = Duration::from_secs(60);

/// The share of the limit that Saltern must reach.
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

/// Returns the sign-ins per second, and the limit set by RSA.
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
    // With the key known beforehand every sign-in is of the expensive kind that `Operations::AGAIN` counts.
    let options = Options { master_key: Some(key), behaviour, ..Options::new(address, MINIONS) };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("failed to start tokio")?;
    let rate = runtime.block_on(async {
        let swarm = Swarm::start(options, keys)?;
        let all = swarm.until(|counts| counts.signed_in == MINIONS as u64);
        timeout(LONGEST, all).await.context("some minions could not sign in")?;
        // After the first sign-ins, which come all at once.
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
    // The machine may be slower at times, so the better measurement is the limit.
    let limit = [before, after].map(|speed| speed.sign_ins_per_second(Operations::AGAIN));
    Ok((rate, limit[0].max(limit[1])))
}
