//! Changes of keys by functions, and what they cause: events, and the removal of old data.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use client::{LocalClient, settings};
use exec::{Error, Result};
use keys::{KeyManager, ManagerOptions};
use value::{Map, Value, map};
use wire::MinionId;

use crate::RunnerContext;
use crate::context::failed;
use crate::local::Ask;

/// Fails on a master that leaves it to others to decide about keys.
///
/// # Errors
/// On a reader (`cluster_role`).
pub fn may_decide(ctx: &RunnerContext) -> Result<()> {
    let refused = ctx.config.cluster.as_ref().and_then(config::Cluster::refuses_key_decisions);
    refused.map_or(Ok(()), |reason| Err(Error::execution(reason)))
}

/// Returns what changes keys. The events of the changes wait until [`Effects::send`] is called.
pub fn manager(ctx: &RunnerContext) -> Result<(KeyManager, Arc<Effects>)> {
    let options = ManagerOptions::try_from(&*ctx.config).map_err(failed)?;
    let effects = Arc::new(Effects { ctx: ctx.clone(), pending: Mutex::default() });
    let shared = Shared(effects.clone());
    Ok((KeyManager::new(ctx.keys(), options, shared), effects))
}

/// How long the master may take to answer. Without an answer the change is that of somebody who changes files.
const PATIENCE: Duration = Duration::from_secs(2);

/// Tells a master that shares with others who is about to change keys, so that the decision has the user.
pub async fn announce(ctx: &RunnerContext, ids: Vec<Value>) {
    let mut client = LocalClient::new(ctx.rt.clone(), settings::from_config(&ctx.config));
    let announced = client.sharing(map! { "what" => "announce", "ids" => ids, "for" => ctx.job.user.as_str() });
    match tokio::time::timeout(PATIENCE, announced).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::debug!("the master does not know who changes keys: {error}"),
        Err(_) => tracing::debug!("the master does not know who changes keys: it does not answer"),
    }
}

/// How long the master may take to store a change.
const STORES: Duration = Duration::from_secs(10);

/// Waits until a master that shares with others has stored what changed key files say. `deleted` says that those that are gone were
/// deleted.
///
/// # Errors
/// If it could not store something, so that other masters are not told.
pub async fn confirm(ctx: &RunnerContext, ids: Vec<Value>, deleted: bool) -> Result<()> {
    let mut client = LocalClient::new(ctx.rt.clone(), settings::from_config(&ctx.config));
    let asked = client.sharing(map! { "what" => "confirm", "ids" => ids, "deleted" => deleted });
    let refused = match tokio::time::timeout(STORES, asked).await {
        Ok(Ok(answer)) => answer.into_map().unwrap_or_default(),
        // Nothing is wrong with the change: a master that does not run reads the files when it starts.
        Ok(Err(error)) => {
            tracing::debug!("the master does not confirm that it knows of changed keys: {error}");
            return Ok(());
        }
        Err(_) => {
            tracing::warn!("the master does not confirm that it knows of changed keys: it does not answer");
            return Ok(());
        }
    };
    match refused.iter().next() {
        None => Ok(()),
        Some((id, reason)) => Err(Error::execution(format!(
            "other masters are not told of {} changed keys until this one can store what was decided, {id} among them: {reason}",
            refused.len()
        ))),
    }
}

/// Removes old data at once, and keeps what must be sent until [`Effects::send`].
pub struct Effects {
    ctx: RunnerContext,
    pending: Mutex<Vec<Pending>>,
}

enum Pending {
    Event(String, Map),
    Revoke(MinionId),
}

/// The form in which the key manager takes it.
struct Shared(Arc<Effects>);

impl Effects {
    fn add(&self, pending: Pending) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).push(pending);
    }

    /// Fires the events, and makes minions whose key was deleted drop their session.
    pub async fn send(&self) {
        // Taken out first: the lock must not be held while events are sent.
        let pending = std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner));
        for one in pending {
            match one {
                Pending::Event(tag, data) => drop(self.ctx.events.fire(&tag, data).await),
                Pending::Revoke(id) => {
                    let ask = Ask::new(&self.ctx, vec![id.as_str()], "list", "saltutil.revoke_auth");
                    // The minion may never come back, which may be why its key was deleted. Nothing else depends on the
                    // notice.
                    if let Err(error) = ask.run(&self.ctx).await {
                        tracing::warn!(minion = %id, "failed to tell a minion that its key is gone: {error}");
                    }
                }
            }
        }
    }
}

impl keys::Effects for Shared {
    fn fire(&self, tag: &str, data: Map) {
        self.0.add(Pending::Event(tag.to_owned(), data));
    }

    fn clean_minion_data(&self, keep: &HashSet<MinionId>) {
        let data = match self.0.ctx.data() {
            Ok(data) => data,
            Err(error) => return tracing::warn!("failed to open the minion data cache: {error}"),
        };
        let ids = match data.ids() {
            Ok(ids) => ids,
            Err(error) => return tracing::warn!("failed to list the minion data cache: {error}"),
        };
        for id in ids.into_iter().filter_map(|id| MinionId::new(id).ok()).filter(|id| !keep.contains(id)) {
            if let Err(error) = data.remove(&id) {
                tracing::warn!("failed to remove cached data of {id}: {error}");
            }
        }
    }

    fn revoke_auth(&self, id: &MinionId) {
        self.0.add(Pending::Revoke(id.clone()));
    }
}
