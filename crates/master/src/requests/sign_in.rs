//! `_auth`: a minion signs in.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use channel::server::SignInEvent;
use tokio::time::Instant;
use tracing::{debug, warn};
use transport::Incoming;
use value::{Map, Value, map};
use wire::envelope::Clear;

use super::latest::Latest;
use crate::Shared;

/// Sign-ins that may wait, each with its few kilobytes.
const WAITING: usize = 16_384;

/// A sign-in that is given up later than this had to wait for too long.
const LONG: Duration = Duration::from_secs(1);

/// How often the log tells of a storm.
const QUIET: Duration = Duration::from_secs(60);

/// Where sign-ins wait for a processor, so that they do not hold up other requests.
pub struct SignIns {
    line: Latest<Waiting>,
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
        SignIns { line: Latest::new(processors, WAITING), storm: Mutex::default() }
    }

    /// Lets a sign-in wait for its turn. Says whether a thread must be started that calls [`SignIns::answer_all`].
    #[must_use]
    pub fn enter(&self, shared: &Shared, incoming: Incoming) -> bool {
        let entered = self.line.enter(Waiting { incoming, came: Instant::now() });
        if let Some(waiting) = entered.passed_over {
            self.pass_over(shared, &waiting, true);
        }
        entered.start
    }

    /// Answers one sign-in after the other, unless the minion has gone meanwhile.
    pub fn answer_all(&self, shared: &Arc<Shared>, answer: impl Fn(Incoming)) {
        while let Some(waiting) = self.line.next() {
            if waiting.incoming.reply.is_awaited() {
                answer(waiting.incoming);
                shared.metrics.sign_in_times.note(waiting.came.elapsed());
            } else {
                self.pass_over(shared, &waiting, self.line.is_crowded());
            }
        }
    }

    /// How many wait, and how many threads are at work.
    pub fn counts(&self) -> (usize, usize) {
        self.line.counts()
    }

    /// Ends with what is being answered: the others try again, here or at another master.
    pub fn close(&self) {
        self.line.clear();
    }

    /// The minion will try again.
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

/// Decides when the log is told that there is no time for all sign-ins.
#[derive(Default)]
struct Storm {
    told: Option<Instant>,
    /// Those since then for which there was no time.
    passed_over: u64,
}

impl Storm {
    /// Notes a sign-in that was not answered. Returns the number to be told, when one is due.
    ///
    /// Minions also go for reasons of their own: they are stopped, or another master was faster. That says nothing about
    /// this one, so only those count that waited for long while others stood in line as well.
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

/// What a minion that signs in is told, and for how long it would wait for more if its key waits for an operator.
pub fn sign_in(shared: &Shared, request: &Clear, peer: SocketAddr) -> (Value, Option<Duration>) {
    let signed_in = shared.channel.sign_in(request, peer.ip());
    let result = match signed_in.event.as_ref().map(|event| (event.act, event.result)) {
        None => "invalid",
        Some(("", true)) => "accept",
        Some(("", false)) => "reject",
        Some((act, _)) => act,
    };
    shared.metrics.sign_ins.count(result);
    if let Some(event) = signed_in.event {
        if event.act == "accept" {
            shared.heard(&event.id, peer.ip());
            shared.publisher.has_signed_in(&event.id, peer.ip());
            shared.presence.note_abilities(&event.id, signed_in.abilities);
        }
        announce(shared, event);
    }
    (signed_in.answer.into_value(), signed_in.awaits)
}

fn announce(shared: &Shared, event: SignInEvent) {
    // No word: such events are off, or nothing was decided.
    if event.act.is_empty() {
        return;
    }
    let result = matches!(event.act, "accept" | "pend");
    let mut data = map! { "result" => result, "act" => event.act, "id" => &event.id, "pub" => event.public };
    let acts = shared.stores.config.raw.get("auth_events_autosign_grains").and_then(Value::as_list).unwrap_or_default();
    let wanted = acts.iter().any(|act| act.as_str() == Some(event.act));
    if let Some(grains) = event.grains.filter(|grains: &Map| wanted && !grains.is_empty()) {
        data.insert("autosign_grains", grains);
    }
    shared.fire("salt/auth", data);
}

#[cfg(test)]
mod tests {
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
}
