//! `/events`: the master's events as a stream for browsers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use event::Event;
use futures_util::stream;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use value::{Value, map};

use crate::api::{Api, Caller};
use crate::exchange::Reply;
use crate::failure::Failure;
use crate::pack;

/// How often a silent stream is used, which shows whether the client is still there.
const BEAT: Duration = Duration::from_secs(15);

/// The number of jobs of a user that a stream remembers.
const MOST_JOBS: usize = 1000;

/// Returns the stream of events that a user may see.
///
/// # Errors
/// When the master is away.
pub async fn stream(api: Arc<Api>, caller: Caller) -> Result<Reply, Failure> {
    let events = api.link.bus.subscribe().await?;
    let view = View::new(&caller.session.user, api.sees_all_events(&caller.session));
    let source = Source { api, caller, events, view };
    let first = stream::once(async { Ok::<_, std::convert::Infallible>(Bytes::from_static(b"retry: 400\n")) });
    let rest = stream::unfold(source, |mut source| async {
        let text = source.next().await?;
        Some((Ok(Bytes::from(text)), source))
    });
    Ok(Reply::Stream(Body::from_stream(futures_util::StreamExt::chain(first, rest))))
}

struct Source {
    api: Arc<Api>,
    caller: Caller,
    events: broadcast::Receiver<Event>,
    view: View,
}

impl Source {
    /// Waits for the next piece of the stream; `None` at its end.
    async fn next(&mut self) -> Option<String> {
        loop {
            let received = tokio::time::timeout(BEAT, self.events.recv()).await;
            if !self.api.still_counts(&self.caller) {
                return None;
            }
            match received {
                Err(_) => return Some(": \n\n".to_owned()),
                Ok(Ok(event)) if self.view.shows(&event) => match text(&event) {
                    Ok(text) => return Some(text),
                    Err(failure) => tracing::warn!("an event is not shown: {}", failure.message),
                },
                Ok(Ok(_)) => {}
                // The client connects again, and knows by that that it has missed something.
                Ok(Err(RecvError::Lagged(missed))) => {
                    tracing::warn!("a stream of events ends: its reader lags behind by {missed} events");
                    return None;
                }
                Ok(Err(RecvError::Closed)) => return None,
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

/// Which events a user sees: all, or those of their own jobs.
struct View {
    user: String,
    all: bool,
    jobs: VecDeque<String>,
}

impl View {
    fn new(user: &str, all: bool) -> Self {
        View { user: user.to_owned(), all, jobs: VecDeque::new() }
    }

    fn shows(&mut self, event: &Event) -> bool {
        if self.all {
            return true;
        }
        let mut parts = event.tag().split('/');
        let (Some("salt"), Some("job" | "run" | "wheel"), Some(jid)) = (parts.next(), parts.next(), parts.next())
        else {
            return false;
        };
        if self.jobs.iter().any(|known| known == jid) {
            return true;
        }
        // Only the master says whose job it is. The tags of returns are chosen by minions.
        let announced = matches!(parts.next(), Some("new" | "publish")) && parts.next().is_none();
        let own = announced && event.data().get("user").and_then(Value::as_str) == Some(self.user.as_str());
        if own {
            self.jobs.truncate(MOST_JOBS - 1);
            self.jobs.push_front(jid.to_owned());
        }
        own
    }
}

#[cfg(test)]
mod tests {
    use value::Map;

    use super::*;

    fn event(tag: &str, data: Map) -> Event {
        Event::new(tag, data, 1 << 20).unwrap()
    }

    #[test]
    fn a_user_sees_their_own_jobs() {
        let mut view = View::new("wilma", false);
        let of = |user: &str| map! { "user" => user, "fun" => "test.ping" };
        assert!(!view.shows(&event("salt/job/1/new", of("fred"))));
        assert!(!view.shows(&event("salt/job/1/ret/min1", of("wilma"))), "a minion says whose job it is");
        assert!(view.shows(&event("salt/job/2/new", of("wilma"))));
        assert!(view.shows(&event("salt/job/2/ret/min1", of("fred"))));
        assert!(view.shows(&event("salt/run/3/new", of("wilma"))) && view.shows(&event("salt/run/3/ret", of("wilma"))));
        for tag in ["salt/auth", "salt/key", "minion_start", "salt/job", "salt/minion/a/start", "other/job/2/new"] {
            assert!(!view.shows(&event(tag, of("wilma"))), "{tag}");
        }
        for number in 10..10 + MOST_JOBS {
            assert!(view.shows(&event(&format!("salt/job/{number}/new"), of("wilma"))));
        }
        assert_eq!(view.jobs.len(), MOST_JOBS);
        assert!(View::new("fred", true).shows(&event("salt/auth", Map::new())));
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
