//! Where members are looked for.

use share::Node;

/// An address that is dialled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// A host with or without a port.
    pub address: String,
    /// The member that is to be found there, if the set says so. Without it the operator has named the address.
    ///
    /// Only at an address that the operator has named this member proves itself: whoever gets a proof can guess the secret.
    pub member: Option<Node>,
}

impl Target {
    /// Creates the target of an address that the operator has named.
    pub fn named(address: impl Into<String>) -> Self {
        Target { address: address.into(), member: None }
    }
}
