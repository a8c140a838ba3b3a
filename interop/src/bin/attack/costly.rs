//! Floods of requests of an accepted minion that cost the master much: honest minions must not wait for them.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use crypto::Crypticle;
use value::{Map, Value, map};

use crate::scene::{Scene, VICTIM};
use crate::stranger::{Stranger, Wire, ask_raw};
use crate::unread::{MIB, flush_mine, mine_get, store_mine};

/// Connections that ask at the same time.
const CONNECTIONS: usize = 16;

/// Requests for a large mine, and padded ones.
const MINES: usize = 96;
const PADDED: usize = 320;

/// Requests for a compressed piece of a file, whose answers are not awaited.
const PIECES: usize = 600;

/// Sends `count` requests over some connections at once, and reads the answers without decrypting them.
fn ask_many(insider: &Stranger, session: &Crypticle, count: usize, load: &Map) -> Result<()> {
    let ask = || -> Result<()> {
        for _ in 0..count / CONNECTIONS {
            let request = insider.sealed(session, load.clone())?.encode();
            ask_raw(insider.master, &request)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| anyhow::bail!("a thread panicked")))
    })
}

/// Small requests for a mine of 15 MiB.
pub fn large_mine(scene: &mut Scene<'_>) -> Result<String> {
    let insider = scene.insider()?;
    let (session, _) = insider.sign_in()?;
    store_mine(&insider, &session)?;
    let told = scene.flood(|_| {
        ask_many(&insider, &session, MINES, &mine_get(&insider))?;
        Ok(format!("{MINES} requests for 15 MiB"))
    });
    flush_mine(&insider, &session)?;
    told
}

/// The same with megabytes of padding, while an honest minion has a large return.
pub fn padded_requests(scene: &mut Scene<'_>) -> Result<String> {
    let insider = scene.insider()?;
    let (session, _) = insider.sign_in()?;
    store_mine(&insider, &session)?;
    let mut padded = mine_get(&insider);
    padded.insert("padding", "x".repeat(2 * MIB));
    let told = scene.flood(|scene| {
        std::thread::scope(|scope| {
            let flood = scope.spawn(|| ask_many(&insider, &session, PADDED, &padded));
            let begin = Instant::now();
            let large = scene.master.ask(VICTIM, &["cmd.run", "head -c 60000 /dev/zero | tr '\\0' a"])?;
            let took = begin.elapsed();
            ensure!(large.as_str().map_or(0, str::len) == 60_000, "an honest return of 60 kB did not come");
            ensure!(took < Duration::from_secs(10), "an honest return of 60 kB took {took:?}");
            flood.join().unwrap_or_else(|_| anyhow::bail!("the flood panicked"))?;
            Ok(format!("{PADDED} requests of 2 MiB, an honest return of 60 kB after {} ms", took.as_millis()))
        })
    });
    flush_mine(&insider, &session)?;
    told
}

/// Pieces of a file, compressed as well as can be, by connections that are closed at once.
pub fn compressed_files(scene: &mut Scene<'_>) -> Result<String> {
    let insider = scene.insider()?;
    let (session, _) = insider.sign_in()?;
    let words: Vec<String> = (0..MIB / 6).map(|number| (number * number % 99_991).to_string()).collect();
    scene.master.serve("large.txt", words.join(" ").as_bytes())?;
    let piece = map! { "cmd" => "_serve_file", "path" => "large.txt", "saltenv" => "base", "loc" => 0, "gzip" => 9 };
    let answer = insider.ask(&session, piece.clone())?;
    ensure!(answer.get("data").and_then(Value::as_bytes).is_some_and(|data| !data.is_empty()), "no piece came");
    scene.flood(|_| {
        for _ in 0..PIECES {
            let request = insider.sealed(&session, piece.clone())?.encode();
            let mut wire = Wire::connect(insider.master, 4506)?;
            wire.send(&request).context("failed to send")?;
        }
        Ok(format!("{PIECES} requests for a compressed piece abandoned"))
    })
}
