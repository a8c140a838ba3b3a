//! Replaces the key of publications.
//!
//! A minion signs in when it gets a publication that it cannot decrypt. After a key rotation, ten thousand would do so
//! at the next job, and that job would wait for its minion among them. If the key is replaced only because of its age,
//! subscribers get publications encrypted with the previous key until they have signed in. Saltern minions are told to
//! do so, each at a different time. Salt minions cannot be told, so they are sent, one after the other, a notice
//! without a target that is encrypted with the new key, and sign in to read it.

use std::sync::Arc;
use std::time::Duration;

use channel::server::{Generation, Rotation};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error};

use crate::jobs::publish;
use crate::{Shared, goodbye};
use wire::loads::Ability;

/// The time between two groups of minions that are sent a notice.
const TICK: Duration = Duration::from_millis(200);

/// How many Salt minions are made to sign in per second: a twelfth of what two processors can handle, because this is
/// not urgent.
const PER_SECOND: usize = 50;

/// The longest time for all of them, or half the lifetime of a key if that is shorter. With very many minions, more
/// sign in per second.
const LONGEST: Duration = Duration::from_secs(600);

/// How long the previous key is accepted after all minions had time to sign in.
const OVERLAP: Duration = Duration::from_secs(60);

/// Replaces the key because of its age, without a wave of sign-ins. Returns at once; the minions sign in gradually.
pub async fn by_age(shared: &Arc<Shared>, stop: &CancellationToken) {
    let told = goodbye::announce_rotation(shared).await;
    // In this order: what is numbered under the new key finds them left behind.
    shared.publisher.leave_behind();
    let longest = longest(shared.stores.config.keys.publish_session);
    shared.channel.rotate(Rotation::Age(told + longest + OVERLAP));
    let (shared, stop, key) = (shared.clone(), stop.clone(), shared.channel.aes().current());
    let rt = shared.stores.rt.clone();
    rt.spawn(async move {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = catch_up(&shared, &key, told, longest) => {}
        }
    });
}

/// Replaces the key at once, so that a minion whose key was removed can no longer read publications or send requests.
pub async fn at_once(shared: &Arc<Shared>) {
    // With the old key still: nobody could decrypt the announcement otherwise.
    goodbye::announce_rotation(shared).await;
    shared.channel.rotate(Rotation::LockOut);
    // No subscriber gets publications with the previous key any more, whoever it is.
    shared.publisher.forget_before();
}

/// Returns the longest time until all have the new key. It must be less than the lifetime of a key.
fn longest(life: Duration) -> Duration {
    LONGEST.min(life / 2)
}

/// Returns how many minions to send a notice now, in order to finish in the remaining time.
fn group(minions: usize, left: Duration) -> usize {
    let ticks = |time: Duration| usize::try_from(time.as_millis() / TICK.as_millis()).unwrap_or(usize::MAX);
    (PER_SECOND / ticks(Duration::from_secs(1))).max(minions.div_ceil(ticks(left).max(1)))
}

/// Sends a notice to subscribers that are behind, a group at a time, until none is left or the key has changed again.
/// Saltern minions first get the time to sign in by themselves.
async fn catch_up(shared: &Arc<Shared>, key: &Arc<Generation>, told: Duration, longest: Duration) {
    // Some seconds more than they were told, since the last ones need time to sign in.
    let by_themselves = Instant::now() + told + Duration::from_secs(5);
    let end = Instant::now() + longest;
    loop {
        tokio::time::sleep(TICK).await;
        if !Arc::ptr_eq(key, &shared.channel.aes().current()) {
            return;
        }
        let behind = shared.publisher.behind();
        if behind.is_empty() {
            debug!("all minions that listen have had the time to fetch the new key");
            return;
        }
        let ours = match Instant::now() < by_themselves {
            true => shared.presence.all_that_can(Ability::Goodbye),
            false => Default::default(),
        };
        let group = group(behind.len(), end.saturating_duration_since(Instant::now()));
        let due = behind.into_iter().filter(|(_, minion)| minion.as_ref().is_none_or(|minion| !ours.contains(minion)));
        let next: Vec<u64> = due.map(|(connection, _)| connection).take(group).collect();
        if next.is_empty() {
            continue;
        }
        let (sender, rt) = (shared.clone(), &shared.stores.rt);
        if let Ok(Err(failure)) = rt.blocking(move || publish::catch_up(&sender, &next)).await {
            error!("the minions could not be told of the new key: {failure}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_very_many_have_the_new_key_in_time() {
        assert_eq!(group(1, LONGEST), 10);
        assert_eq!(group(10_000, LONGEST), 10);
    }

    #[test]
    fn the_last_ones_have_it_before_the_next_key_comes_even_if_each_turn_takes_long() {
        for (minions, life) in [(1_000_000_usize, 86_400), (10_000, 75), (10_000, 1)] {
            let longest = longest(Duration::from_secs(life));
            let (mut behind, mut passed) = (minions, Duration::ZERO);
            while behind > 0 {
                passed += TICK * 3 / 2;
                behind = behind.saturating_sub(group(behind, longest.saturating_sub(passed)));
            }
            assert!(passed <= longest + TICK * 2, "{minions} in {longest:?}: {passed:?}");
        }
    }
}
