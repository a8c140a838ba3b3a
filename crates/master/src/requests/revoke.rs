//! `revoke_auth`: a minion asks for the deletion of its key.

use keys::{Bank, Effects, KeyManager, ManagerOptions, Selection};
use tracing::{error, info, warn};
use value::{Map, Value};
use wire::MinionId;
use wire::loads::RevokeAuth;

use super::{Answer, MasterRequest, read};
use crate::Shared;

/// Deletes the key of the minion that asks.
pub fn handle(ask: MasterRequest) -> Answer {
    let Some(id) = &ask.id else { return false.into() };
    let config = &ask.shared.stores.config;
    if !config.keys.allow_minion_key_revoke {
        warn!("Minion {id} requested key revoke, but allow_minion_key_revoke is set to False");
        return ask.load.into();
    }
    if let Some(reason) = config.cluster.as_ref().and_then(config::Cluster::refuses_key_decisions) {
        warn!("Minion {id} requested key revoke: {reason}");
        return false.into();
    }
    let Some(request) = read(ask.load, RevokeAuth::from_map) else { return false.into() };
    match delete(&ask.shared, id, request.preserve_minion_cache.unwrap_or_default()) {
        Ok(()) => {
            info!("minion {id} revoked its key");
            true.into()
        }
        Err(failure) => {
            error!(minion = %id, "failed to revoke the key of {id}: {}", crate::chain(&failure));
            false.into()
        }
    }
}

fn delete(shared: &std::sync::Arc<Shared>, id: &MinionId, keep_data: bool) -> Result<(), keys::KeyError> {
    let mut options = ManagerOptions::try_from(&*shared.stores.config)?;
    options.preserve_minion_cache |= keep_data;
    let manager = KeyManager::new(shared.stores.keys.store().clone(), options, LiveEffects(shared.clone()));
    let ids = Value::List(vec![id.into()]);
    let selected: Map = value::map! { Bank::Accepted.directory() => ids };
    manager.delete(Selection::Dict(&selected), false).map(drop)
}

/// The effects of key changes in the running master.
pub struct LiveEffects(pub std::sync::Arc<Shared>);

impl Effects for LiveEffects {
    fn fire(&self, tag: &str, data: Map) {
        self.0.fire(tag, data);
    }

    fn clean_minion_data(&self, keep: &std::collections::HashSet<MinionId>) {
        let data = &self.0.stores.data;
        let ids = data.ids().unwrap_or_else(|failure| {
            warn!("failed to list the minion data cache: {}", crate::chain(&failure));
            Vec::new()
        });
        for id in ids.into_iter().filter_map(|id| MinionId::new(id).ok()).filter(|id| !keep.contains(id)) {
            if let Err(failure) = data.remove(&id) {
                warn!(minion = %id, "failed to remove the data of {id}: {}", crate::chain(&failure));
            }
        }
    }

    fn revoke_auth(&self, id: &MinionId) {
        let load = value::map! {
            "fun" => "saltutil.revoke_auth", "arg" => Value::List(Vec::new()), "tgt" => id, "tgt_type" => "list",
            "ret" => "", "user" => self.0.users.master_user(),
        };
        crate::jobs::publish::publish_for_master(&self.0, load);
    }
}
