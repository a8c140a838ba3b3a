//! What the channel asks about keys; decided elsewhere.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crypto::{KeyString, PublicKey};
use value::Map;
use wire::MinionId;
use wire::loads::AuthOutcome;

/// Nothing was decided about a minion that signs in, because something failed on this side: it is to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undecided;

/// What a minion that signs in says about itself, before anything of it is proven.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// Who it says it is.
    pub id: &'a MinionId,
    /// Its public key: PEM text as received, stripped.
    pub public: &'a str,
    /// The grains it sent for autosigning.
    pub grains: Option<&'a Map>,
    /// Where it comes from.
    pub peer: IpAddr,
}

/// Knows the minions' keys.
pub trait KeyBook: Send + Sync {
    /// Decides about a minion that signs in, and stores what follows.
    ///
    /// # Errors
    /// When something fails on this side, which is in the log.
    fn sign_in(&self, offer: &Offer<'_>) -> Result<AuthOutcome, Undecided>;

    /// Returns the accepted key of a minion.
    fn accepted(&self, id: &MinionId) -> Option<Arc<PublicKey>>;
}

/// Knows the session keys.
pub trait SessionBook: Send + Sync {
    /// Returns the session key of a minion, making one when there is none or it is older than `life`.
    fn session(&self, id: &MinionId, life: Duration) -> io::Result<Arc<Session>>;

    /// Returns the session key a minion had before, while that still counts: shortly after it was replaced because of its
    /// age.
    fn previous(&self, id: &MinionId) -> Option<Arc<Session>>;

    /// Forgets the session key of a minion, so that nothing sealed with it counts any more.
    fn forget(&self, id: &MinionId);

    /// Says whether a minion has ever proven itself with an envelope of version 3. Never asked when only those are answered.
    fn is_current(&self, id: &MinionId) -> bool;

    /// Remembers, also for later starts, that a minion has proven itself with an envelope of version 3.
    fn note_current(&self, id: &MinionId);
}

/// A session key and what seals with it.
pub struct Session {
    /// The key as its text.
    pub key: KeyString,
    /// What seals and opens with it.
    pub crypticle: crypto::Crypticle,
}
