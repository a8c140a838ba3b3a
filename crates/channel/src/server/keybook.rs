//! What the channel asks about keys; decided elsewhere.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crypto::{KeyString, PublicKey};
use value::Map;
use wire::MinionId;

/// The answer to a minion that shows its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The key is accepted.
    Accepted,
    /// The key waits for an operator.
    Pending,
    /// The key is rejected, denied or unusable.
    Refused,
    /// There are as many minions as `max_minions` allows.
    Full,
}

/// Knows the minions' keys.
pub trait KeyBook: Send + Sync {
    /// Decides about a minion that signs in with this public key (PEM text as received, stripped), and stores what
    /// follows. `grains` are those it sent for autosigning. The word is that of the `salt/auth` event (`accept`, `pend`,
    /// `reject`, `denied`, `full`).
    fn sign_in(&self, id: &MinionId, public: &str, grains: Option<&Map>) -> (Verdict, &'static str);

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
}

/// A session key and what seals with it.
pub struct Session {
    /// The key as its text.
    pub key: KeyString,
    /// What seals and opens with it.
    pub crypticle: crypto::Crypticle,
}
