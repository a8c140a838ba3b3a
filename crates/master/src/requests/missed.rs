//! `saltern_missed` and `saltern_received`: a Saltern minion requests the jobs it missed, and reports the jobs it got.

use value::{Value, map};
use wire::loads::{MissedJobs, ReceivedJobs, Texts};

use super::{Answer, MasterRequest, read};
use crate::open_jobs::ledger::Progress;

/// The largest number of job ids in one request.
const MOST: usize = 20_000;

/// Answers with the jobs that the minion missed and may still run: the publication of each, and for how many more
/// seconds it is valid.
pub fn missed(ask: MasterRequest) -> Answer {
    let MasterRequest { shared, id: Some(id), load, .. } = ask else { return false.into() };
    let known = read(load, MissedJobs::from_map).map(|request| request.known).unwrap_or_default();
    let offers = shared.open_jobs.missed(&id, &jids(&known).collect());
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
pub fn received(ask: MasterRequest) -> Answer {
    let MasterRequest { shared, id: Some(id), load, .. } = ask else { return false.into() };
    let Some(request) = read(load, ReceivedJobs::from_map) else { return false.into() };
    let note = |jid: &str, progress| shared.open_jobs.advance(jid, id.as_str(), progress);
    let gone: Vec<&str> = jids(&request.received).filter(|jid| !note(jid, Progress::Received)).collect();
    for jid in jids(&request.started) {
        note(jid, Progress::Started);
    }
    map! { "gone" => gone }.into()
}

fn jids(told: &Texts) -> impl Iterator<Item = &str> {
    told.0.iter().take(MOST).map(String::as_str)
}
