//! Implements the channel's interfaces to the minions' keys and sessions.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use channel::server::{KeyBook, Offer, Session, SessionBook, Undecided};
use crypto::{Crypticle, KeyString, PublicKey};
use keys::{Admission, Applicant, Seats, SignInChanges};
use tokio::time::Instant;
use tracing::error;
use wire::MinionId;
use wire::loads::AuthOutcome;

use crate::{Shared, Stores};

/// The minions' keys, and the admission of new ones.
pub struct Keys {
    stores: Arc<Stores>,
    admission: Admission,
    /// Set when the master runs. Before that, no minions are connected.
    running: OnceLock<Weak<Shared>>,
}

impl Keys {
    /// Creates them. What is done with keys is noted for a master that shares them.
    pub fn new(stores: Arc<Stores>, changes: Option<Arc<SignInChanges>>) -> Self {
        let config: &config::Master = &stores.config;
        let auto = keys::AutoKey::new(config.into(), stores.keys.store().dir());
        let mut admission = Admission::new(stores.keys.clone(), auto, config.into());
        if let Some(changes) = changes {
            admission = admission.noting(changes);
        }
        Keys { admission, stores, running: OnceLock::new() }
    }

    /// Gives access to the list of connected minions.
    pub fn attach(&self, shared: &Arc<Shared>) {
        // A second master in the same process has its own book.
        let _ = self.running.set(Arc::downgrade(shared));
    }

    fn seats(&self, id: &MinionId) -> Seats {
        // `max_minions` counts connected minions; one that has a place keeps it.
        let connected = self.running.get().and_then(Weak::upgrade).map(|shared| shared.connected()).unwrap_or_default();
        Seats { taken: connected.len(), has_seat: connected.contains(id) }
    }
}

impl KeyBook for Keys {
    fn sign_in(&self, offer: &Offer<'_>) -> Result<AuthOutcome, Undecided> {
        if crate::witness::is_witness(&self.stores.config) {
            // After this a minion tries its other masters.
            return Ok(AuthOutcome::Full);
        }
        let Offer { id, public, grains, peer } = *offer;
        let applicant = Applicant { id, public_key: public, autosign_grains: grains, address: Some(peer) };
        self.admission.admit(&applicant, |id| self.seats(id), self.stores.rt.now()).map_err(|error| {
            error!(
                minion = %id,
                "failed to decide about the key of {id}, which is to try again: {}",
                crate::chain(&error)
            );
            Undecided
        })
    }

    fn accepted(&self, id: &MinionId) -> Option<Arc<PublicKey>> {
        self.stores.keys.accepted_key(id).unwrap_or_else(|error| {
            error!(minion = %id, "{}", crate::chain(&error));
            None
        })
    }
}

/// How long the previous session key is accepted after it was replaced because of its age.
const OVERLAP: Duration = Duration::from_secs(60);

/// The minions' session keys, ready for use.
pub struct Sessions {
    stores: Arc<Stores>,
    ready: Mutex<HashMap<MinionId, Arc<Session>>>,
    previous: Mutex<HashMap<MinionId, (Arc<Session>, Instant)>>,
}

impl Sessions {
    pub fn new(stores: Arc<Stores>) -> Self {
        Sessions { stores, ready: Mutex::default(), previous: Mutex::default() }
    }

    /// Forgets everything about a minion whose key was removed.
    pub fn forget_minion(&self, id: &MinionId) {
        self.forget(id);
        if let Err(error) = self.stores.sessions.unmark(id) {
            error!(minion = %id, "failed to forget which release {id} was: {}", crate::chain(&error));
        }
    }

    fn replaced(&self) -> std::sync::MutexGuard<'_, HashMap<MinionId, (Arc<Session>, Instant)>> {
        self.previous.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ready(&self) -> std::sync::MutexGuard<'_, HashMap<MinionId, Arc<Session>>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionBook for Sessions {
    fn session(&self, id: &MinionId, _life: Duration) -> io::Result<Arc<Session>> {
        let rt = &self.stores.rt;
        let make = || KeyString::from_random(rt.bytes()).expose().to_owned();
        let text =
            self.stores.sessions.get(id, rt.now(), make).map_err(|error| io::Error::other(crate::chain(&error)))?;
        // Compared with the stored one, which may have been removed, or replaced because of its age.
        if let Some(session) = self.ready().get(id).filter(|session| session.key.expose() == text) {
            return Ok(session.clone());
        }
        let key = KeyString::parse(text.as_bytes()).map_err(io::Error::other)?;
        let crypticle = Crypticle::new(&key).map_err(io::Error::other)?;
        let session = Arc::new(Session { key, crypticle });
        if let Some(old) = self.ready().insert(id.clone(), session.clone()) {
            let mut replaced = self.replaced();
            // Cleaned here, so that the map holds only sessions of the last minute.
            replaced.retain(|_, (_, until)| *until > Instant::now());
            replaced.insert(id.clone(), (old, Instant::now() + OVERLAP));
        }
        Ok(session)
    }

    fn previous(&self, id: &MinionId) -> Option<Arc<Session>> {
        self.replaced().get(id).filter(|(_, until)| *until > Instant::now()).map(|(session, _)| session.clone())
    }

    fn forget(&self, id: &MinionId) {
        self.ready().remove(id);
        self.replaced().remove(id);
        if let Err(error) = self.stores.sessions.remove(id) {
            error!(minion = %id, "failed to remove the session key of {id}: {}", crate::chain(&error));
        }
    }

    fn is_current(&self, id: &MinionId) -> bool {
        self.stores.sessions.was_used(id)
    }

    fn note_current(&self, id: &MinionId) {
        if let Err(error) = self.stores.sessions.mark_used(id) {
            error!(minion = %id, "failed to write down that {id} uses session keys: {}", crate::chain(&error));
        }
    }
}
