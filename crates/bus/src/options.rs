//! What a member is told about itself.

use std::time::Duration;

use crypto::MemberKey;
use peers::credentials::Credentials;
use share::member::Role;

/// The settings of one member on the bus.
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
    /// How others reach this member without the bus, which they show to people.
    pub addresses: Vec<String>,
    /// What this member shows to strangers, and what strangers must show.
    pub credentials: Credentials,
    /// How often members tell each other that they are there (`cluster_heartbeat`). Four that are missing mean that a member is
    /// down.
    pub heartbeat: Duration,
    /// How many bytes may wait for a member in a lane (`cluster_queue_size`).
    pub queue: usize,
    /// The servers of the bus, as people read them.
    pub servers: String,
}
