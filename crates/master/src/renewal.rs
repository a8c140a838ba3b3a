//! A new key for publications.
//!
//! A minion signs in when it meets a publication it cannot open, so ten thousand would at the first one under a new key, and a
//! job would wait for its minion among them. When only the age of the key is the reason, those who listen get publications
//! sealed with the key before until they have signed in. Minions of ours do that when they are told, each at another
//! time. A minion of Salt cannot be told: by and by each is sent a word for nobody, sealed with the new key, and signs in to
//! read it.

use std::sync::Arc;
use std::time::Duration;

use channel::server::{Generation, Rotation};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error};

use crate::jobs::publish;
use crate::{Shared, goodbye};
use wire::loads::Ability;

/// The time between two groups of minions that are sent a word.
const TICK: Duration = Duration::from_millis(200);

/// How many minions of Salt are made to sign in within a second: a twelfth of what two processors answer. Nothing hurries.
const PER_SECOND: usize = 50;

/// The longest time all of them may take, unless keys live for less than twice that; when they are very many, more of them sign
/// in within a second.
const LONGEST: Duration = Duration::from_secs(600);

/// How long what was sealed with the key before is opened after everyone had the time to sign in.
const OVERLAP: Duration = Duration::from_secs(60);

/// Replaces the key because of its age, without a storm of sign-ins. Returns at once; the minions follow by and by.
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

/// Replaces the key so that somebody cannot read any more what is published, nor say anything.
pub async fn at_once(shared: &Arc<Shared>) {
    goodbye::announce_rotation(shared).await;
    shared.channel.rotate(Rotation::LockOut);
    shared.publisher.forget_before();
}

/// How long it may take until all have the new key: they shall when the next one comes.
fn longest(life: Duration) -> Duration {
    LONGEST.min(life / 2)
}

/// How many of so many minions are sent a word now, when so much time is left.
fn group(minions: usize, left: Duration) -> usize {
    let ticks = |time: Duration| usize::try_from(time.as_millis() / TICK.as_millis()).unwrap_or(usize::MAX);
    (PER_SECOND / ticks(Duration::from_secs(1))).max(minions.div_ceil(ticks(left).max(1)))
}

/// Sends a word to those who are behind, a group at a time, until there is nobody left or the key is another again. Minions of
/// ours have their time to come by themselves.
async fn catch_up(shared: &Arc<Shared>, key: &Arc<Generation>, told: Duration, longest: Duration) {
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
