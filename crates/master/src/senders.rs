//! Identifies the sender of a request as far as it is known, so that the cost of its requests does not delay others.

use std::net::IpAddr;

use channel::server::SealedRequest;
use value::Value;
use wire::envelope::Sealed;
use wire::{MinionId, Network};

/// A sender.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sender {
    /// An authenticated minion.
    Minion(MinionId),
    /// A claimed minion at an address, or in its network. Nothing is authenticated before the request is decrypted.
    Claimed(Network, MinionId),
    /// Any sender at this address, or in its network.
    Address(Network),
}

impl Sender {
    /// Returns the sender of a request that has not been decrypted.
    pub fn claimed(sealed: &Sealed, from: IpAddr) -> Self {
        let from = Network::from(from);
        match sealed.id.as_ref().and_then(Value::as_str).map(MinionId::new) {
            Some(Ok(id)) => Sender::Claimed(from, id),
            _ => Sender::Address(from),
        }
    }

    /// Returns the sender of a decrypted request.
    pub fn of(request: &SealedRequest, from: IpAddr) -> Self {
        match &request.id {
            Some(id) if is_proven(request) => Sender::Minion(id.clone()),
            _ => Sender::Address(from.into()),
        }
    }
}

/// Returns whether the sender of a request is authenticated.
pub fn is_proven(request: &SealedRequest) -> bool {
    request.id.is_some() && (request.seal.version() > 2 || request.token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_claims_to_be_another_waits_behind_its_own_requests_only() {
        let sealed = |id: Option<Value>| Sealed { load: "".into(), version: 3, id, enc_algo: None, sig_algo: None };
        let (here, there) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2]));
        let web1 = Sender::claimed(&sealed(Some("web1".into())), here);
        assert_ne!(web1, Sender::claimed(&sealed(Some("web1".into())), there));
        assert_ne!(web1, Sender::claimed(&sealed(Some("web2".into())), here));
        assert_eq!(web1, Sender::claimed(&sealed(Some("web1".into())), "::ffff:127.0.0.1".parse().unwrap()));
        let neighbours = [1, 2].map(|last| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, last]));
        let [one, other] = neighbours.map(|from| Sender::claimed(&sealed(Some("web1".into())), from));
        assert_eq!(one, other, "addresses of one network");
        for none in [None, Some(7.into()), Some("../web1".into())] {
            assert_eq!(Sender::claimed(&sealed(none), here), Sender::Address(here.into()));
        }
    }
}
