//! Links between the masters of one set: a [`Carrier`](share::Carrier) over TLS 1.3, without a server.
//!
//! Each pair of members has two connections, one per lane. Both members dial; the one with the lower node decides which
//! connections count (`pair.rs`). A member proves itself by its Ed25519 key, which is the key of its TLS certificate. Nodes that
//! do not know each other show in addition that they belong to the set (`proof.rs`).
//!
//! Decisions are apart from I/O: `ahead.rs`, `pair.rs`, `checks.rs`, `guard.rs`, `roster.rs`, `twins.rs`, `backoff.rs` and `proof.rs` open no socket and read no clock.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod ahead;
mod backoff;
mod changes;
mod checks;
mod connection;
mod dial;
mod failed;
mod first_bytes;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod guard;
mod handshake;
mod host_port;
mod hub;
mod inbox;
mod kind;
mod links;
mod listen;
mod members;
mod met;
mod options;
mod pair;
mod proof;
mod queue;
mod roster;
mod settle;
mod status;
mod tls;
mod twins;

pub use links::{Links, Reports, StartError};
pub use members::{Members, Newcomer, SelfReport, Standing};
pub use options::{Credentials, HEARTBEAT, KeyFingerprint, NoFingerprint, Options, QUEUE, Secret, Target};
pub use status::{LinkState, LinkStatus, PeerInfo, WaitingMember};
