//! The share of the log that the peer who causes a line has.

use std::borrow::Cow;

use logscope::Peer;

use crate::level::Level;
use crate::limit::Group;

/// Longest name of a peer, in bytes.
const NAME: usize = 256;

/// A peer whose lines are limited.
#[derive(Clone, Debug)]
pub(crate) struct Limited(Peer);

impl Limited {
    /// Returns the peer that this thread handles, if its lines are limited.
    pub(crate) fn current() -> Option<Self> {
        logscope::current().filter(|peer| *peer != Peer::Operator).map(Limited)
    }

    /// The name that its share of the log has.
    pub(crate) fn name(&self) -> String {
        let name: Cow<'_, str> = match &self.0 {
            Peer::Stranger(network) => network.to_string().into(),
            Peer::Claimed(id) | Peer::Minion(id) => id.as_str().into(),
            Peer::User(name) => format!("user {name}").into(),
            Peer::Operator => "".into(),
        };
        value::escape::brief(&name, NAME).into_owned()
    }

    /// Returns the group that a line of a level counts to.
    pub(crate) fn group(&self, level: Level) -> Group {
        let warns = level >= Level::WARNING;
        match self.0 {
            Peer::Claimed(_) if warns => Group::ClaimedWarnings,
            Peer::Claimed(_) => Group::Claimed,
            Peer::Minion(_) | Peer::User(_) | Peer::Operator if warns => Group::Warnings,
            Peer::Minion(_) | Peer::User(_) | Peer::Operator => Group::Known,
            Peer::Stranger(_) => Group::Strangers,
        }
    }
}
