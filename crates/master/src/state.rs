//! The state that all parts of a running master share.

use std::sync::{Arc, Mutex, PoisonError};

use event::{Bus, Source};
use transport::Publisher;
use value::Map;
use wire::{Jid, MinionId};

use crate::Stores;
use crate::announced::Announced;
use crate::job_ids::JobIds;
use crate::other_masters::OtherMasters;
use crate::presence::Presence;
use crate::users::Users;

/// A running master.
pub struct Shared {
    /// Its files and options.
    pub stores: Arc<Stores>,
    /// Its event bus.
    pub bus: Bus,
    /// Decrypts requests, encrypts answers and publications.
    pub channel: Arc<channel::server::Server>,
    /// The subscribers.
    pub publisher: Publisher,
    /// The jobs that may still be delivered.
    pub(crate) open_jobs: crate::open_jobs::OpenJobs,
    /// The order in which publications leave.
    pub(crate) order: crate::open_jobs::PublicationOrder,
    /// Which minions are connected.
    pub presence: Presence,
    /// The disk space that a minion may fill.
    pub(crate) bounds: crate::bounds::Bounds,
    /// Local users and their permissions.
    pub users: Users,
    /// Logins with `external_auth`.
    pub(crate) logins: crate::logins::Logins,
    /// Returns that were announced, but are not in the job cache.
    pub(crate) announced: Announced,
    /// Other stores, through returners.
    pub(crate) returner_queue: crate::returner_queue::ReturnerQueue,
    /// Places of minions' publications that wait for returns.
    pub(crate) peers_waiting: crate::pool::Pool,
    /// The master's work in numbers.
    pub(crate) metrics: crate::metrics::Metrics,
    /// What is in memory for consoles.
    pub(crate) fleet_memory: crate::fleet_memory::FleetMemory,
    /// The set that it shares with, once it has started to.
    pub(crate) sharing: std::sync::OnceLock<crate::set_requests::SetHandle>,
    /// The other masters of that set and their minions, once it has started.
    pub(crate) others: std::sync::OnceLock<Arc<dyn OtherMasters>>,
    /// The time by which it goes in that set, once it has started to share.
    pub(crate) clock: std::sync::OnceLock<Arc<crate::set_clock::Clock>>,
    /// What it wrote to its job cache and its data cache and shares with other masters; `None` if it shares nothing.
    pub(crate) outgoing: Option<crate::outgoing::Outgoing>,
    /// The source of job ids, which returns each id once.
    pub(crate) jids: Mutex<JobIds>,
}

impl Shared {
    /// Returns the time by which this master goes: that of its set, or else of its host.
    pub fn now(&self) -> std::time::SystemTime {
        self.clock.get().map_or_else(|| self.stores.rt.now(), |clock| clock.now())
    }

    /// Returns a new job id. With `unique_jid`, the process id is part of it.
    pub fn new_jid(&self) -> Jid {
        let now = self.now();
        let mut jids = self.jids.lock().unwrap_or_else(PoisonError::into_inner);
        let process = self.stores.config.jobs.unique_jid.then(std::process::id);
        jids.next(now, process)
    }

    /// Ends all further job ids in the slot of this master in its set, so that no two masters make the same id.
    pub(crate) fn set_slot(&self, slot: u8) {
        self.jids.lock().unwrap_or_else(PoisonError::into_inner).set_slot(slot);
    }

    /// Fires an event on the bus.
    pub fn fire(&self, tag: impl Into<String>, data: Map) {
        self.fire_from(Source::Host, tag, data);
    }

    /// Fires an event that was born elsewhere.
    pub fn fire_from(&self, source: Source, tag: impl Into<String>, data: Map) {
        let tag = tag.into();
        if let Err(error) = self.bus.fire_from(source, tag.as_str(), data) {
            tracing::warn!("failed to fire the event {tag:?}: {error}");
        }
    }

    /// Fires an event that a program on a minion sent, unless another master of the set has sent it already.
    pub fn fire_of_program(&self, minion: &MinionId, tag: &str, data: Map) {
        let source = Source::ProgramOfMinion(minion.as_str().into());
        match self.bus.stamped(source, tag, data) {
            Ok(event) if self.others.get().is_none_or(|others| others.is_first_copy(minion.as_str(), &event)) => {
                self.bus.publish(&event);
            }
            Ok(_) => {}
            Err(error) => tracing::warn!("failed to fire the event {tag:?}: {error}"),
        }
    }

    /// Returns the accepted minions that are connected to this master or another one of its set, sorted by id.
    pub fn connected_anywhere(&self) -> Vec<MinionId> {
        let own = self.connected();
        match self.others.get() {
            Some(others) => others.with_those_elsewhere(own),
            None => own,
        }
    }

    /// Returns the accepted minions that are connected to this master now, sorted by id.
    pub fn connected(&self) -> Vec<MinionId> {
        self.presence.connected(&self.publisher.subscribers())
    }
}
