//! `_syndic_return`: returns that a lower master passes up.

use tracing::{error, warn};
use value::{Map, Value};
use wire::MinionId;

use super::{Answer, MasterRequest};
use crate::Shared;
use crate::jobs::keep::{Kept, keep};

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
    let mut kept = Kept::Done;
    for part in parts {
        if keep_part(&ask.shared, part) == Kept::Failed {
            kept = Kept::Failed;
        }
    }
    match kept {
        Kept::Done => Value::Null.into(),
        Kept::Failed => Answer::Silence,
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

fn keep_part(shared: &Shared, mut part: Map) -> Kept {
    let Some(Value::Map(returns)) = part.remove("return") else { return Kept::Done };
    let Some(jid) = part.get_str("jid").map(str::to_owned) else { return Kept::Done };
    let whole = part.remove("load").and_then(Value::into_map);
    if let (Some(load), true) = (whole, wire::Jid::is_valid(&jid)) {
        if let Err(error) = shared.stores.jobs.save_load(&jid, &load) {
            error!("failed to store job {jid} of a syndic: {}", crate::chain(&error));
            return Kept::Failed;
        }
        shared.outgoing.iter().for_each(|outgoing| outgoing.job(&jid, &load));
    }
    let mut kept = Kept::Done;
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
        if keep(shared, single) == Kept::Failed {
            kept = Kept::Failed;
        }
    }
    kept
}
