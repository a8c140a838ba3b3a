//! What a member is told about itself and its links.

use std::net::SocketAddr;
use std::time::Duration;

use crypto::{MemberKey, PrivateKey};
use share::member::Role;

/// The settings of the links of one member.
#[derive(Clone)]
pub struct Options {
    /// The name of the set (`cluster_id`).
    pub cluster_id: String,
    /// The short name of this member.
    pub name: String,
    /// What this member does.
    pub role: Role,
    /// The key by which others know this member.
    pub key: MemberKey,
    /// Where this member listens.
    pub listen: SocketAddr,
    /// How others reach this member, if not as they see it (`cluster_addresses`).
    pub addresses: Vec<String>,
    /// What this member shows to strangers, and what strangers must show.
    pub credentials: Credentials,
    /// How often members tell each other that they are there (`cluster_heartbeat`). Four that are missing mean that a member is
    /// down.
    pub heartbeat: Duration,
    /// How many bytes may wait for a member in a lane (`cluster_queue_size`).
    pub queue: usize,
}

/// The default of [`Options::heartbeat`].
pub const HEARTBEAT: Duration = Duration::from_millis(500);

/// The default of [`Options::queue`].
pub const QUEUE: usize = 64 << 20;

/// What two members that do not know each other may have in common.
#[derive(Clone, Default)]
pub struct Credentials {
    /// The secret of the set (`cluster_secret`). With a secret nothing else counts.
    pub secret: Option<Secret>,
    /// The master's key pair, which all members may have.
    pub master_key: Option<PrivateKey>,
    /// The key pair that signs the master's public key, which all members may have.
    pub sign_key: Option<PrivateKey>,
}

/// The secret of the set. It is never printed.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Creates the secret from its text.
    pub fn new(text: impl Into<Vec<u8>>) -> Self {
        Secret(text.into())
    }

    pub(crate) fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.fill(0);
        std::hint::black_box(&self.0);
    }
}
