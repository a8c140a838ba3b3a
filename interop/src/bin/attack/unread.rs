//! Floods of requests whose answers are not read.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use interop::measure;
use value::{Bytes, Map, map};
use wire::envelope::Envelope;

use crate::scene::Scene;
use crate::stranger::{Stranger, Wire};

pub const MIB: usize = 1 << 20;

/// Connections that ask and never read.
const CONNECTIONS: usize = 160;

/// Requests that each sends ahead, if the master takes them.
const AHEAD: usize = 4;

/// The time for which the master's memory is watched after the last request.
const WATCH: Duration = Duration::from_secs(5);

/// The maximum memory the master may use during that, in bytes.
const MOST: u64 = 512 << 20;

/// Sends the same packed request over a connection some times, unless the master takes no more of it.
fn ask_and_never_read(scene: &Scene<'_>, request: &[u8], times: usize) -> Result<Wire> {
    let mut wire = Wire::connect(scene.master.address(), 4506)?;
    wire.0.set_write_timeout(Some(Duration::from_secs(1))).context("failed to set a timeout")?;
    for _ in 0..times {
        // The master may refuse it, or leave it unread.
        if wire.send(request).is_err() {
            break;
        }
    }
    Ok(wire)
}

/// Opens all connections, one after the other, and returns the maximum memory that the master used.
fn flood(scene: &mut Scene<'_>, times: usize, request: impl Fn() -> Result<Bytes>) -> Result<String> {
    let pid = scene.master.daemon()?.pid();
    scene.flood(|scene| {
        let before = measure::rss(pid)?;
        let (mut wires, mut most) = (Vec::new(), before);
        for _ in 0..CONNECTIONS {
            wires.push(ask_and_never_read(scene, &request()?, times)?);
            most = most.max(measure::rss(pid)?);
        }
        let end = Instant::now() + WATCH;
        while Instant::now() < end {
            most = most.max(measure::rss(pid)?);
            std::thread::sleep(Duration::from_millis(20));
        }
        let told = format!("{CONNECTIONS} connections, +{} MiB at most", (most - before) / MIB as u64);
        ensure!(most - before < MOST, "{told}");
        Ok(told)
    })
}

/// Readable pings of 30 MB, which Salt sends back.
pub fn pings(scene: &mut Scene<'_>) -> Result<String> {
    let request = Envelope::clear(map! { "cmd" => "ping", "x" => "x".repeat(30_000_000) }).encode();
    flood(scene, 1, || Ok(request.clone()))
}

/// Stores a mine that is as large as the master allows.
pub fn store_mine(insider: &Stranger, session: &crypto::Crypticle) -> Result<()> {
    let data = map! { "large" => "x".repeat(15 * MIB) };
    let stored = insider.ask(session, map! { "cmd" => "_mine", "data" => data, "clear" => true })?;
    ensure!(stored == value::Value::Bool(true), "the mine was not stored: {stored}");
    Ok(())
}

pub fn flush_mine(insider: &Stranger, session: &crypto::Crypticle) -> Result<()> {
    insider.ask(session, map! { "cmd" => "_mine_flush" }).map(drop)
}

pub fn mine_get(insider: &Stranger) -> Map {
    map! { "cmd" => "_mine_get", "tgt" => insider.id.as_str(), "fun" => "large", "tgt_type" => "glob" }
}

/// Small requests of an accepted minion for a large mine.
pub fn mines(scene: &mut Scene<'_>) -> Result<String> {
    let insider = scene.insider()?;
    let (session, _) = insider.sign_in()?;
    store_mine(&insider, &session)?;
    let told = flood(scene, AHEAD, || Ok(insider.sealed(&session, mine_get(&insider))?.encode()));
    flush_mine(&insider, &session)?;
    told
}
