//! What the rest of the minion sees of one master.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use channel::client::MasterChannel;
use exec::{MasterRole, MasterState, MasterStatus};
use tokio::sync::{Notify, watch};
use value::Map;

use super::LinkSettings;

/// One master: its settings, its connection, its pillar.
pub struct Link {
    /// What is configured.
    pub settings: LinkSettings,
    /// The options functions see when this master commands them: `master` is its host.
    opts: Arc<Map>,
    state: watch::Sender<LinkState>,
    heard: Mutex<Option<SystemTime>>,
    started: AtomicBool,
    channel: RwLock<Option<Arc<MasterChannel>>>,
    pillar: RwLock<Option<Arc<Map>>>,
    /// Woken when the pillar is to be compiled anew.
    pub refresh: Notify,
    /// Counts the compiled pillars, so that a refresh can be waited for.
    compiled: watch::Sender<u64>,
}

/// How a link is, and since when.
#[derive(Clone, Debug)]
pub struct LinkState {
    /// How it is.
    pub state: MasterState,
    /// Since when.
    pub since: SystemTime,
    /// The address in use.
    pub address: Option<SocketAddr>,
}

impl Link {
    /// A link that does nothing yet.
    pub fn new(settings: LinkSettings, opts: Map, now: SystemTime) -> Self {
        let state = LinkState { state: MasterState::Resolving, since: now, address: None };
        Link {
            settings,
            opts: Arc::new(opts),
            state: watch::Sender::new(state),
            heard: Mutex::default(),
            started: AtomicBool::new(false),
            channel: RwLock::default(),
            pillar: RwLock::default(),
            refresh: Notify::new(),
            compiled: watch::Sender::new(0),
        }
    }

    /// The address as configured: host and port.
    pub fn address(&self) -> String {
        self.settings.address.to_string()
    }

    /// The options functions see when this master commands them.
    pub fn opts(&self) -> Arc<Map> {
        self.opts.clone()
    }

    /// The pillar this master compiled; empty before the first.
    pub fn pillar(&self) -> Arc<Map> {
        self.pillar.read().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
    }

    /// Says whether a pillar was ever compiled over this link.
    pub fn has_pillar(&self) -> bool {
        self.pillar.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Takes a newly compiled pillar.
    pub fn set_pillar(&self, pillar: Map) {
        *self.pillar.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(pillar));
        self.compiled.send_modify(|count| *count += 1);
    }

    /// Asks for a new pillar and waits until it is there; false when it does not come in time.
    pub async fn refresh_pillar(&self, patience: Duration) -> bool {
        let mut compiled = self.compiled.subscribe();
        compiled.mark_unchanged();
        self.refresh.notify_one();
        tokio::time::timeout(patience, compiled.changed()).await.is_ok_and(|changed| changed.is_ok())
    }

    /// The channel in use; `None` while there is no connection.
    pub fn channel(&self) -> Option<Arc<MasterChannel>> {
        self.channel.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts a channel in use, or takes it out.
    pub fn set_channel(&self, channel: Option<Arc<MasterChannel>>) {
        *self.channel.write().unwrap_or_else(PoisonError::into_inner) = channel;
    }

    /// Notes how the link is now.
    pub fn set_state(&self, state: MasterState, address: Option<SocketAddr>, now: SystemTime) {
        self.state.send_if_modified(|current| {
            let changed = current.state != state;
            if changed {
                current.since = now;
            }
            current.state = state;
            current.address = address.or(current.address);
            changed
        });
    }

    /// Notes that the master was told that the minion has started; says whether it knew already.
    pub fn note_started(&self) -> bool {
        self.started.swap(true, Ordering::Relaxed)
    }

    /// Notes that something was received from this master.
    pub fn note_heard(&self, now: SystemTime) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    /// Says whether the link is connected and signed in.
    pub fn is_live(&self) -> bool {
        self.state.borrow().state == MasterState::Live
    }

    /// The address in use, or last in use.
    pub fn address_in_use(&self) -> Option<SocketAddr> {
        self.state.borrow().address
    }

    /// Waits until the link is connected and signed in.
    pub async fn live(&self) {
        let mut state = self.state.subscribe();
        // The sender lives as long as this link, so waiting only ends when the condition holds.
        let _ = state.wait_for(|now| now.state == MasterState::Live).await;
    }

    /// What operators are told of this master.
    pub fn status(&self, asking: bool) -> MasterStatus {
        let state = self.state.borrow().clone();
        MasterStatus {
            address: self.address(),
            id: None,
            role: MasterRole::Hot,
            host: self.settings.address.host.clone(),
            ip: state.address.map(|address| address.ip()),
            state: state.state,
            since: state.since,
            last_heard: *self.heard.lock().unwrap_or_else(PoisonError::into_inner),
            round_trip: None,
            fingerprint: None,
            jobs: 0,
            returns_waiting: 0,
            asking,
        }
    }
}
