//! Notices to minions that are not jobs: the master stops, or its key changes.
//!
//! A notice is a publication without target, job id and function, encrypted and numbered like any other. Only
//! connections of Saltern minions get it; a Salt minion would ignore it.

use std::sync::Arc;
use std::time::Duration;

use tracing::warn;
use value::{Map, map};
use wire::MinionId;

use crate::Shared;
use crate::jobs::publish::{tell_minion, tell_minions};

/// How long to wait until the notices are sent.
const PATIENCE: Duration = Duration::from_millis(200);

/// How many sign-ins per second a master answers without delaying other requests: two milliseconds each on one
/// processor.
const SIGN_INS: usize = 400;

/// The rate of sign-ins per second when nothing is urgent.
const BY_AND_BY: usize = 100;

/// The longest time over which minions that have nothing to deliver spread their reconnection.
const LONGEST: Duration = Duration::from_secs(60);

/// Tells the minions that this master stops, and waits for a short time until all publications are sent.
pub async fn say(shared: &Arc<Shared>) {
    let spread = spread(shared.publisher.subscribers().len(), SIGN_INS);
    tell(shared, map! { "goodbye" => true, "spread" => spread.as_secs_f64() }).await;
    // A subscriber that takes nothing does not hold up the end.
    let _ = tokio::time::timeout(PATIENCE, shared.publisher.flushed()).await;
}

/// Tells the minions that the key of publications changes, so that idle ones sign in at different times. Returns the
/// time over which they spread their sign-ins.
pub async fn announce_rotation(shared: &Arc<Shared>) -> Duration {
    let spread = spread(shared.publisher.subscribers().len(), BY_AND_BY);
    tell(shared, map! { "rotated" => true, "spread" => spread.as_secs_f64() }).await;
    spread
}

/// Tells a minion whose key was removed that it must sign in, before its session is forgotten: it would wait for jobs that never
/// come, and nobody would see that its key is pending.
pub async fn announce_removal(shared: &Arc<Shared>, id: &MinionId) {
    let (inside, rt, id) = (shared.clone(), &shared.stores.rt, id.clone());
    let notice = map! { "rotated" => true, "spread" => 0.0 };
    let told = rt.blocking(move || tell_minion(&inside, notice, &id)).await;
    if let Ok(Err(error)) = told {
        warn!("a minion could not be told that its key is gone: {error}");
    }
}

async fn tell(shared: &Arc<Shared>, notice: Map) {
    let (shared, rt) = (shared.clone(), &shared.stores.rt);
    let told = rt.blocking(move || tell_minions(&shared, notice)).await;
    if let Ok(Err(error)) = told {
        warn!("the minions could not be told: {error}");
    }
}

/// Returns the time that this number of minions needs to come back without overload.
fn spread(minions: usize, per_second: usize) -> Duration {
    Duration::from_secs_f64(minions as f64 / per_second as f64).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_fleet_takes_its_time() {
        assert_eq!(spread(4, SIGN_INS), Duration::from_millis(10));
        assert_eq!(spread(10_000, SIGN_INS), Duration::from_secs(25));
        assert_eq!(spread(1_000_000, SIGN_INS), LONGEST);
        assert_eq!(spread(2_000, BY_AND_BY), Duration::from_secs(20));
    }
}
