//! Which leases this member holds: runs look here before each publication.
//!
//! The worker writes it down. A lease has its end here as well, so that a worker that is busy keeps no run going.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use runners::Guard;
use share::votes::Ballot;
use tokio::time::Instant;
use tracing::debug;

/// Leases by name, each with its fence and its end, if it has one.
type Leases = BTreeMap<String, (Ballot, Option<Instant>)>;

/// The leases of this member.
#[derive(Default)]
pub struct Held {
    noted: Mutex<Leases>,
    /// Who knows what servers have granted. It is asked itself, so that a worker that is busy loses no lease.
    granted: Mutex<Option<leases::Leases>>,
}

impl Held {
    fn all(&self) -> MutexGuard<'_, Leases> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has servers grant the leases, or no longer.
    pub fn grant_by(&self, leases: Option<leases::Leases>) {
        *self.granted() = leases;
    }

    fn granted(&self) -> MutexGuard<'_, Option<leases::Leases>> {
        self.granted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over what is held now.
    pub fn renew(&self, held: Leases) {
        let mut all = self.all();
        if *all != held {
            log(&all, &held, if self.granted().is_some() { "from JetStream" } else { "by votes" });
            *all = held;
        }
    }

    fn is_held(&self, lease: &str, fence: Ballot, now: Instant) -> bool {
        if let Some(leases) = &*self.granted() {
            return leases.held(lease).is_some_and(|(sequence, _)| sequence == fence.round);
        }
        let all = self.all();
        all.get(lease).is_some_and(|(held, until)| *held == fence && until.is_none_or(|until| now < until))
    }
}

/// Says what has changed. Simulations read these messages to check that no two members hold a lease.
fn log(before: &Leases, held: &Leases, how: &str) {
    for (lease, (fence, until)) in held.iter().filter(|(lease, hold)| before.get(*lease) != Some(hold)) {
        match until {
            Some(until) => {
                let left = until.saturating_duration_since(Instant::now()).as_millis();
                debug!("holds the lease {lease} {how}, with the fence {}, for {left} ms", fence.round);
            }
            None => debug!("holds the lease {lease} by rank, with the fence {}", fence.round),
        }
    }
    for lease in before.keys().filter(|lease| !held.contains_key(*lease)) {
        debug!("does not hold the lease {lease}");
    }
}

/// A lease under which something runs.
pub struct HeldLease {
    pub held: Arc<Held>,
    pub lease: String,
    pub fence: Ballot,
}

impl Guard for HeldLease {
    fn lost(&self) -> BoxFuture<'_, Option<String>> {
        let held = self.held.is_held(&self.lease, self.fence, Instant::now());
        let reason = (!held).then(|| {
            format!("this master does not hold the lease of {} any more, and another one may run it", self.lease)
        });
        std::future::ready(reason).boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use share::Node;

    use super::*;

    #[test]
    fn a_lease_is_lost_when_its_time_is_up_and_when_it_was_taken_again() {
        let (held, now) = (Held::default(), Instant::now());
        let fence = |round| Ballot { round, node: Node([1; 8]) };
        let until = now + Duration::from_secs(1);
        held.renew(BTreeMap::from([("a".to_owned(), (fence(1), Some(until))), ("b".to_owned(), (fence(2), None))]));
        assert!(held.is_held("a", fence(1), now) && !held.is_held("a", fence(1), until));
        assert!(!held.is_held("a", fence(2), now), "it was lost in between");
        assert!(held.is_held("b", fence(2), until + Duration::from_secs(3_600)));
        assert!(!held.is_held("c", fence(1), now));
    }
}
