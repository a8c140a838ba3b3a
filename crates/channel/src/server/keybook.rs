//! The channel's questions about keys. The decisions are made elsewhere.

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

/// What a minion that signs in says about itself. Nothing of it is proved.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// The id it claims.
    pub id: &'a MinionId,
    /// Its public key: PEM text as received, stripped.
    pub public: &'a str,
    /// The grains it sent for autosigning.
    pub grains: Option<&'a Map>,
    /// The address it comes from.
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

    /// Returns the session key before the current one, as long as it counts: shortly after it was replaced because of
    /// its age.
    fn previous(&self, id: &MinionId) -> Option<Arc<Session>>;

    /// Forgets the session key of a minion. Nothing encrypted with it counts any more.
    fn forget(&self, id: &MinionId);

    /// Returns whether a minion has ever proved its identity with an envelope of version 3. Not called when only
    /// those are accepted.
    fn is_current(&self, id: &MinionId) -> bool;

    /// Remembers, also for later starts, that a minion has proved its identity with an envelope of version 3.
    fn note_current(&self, id: &MinionId);
}

/// A session key, ready to use.
pub struct Session {
    /// The key as text.
    pub key: KeyString,
    /// What encrypts and decrypts with it.
    pub crypticle: crypto::Crypticle,
}
