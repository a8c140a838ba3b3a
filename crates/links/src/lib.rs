//! Links between the masters of one set: a [`Carrier`](share::Carrier) over TLS 1.3, without a server.
//!
//! Each pair of members has two connections, one per lane. Both members dial; the one with the lower node decides which
//! connections count (`pair.rs`). A member proves itself by its Ed25519 key, which is the key of its TLS certificate. Nodes that
//! do not know each other show in addition that they belong to the set (`peers::proof`).
//!
//! Decisions are apart from I/O: `pair.rs` and `backoff.rs`, and all but the queues in the crate `peers`, open no socket and read no
//! clock.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod backoff;
mod beats;
mod connection;
mod dial;
mod first_bytes;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod host_port;
mod hub;
mod links;
mod listen;
mod met;
mod options;
mod pair;
mod tls;
mod welcome;

pub use links::{Links, Reports, StartError};
pub use options::{HEARTBEAT, Options, QUEUE};
pub use peers::credentials::{Credentials, KeyFingerprint, NoFingerprint, Secret};
pub use peers::members::{Members, Newcomer, SelfReport, Standing};
pub use peers::status::{LinkState, LinkStatus, PeerInfo, WaitingMember};
pub use peers::target::Target;
