//! `/events`: the master's events as a stream for browsers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use event::Event;
use futures_util::stream;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use value::map;

use crate::api::{Access, Api, Caller};
use crate::exchange::Reply;
use crate::failure::Failure;
use crate::figures::OpenStream;
use crate::own_jobs::{OwnJobs, Owner, Whose};
use crate::pack;
use crate::ring::jid_of;

/// How often a silent stream is used, which shows whether the client is still there.
pub const BEAT: Duration = Duration::from_secs(15);

/// The number of events that a stream keeps until it is known whose they are.
const MOST_HELD: usize = 1024;

/// Returns the stream of events that a user may see.
///
/// # Errors
/// When the master is away.
pub async fn stream(api: Arc<Api>, caller: Caller) -> Result<Reply, Failure> {
    // Before the events: a request that ends in between is noticed.
    let changes = api.link.own_jobs.changes();
    let events = api.link.bus.stream().await?;
    let watcher = Watcher::new(api, caller);
    let view = View { owner: watcher.owner.clone(), all: watcher.all, held: VecDeque::new() };
    let source = Source { watcher, events, changes, view, ready: VecDeque::new() };
    let first = stream::once(async { Ok::<_, std::convert::Infallible>(Bytes::from_static(b"retry: 400\n")) });
    let rest = stream::unfold(source, |mut source| async {
        let text = source.next().await?;
        Some((Ok(Bytes::from(text)), source))
    });
    Ok(Reply::Stream(Body::from_stream(futures_util::StreamExt::chain(first, rest))))
}

/// Watches whether the reader of a stream may still see events.
pub struct Watcher {
    /// The program.
    pub api: Arc<Api>,
    caller: Caller,
    /// The user.
    pub owner: Owner,
    /// True if the user sees the events of everybody.
    pub all: bool,
    /// The options that say so.
    access: Arc<Access>,
    /// When the master was last asked whether the token still counts.
    confirmed: Instant,
    _open: OpenStream,
}

impl Watcher {
    /// Begins with a caller whose token the master has just confirmed.
    pub fn new(api: Arc<Api>, caller: Caller) -> Self {
        let owner = Owner { user: caller.session.user.clone(), backend: caller.session.backend.clone() };
        // In this order: options that change in between are noticed.
        let access = api.access();
        let all = api.sees_all_events(&caller.session);
        let open = api.figures.stream();
        Watcher { api, caller, owner, all, access, confirmed: Instant::now(), _open: open }
    }

    /// Returns whether the user may still see events, and takes note of rights that have changed.
    pub async fn still_counts(&mut self) -> bool {
        let access = self.api.access();
        if !Arc::ptr_eq(&access, &self.access) {
            self.access = access;
            self.all = self.api.sees_all_events(&self.caller.session);
        }
        if self.confirmed.elapsed() >= BEAT {
            self.confirmed = Instant::now();
            // A master that is away revokes nothing.
            if matches!(self.api.is_confirmed(&self.caller).await, Ok(false)) {
                return false;
            }
        }
        self.api.still_counts(&self.caller)
    }
}

struct Source {
    watcher: Watcher,
    events: broadcast::Receiver<Event>,
    changes: watch::Receiver<()>,
    view: View,
    /// Events that may be shown.
    ready: VecDeque<Event>,
}

impl Source {
    /// Waits for the next piece of the stream; `None` at its end.
    async fn next(&mut self) -> Option<String> {
        let beat = Instant::now() + BEAT;
        loop {
            if let Some(event) = self.ready.pop_front() {
                match text(&event) {
                    Ok(text) => return Some(text),
                    Err(failure) => tracing::warn!("an event is not shown: {}", failure.message),
                }
                continue;
            }
            let received = tokio::select! {
                biased;
                _ = self.changes.changed() => None,
                received = tokio::time::timeout_at(beat, self.events.recv()) => Some(received),
            };
            if !self.watcher.still_counts().await {
                return None;
            }
            self.view.all = self.watcher.all;
            let own = &self.watcher.api.link.own_jobs;
            match received {
                None => self.ready.extend(self.view.settle(own)),
                Some(Err(_)) => return Some(": \n\n".to_owned()),
                Some(Ok(Ok(event))) => self.ready.extend(self.view.take(event, own)),
                // The client connects again, and knows by that that it has missed something.
                Some(Ok(Err(RecvError::Lagged(missed)))) => {
                    tracing::warn!("a stream of events ends: its reader lags behind by {missed} events");
                    return None;
                }
                Some(Ok(Err(RecvError::Closed))) => return None,
            }
        }
    }
}

fn text(event: &Event) -> Result<String, Failure> {
    // A line break in a tag would forge fields of the stream.
    let tag: String = event.tag().chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect();
    let data = pack::json(&map! { "data" => event.data().clone(), "tag" => event.tag() }.into())?;
    Ok(format!("tag: {tag}\ndata: {data}\n\n"))
}

/// Which events a user sees: all, or those of the jobs that they have started here.
struct View {
    owner: Owner,
    all: bool,
    /// Events that come before the answer to the request that started their job.
    held: VecDeque<Event>,
}

impl View {
    /// Returns the events that may be shown now that this one has come.
    fn take(&mut self, event: Event, own: &OwnJobs) -> Vec<Event> {
        if self.all {
            return vec![event];
        }
        let Some(whose) = jid(&event).map(|jid| own.whose(jid, &self.owner)) else { return Vec::new() };
        match whose {
            Whose::Own => {
                // The held events of a job come before its next one.
                let mut shown = self.settle(own);
                shown.push(event);
                return shown;
            }
            Whose::Unknown => {
                if self.held.len() >= MOST_HELD {
                    self.held.pop_front();
                }
                self.held.push_back(event);
            }
            Whose::Other => {}
        }
        Vec::new()
    }

    /// Returns the held events that turned out to be the user's, and forgets those of others.
    fn settle(&mut self, own: &OwnJobs) -> Vec<Event> {
        let mut shown = Vec::new();
        for event in std::mem::take(&mut self.held) {
            match jid(&event).map(|jid| own.whose(jid, &self.owner)) {
                Some(Whose::Own) => shown.push(event),
                Some(Whose::Unknown) => self.held.push_back(event),
                Some(Whose::Other) | None => {}
            }
        }
        shown
    }
}

/// Returns the job id in the tag of an event about a job, a runner or a wheel function.
fn jid(event: &Event) -> Option<&str> {
    jid_of(event.tag())
}

#[cfg(test)]
mod tests {
    use value::Map;

    use super::*;

    fn event(tag: &str, data: Map) -> Event {
        Event::new(tag, data, 1 << 20).unwrap()
    }

    fn view(user: &str, all: bool) -> View {
        View { owner: Owner { user: user.into(), backend: "auto".into() }, all, held: VecDeque::new() }
    }

    fn tags(events: Vec<Event>) -> Vec<String> {
        events.iter().map(|event| event.tag().to_owned()).collect()
    }

    #[test]
    fn a_user_sees_the_jobs_that_they_started_here() {
        let (mut root, own) = (view("root", false), OwnJobs::new());
        let of = |tag: &str| event(tag, map! { "user" => "root", "fun" => "test.ping" });
        // Somebody with the same name runs `salt` or `salt-run`.
        for tag in ["salt/job/1/new", "salt/job/1/ret/min1", "salt/run/2/new", "salt/run/2/ret"] {
            assert!(root.take(of(tag), &own).is_empty(), "{tag}");
        }
        let request = map! { "cmd" => "publish", "kwargs" => map! { "eauth" => "auto", "username" => "root" } };
        let starting = own.start(&request).unwrap();
        // The events come before the answer.
        assert!(root.take(of("salt/job/3/new"), &own).is_empty());
        assert!(root.take(of("salt/job/4/new"), &own).is_empty());
        starting.answered(&map! { "load" => map! { "jid" => "4" } }.into());
        assert_eq!(tags(root.take(of("salt/job/4/ret/min1"), &own)), ["salt/job/4/new", "salt/job/4/ret/min1"]);
        drop(starting);
        assert!(root.settle(&own).is_empty() && root.held.is_empty());
        assert!(root.take(of("salt/job/3/ret/min1"), &own).is_empty());
        for tag in ["salt/auth", "salt/key", "minion_start", "salt/job", "salt/job/4", "other/job/4/new"] {
            assert!(root.take(of(tag), &own).is_empty(), "{tag}");
        }
        assert_eq!(view("fred", true).take(event("salt/auth", Map::new()), &own).len(), 1);
    }

    #[test]
    fn few_events_wait_for_an_answer() {
        let (mut view, own) = (view("ann", false), OwnJobs::new());
        let starting = own.start(&map! { "cmd" => "runner", "eauth" => "auto", "username" => "ann" }).unwrap();
        for number in 0..MOST_HELD * 2 {
            view.take(event(&format!("salt/job/{number}/new"), Map::new()), &own);
        }
        assert_eq!(view.held.len(), MOST_HELD);
        drop(starting);
        assert!(view.settle(&own).is_empty() && view.held.is_empty());
    }

    #[test]
    fn an_event_cannot_forge_another() {
        let written = text(&event("salt/x\ndata: forged", map! { "a" => "b\n\ndata: forged" })).unwrap();
        assert_eq!(
            written,
            "tag: salt/x\u{fffd}data: forged\ndata: {\"data\": {\"a\": \"b\\n\\ndata: forged\"}, \"tag\": \"salt/x\\ndata: forged\"}\n\n"
        );
    }
}
