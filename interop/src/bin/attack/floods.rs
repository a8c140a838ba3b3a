//! Attacks by number and size: none may take memory for good, or time from others.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use interop::{Minion, measure, until};
use value::{Value, map};

use crate::scene::{Scene, VICTIM};
use crate::stranger::{Stranger, Wire, ask_clear, greeting, head, ready};

const MIB: usize = 1 << 20;

/// Messages of the flood of values, and the connections they come over.
const MESSAGES: usize = 1000;
const CONNECTIONS: usize = 4;

/// Connections that say nothing.
const IDLE: usize = 700;

/// For how long they stay.
const STAY: Duration = Duration::from_secs(2);

/// Ids that ask to be accepted.
const IDS: usize = 3000;

/// A readable request with `values` one-byte integers in it.
fn many_values(values: usize) -> Vec<u8> {
    let mut body = b"\x83\xa3enc\xa5clear\xa7version\x03\xa4load\x82\xa3cmd\xa4ping\xa1x\xdd".to_vec();
    body.extend(u32::try_from(values).unwrap_or(u32::MAX).to_be_bytes());
    body.resize(body.len() + values, 1);
    body
}

/// A readable request with empty maps in it: each costs more to keep than an integer.
fn many_maps(values: usize) -> Vec<u8> {
    let mut body = many_values(values);
    let begin = body.len() - values;
    body[begin..].fill(0x80);
    body
}

/// A thousand messages that would take a gigabyte each once decoded.
pub fn messages_of_many_values(scene: &mut Scene<'_>) -> Result<String> {
    scene.flood(|scene| {
        let address = scene.master.address();
        let bodies = [many_values(16 * MIB), many_maps(15 * MIB)];
        let send = |number: usize| -> usize {
            let mut sent = 0;
            for message in 0..MESSAGES / CONNECTIONS {
                let Ok(mut wire) = Wire::connect(address, 4506) else { continue };
                // The master may close as soon as it has read the length.
                if wire.send(&bodies[(number + message) % 2]).is_ok() {
                    let _ = wire.receive();
                }
                sent += 1;
            }
            sent
        };
        let sent: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..CONNECTIONS).map(|number| scope.spawn(move || send(number))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_default()).sum()
        });
        ensure!(sent >= MESSAGES * 9 / 10, "only {sent} messages could be sent");
        Ok(format!("{sent} messages of 16 MiB refused"))
    })
}

/// A false master answers a sign-in with a document of 48 million values.
pub fn false_master_of_many_values(scene: &mut Scene<'_>) -> Result<String> {
    let address = scene.sandbox.address(&[4505, 4506]);
    let listener = TcpListener::bind((address, 4506)).context("failed to listen")?;
    let mut minion = Minion::build(&scene.ours, "deceived")
        .option("master", address.to_string())
        .option("acceptance_wait_time", 1)
        .start(scene.sandbox)?;
    let pid = minion.daemon()?.pid();
    let body = {
        let mut body = vec![0xdd];
        body.extend(u32::try_from(48 * MIB)?.to_be_bytes());
        body.resize(body.len() + 48 * MIB, 1);
        body
    };
    let most = std::thread::scope(|scope| -> Result<u64> {
        let server = scope.spawn(|| {
            let (mut stream, _) = listener.accept()?;
            stream.set_read_timeout(Some(Duration::from_secs(30)))?;
            stream.write_all(&greeting())?;
            stream.read_exact(&mut [0; 64])?;
            stream.write_all(&ready(b"REP"))?;
            // READY and the sign-in: what they say does not matter.
            let mut seen = 0;
            while seen < 400 {
                seen += stream.read(&mut [0; 4096])?;
            }
            let _ = stream.write_all(&[0x01, 0]).and_then(|()| stream.write_all(&head(body.len())));
            let _ = stream.write_all(&body);
            std::io::Result::Ok(())
        });
        let mut most = measure::rss(pid)?;
        while !server.is_finished() {
            most = most.max(measure::rss(pid)?);
            std::thread::sleep(Duration::from_millis(2));
        }
        server.join().map_err(|_| anyhow::anyhow!("the false master panicked"))?.context("nobody signed in")?;
        let end = Instant::now() + Duration::from_secs(2);
        while Instant::now() < end {
            most = most.max(measure::rss(pid)?);
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(most)
    })?;
    minion.daemon()?.kill();
    ensure!(most < 80 * MIB as u64, "the minion took {} MiB", most / MIB as u64);
    Ok(format!("the minion took {} MiB at most", most / MIB as u64))
}

/// Connections that send large messages drop by drop, while an honest minion returns a large one.
pub fn dripping_messages(scene: &mut Scene<'_>) -> Result<String> {
    scene.flood(|scene| {
        let address = scene.master.address();
        let mut wires = Vec::new();
        for _ in 0..16 {
            let mut wire = Wire::connect(address, 4506)?;
            wire.0.write_all(&[0x01, 0])?;
            wire.0.write_all(&head(64 * MIB))?;
            // As much as it may hold; the rest of the message never comes.
            let _ = wire.0.set_write_timeout(Some(Duration::from_secs(2)));
            let _ = wire.0.write_all(&vec![0x91; 40 * MIB]);
            wires.push(wire);
        }
        // Below max_event_size, beyond which Salt's events say VALUE_TRIMMED.
        let large = scene.master.ask(VICTIM, &["cmd.run", "head -c 900000 /dev/zero | tr '\\0' a"])?;
        let length = large.as_str().map_or(0, str::len);
        ensure!(length == 900_000, "an honest return of 900 kB came with {length} bytes");
        Ok("an honest return of 900 kB came through".to_owned())
    })
}

/// More connections than the master lets be silent, all from one address.
pub fn idle_connections(scene: &mut Scene<'_>) -> Result<String> {
    scene.flood(|scene| {
        let address = scene.master.address();
        let mut streams = Vec::new();
        for port in [4505, 4506] {
            for _ in 0..IDLE {
                streams.push(std::net::TcpStream::connect((address, port)).context("failed to connect")?);
            }
        }
        // A new user: a program of this host, and a minion that signs in.
        ensure!(scene.master.ask(VICTIM, &["test.ping"])? == true, "no answer beside idle connections");
        scene.insider()?.sign_in().context("a new connection was not served")?;
        // The connections stay open while pings are measured: opening them takes less time than a few pings.
        std::thread::sleep(STAY);
        Ok(format!("{} idle connections, new ones are served", streams.len()))
    })
}

/// Thousands of unknown ids sign in.
pub fn pending_keys(scene: &mut Scene<'_>) -> Result<String> {
    let folder = scene.master.pki().join("minions_pre");
    let count = || std::fs::read_dir(&folder).map_or(0, Iterator::count);
    let before = count();
    let told = scene.flood(|scene| {
        let one = scene.stranger("x")?;
        let mut full = 0;
        for number in 0..IDS {
            let stranger = Stranger { master: one.master, id: format!("flood-{number}"), key: one.key.clone() };
            let answer = ask_clear(stranger.master, stranger.sign_in_load())?;
            full += usize::from(answer.to_string().contains("full"));
        }
        let written = std::fs::read_dir(scene.master.pki().join("minions_pre")).map_or(0, Iterator::count) - before;
        ensure!(written < IDS, "all {written} keys were written");
        Ok(format!("{written} of {IDS} keys kept, {full} told that it is full"))
    })?;
    for entry in std::fs::read_dir(&folder)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with("flood-") {
            std::fs::remove_file(entry.path()).context("failed to remove a pending key")?;
        }
    }
    until("the flood to be forgotten", Duration::from_secs(10), || count() <= before)?;
    Ok(told)
}

/// Targets that are costly to expand, without a key.
pub fn targets_of_strangers(scene: &mut Scene<'_>) -> Result<String> {
    scene.flood(|scene| {
        let terms = vec!["E@(x+x+)+y"; 2000].join(" or ");
        let requests = [
            ("publish", "compound", terms),
            ("publish", "pcre", "(a|aa)+\\1$".repeat(20)),
            ("publish", "list", "victim,".repeat(100_000)),
        ];
        let begin = Instant::now();
        for (cmd, kind, target) in requests.iter().chain(&requests) {
            let load = map! {
                "cmd" => *cmd, "tgt" => target.as_str(), "tgt_type" => *kind, "fun" => "test.ping",
                "arg" => Value::List(Vec::new()), "key" => "wrong", "user" => "root", "jid" => "", "ret" => "",
            };
            let answer = ask_clear(scene.master.address(), load)?;
            ensure!(!answer.to_string().contains("jid"), "a stranger published: {answer}");
        }
        let took = begin.elapsed();
        ensure!(took < Duration::from_secs(3), "six requests kept the master busy for {took:?}");
        Ok(format!("six requests refused after {:.0} ms", took.as_secs_f64() * 1000.0))
    })
}

/// An accepted minion stores what would fill the disk.
pub fn full_disk(scene: &mut Scene<'_>) -> Result<String> {
    let insider = scene.insider()?;
    let (session, _) = insider.sign_in()?;
    let cache = scene.master.cache();
    let size = || tree_size(&cache);
    let before = size();
    let blob = "x".repeat(20 * MIB);
    for number in 0..10 {
        let data = map! { format!("function{number}") => blob.as_str() };
        let load = map! { "cmd" => "_mine", "data" => data, "clear" => false };
        let _ = insider.ask(&session, load);
    }
    for number in 0..200 {
        let load = map! {
            "cmd" => "_pillar", "saltenv" => "base", "pillarenv" => format!("env{number}"), "ver" => "2",
            "grains" => map! { "id" => insider.id.as_str() }, "pillar_override" => map! {}, "extra_minion_data" => map! {},
        };
        let _ = insider.ask(&session, load);
    }
    let grown = size().saturating_sub(before) / MIB as u64;
    ensure!(grown < 100, "one minion made the master write {grown} MiB");
    Ok(format!("10 mines of 20 MiB and 200 pillar environments: {grown} MiB written"))
}

fn tree_size(dir: &std::path::Path) -> u64 {
    std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => tree_size(&entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        })
        .sum()
}
