//! The effects of a change of keys on a running master and its caches.

use std::collections::HashSet;
use std::sync::Mutex;

use cache::Cache;
use event::{Endpoints, Remote};
use keys::Effects;
use rt::Rt;
use tokio::runtime::Runtime;
use value::Map;
use wire::MinionId;

/// The effects on the master of this host.
pub struct MasterEffects {
    bus: Mutex<Option<Remote>>,
    runtime: Runtime,
    cache: Cache,
}

impl MasterEffects {
    /// Takes the places from the configuration.
    ///
    /// # Errors
    /// If an option of the minion data cache has an invalid value.
    pub fn new(config: &config::Master, runtime: Runtime) -> cache::Result<Self> {
        let endpoints = if config.network.ipc_mode == config::IpcMode::Tcp {
            let network = &config.network;
            Endpoints::tcp(network.tcp_master_pub_port, network.tcp_master_pull_port, network.ipv6.unwrap_or(false))
        } else {
            Endpoints::master(&config.paths.sock_dir)
        };
        let bus = Remote::new(Rt::real(), endpoints).with_max_size(config.network.max_event_size);
        Ok(MasterEffects { bus: Mutex::new(Some(bus)), runtime, cache: Cache::of_master(config)? })
    }
}

impl Effects for MasterEffects {
    fn fire(&self, tag: &str, data: Map) {
        let Ok(mut bus) = self.bus.lock() else { return };
        let Some(remote) = bus.as_mut() else { return };
        if let Err(error) = self.runtime.block_on(remote.fire(tag, data)) {
            // The master does not run, so the event is not missed; nor are the next ones.
            tracing::debug!(%error, "no event about the key was sent");
            *bus = None;
        }
    }

    fn clean_minion_data(&self, keep: &HashSet<MinionId>) {
        let cache = &self.cache;
        let ids = match cache.ids() {
            Ok(ids) => ids,
            Err(error) => return tracing::warn!(%error, "failed to list the minion data cache"),
        };
        let gone = ids.into_iter().filter_map(|id| MinionId::new(id).ok()).filter(|id| !keep.contains(id));
        for id in gone {
            if let Err(error) = cache.remove(&id) {
                tracing::warn!(minion_id = %id, %error, "failed to remove cached data");
            }
        }
    }

    /// Does nothing: only the wheel function needs it.
    fn revoke_auth(&self, id: &MinionId) {
        tracing::debug!(minion_id = %id, "the session is not revoked from here");
    }
}
