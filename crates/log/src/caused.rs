//! Determines which peer caused a line.
//!
//! Code that handles the bytes of a peer does so in a span named [`SPAN`], with the peer in the field `peer`, and
//! `known = true` when it has proved its identity. `claimed = true` means that a stranger claims to be a known peer.
//! The innermost of these spans counts. An empty `peer` means an operator who may do everything, and whose lines are
//! not limited.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing::span::Attributes;
use tracing_subscriber::registry::{LookupSpan, Scope};

use crate::level::Level;
use crate::limit::Group;

/// The name of the span around the handling of a peer's bytes.
pub(crate) const SPAN: &str = "log.peer";

/// Longest name of a peer, in bytes.
const NAME: usize = 256;

/// The peer of a span.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peer {
    name: String,
    known: bool,
    claimed: bool,
}

impl Peer {
    /// Reads the fields of a new span; `None` for spans of other names.
    pub(crate) fn of(attributes: &Attributes<'_>) -> Option<Self> {
        (attributes.metadata().name() == SPAN).then(|| {
            let mut peer = Peer::default();
            attributes.record(&mut peer);
            peer
        })
    }

    /// Returns the peer that caused an event in these spans, if its lines are limited.
    pub(crate) fn around<'a, R: LookupSpan<'a>>(scope: Option<Scope<'a, R>>) -> Option<Self> {
        let found = scope?.find_map(|span| span.extensions().get::<Peer>().cloned());
        found.filter(|peer| !peer.name.is_empty())
    }

    /// The name that its share of the log has.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the group that a line of a level counts to.
    pub(crate) fn group(&self, level: Level) -> Group {
        let warns = level >= Level::WARNING;
        match (self.claimed, self.known) {
            (true, _) if warns => Group::ClaimedWarnings,
            (true, _) => Group::Claimed,
            (false, true) if warns => Group::Warnings,
            (false, true) => Group::Known,
            (false, false) => Group::Strangers,
        }
    }
}

impl Visit for Peer {
    fn record_bool(&mut self, field: &Field, value: bool) {
        match field.name() {
            "known" => self.known = value,
            "claimed" => self.claimed = value,
            _ => {}
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "peer" {
            self.name = value::escape::brief(value, NAME).into_owned();
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}
