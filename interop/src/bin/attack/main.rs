//! Attacks on a running master and its minions, one line each: the attempt, and its result.
//!
//! `cargo xtask attack [WORD]` builds the optimised program and runs the attacks whose name contains the word. Floods
//! also report their cost: the master's memory, and the pings of an honest minion during the flood; with a program that
//! is not optimised the pings may take longer. An attack that succeeds, or an honest peer that is harmed, makes the
//! whole fail.

mod between;
mod costly;
mod floods;
mod honest;
mod hosts;
mod insiders;
mod logs;
mod presence;
mod scene;
mod stored;
mod stranger;
mod strangers;
mod unread;
mod users;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use interop::{Sandbox, Slot};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use scene::Scene;

/// One attack: its name, and the function that runs it and returns its result.
type Attack = (&'static str, fn(&mut Scene<'_>) -> Result<String>);

const ATTACKS: &[Attack] = &[
    ("chosen nonces are signed", strangers::chosen_nonces),
    ("weak keys", strangers::weak_keys),
    ("requests without credentials", strangers::requests_without_credentials),
    ("control characters and megabytes in the log", strangers::log_of_strangers),
    ("forged publication on the path", strangers::forged_publication),
    ("recorded publication after a restart", strangers::recorded_publication),
    ("forged receipt on the path", strangers::forged_receipts),
    ("listed user: runner and wheel", users::runners_and_wheels),
    ("listed user: publications", users::publications),
    ("peer with a returner", insiders::peer_with_returner),
    ("events in the name of others", insiders::forged_events),
    ("requests in the name of another", insiders::name_of_another),
    ("version 2 without a token", insiders::name_of_another_without_token),
    ("version 2 without a token for an old minion", stored::name_of_an_old_minion),
    ("pillars of similar names", stored::pillars_of_similar_names),
    ("returns of any size", stored::returns_of_any_size),
    ("replayed request", insiders::replayed_request),
    ("forged jobs", insiders::forged_jobs),
    ("shell in an id", insiders::shell_in_an_id),
    ("log: requests of an accepted minion", logs::requests_of_a_minion),
    ("log: strangers of many addresses", logs::strangers_of_many_addresses),
    ("presence of others", presence::claimed_names),
    ("escape sequences on the terminal", insiders::escapes_on_the_terminal),
    ("link in an archive", hosts::link_in_an_archive),
    ("core files", hosts::core_files),
    ("flood: messages of many values", floods::messages_of_many_values),
    ("flood: false master of many values", floods::false_master_of_many_values),
    ("flood: dripping messages", floods::dripping_messages),
    ("flood: idle connections", floods::idle_connections),
    ("flood: pending keys", floods::pending_keys),
    ("flood: targets of strangers", floods::targets_of_strangers),
    ("flood: disk", floods::full_disk),
    ("flood: unread pings", unread::pings),
    ("flood: unread mines", unread::mines),
    ("flood: large mine", costly::large_mine),
    ("flood: padded requests", costly::padded_requests),
    ("flood: compressed files", costly::compressed_files),
    // Last: it checks what all of the above left behind.
    ("files others can read", hosts::readable_files),
];

fn main() -> ExitCode {
    let word = std::env::args().nth(1).unwrap_or_default();
    match attack(&word) {
        Ok((passed, failed)) => {
            // In the words of Rust's own test runner, which those who count tests understand.
            let result = if failed == 0 { "ok" } else { "FAILED" };
            println!("test result: {result}. {passed} passed; {failed} failed; 0 ignored");
            if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the attacks whose names contain a word; returns how many were withstood and how many succeeded.
fn attack(word: &str) -> Result<(usize, usize)> {
    let _alone = Slot::all()?;
    // The daemons begin with what a careless shell allows.
    let (_, most) = getrlimit(Resource::RLIMIT_CORE)?;
    setrlimit(Resource::RLIMIT_CORE, most, most)?;
    let sandbox = Sandbox::new()?;
    let mut scene = Scene::start(&sandbox).inspect_err(|_| sandbox.show_logs())?;
    println!("without an attack: {}", scene.calm()?);
    let (mut passed, mut failed) = (0, 0);
    for (name, run) in ATTACKS.iter().filter(|(name, _)| name.contains(word)) {
        let begin = Instant::now();
        // Afterwards the honest ones must be as well as before.
        let outcome = run(&mut scene).and_then(|told| scene.healthy().map(|()| told));
        let took = begin.elapsed().as_secs_f64();
        match outcome {
            Ok(told) => {
                passed += 1;
                println!("withstood  {name}: {told} ({took:.1} s)");
            }
            Err(error) => {
                failed += 1;
                println!("BROKEN     {name}: {error:#} ({took:.1} s)");
            }
        }
    }
    Ok((passed, failed))
}
