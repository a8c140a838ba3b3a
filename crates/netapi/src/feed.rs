//! What a stream of events shows its user, and when it ends.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use event::Event;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::api::{Access, Api, Caller};
use crate::failure::Failure;
use crate::open_streams::OpenStream;
use crate::own_jobs::{OwnJobs, Owner, Whose};
use crate::ring::jid_of;
use crate::stream_event::StreamEvent;
use crate::stream_log::{Lost, Reader};

/// How often a silent stream is used, which shows whether the client is still there.
pub const BEAT: Duration = Duration::from_secs(15);

/// The number of events, and of their bytes, that a stream keeps until it is known whose they are.
const MOST_HELD: usize = 1024;
const MOST_HELD_BYTES: usize = 4 << 20;

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
    ///
    /// # Errors
    /// When the user has too many streams.
    pub fn new(api: Arc<Api>, caller: Caller) -> Result<Self, Failure> {
        let owner = Owner { user: caller.session.user.clone(), backend: caller.session.backend.clone() };
        // In this order: options that change in between are noticed.
        let access = api.access();
        let all = api.sees_all_events(&caller.session);
        let open = api.streams.open(owner.clone())?;
        Ok(Watcher { api, caller, owner, all, access, confirmed: Instant::now(), _open: open })
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

/// Why a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The session has ended, or its token does not count any more.
    Session,
    /// The reader lags behind, and has missed events.
    Behind,
    /// Events are missing from here on: the connection to the master was lost.
    CutOff,
}

/// Something that happened while a stream waited.
pub enum Received {
    /// An event, or the end of events.
    Event(Result<Arc<StreamEvent>, Lost>),
    /// A request that may have started a job has ended.
    Changed,
    /// Nothing was shown for a while.
    Silence,
}

/// The events that a user may see.
pub struct Feed {
    watcher: Watcher,
    events: Reader,
    changes: watch::Receiver<()>,
    view: View,
    /// Events that may be shown.
    ready: VecDeque<Arc<StreamEvent>>,
    /// When the stream is used if nothing is shown until then.
    beat: Instant,
}

impl Feed {
    /// Begins with the next event.
    ///
    /// # Errors
    /// When the user has too many streams, or the master is away.
    pub async fn open(api: Arc<Api>, caller: Caller) -> Result<Self, Failure> {
        // Before the events: a request that ends in between is noticed.
        let changes = api.link.own_jobs.changes();
        let events = api.link.bus.stream().await?;
        let watcher = Watcher::new(api, caller)?;
        let view = View { owner: watcher.owner.clone(), all: watcher.all, held: VecDeque::new() };
        Ok(Feed { watcher, events, changes, view, ready: VecDeque::new(), beat: Instant::now() + BEAT })
    }

    /// Returns the next event that may be shown, if there is one.
    pub fn pop(&mut self) -> Option<Arc<StreamEvent>> {
        self.ready.pop_front()
    }

    /// Waits for something to happen. Nothing is lost if the caller stops waiting.
    pub async fn wait(&mut self) -> Received {
        tokio::select! {
            biased;
            _ = self.changes.changed() => Received::Changed,
            event = self.events.next() => Received::Event(event),
            () = tokio::time::sleep_until(self.beat) => Received::Silence,
        }
    }

    /// Takes what has happened. Returns true if nothing was shown for a while.
    ///
    /// # Errors
    /// When the stream ends.
    pub async fn take(&mut self, received: Received) -> Result<bool, End> {
        if !self.watcher.still_counts().await {
            return Err(End::Session);
        }
        self.view.all = self.watcher.all;
        let own = &self.watcher.api.link.own_jobs;
        match received {
            Received::Changed => self.ready.extend(self.view.release_held(own)),
            Received::Event(Ok(shown)) => self.ready.extend(self.view.take(shown, own)),
            // The client connects again, and knows by that that it has missed something.
            Received::Event(Err(Lost::Behind(missed))) => {
                tracing::warn!("a stream of events ends: its reader lags behind by {missed} events");
                return Err(End::Behind);
            }
            Received::Event(Err(Lost::CutOff)) => return Err(End::CutOff),
            Received::Silence => {
                self.beat = Instant::now() + BEAT;
                return Ok(true);
            }
        }
        if !self.ready.is_empty() {
            self.beat = Instant::now() + BEAT;
        }
        Ok(false)
    }
}

/// Which events a user sees: all, or those of the jobs that they have started here.
struct View {
    owner: Owner,
    all: bool,
    /// Events that come before the answer to the request that started their job.
    held: VecDeque<Arc<StreamEvent>>,
}

impl View {
    /// Returns the events that may be shown now that this one has come.
    fn take(&mut self, event: Arc<StreamEvent>, own: &OwnJobs) -> Vec<Arc<StreamEvent>> {
        if self.all {
            return vec![event];
        }
        let Some(whose) = jid(&event.event).map(|jid| own.whose(jid, &self.owner)) else { return Vec::new() };
        match whose {
            Whose::Own => {
                // The held events of a job come before its next one.
                let mut shown = self.release_held(own);
                shown.push(event);
                return shown;
            }
            Whose::Unknown => {
                self.held.push_back(event);
                let mut bytes: usize = self.held.iter().map(|held| held.event.bytes().len()).sum();
                while self.held.len() > MOST_HELD || bytes > MOST_HELD_BYTES {
                    bytes -= self.held.pop_front().map_or(bytes, |oldest| oldest.event.bytes().len());
                }
            }
            Whose::Other => {}
        }
        Vec::new()
    }

    /// Returns the held events that turned out to be the user's, and forgets those of others.
    fn release_held(&mut self, own: &OwnJobs) -> Vec<Arc<StreamEvent>> {
        let mut shown = Vec::new();
        for event in std::mem::take(&mut self.held) {
            match jid(&event.event).map(|jid| own.whose(jid, &self.owner)) {
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
    use value::{Map, map};

    use super::*;

    fn event(tag: &str, data: Map) -> Arc<StreamEvent> {
        Arc::new(StreamEvent::new(Event::new(tag, data, 1 << 20).unwrap()))
    }

    fn view(user: &str, all: bool) -> View {
        View { owner: Owner { user: user.into(), backend: "auto".into() }, all, held: VecDeque::new() }
    }

    fn tags(events: Vec<Arc<StreamEvent>>) -> Vec<String> {
        events.iter().map(|shown| shown.event.tag().to_owned()).collect()
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
        assert!(root.release_held(&own).is_empty() && root.held.is_empty());
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
        for number in 0..5 {
            let large = map! { "x" => "x".repeat(1_000_000) };
            view.take(event(&format!("salt/job/{number}/new"), large), &own);
        }
        assert_eq!(view.held.len(), 4);
        drop(starting);
        assert!(view.release_held(&own).is_empty() && view.held.is_empty());
    }
}
