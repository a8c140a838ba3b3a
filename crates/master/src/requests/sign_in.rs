//! `_auth`: a minion signs in.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use channel::server::SignInEvent;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::debug;
use value::{Map, Value, map};
use wire::envelope::Clear;

use crate::Shared;

/// Sign-ins that may wait. Each costs about two milliseconds, so more than these would wait in vain.
const WAITING: usize = 4096;

/// After this long a minion has given up waiting, and its answer would be computed for nobody.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where sign-ins wait for a processor, so that they do not hold up other requests.
pub struct SignIns {
    waiting: Arc<Semaphore>,
    processors: Arc<Semaphore>,
}

impl SignIns {
    pub fn new() -> Self {
        // One processor is left for minions that have signed in.
        let processors = std::thread::available_parallelism().map_or(1, usize::from).saturating_sub(1).max(1);
        SignIns { waiting: Arc::new(Semaphore::new(WAITING)), processors: Arc::new(Semaphore::new(processors)) }
    }

    /// Answers a sign-in when its turn comes; `None` when there are too many and it has to come again.
    pub async fn answer(&self, shared: &Arc<Shared>, request: Clear, peer: SocketAddr) -> Option<Value> {
        let _place = self.waiting.try_acquire().inspect_err(|_| debug!("too many sign-ins wait")).ok()?;
        let came = Instant::now();
        let turn = self.processors.clone().acquire_owned().await.ok()?;
        if came.elapsed() > PATIENCE {
            debug!(%peer, "a sign-in waited too long, the minion will try again");
            return None;
        }
        let (shared, rt) = (shared.clone(), shared.stores.rt.clone());
        let work = rt.blocking(move || {
            let answer = sign_in(&shared, &request, peer);
            drop(turn);
            answer
        });
        work.await.ok()
    }
}

fn sign_in(shared: &Arc<Shared>, request: &Clear, peer: SocketAddr) -> Value {
    let signed_in = shared.channel.sign_in(request);
    if let Some(event) = signed_in.event {
        if event.act == "accept" {
            shared.heard(&event.id, peer.ip());
            shared.presence.note_abilities(&event.id, signed_in.abilities);
        }
        announce(shared, event);
    }
    signed_in.answer.into_value()
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
