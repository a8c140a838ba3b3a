//! What carries envelopes: the servers of NATS, or memory in tests.

use std::pin::Pin;

use bytes::Bytes;
use share::{Lane, Node};

use crate::connect::BusState;

/// Where an envelope goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    To(Node, Lane),
    /// Whoever listens to beats.
    Beat,
}

impl Place {
    /// Returns the lane that an envelope for this place belongs to.
    pub fn lane(self) -> Lane {
        match self {
            Place::To(_, lane) => lane,
            Place::Beat => Lane::Talk,
        }
    }
}

/// A future that sends something.
pub(crate) type Sending<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Carries envelopes to other nodes, or loses them.
pub(crate) trait Wire: Send + Sync {
    /// Hands over an envelope. Waits while too much is under way.
    fn publish(&self, place: Place, envelope: Bytes) -> Sending<'_>;

    /// Waits until all that was handed over is sent.
    fn flush(&self) -> Sending<'_>;
}

/// What a wire reports.
#[derive(Debug)]
pub(crate) enum Event {
    /// What arrived there.
    Envelope(Place, Bytes),
    State(BusState),
}
