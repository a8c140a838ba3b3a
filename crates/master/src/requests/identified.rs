//! Who sent a request, as far as that is known: what one sender costs must not be paid by others.

use std::net::IpAddr;

use channel::server::SealedRequest;
use wire::MinionId;

/// A sender, to tell one from the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sender {
    /// A minion that has proved who it is.
    Minion(MinionId),
    /// Whoever uses this address.
    Address(IpAddr),
}

impl Sender {
    /// Returns the sender of a request that was opened.
    pub fn of(request: &SealedRequest, from: IpAddr) -> Self {
        match &request.id {
            Some(id) if is_proven(request) => Sender::Minion(id.clone()),
            _ => Sender::Address(from.to_canonical()),
        }
    }
}

/// Returns whether it is certain who sent a request.
pub fn is_proven(request: &SealedRequest) -> bool {
    request.id.is_some() && (request.seal.version() > 2 || request.token)
}
