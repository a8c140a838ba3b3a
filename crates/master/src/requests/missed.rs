//! `saltern_missed` and `saltern_received`: a Saltern minion requests the jobs it missed, and reports the jobs it got.

use std::collections::HashSet;

use value::{Map, Value, map};

use super::{Answer, Ask};
use crate::open_jobs::ledger::Progress;

/// The largest number of job ids in one request.
const MOST: usize = 20_000;

/// Answers with the jobs that the minion missed and may still run: the publication of each, and for how many more
/// seconds it is valid.
pub fn missed(ask: Ask) -> Answer {
    let Some(id) = &ask.id else { return false.into() };
    let known: HashSet<&str> = jids(&ask.load, "known").collect();
    let offers = ask.shared.open_jobs.missed(id, &known);
    if !offers.is_empty() {
        tracing::info!("minion {id} missed {} jobs, which are sent now", offers.len());
    }
    let jobs: Vec<Value> = offers
        .into_iter()
        .map(|offer| {
            let load = (*offer.publication).clone();
            map! { "load" => load, "left" => offer.left.as_secs_f64(), "receipt" => offer.held }.into()
        })
        .collect();
    map! { "jobs" => jobs }.into()
}

/// Notes which jobs the minion got and which it started. Answers with those of `received` that must no longer be
/// started.
pub fn received(ask: Ask) -> Answer {
    let Some(id) = &ask.id else { return false.into() };
    let note = |jid: &str, progress| ask.shared.open_jobs.advance(jid, id.as_str(), progress);
    let gone: Vec<&str> = jids(&ask.load, "received").filter(|jid| !note(jid, Progress::Received)).collect();
    for jid in jids(&ask.load, "started") {
        note(jid, Progress::Started);
    }
    map! { "gone" => gone }.into()
}

fn jids<'a>(load: &'a Map, field: &str) -> impl Iterator<Item = &'a str> {
    load.get(field).and_then(Value::as_list).unwrap_or_default().iter().take(MOST).filter_map(Value::as_str)
}
