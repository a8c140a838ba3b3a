//! What a console shows of a master: jobs, minions, keys, other masters, and what a job would reach. Programs get it with
//! `saltern_status` and the field `of`.
//!
//! No minion is asked. Jobs come from the job cache, of which the ids are in memory in their order, so that a page costs no more
//! than its jobs. Minions come from keys, presence and cached grains.

mod highstates;
mod index;
mod jobs;
mod keys;
mod masters;
mod minions;
mod preview;
mod question;
mod tally;

use std::sync::Arc;
use std::time::SystemTime;

use event::{Event, Filter, Lag, Limits};
use schedule::jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use value::{Map, Value, map};

use crate::Shared;
use crate::credentials::Caller;

pub use question::{Question, SEES_MINIONS};

use highstates::Highstates;
use index::Index;

/// What is in memory for the questions.
#[derive(Default)]
pub struct Overview {
    index: Index,
    highstates: Highstates,
}

/// Why a question has no answer: a status of HTTP, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The status.
    pub status: u16,
    /// The reason.
    pub reason: String,
}

impl Refused {
    /// Creates a refusal.
    pub fn new(status: u16, reason: impl Into<String>) -> Self {
        Refused { status, reason: reason.into() }
    }

    /// Returns the answer of the request.
    pub fn answer(self) -> Map {
        map! { "refused" => map! { "status" => self.status, "reason" => self.reason } }
    }

    /// The stores cannot be read; the log says why.
    fn unreadable(error: &dyn std::fmt::Display) -> Self {
        tracing::error!("{error}");
        Refused::new(500, "the master cannot read its stores: see its log")
    }
}

/// The most events that may wait to be noted.
const WAITING: Limits = Limits { events: 16_384, bytes: 32 << 20, lag: Lag::DropOldest };

/// Notes which jobs there are and how far they are, until told to stop.
pub async fn follow(shared: Arc<Shared>, stop: CancellationToken) {
    let mut events = shared.bus.subscribe_within(Filter::prefixes(["salt/job/", "salt/run/"]), WAITING);
    loop {
        let event = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            event = events.next() => event,
        };
        let Some(event) = event else { return };
        if events.take_lost() > 0 {
            // The stores know what was missed.
            shared.overview.index.forget();
        }
        shared.overview.note(&event, shared.stores.rt.now());
    }
}

impl Overview {
    fn note(&self, event: &Event, now: SystemTime) {
        let mut parts = event.tag().split('/');
        let (Some("salt"), Some("job" | "run"), Some(jid), Some(what)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return;
        };
        if !wire::Jid::is_valid(jid) {
            return;
        }
        self.index.note(jid, (what == "ret").then_some(now));
        if what == "ret"
            && let Some(id) = parts.next()
        {
            self.highstates.note(id, jid, event.data(), now);
        }
    }
}

/// Answers a question of a user who may ask it.
///
/// # Errors
/// When it cannot be answered.
pub async fn answer(shared: Arc<Shared>, caller: Caller, question: Question) -> Result<Value, Refused> {
    let stores = shared.stores.clone();
    let own = shared.clone();
    match question {
        Question::Jobs(query) => {
            own.overview.index.load(&stores).await?;
            blocking(&shared, move || jobs::page(&own, &query)).await.map(Value::from)
        }
        Question::Job(jid) => blocking(&shared, move || jobs::one(&own, &jid)).await.map(Value::from),
        Question::Returns(query) => blocking(&shared, move || jobs::returns(&own, &query)).await.map(Value::from),
        Question::Minions(query) => {
            let page = blocking(&shared, move || minions::page(&own, &query)).await?;
            Ok(minions::with_masters(&shared, page).await)
        }
        Question::Keys(query) => blocking(&shared, move || keys::page(&own, &query)).await.map(Value::from),
        Question::Masters => masters::masters(&shared).await,
        Question::Drift(kind) => masters::drift(&shared, kind).await,
        Question::Whoami => Ok(map! { "list" => granted(&caller) }.into()),
        Question::Preview(wanted) => blocking(&shared, move || preview::preview(&own, &caller, &wanted)).await,
    }
}

/// Returns the list of a user.
fn granted(caller: &Caller) -> Vec<Value> {
    match &caller.grant {
        crate::users::Grant::All => [".*", "@runner", "@wheel"].map(Value::from).to_vec(),
        crate::users::Grant::Listed(list) => list.clone(),
    }
}

async fn blocking<T: Send + 'static>(
    shared: &Shared,
    work: impl FnOnce() -> Result<T, Refused> + Send + 'static,
) -> Result<T, Refused> {
    let done = shared.stores.rt.blocking(work).await;
    done.map_err(|error| Refused::unreadable(&error))?
}

/// Returns a part of a list, with the cursor of the next one.
fn page(items: Vec<Map>, next: Option<String>) -> Map {
    map! { "items" => items, "next" => next }
}

/// Writes a time as RFC 3339.
fn shown(time: SystemTime) -> Option<String> {
    Timestamp::try_from(time).ok().map(|time| time.to_string())
}
