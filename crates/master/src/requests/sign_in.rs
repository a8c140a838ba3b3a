//! `_auth`: a minion signs in.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use channel::server::Decided;
use tokio::time::Instant;
use tracing::{debug, warn};
use transport::Incoming;
use value::{Map, Value, map};
use wire::Network;
use wire::envelope::Clear;
use wire::loads::AuthOutcome;

use super::contained::contained;
use super::lifo_queue::LifoQueue;
use crate::Shared;

/// The largest number of waiting sign-ins. Each has a few kilobytes.
const WAITING: usize = 16_384;

/// A sign-in that was abandoned after more than this time has waited too long.
const LONG: Duration = Duration::from_secs(1);

/// The time between two warnings that there are too many sign-ins.
const QUIET: Duration = Duration::from_secs(60);

/// The queue of sign-ins, so that they do not delay other requests.
pub struct SignIns {
    queue: LifoQueue<Network, Waiting>,
    storm: Mutex<Storm>,
}

struct Waiting {
    incoming: Incoming,
    came: Instant,
}

impl SignIns {
    pub fn new() -> Self {
        // Other requests have threads of their own, which the system lets run beside these in turn.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        SignIns { queue: LifoQueue::new(processors, WAITING), storm: Mutex::default() }
    }

    /// Queues a sign-in. Returns whether the caller must start a thread that calls [`SignIns::answer_all`].
    #[must_use]
    pub fn enter(&self, shared: &Shared, incoming: Incoming) -> bool {
        let sender = Network::from(incoming.peer.ip());
        let entered = self.queue.enter(sender, Waiting { incoming, came: Instant::now() });
        if let Some(waiting) = entered.passed_over {
            self.pass_over(shared, &waiting, true);
        }
        entered.start
    }

    /// Answers one sign-in after the other, except those whose minion no longer waits.
    pub fn answer_all(&self, shared: &Arc<Shared>, answer: impl Fn(Incoming)) {
        while let Some(waiting) = self.queue.next() {
            if waiting.incoming.reply.is_awaited() {
                contained(|| answer(waiting.incoming));
                shared.metrics.sign_in_times.note(waiting.came.elapsed());
            } else {
                self.pass_over(shared, &waiting, self.queue.is_crowded());
            }
        }
    }

    /// Returns how many sign-ins wait, and how many threads are running.
    pub fn counts(&self) -> (usize, usize) {
        self.queue.counts()
    }

    /// Drops the waiting sign-ins. Their minions retry, here or at another master.
    pub fn close(&self) {
        self.queue.clear();
    }

    /// Counts and logs a sign-in that is not answered. The minion retries.
    fn pass_over(&self, shared: &Shared, waiting: &Waiting, crowded: bool) {
        shared.metrics.sign_ins.count("dropped");
        let (peer, waited) = (waiting.incoming.peer, waiting.came.elapsed());
        debug!(%peer, "a sign-in was given up after {} ms", waited.as_millis());
        let mut storm = self.storm.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = storm.note(Instant::now(), waited, crowded) {
            warn!(
                "more minions sign in than the processors of this host can answer in time: {count} were passed over, and \
                 will try again. Spread their starts (random_reauth_delay, acceptance_wait_time_max on the minions), or give \
                 the master more processors"
            );
        }
    }
}

/// Decides when to warn that there are too many sign-ins.
#[derive(Default)]
struct Storm {
    told: Option<Instant>,
    /// Sign-ins since then that were not answered for lack of time.
    passed_over: u64,
}

impl Storm {
    /// Notes a sign-in that was not answered. If a warning is due, returns the number for it.
    ///
    /// Minions also disconnect for other reasons: they are stopped, or another master was faster. So only sign-ins
    /// count that waited for a long time while others waited as well.
    fn note(&mut self, now: Instant, waited: Duration, crowded: bool) -> Option<u64> {
        if waited < LONG || !crowded {
            return None;
        }
        self.passed_over += 1;
        if self.told.is_some_and(|told| now.duration_since(told) < QUIET) {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.passed_over))
    }
}

/// Handles a sign-in. Returns the answer and, if the key is pending, for how long the minion would wait for a decision.
pub fn sign_in(shared: &Shared, request: &Clear, peer: SocketAddr) -> (Value, Option<Duration>) {
    let signed_in = shared.channel.sign_in(request, peer.ip());
    let result = signed_in.decided.as_ref().map_or("invalid", |decided| decided.outcome.act());
    shared.metrics.sign_ins.count(result);
    if let Some(decided) = signed_in.decided {
        // This does not prove that the sender holds the private key: its address and abilities are taken from the
        // encrypted requests that follow.
        if decided.outcome == AuthOutcome::Accepted {
            shared.publisher.has_signed_in(&decided.id, peer.ip());
        }
        if let Some(data) = event(&shared.stores.config, decided) {
            shared.fire("salt/auth", data);
        }
    }
    (signed_in.answer.into_value(), signed_in.awaits)
}

/// Returns the data of the event `salt/auth`, unless `auth_events` turns it off.
fn event(config: &config::Master, decided: Decided) -> Option<Map> {
    if !config.events.auth_events {
        return None;
    }
    let Decided { id, outcome, public, grains } = decided;
    let mut data = map! { "result" => outcome.result(), "act" => outcome.act(), "id" => &id, "pub" => public };
    let acts = config.raw.get("auth_events_autosign_grains").and_then(Value::as_list).unwrap_or_default();
    let wanted = acts.iter().any(|act| act.as_str() == Some(outcome.act()));
    if let Some(grains) = grains.filter(|grains| wanted && !grains.is_empty()) {
        data.insert("autosign_grains", grains);
    }
    Some(data)
}

#[cfg(test)]
mod tests {
    use value::list;

    use super::*;

    #[test]
    fn a_storm_is_told_of_once_a_minute_and_minions_that_change_their_mind_are_none() {
        let (mut storm, now) = (Storm::default(), Instant::now());
        let soon = Duration::from_millis(5);
        assert_eq!(storm.note(now, soon, true), None, "another master was faster");
        assert_eq!(storm.note(now, LONG, false), None, "nobody else waits: the processors have time");
        assert_eq!(storm.note(now, LONG, true), Some(1));
        assert_eq!([storm.note(now, LONG, true), storm.note(now, LONG, true)], [None, None]);
        assert_eq!(storm.note(now + QUIET, LONG, true), Some(3));
    }

    #[test]
    fn events_may_be_off_or_carry_grains() {
        let plain = map! { "result" => true, "act" => "pend", "id" => "web1", "pub" => "KEY" };
        let mut with_grains = plain.clone();
        with_grains.insert("autosign_grains", map! { "serial" => "A1" });
        for (options, expected) in [
            (map! { "auth_events" => false }, None),
            (map! {}, Some(plain.clone())),
            (map! { "auth_events_autosign_grains" => list!["accept"] }, Some(plain)),
            (map! { "auth_events_autosign_grains" => list!["pend"] }, Some(with_grains)),
        ] {
            let decided = Decided {
                id: wire::MinionId::new("web1").unwrap(),
                outcome: AuthOutcome::Pending,
                public: "KEY".to_owned(),
                grains: Some(map! { "serial" => "A1" }),
            };
            let config = config::Master::from_options(options.clone()).unwrap();
            assert_eq!(event(&config, decided), expected, "{options:?}");
        }
    }
}
