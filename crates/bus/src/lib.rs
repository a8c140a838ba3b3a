//! The masters of one set over NATS.
//!
//! [`connect`] opens a connection to the servers that the option `cluster_bus` names, which lasts until the client is dropped.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod connect;
mod subject;

pub use config::bus::Bus as BusOptions;
pub use connect::{BusState, ConnectError, connect};
pub use subject::encoded;
