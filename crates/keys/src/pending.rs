//! Limits on pending keys.
//!
//! Anyone who reaches the master can offer keys under any number of ids. Each stays as a file until an operator
//! decides. So there is a limit for all of them, and one per address, so that a single host cannot use up the places of
//! all others.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use wire::{MinionId, Network};

use crate::{Bank, KeyError, LiveKeys};

/// The maximum numbers of pending keys; `None` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingLimits {
    /// All together (`max_pending_keys`).
    pub all: Option<usize>,
    /// From one address (`max_pending_keys_per_address`), counted since the master started.
    pub per_address: Option<usize>,
}

/// Counts pending keys. Other programs accept and delete keys, so the count may be too high; the files are counted
/// again before a key is refused.
#[derive(Debug)]
pub(crate) struct Pending {
    limits: PendingLimits,
    known: Mutex<PendingCounts>,
}

#[derive(Debug, Default)]
struct PendingCounts {
    /// `None` until the files have been counted.
    all: Option<usize>,
    networks: HashMap<Network, HashSet<MinionId>>,
}

impl Pending {
    pub(crate) fn new(limits: PendingLimits) -> Self {
        Pending { limits, known: Mutex::default() }
    }

    /// Returns whether there is no room for another key from this address.
    pub(crate) fn is_crowded(&self, keys: &LiveKeys, from: Option<IpAddr>) -> Result<bool, KeyError> {
        Ok(self.is_full(keys)? || self.is_share_used(keys, from)?)
    }

    fn is_full(&self, keys: &LiveKeys) -> Result<bool, KeyError> {
        let Some(limit) = self.limits.all else { return Ok(false) };
        if self.known().all.is_some_and(|count| count < limit) {
            return Ok(false);
        }
        // The listing stays in memory until a file changes, which no stranger can bring about while this is full.
        let listing = keys.list()?;
        let count = listing.ids(Bank::Pending).len() + listing.ids(Bank::Rejected).len();
        self.known().all = Some(count);
        Ok(count >= limit)
    }

    fn is_share_used(&self, keys: &LiveKeys, from: Option<IpAddr>) -> Result<bool, KeyError> {
        let (Some(limit), Some(from)) = (self.limits.per_address, from.map(Network::from)) else { return Ok(false) };
        let is_reached = |known: &PendingCounts| known.networks.get(&from).is_some_and(|ids| ids.len() >= limit);
        if !is_reached(&self.known()) {
            return Ok(false);
        }
        let listing = keys.list()?;
        let undecided: HashSet<&MinionId> =
            listing.ids(Bank::Pending).iter().chain(listing.ids(Bank::Rejected)).collect();
        let mut known = self.known();
        if let Some(ids) = known.networks.get_mut(&from) {
            // Keys that were accepted or deleted meanwhile free the share of their address.
            ids.retain(|id| undecided.contains(id));
        }
        Ok(is_reached(&known))
    }

    /// Counts a key that was stored.
    pub(crate) fn note(&self, id: &MinionId, from: Option<IpAddr>) {
        let mut known = self.known();
        known.all = known.all.map(|count| count + 1);
        if let Some(from) = from.map(Network::from).filter(|_| self.limits.per_address.is_some()) {
            known.networks.entry(from).or_default().insert(id.clone());
        }
    }

    fn known(&self) -> MutexGuard<'_, PendingCounts> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
