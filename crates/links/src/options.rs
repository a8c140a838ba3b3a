//! What a member is told about itself and its links.

use std::net::SocketAddr;
use std::time::Duration;

use crypto::MemberKey;
use peers::credentials::Credentials;
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
