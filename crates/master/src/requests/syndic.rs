//! `_syndic_return`: returns that a lower master passes up.

use tracing::{error, warn};
use value::{Map, Value};
use wire::MinionId;

use super::return_::once_copied;
use super::{Answer, MasterRequest};
use crate::Shared;
use crate::jobs::keep::{Kept, keep};
use crate::outgoing::copies::AwaitedCopy;

/// Stores each return in the request. They are in the names of other minions, so a master without syndics
/// (`order_masters`) refuses them.
pub fn handle(ask: MasterRequest) -> Answer {
    let Some(syndic) = ask.id else { return false.into() };
    if !ask.shared.stores.config.jobs.order_masters {
        warn!("minion {syndic} sent returns as a syndic does, which needs the option order_masters; they are refused");
        return false.into();
    }
    note_syndic(&ask.shared, &syndic);
    let parts = match ask.load.get("load") {
        Some(Value::List(parts)) => parts.iter().filter_map(Value::as_map).cloned().collect(),
        _ => vec![ask.load],
    };
    let (mut copies, mut all_kept) = (Vec::new(), true);
    for part in parts {
        all_kept &= keep_part(&ask.shared, part, &mut copies);
    }
    match (all_kept, copies.is_empty()) {
        (false, _) => Answer::Silence,
        (true, true) => Value::Null.into(),
        (true, false) => once_copied(copies, Value::Null),
    }
}

/// Creates a file for a syndic. By these files `salt` recognises syndics, and does not list them as minions that did
/// not return.
fn note_syndic(shared: &Shared, syndic: &MinionId) {
    let directory = &shared.stores.config.paths.syndic_dir;
    let file = directory.join(syndic.as_str());
    if file.exists() {
        return;
    }
    let made = store::disk::make_directory(directory)
        .and_then(|()| store::disk::write(&file, b"", store::disk::Writing::SHARED));
    if let Err(error) = made {
        warn!("failed to write {}: {error}", file.display());
    }
}

/// Stores returns of one job. Returns whether none is to be sent again, and adds those of which another master is to have a copy.
fn keep_part(shared: &Shared, mut part: Map, copies: &mut Vec<AwaitedCopy>) -> bool {
    let Some(Value::Map(returns)) = part.remove("return") else { return true };
    let Some(jid) = part.get_str("jid").map(str::to_owned) else { return true };
    let whole = part.remove("load").and_then(Value::into_map);
    if let (Some(load), true) = (whole, wire::Jid::is_valid(&jid)) {
        if let Err(error) = shared.stores.jobs.save_load(&jid, &load) {
            error!("failed to store job {jid} of a syndic: {}", crate::chain(&error));
            return false;
        }
        shared.outgoing.iter().for_each(|outgoing| outgoing.job(&jid, &load));
    }
    let mut all_kept = true;
    for (id, returned) in returns {
        let mut single = match returned {
            Value::Map(map) if map.contains_key("return") => map,
            other => value::map! { "return" => other },
        };
        for name in ["jid", "fun", "arg", "tgt", "tgt_type", "fun_args", "master_id"] {
            if let Some(value) = part.get(name).filter(|_| !single.contains_key(name)) {
                single.insert(name, value.clone());
            }
        }
        single.insert("id", id);
        match keep(shared, single) {
            Kept::Done => {}
            Kept::Copying(copy) => copies.push(copy),
            Kept::Failed => all_kept = false,
        }
    }
    all_kept
}
