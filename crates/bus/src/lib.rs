//! The masters of one set over NATS: a [`Carrier`](share::Carrier) over a server that is trusted to pass messages on, and with nothing
//! else.
//!
//! Servers see everything, so members seal what they say end to end (`session.rs`). Each member says with a beat that it is there;
//! of two that are not linked the lower node greets the other one (`greetings.rs`, `handshake.rs`). A link is a session of two runs of two members:
//! it ends with the connection to the servers, when either is silent, and when either starts a new session. A server keeps nothing for
//! whoever reads slowly, so members tell each other how far they have read (`link.rs`).
//!
//! [`connect`] opens the connection to the servers that the option `cluster_bus` names, which lasts until the client is dropped.
//!
//! Decisions are apart from I/O: `wire.rs` is all that the rest knows of NATS, and tests put memory in its place.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod bus;
mod connect;
mod content;
mod costs;
mod envelope;
#[doc(hidden)]
pub mod fuzzing;
mod greetings;
mod handshake;
mod hub;
mod link;
mod options;
mod receive;
mod session;
mod subject;
mod talk;
#[cfg(test)]
mod tests;
mod tries;
mod wire;
mod writer;

pub use bus::{Bus, Reports, StartError};
pub use config::bus::Bus as BusOptions;
pub use connect::{BusState, ConnectError, connect};
pub use options::Options;
pub use subject::encoded;
