//! `_minion_event`: events of minions for the master's bus.

use std::sync::LazyLock;

use targeting::Glob;
use tracing::{error, info, warn};
use value::shown::brief;
use value::{Map, Value};
use wire::MinionId;

use super::{Answer, Ask};
use crate::Shared;
use crate::jobs::ledger::Progress;

/// Tags only a master may use.
static FORBIDDEN: LazyLock<Vec<Glob>> = LazyLock::new(|| {
    let patterns = [
        "salt/job/*/publish",
        "salt/job/*/new",
        "salt/job/*/return",
        "salt/key",
        "salt/cloud/*",
        "salt/run/*",
        "salt/cluster/*",
        "salt/wheel/*/new",
        "salt/wheel/*/return",
    ];
    patterns.into_iter().map(Glob::new).collect()
});

/// Puts one event or several on the bus.
pub fn handle(ask: Ask) -> Answer {
    let Some(id) = ask.id else { return false.into() };
    match ask.load.get("events") {
        Some(Value::List(events)) => {
            let pretag = ask.load.get_str("pretag");
            for event in events.iter().filter_map(Value::as_map) {
                several(&ask.shared, &id, pretag, event);
            }
        }
        _ => single(&ask.shared, &id, ask.load),
    }
    Value::Null.into()
}

/// The event carries the whole request, so that whoever reads it finds the minion beside the data.
fn single(shared: &Shared, id: &MinionId, load: Map) {
    let Some(tag) = load.get_str("tag").map(str::to_owned) else { return };
    if tag == "_salt_error" {
        let message = load.get("data").and_then(|data| data.get("message")).or_else(|| load.get("data"));
        let message = message.map(Value::to_string).unwrap_or_default();
        error!("Received minion error from [{id}]: {}", brief(&message, 4096));
    }
    if !is_forbidden(&tag, id) {
        note_start(shared, id, &tag);
        shared.fire(tag, load);
    }
}

/// With `start_event` a minion says that it has begun a job.
fn note_start(shared: &Shared, id: &MinionId, tag: &str) {
    let parts = tag.strip_prefix("salt/job/").and_then(|rest| rest.split_once("/start/"));
    if let Some((jid, _)) = parts.filter(|(_, who)| *who == id.as_str()) {
        shared.open_jobs.advance(jid, id.as_str(), Progress::Started);
    }
}

fn is_forbidden(tag: &str, id: &MinionId) -> bool {
    let forbidden = FORBIDDEN.iter().any(|pattern| pattern.matches(tag));
    if forbidden {
        warn!("Filtering blacklisted event tag {} from {id}", brief(tag, 256));
    }
    forbidden
}

fn several(shared: &Shared, id: &MinionId, pretag: Option<&str>, event: &Map) {
    let Some(tag) = event.get_str("tag") else { return };
    let data = match event.get("data") {
        Some(Value::Map(data)) => data.clone(),
        _ => event.clone(),
    };
    if let Some(pretag) = pretag {
        shared.fire(format!("{pretag}/{tag}"), data.clone());
    }
    keep_syndic_list(shared, id, &data);
    if is_forbidden(tag, id) {
        return;
    }
    shared.fire(tag, data);
}

/// A syndic names the minions below it that a job is for.
fn keep_syndic_list(shared: &Shared, id: &MinionId, data: &Map) {
    let (Some(Value::List(minions)), Some(jid)) = (data.get("minions"), data.get_str("jid")) else { return };
    let known = |jid| {
        shared.stores.jobs.contains(jid).unwrap_or_else(|error| {
            error!("failed to look for job {jid}: {}", crate::chain(&error));
            false
        })
    };
    if !wire::Jid::is_valid(jid) || !known(jid) {
        return;
    }
    let minions: Vec<String> = minions.iter().map(ToString::to_string).collect();
    info!("Adding minions for job {jid}: {}", brief(&minions.join(", "), 4096));
    if let Err(error) = shared.stores.jobs.save_minions(jid, &minions, Some(id)) {
        error!("failed to store the minions of {id} for job {jid}: {}", crate::chain(&error));
    }
}
