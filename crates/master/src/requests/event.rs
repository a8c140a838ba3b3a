//! `_minion_event`: events of minions for the master's bus.

mod tags;

use event::Source;
use share::event_copies::is_of_program;
use tracing::{error, info, warn};
use value::escape::brief;
use value::{Map, Value};
use wire::MinionId;

use super::{Answer, MasterRequest};
use crate::Shared;
use crate::open_jobs::ledger::Progress;
use tags::{Sender, is_allowed};

/// Puts one event or several on the bus.
pub fn handle(ask: MasterRequest) -> Answer {
    let Some(id) = ask.id else { return false.into() };
    match ask.load.get("events") {
        Some(Value::List(events)) => {
            let pretag = ask.load.get_str("pretag");
            let sender = Sender::of(&id, pretag, ask.shared.stores.config.jobs.order_masters);
            for event in events.iter().filter_map(Value::as_map) {
                several(&ask.shared, &sender, pretag, event);
            }
        }
        _ => single(&ask.shared, &id, ask.load),
    }
    Value::Null.into()
}

/// Fires one event. It contains the whole request, so that its readers find the minion's id in addition to the data.
fn single(shared: &Shared, id: &MinionId, load: Map) {
    let Some(tag) = load.get_str("tag").map(str::to_owned) else { return };
    if tag == "_salt_error" {
        let message = load.get("data").and_then(|data| data.get("message")).or_else(|| load.get("data"));
        let message = message.map(Value::to_string).unwrap_or_default();
        error!("Received minion error from [{id}]: {}", brief(&message, 4096));
    }
    if may_fire(&Sender::Minion(id), &tag, &load) {
        note_start(shared, id, &tag);
        match is_of_program(&load) {
            true => shared.fire_of_program(id, &tag, load),
            false => shared.fire_from(Source::Minion(id.as_str().into()), tag, load),
        }
    }
}

/// Notes a minion's report that it has started a job (`start_event`).
fn note_start(shared: &Shared, id: &MinionId, tag: &str) {
    let parts = tag.strip_prefix("salt/job/").and_then(|rest| rest.split_once("/start/"));
    if let Some((jid, _)) = parts.filter(|(_, who)| *who == id.as_str()) {
        shared.open_jobs.advance(jid, id.as_str(), Progress::Started);
    }
}

fn may_fire(sender: &Sender, tag: &str, data: &Map) -> bool {
    let allowed = is_allowed(sender, tag, data);
    if !allowed {
        warn!("Filtering blacklisted event tag {} from {}", brief(tag, 256), sender.id());
    }
    allowed
}

fn several(shared: &Shared, sender: &Sender, pretag: Option<&str>, event: &Map) {
    let Some(tag) = event.get_str("tag") else { return };
    let source = Source::Minion(sender.id().as_str().into());
    let data = match event.get("data") {
        Some(Value::Map(data)) => data.clone(),
        _ => event.clone(),
    };
    if let Some(joined) = pretag.map(|pretag| format!("{pretag}/{tag}"))
        && may_fire(sender, &joined, &data)
    {
        shared.fire_from(source.clone(), joined, data.clone());
    }
    if let Sender::Syndic(id) = sender {
        keep_syndic_list(shared, id, &data);
    }
    if may_fire(sender, tag, &data) {
        shared.fire_from(source, tag, data);
    }
}

/// Stores the minions below a syndic that are targeted by a job, as the syndic reports them.
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
    match shared.stores.jobs.save_minions(jid, &minions, Some(id)) {
        Ok(()) => shared.outgoing.iter().for_each(|outgoing| outgoing.expected(jid, &minions, id)),
        Err(error) => error!("failed to store the minions of {id} for job {jid}: {}", crate::chain(&error)),
    }
}
