//! Attacks that fill the master's log, to hide lines about others in it.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use interop::{Master, until};
use value::{Value, map};
use wire::envelope::{Envelope, Sealed};

use crate::scene::{Scene, VICTIM};
use crate::stranger::{Stranger, Wire, connect_from};

/// The number of bytes that an attack may add to the log in a minute.
const MOST: usize = 100_000;

/// Requests of the accepted minion, and the length of the texts in them: without a limit they would add twice what they may.
const REQUESTS: usize = 150;
const TEXT: usize = 4000;

/// Addresses of the strangers, and the messages that each sends.
const ADDRESSES: u8 = 64;
const MESSAGES: usize = 64;

/// An accepted minion sends requests that each cause a line.
pub fn requests_of_a_minion(scene: &mut Scene<'_>) -> Result<String> {
    let (insider, before, begin) = (scene.insider()?, scene.master.log().len(), Instant::now());
    let (session, _) = insider.sign_in()?;
    let mut wire = Wire::connect(scene.master.address(), 4506)?;
    for number in 0..REQUESTS {
        let load = match number % 3 {
            // Refused with a warning, refused with an error, and taken with a line of information.
            0 => map! { "cmd" => "_minion_event", "tag" => format!("salt/run/{number}"), "data" => map! {} },
            1 => {
                let message = format!("{number} {}", "x".repeat(TEXT));
                map! { "cmd" => "_minion_event", "tag" => "_salt_error", "data" => map! { "message" => message } }
            }
            _ => {
                map! { "cmd" => "_return", "jid" => format!("200101010000{number:08}"), "fun" => format!("f.{number}{}", "x".repeat(TEXT)),
                "return" => true, "fun_args" => Vec::<Value>::new(), "retcode" => 0, "success" => true }
            }
        };
        wire.send(&insider.sealed(&session, load)?.encode())?;
        wire.receive()?;
    }
    heard(&scene.master, before, &Stranger::with_key_of(scene.master.address(), &scene.victim)?)?;
    grown(&scene.master, (before, begin), &format!("{REQUESTS} requests"))
}

/// Strangers with many addresses send what causes warnings, also about a minion whose name they claim.
pub fn strangers_of_many_addresses(scene: &mut Scene<'_>) -> Result<String> {
    let master = scene.master.address();
    let (stranger, before, begin) = (scene.stranger(VICTIM)?, scene.master.log().len(), Instant::now());
    for last in 0..ADDRESSES {
        let from = Ipv4Addr::new(127, 66, 0, last + 1);
        let mut wire = Wire::greet(connect_from(from, master, 4506)?, b"REQ")?;
        for number in 0..MESSAGES {
            let sealed = Sealed {
                load: vec![7; 200 + number].into(),
                version: 3,
                id: Some(VICTIM.into()),
                enc_algo: None,
                sig_algo: None,
            };
            let envelope = match number % 4 {
                // Each is refused with a different reason.
                0 => Envelope::clear(map! { "cmd" => format!("{number}{}", "\u{1b}".repeat(400)) }),
                1 => Envelope::clear(
                    map! { "cmd" => "_auth", "id" => "x/".repeat(number), "nonce" => crate::stranger::nonce() },
                ),
                // In the name of a minion with another key.
                2 => Envelope::clear(stranger.sign_in_load()),
                _ => Envelope::Sealed(sealed),
            };
            wire.send(&envelope.encode())?;
            wire.receive().with_context(|| format!("message {number} of {from}"))?;
        }
    }
    heard(&scene.master, before, &Stranger::with_key_of(master, &scene.victim)?)?;
    let denied = scene.master.pki().join("minions_denied").join(VICTIM);
    std::fs::remove_file(&denied).with_context(|| format!("failed to remove {}", denied.display()))?;
    grown(&scene.master, (before, begin), &format!("{MESSAGES} messages of each of {ADDRESSES} addresses"))
}

/// Fails when a warning about a minion with a key is not written.
fn heard(master: &Master, before: usize, minion: &Stranger) -> Result<()> {
    let (session, _) = minion.sign_in()?;
    minion.ask(&session, map! { "cmd" => "_minion_event", "tag" => "salt/run/heard", "data" => map! {} })?;
    let line = format!("Filtering blacklisted event tag salt/run/heard from {VICTIM}");
    until("the warning about another minion", Duration::from_secs(5), || master.log()[before..].contains(&line))
}

/// Fails when the log has grown too fast. On a busy machine an attack takes more than the minute a share lasts.
fn grown(master: &Master, (before, begin): (usize, Instant), what: &str) -> Result<String> {
    let grown = master.log().len() - before;
    let minutes = 1 + usize::try_from(begin.elapsed().as_secs() / 60)?;
    ensure!(grown < minutes * MOST, "{what} added {grown} bytes to the log");
    Ok(format!("{what} added {grown} bytes to the log, and warnings about others were written"))
}
