//! What a master tells its minions beside jobs: that it stops, that its key changes.
//!
//! A word is a publication without target, job id and function, sealed and numbered like any other. Only connections of minions
//! of ours get it; a minion of Salt would pass over it.

use std::sync::Arc;
use std::time::Duration;

use tracing::warn;
use value::{Map, map};

use crate::Shared;
use crate::jobs::publish::tell_minions;

/// How long the words may take to leave.
const PATIENCE: Duration = Duration::from_millis(200);

/// Sign-ins a master answers in a second without being late for anything else: two milliseconds each on one processor.
const SIGN_INS: usize = 400;

/// Sign-ins in a second when there is no hurry.
const BY_AND_BY: usize = 100;

/// The longest time minions that have nothing to deliver are asked to spread their return over.
const LONGEST: Duration = Duration::from_secs(60);

/// Tells the minions that this master stops, and waits a moment until everything that was published has left.
pub async fn say(shared: &Arc<Shared>) {
    let spread = spread(shared.publisher.subscribers().len(), SIGN_INS);
    tell(shared, map! { "goodbye" => true, "spread" => spread.as_secs_f64() }).await;
    // A subscriber that takes nothing does not hold up the end.
    let _ = tokio::time::timeout(PATIENCE, shared.publisher.flushed()).await;
}

/// Tells the minions that the key of publications changes, so that those that have nothing else to do sign in by and by.
/// Returns the time they take.
pub async fn announce_rotation(shared: &Arc<Shared>) -> Duration {
    let spread = spread(shared.publisher.subscribers().len(), BY_AND_BY);
    tell(shared, map! { "rotated" => true, "spread" => spread.as_secs_f64() }).await;
    spread
}

async fn tell(shared: &Arc<Shared>, word: Map) {
    let (shared, rt) = (shared.clone(), &shared.stores.rt);
    let told = rt.blocking(move || tell_minions(&shared, word)).await;
    if let Ok(Err(error)) = told {
        warn!("the minions could not be told: {error}");
    }
}

/// The time over which so many minions come back without a storm.
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
