//! The address from which each minion last authenticated itself.
//!
//! A subscriber of the publication port claims a name without proof. The claim counts only if it comes from the address
//! of the last authenticated request of that minion.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use wire::MinionId;

/// The address of the last proven request of each minion.
#[derive(Debug, Default)]
pub struct ProvenAddresses {
    known: Mutex<HashMap<MinionId, IpAddr>>,
    changed: Notify,
}

impl ProvenAddresses {
    /// Notes that a minion authenticated itself from an address. Returns whether the address is new for it.
    pub fn note(&self, minion: &MinionId, from: IpAddr) -> bool {
        let new = self.set(minion, from.to_canonical());
        if new {
            self.notify();
        }
        new
    }

    fn set(&self, minion: &MinionId, from: IpAddr) -> bool {
        let mut known = self.lock();
        match known.get_mut(minion) {
            Some(address) => std::mem::replace(address, from) != from,
            None => {
                known.insert(minion.clone(), from);
                true
            }
        }
    }

    /// Reports that other minions may count as connected than before.
    pub fn notify(&self) {
        // Kept until somebody waits, so that a change during a look at the connections is not missed.
        self.changed.notify_one();
    }

    /// Waits until other minions may count as connected than at the last call: one connected, left, or proved its address. For
    /// one task only.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns the address from which a minion last authenticated itself.
    pub fn get(&self, minion: &MinionId) -> Option<IpAddr> {
        self.lock().get(minion).copied()
    }

    /// Returns the minion that a connection from an address claims to be, if the claim counts.
    pub fn confirm(&self, claimed: &str, from: IpAddr) -> Option<MinionId> {
        let known = self.lock();
        let (minion, address) = known.get_key_value(claimed)?;
        (*address == from.to_canonical()).then(|| minion.clone())
    }

    /// Returns all addresses.
    pub fn all(&self) -> HashMap<MinionId, IpAddr> {
        self.lock().clone()
    }

    /// Forgets a minion whose key was removed.
    pub fn forget(&self, minion: &MinionId) {
        self.lock().remove(minion);
        self.notify();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<MinionId, IpAddr>> {
        // Each change is a single insert or remove, so the content is whole after any panic.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_counts_from_the_address_of_the_last_proof() {
        let (proven, web1) = (ProvenAddresses::default(), MinionId::new("web1").unwrap());
        let [one, two] = [1, 2].map(|last| IpAddr::from([10, 0, 0, last]));
        assert_eq!(proven.confirm("web1", one), None, "nothing was proven yet");
        assert!(proven.note(&web1, one) && !proven.note(&web1, one));
        let mapped = IpAddr::from([0, 0, 0, 0, 0, 0xffff, 0x0a00, 1]);
        assert_eq!([one, mapped, two].map(|from| proven.confirm("web1", from).is_some()), [true, true, false]);
        assert_eq!(proven.confirm("web2", one), None);
        assert!(proven.note(&web1, two));
        assert_eq!((proven.get(&web1), proven.confirm("web1", one)), (Some(two), None));
        proven.forget(&web1);
        assert_eq!((proven.get(&web1), proven.all().len()), (None, 0));
    }
}
