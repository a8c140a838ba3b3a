//! What the master can ask about other members: whether they are linked, how they are, and why they are not.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use share::Node;
use share::member::Role;

use crate::members::{Newcomer, SelfReport};

/// What a member has said about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    /// Its short name.
    pub name: String,
    /// The version of its program.
    pub version: String,
    /// Random, another one in each run of its program.
    pub boot: u64,
    /// What it does.
    pub role: Role,
    /// Where others reach it, as it says.
    pub addresses: Vec<String>,
    /// The SHA-256 of the public halves of its master key and its signing key, if it has them. Minions that follow both members
    /// need the same master key, or signed ones.
    pub master_key: Option<[u8; 32]>,
    /// See `master_key`.
    pub sign_key: Option<[u8; 32]>,
    /// Its last report. A node that waits to be accepted reports nothing.
    pub report: Option<SelfReport>,
}

/// Whether a member is linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// It is linked.
    Linked {
        /// Since when.
        since: SystemTime,
    },
    /// It is not reachable, or one of the two refuses the other.
    Away {
        /// Since when, or since when it is dialled.
        since: SystemTime,
    },
    /// It is no member yet, and could not prove that it belongs to the set.
    Waiting {
        /// When it was first seen.
        since: SystemTime,
    },
    /// It is no member, and one of the two refuses the other.
    Refused {
        /// Since when.
        since: SystemTime,
    },
}

/// What is known of another member, or of an address where none has answered yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkStatus {
    /// The member; `None` if nobody has answered at the address.
    pub node: Option<Node>,
    /// What it said when it was last linked, or when it began to wait.
    pub info: Option<PeerInfo>,
    /// The addresses at which this member dials it.
    pub dialled: Vec<String>,
    /// Where it was seen, if it is no member.
    pub seen_at: Option<IpAddr>,
    /// Whether it is linked.
    pub state: LinkState,
    /// Why it is not linked, in a few words.
    pub reason: Option<String>,
    /// How long an answer takes.
    pub rtt: Option<Duration>,
    /// By how many milliseconds its clock is ahead.
    pub clock: Option<i64>,
    /// Bytes that wait to be sent to it.
    pub queue_bytes: usize,
    /// Messages to it that were lost because its queue was full, since this program has started.
    pub dropped: u64,
    /// Heartbeats that it has not answered.
    pub unanswered: u64,
}

/// A newcomer that waits until a person accepts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingMember {
    /// Who it is.
    pub newcomer: Newcomer,
    /// What it says about itself.
    pub info: PeerInfo,
    /// Where it was seen; `None` on the bus, where nobody has an address.
    pub address: Option<IpAddr>,
    /// When it was first seen.
    pub since: SystemTime,
}
