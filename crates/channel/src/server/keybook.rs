//! The interfaces through which the channel asks about keys. Others decide.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crypto::{KeyString, PublicKey};
use value::Map;
use wire::MinionId;
use wire::loads::AuthOutcome;

/// No decision about a minion that signs in, because of a failure on the master. The minion should retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undecided;

/// What a minion that signs in says about itself. None of it is authenticated.
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
    /// Decides about the key of a minion that signs in, and stores the result.
    ///
    /// # Errors
    /// When the decision fails on the master. The reason is in the log.
    fn sign_in(&self, offer: &Offer<'_>) -> Result<AuthOutcome, Undecided>;

    /// Returns the accepted key of a minion.
    fn accepted(&self, id: &MinionId) -> Option<Arc<PublicKey>>;
}

/// Knows the session keys.
pub trait SessionBook: Send + Sync {
    /// Returns the session key of a minion. Creates one if there is none, or if it is older than `life`.
    fn session(&self, id: &MinionId, life: Duration) -> io::Result<Arc<Session>>;

    /// Returns the previous session key while it is still valid: for a short time after it was replaced because of its
    /// age.
    fn previous(&self, id: &MinionId) -> Option<Arc<Session>>;

    /// Forgets the session key of a minion. Nothing encrypted with it is accepted any more.
    fn forget(&self, id: &MinionId);

    /// Returns whether a minion has ever proved its identity with an envelope of version 3. Not called when only
    /// version 3 is accepted.
    fn is_current(&self, id: &MinionId) -> bool;

    /// Remembers across restarts that a minion has proved its identity with an envelope of version 3.
    fn note_current(&self, id: &MinionId);
}

/// A session key, ready to use.
pub struct Session {
    /// The key as text.
    pub key: KeyString,
    /// What encrypts and decrypts with it.
    pub crypticle: crypto::Crypticle,
}
