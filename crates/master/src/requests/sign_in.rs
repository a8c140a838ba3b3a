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

/// How often the log tells of a storm.
const QUIET: Duration = Duration::from_secs(60);

/// Where sign-ins wait for a processor, so that they do not hold up other requests.
pub struct SignIns {
    line: Latest<Waiting>,
    /// When the log was told of sign-ins that were passed over, and how many were since.
    passed_over: Mutex<(Option<Instant>, u64)>,
}

struct Waiting {
    incoming: Incoming,
    came: Instant,
}

impl SignIns {
    pub fn new() -> Self {
        // Other requests have threads of their own, which the system lets run beside these in turn.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        SignIns { line: Latest::new(processors, WAITING), passed_over: Mutex::default() }
    }

    /// Lets a sign-in wait for its turn. Says whether a thread must be started that calls [`SignIns::answer_all`].
    #[must_use]
    pub fn enter(&self, shared: &Shared, incoming: Incoming) -> bool {
        let entered = self.line.enter(Waiting { incoming, came: Instant::now() });
        if let Some(waiting) = entered.passed_over {
            self.pass_over(shared, waiting.incoming.peer);
        }
        entered.start
    }

    /// Answers one sign-in after the other, unless the minion has gone meanwhile.
    pub fn answer_all(&self, shared: &Arc<Shared>, answer: impl Fn(Incoming)) {
        while let Some(Waiting { incoming, came }) = self.line.next() {
            if incoming.reply.is_awaited() {
                answer(incoming);
                shared.metrics.sign_in_times.note(came.elapsed());
            } else {
                self.pass_over(shared, incoming.peer);
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
    fn pass_over(&self, shared: &Shared, peer: SocketAddr) {
        shared.metrics.sign_ins.count("dropped");
        debug!(%peer, "there was no time for a sign-in");
        let now = Instant::now();
        let mut passed_over = self.passed_over.lock().unwrap_or_else(PoisonError::into_inner);
        passed_over.1 += 1;
        if passed_over.0.is_none_or(|told| now.duration_since(told) >= QUIET) {
            warn!(
                "more minions sign in than the processors of this host can answer in time: {} were passed over, and will \
                 try again. Spread their starts (random_reauth_delay, acceptance_wait_time_max on the minions), or give the \
                 master more processors",
                passed_over.1
            );
            *passed_over = (Some(now), 0);
        }
    }
}

/// What a minion that signs in is told, and for how long it would wait for more if its key waits for an operator.
pub fn sign_in(shared: &Shared, request: &Clear, peer: SocketAddr) -> (Value, Option<Duration>) {
    let signed_in = shared.channel.sign_in(request);
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
