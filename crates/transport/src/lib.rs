//! Sockets that speak Salt's transports: `zeromq` and `tcp`, request and publish, both sides.
//!
//! A master has a [`RequestServer`] and a [`Publisher`], a minion has a [`Requester`] and a [`Subscription`] per
//! master. They carry envelopes and payloads and know nothing about keys. Streams come from the crate `rt`, so all of
//! this also runs in a simulation; timers are tokio's.
//!
//! Bytes from strangers are limited: the size of each message, the sum over all connections ([`Limits`]), the minimum
//! rate, and the number and time of connections that have not introduced themselves. Answers that peers do not read are
//! limited as well: they count until they are written, and must be read at a minimum rate. Unencrypted requests from
//! other hosts must be small, and large ones are decoded on threads of low priority.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod accept;
mod answer;
mod budget;
mod buffer;
mod capacity;
mod error;
mod open;
mod options;
mod proven;
mod publish;
mod pulse;
mod serve;
pub mod tcp;
mod tls;
pub mod zeromq;

use std::time::Duration;

use futures_util::future::BoxFuture;
use value::Value;
use wire::envelope::Envelope;

pub use budget::Budget;
pub use capacity::{connections, refused_connections};
pub use error::Error;
pub use options::{Heartbeat, Kind, Limits, OnHeard, Target};
pub use proven::ProvenAddresses;
pub use publish::{Audience, Delivery, Departures, Introduction, Payload, Publisher, SubscriberStatus};
pub use serve::{Incoming, Reply, RequestServer};
pub use tls::{CertReqs, Tls, TlsSettings};

/// Sends requests to one peer and returns the answers.
pub trait Requester: Send + Sync {
    /// Sends an envelope and waits for the answer, in which bytes that are valid text are decoded to text.
    fn ask(&self, envelope: Envelope, timeout: Duration) -> BoxFuture<'_, Result<Value, Error>>;
}

/// Receives the publications of one peer.
pub trait Subscription: Send {
    /// Waits for the next payload. After an error the subscription has ended.
    fn next(&mut self) -> BoxFuture<'_, Result<bytes::Bytes, Error>>;
}
