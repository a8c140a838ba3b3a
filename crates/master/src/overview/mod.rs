//! What a console shows of a master: jobs, minions, keys, other masters, and what a job would reach. Programs get it with
//! `saltern_status` and the field `of`.
//!
//! No minion is asked. Jobs come from the job cache, of which the ids are in memory in their order, so that a page costs no more
//! than its jobs. Minions come from keys, presence and cached grains.

mod jobs;
mod keys;
mod masters;
mod matching;
mod minions;
mod preview;
mod question;
mod tally;

use std::sync::Arc;
use std::time::Duration;

use event::{Event, Filter, Lag, Limits, Source};
use tokio_util::sync::CancellationToken;
use value::{Map, Value, map};

use crate::Shared;
use crate::credentials::Caller;
use crate::fleet_memory::{Refused, rfc3339};

pub use question::{Question, SEES_MINIONS};

use question::MinionFilter;

/// The most events that may wait to be noted.
const WAITING: Limits = Limits { events: 16_384, bytes: 32 << 20, lag: Lag::DropOldest };

/// How long events may wait until they are noted.
const GATHER: Duration = Duration::from_millis(50);

/// Notes which jobs there are and how far they are, until told to stop.
pub async fn follow(shared: Arc<Shared>, stop: CancellationToken) {
    let mut events = shared.bus.subscribe_within(Filter::prefixes(["salt/job/", "salt/run/", "salt/wheel/"]), WAITING);
    let noting = &shared.fleet_memory.noting;
    let mut requests = noting.requests();
    loop {
        let event = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            _ = requests.changed() => None,
            event = events.next() => match event {
                Some(event) => Some(event),
                None => return,
            },
        };
        // Events that come while these are noted are for the next request.
        let requested = *requests.borrow_and_update();
        if events.take_lost() > 0 {
            // The stores know what was missed.
            shared.fleet_memory.index.forget();
        }
        if let Some(event) = event {
            note(&shared, &event).await;
        }
        while let Some(event) = events.try_next() {
            note(&shared, &event).await;
        }
        noting.done(requested);
        // Waking for each return of a large job costs the master about 6 % more processor time per return.
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            _ = requests.changed() => requests.mark_changed(),
            () = tokio::time::sleep(GATHER) => {}
        }
    }
}

/// What an event says of a job.
#[derive(Debug, PartialEq, Eq)]
struct Heard<'a> {
    jid: &'a str,
    /// This master has published the job.
    published: bool,
    /// Whose return came.
    returned: Option<&'a str>,
}

impl<'a> Heard<'a> {
    fn of(event: &'a Event) -> Option<Self> {
        // Minions fire events with any tag. What they return is announced by the master.
        if matches!(event.source(), Source::Minion(_) | Source::ProgramOfMinion(_)) {
            return None;
        }
        let mut parts = event.tag().split('/');
        let (Some("salt"), Some("job" | "run" | "wheel"), Some(jid), Some(what)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return None;
        };
        let published = what == "new" && *event.source() == Source::Host;
        let returned = if what == "ret" { Some(parts.next().unwrap_or_default()) } else { None };
        (matches!(what, "new" | "ret") && wire::Jid::is_valid(jid)).then_some(Heard { jid, published, returned })
    }
}

async fn note(shared: &Shared, event: &Event) {
    let Some(heard) = Heard::of(event) else { return };
    let (overview, now) = (&shared.fleet_memory, shared.stores.rt.now());
    if let Some(id) = heard.returned.filter(|id| !id.is_empty()) {
        overview.highstates.note(id, heard.jid, event.data(), now);
    }
    // A minion may return for any id. Only those of jobs count.
    if !heard.published && overview.index.lacks(heard.jid) && !is_stored(shared, heard.jid).await {
        return;
    }
    overview.index.add(heard.jid, now);
    if heard.returned.is_some() {
        overview.index.returned(heard.jid, now);
    }
}

async fn is_stored(shared: &Shared, jid: &str) -> bool {
    let (jobs, jid) = (shared.stores.jobs.clone(), jid.to_owned());
    match shared.stores.rt.blocking(move || jobs.has_load(&jid)).await {
        Ok(Ok(stored)) => stored,
        Ok(Err(error)) => {
            tracing::warn!("{error}");
            false
        }
        // The master stops.
        Err(_) => false,
    }
}

/// Answers a question of a user who may ask it.
///
/// # Errors
/// When it cannot be answered.
pub async fn answer(shared: Arc<Shared>, caller: Caller, question: Question) -> Result<Value, Refused> {
    let stores = shared.stores.clone();
    let own = shared.clone();
    let turn = match &question {
        Question::Preview(_) | Question::Minions(MinionFilter { target: Some(_), .. }) => {
            Some(shared.fleet_memory.turns.take(caller.name())?)
        }
        _ => None,
    };
    match question {
        Question::Jobs(query) => {
            own.fleet_memory.noting.catch_up().await;
            own.fleet_memory.index.load(&stores).await?;
            blocking(&shared, move || jobs::page(&own, &query)).await.map(Value::from)
        }
        Question::Job(jid) => blocking(&shared, move || jobs::one(&own, &jid)).await.map(Value::from),
        Question::Unfinished(jid) => blocking(&shared, move || jobs::unfinished(&own, &jid)).await.map(Value::from),
        Question::Returns(query) => {
            // Each page may have many bytes. The permit lasts until they are read, even if who has asked is gone.
            let permit = shared.fleet_memory.pages.0.clone().acquire_owned().await;
            let permit = permit.map_err(|error| Refused::unreadable(&error))?;
            let work = move || {
                let _permit = permit;
                jobs::returns(&own, &query)
            };
            blocking(&shared, work).await.map(Value::from)
        }
        Question::Minions(query) => {
            // The turn ends with the work: who has gone does not stop it.
            let work = move || {
                let _turn = turn;
                minions::page(&own, &caller, &query)
            };
            let page = blocking(&shared, work).await?;
            Ok(minions::with_masters(&shared, page).await)
        }
        Question::Cached(part, id) => {
            blocking(&shared, move || minions::cached(&own, part, &id)).await.map(Value::from)
        }
        Question::Keys(query) => blocking(&shared, move || keys::page(&own, &query)).await.map(Value::from),
        Question::Masters => masters::masters(&shared).await,
        Question::Drift(kind) => masters::drift(&shared, kind).await,
        Question::Whoami => Ok(map! { "list" => granted(&caller) }.into()),
        Question::Preview(job) => {
            let work = move || {
                let _turn = turn;
                preview::preview(&own, &caller, &job)
            };
            blocking(&shared, work).await
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_master_says_which_jobs_there_are() {
        let jid = "20261126160511953300";
        let of = |source: Source, end: &str| {
            let event = Event::from_source(source, format!("salt/job/{end}"), Map::new(), 1 << 20).unwrap();
            Heard::of(&event).map(|heard| (heard.published, heard.returned.map(str::to_owned)))
        };
        let (new, ret) = (format!("{jid}/new"), format!("{jid}/ret/web1"));
        assert_eq!(of(Source::Host, &new), Some((true, None)));
        assert_eq!(of(Source::OtherMaster, &new), Some((false, None)));
        assert_eq!(of(Source::Host, &ret), Some((false, Some("web1".to_owned()))));
        let wheel = Event::from_source(Source::Host, format!("salt/wheel/{jid}/ret"), Map::new(), 1 << 20).unwrap();
        assert_eq!(Heard::of(&wheel), Some(Heard { jid, published: false, returned: Some("") }));
        for end in [&new, &ret] {
            assert_eq!(of(Source::Minion("web1".into()), end), None, "{end}");
        }
        for end in ["x/new", &format!("{jid}/prog/web1/1")] {
            assert_eq!(of(Source::Host, end), None, "{end}");
        }
    }
}
