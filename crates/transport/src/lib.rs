//! Sockets that speak Salt's transports: `zeromq` and `tcp`, request and publish, both sides.
//!
//! A master has a [`RequestServer`] and a [`Publisher`], a minion has a [`Requester`] and a [`Subscription`] per master. They
//! carry envelopes and payloads and know nothing of keys. Streams come from the crate `rt`, so all of this runs
//! simulated; timers are tokio's.
//!
//! Bytes from strangers are bounded: in size per message, in sum over all connections ([`Limits`]), in the pace they come with,
//! and in the time and number of connections that have not introduced themselves. Answers that peers do not read are bounded
//! as well: they count until they are written, and have to be read at a minimum rate. Clear requests from other hosts are small,
//! and what is large is decoded on threads that let others go first.

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

/// Carries requests to one peer and brings the answers.
pub trait Requester: Send + Sync {
    /// Sends an envelope and waits for the answer, bytes that are text having become text.
    fn ask(&self, envelope: Envelope, timeout: Duration) -> BoxFuture<'_, Result<Value, Error>>;
}

/// Receives what one peer publishes.
pub trait Subscription: Send {
    /// Waits for the next payload. After an error the subscription has ended.
    fn next(&mut self) -> BoxFuture<'_, Result<bytes::Bytes, Error>>;
}
