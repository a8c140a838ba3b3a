//! `GET /v1/events`: the events that a user may see, with ids from which a client that was cut off goes on.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{self, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use targeting::fnmatch;
use tokio::sync::watch;
use tokio::time::Instant;

use super::V1Request;
use crate::api::Api;
use crate::exchange::text;
use crate::failure::Failure;
use crate::feed::{BEAT, Watcher};
use crate::fleet::Fields;
use crate::own_jobs::Whose;
use crate::ring::{Item, Next};

/// The most events that are read at once.
const AT_ONCE: usize = 64;

/// The most events that a stream keeps until it is known whose they are.
const MOST_HELD: usize = 1024;

/// Which events a client wants.
#[derive(Debug, Default, PartialEq)]
struct Filter {
    tag: Option<String>,
    minion: Option<String>,
    jid: Option<String>,
}

impl Filter {
    fn of(query: &str) -> Result<Self, Failure> {
        let mut fields = Fields::of(query)?;
        let filter = Filter { tag: fields.take("tag"), minion: fields.take("minion"), jid: fields.take("jid") };
        fields.end().map(|()| filter)
    }

    fn wants(&self, item: &Item) -> bool {
        self.tag.as_deref().is_none_or(|pattern| fnmatch(&item.tag, pattern))
            && self.minion.as_deref().is_none_or(|minion| item.minion.as_deref() == Some(minion))
            && self.jid.as_deref().is_none_or(|jid| item.jid() == Some(jid))
    }
}

/// Returns the stream.
///
/// # Errors
/// When the query cannot be read, the token does not count, the master is away, or the user has too many streams.
pub async fn stream(api: &Arc<Api>, request: &V1Request) -> Result<Response, Failure> {
    let filter = Filter::of(&request.query)?;
    if !api.is_confirmed(&request.caller).await? {
        return Err(Failure::no_session());
    }
    api.link.bus.ready().await?;
    let ring = &api.link.bus.ring;
    // Before the number: an event in between is noticed.
    let (latest, changes) = (ring.changes(), api.link.own_jobs.changes());
    let next = ring.begin();
    let mut ready = VecDeque::new();
    let from = match text(&request.headers, "last-event-id").filter(|id| !id.is_empty()) {
        Some(last) => match ring.after(last) {
            Some(number) => number,
            None => {
                ready.push_back(reset(&ring.id(next.saturating_sub(1))));
                next
            }
        },
        None => next,
    };
    let watcher = Watcher::new(api.clone(), request.caller.clone())?;
    let source = Source { watcher, filter, next: from, latest, changes, held: VecDeque::new(), ready };
    // The id alone: a client that is cut off before the first event goes on from here, too.
    let first = format!("retry: 1000\nid: {}\n\n", ring.id(from.saturating_sub(1)));
    let first = stream::once(async move { Ok::<_, Infallible>(Bytes::from(first)) });
    let rest = stream::unfold(source, |mut source| async {
        let text = source.next().await?;
        Some((Ok(Bytes::from(text)), source))
    });
    let mut response = Response::new(Body::from_stream(first.chain(rest)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream;charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

struct Source {
    watcher: Watcher,
    filter: Filter,
    /// The number of the next event.
    next: u64,
    latest: watch::Receiver<u64>,
    changes: watch::Receiver<()>,
    /// Events that come before the answer to the request that started their job.
    held: VecDeque<(u64, Arc<Item>)>,
    ready: VecDeque<String>,
}

impl Source {
    /// Waits for the next piece of the stream; `None` at its end.
    async fn next(&mut self) -> Option<String> {
        let beat = Instant::now() + BEAT;
        loop {
            if let Some(text) = self.ready.pop_front() {
                return Some(text);
            }
            if !self.watcher.still_counts().await {
                return None;
            }
            if self.read() {
                continue;
            }
            tokio::select! {
                biased;
                _ = self.changes.changed() => self.release_held(),
                changed = self.latest.changed() => changed.ok()?,
                () = tokio::time::sleep_until(beat) => return Some(": \n\n".to_owned()),
            }
        }
    }

    /// Reads what is there. Returns whether there was something.
    fn read(&mut self) -> bool {
        let api = self.watcher.api.clone();
        let ring = &api.link.bus.ring;
        match ring.from(self.next, AT_ONCE) {
            Next::Nothing => return false,
            Next::Missed(next) => {
                self.next = next;
                self.held.clear();
                self.ready.push_back(reset(&ring.id(next.saturating_sub(1))));
            }
            Next::Items(items) => {
                for (number, item) in items {
                    self.next = number + 1;
                    if self.filter.wants(&item) {
                        self.take(number, item);
                    }
                }
            }
        }
        true
    }

    fn take(&mut self, number: u64, item: Arc<Item>) {
        match self.whose(&item) {
            Whose::Own => {
                // The held events of a job come before its next one.
                self.release_held();
                self.show(number, &item);
            }
            Whose::Unknown => {
                if self.held.len() >= MOST_HELD {
                    self.held.pop_front();
                }
                self.held.push_back((number, item));
            }
            Whose::Other => {}
        }
    }

    fn whose(&self, item: &Item) -> Whose {
        if self.watcher.all {
            return Whose::Own;
        }
        match item.jid() {
            Some(jid) => self.watcher.api.link.own_jobs.whose(jid, &self.watcher.owner),
            None => Whose::Other,
        }
    }

    /// Shows the held events that turned out to be the user's, and forgets those of others.
    fn release_held(&mut self) {
        for (number, item) in std::mem::take(&mut self.held) {
            match self.whose(&item) {
                Whose::Own => self.show(number, &item),
                Whose::Unknown => self.held.push_back((number, item)),
                Whose::Other => {}
            }
        }
    }

    fn show(&mut self, number: u64, item: &Item) {
        // While events are held, a client that is cut off must go on before them.
        let id = self.held.is_empty().then(|| self.watcher.api.link.bus.ring.id(number));
        self.ready.push_back(sse_text(id.as_deref(), item));
    }
}

/// Writes an event.
fn sse_text(id: Option<&str>, item: &Item) -> String {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    let mut parts = item.tag.splitn(3, '/');
    let kind = [parts.next(), parts.next()].into_iter().flatten().collect::<Vec<_>>().join("/");
    // A line break in a tag would forge fields of the stream.
    let kind: String = kind.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect();
    format!("{id}event: {kind}\ndata: {}\n\n", item.data)
}

/// Tells the client that it has missed something.
fn reset(id: &str) -> String {
    format!("id: {id}\nevent: reset\ndata: {{}}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(tag: &str) -> Item {
        Item { tag: tag.to_owned(), minion: Some("web1".to_owned()), data: "{}".to_owned() }
    }

    #[test]
    fn an_event_has_id_kind_and_data() {
        let text = sse_text(Some("ab-1"), &item("salt/job/20261126160511953300/ret/web1"));
        assert_eq!(text, "id: ab-1\nevent: salt/job\ndata: {}\n\n");
        assert_eq!(sse_text(None, &item("minion_start")), "event: minion_start\ndata: {}\n\n");
        assert_eq!(sse_text(None, &item("a\ndata: forged/b")), "event: a\u{fffd}data: forged/b\ndata: {}\n\n");
    }

    #[test]
    fn filters_choose_events() {
        let ret = item("salt/job/20261126160511953300/ret/web1");
        let wants = |query: &str| Filter::of(query).unwrap().wants(&ret);
        assert!(wants("") && wants("tag=salt/job/*/ret/*") && wants("minion=web1"));
        assert!(wants("jid=20261126160511953300&minion=web1"));
        assert!(!wants("tag=salt/auth") && !wants("minion=web") && !wants("jid=20261126160511953301"));
        assert_eq!(Filter::of("token=abc").unwrap_err().status, 400);
    }
}
