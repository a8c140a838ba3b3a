//! `saltern_missed` and `saltern_received`: a minion of ours asks what it missed, and says what it got.

use std::collections::HashSet;

use value::{Map, Value, map};

use super::{Answer, Ask};
use crate::open_jobs::ledger::Progress;

/// Job ids a minion may send in one request.
const MOST: usize = 20_000;

/// Answers with the jobs the minion may still run and does not know: the publication of each, and for how many seconds more.
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

/// Notes what the minion got and began. Answers with those of `received` that are not to be begun any more.
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
