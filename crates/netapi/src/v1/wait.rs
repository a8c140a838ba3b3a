//! The returns of a job as they come, a line of JSON each.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{self, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use event::Event;
use futures_util::stream;
use serde_json::{Value as Json, json};
use tokio::time::Instant;
use value::{Map, Value};

use crate::api::Api;
use crate::fleet::Fleet;
use crate::sessions::Session;
use crate::stream_log::{Lost, Reader};

struct Waiting {
    api: Arc<Api>,
    session: Session,
    jid: String,
    missing: BTreeSet<String>,
    returned: BTreeSet<String>,
    events: Reader,
    until: Instant,
    /// Lines that are ready.
    ready: Vec<Json>,
    /// The minions whose returns the job cache may have already.
    look: Vec<String>,
    ended: bool,
}

/// Returns a stream: the job, then each return, and at the end the minions that have not returned (`missing`), and which of them may
/// still do so (`running`).
pub fn stream(
    api: Arc<Api>,
    session: Session,
    (jid, minions): (String, Vec<String>),
    events: Reader,
    time: Duration,
) -> Response {
    let head = json!({ "jid": jid, "minions": minions });
    let waiting = Waiting {
        api,
        session,
        jid,
        missing: minions.iter().cloned().collect(),
        returned: BTreeSet::new(),
        events,
        until: Instant::now() + time,
        ready: vec![head],
        // A job that was published by an earlier request has returns already.
        look: minions,
        ended: false,
    };
    let lines = stream::unfold(waiting, |mut waiting| async {
        let line = waiting.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(format!("{line}\n"))), waiting))
    });
    let mut response = Response::new(Body::from_stream(lines));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/jsonl"));
    response
}

impl Waiting {
    /// Waits for the next line; `None` at the end.
    async fn next(&mut self) -> Option<Json> {
        loop {
            if let Some(line) = self.ready.pop() {
                return Some(line);
            }
            if self.ended {
                return None;
            }
            if let Some(id) = self.look.pop() {
                if self.missing.contains(&id)
                    && let Some(data) = self.api.link.stored(&self.jid, &id).await
                {
                    self.note(&id, &data);
                }
                continue;
            }
            if self.missing.is_empty() {
                self.end().await;
                continue;
            }
            match tokio::time::timeout_at(self.until, self.events.next()).await {
                Ok(Ok(shown)) => self.take(&shown.event),
                // The job cache has what was missed.
                Ok(Err(Lost::Behind(_))) => self.look = self.missing.iter().cloned().collect(),
                Ok(Err(Lost::CutOff)) | Err(_) => self.end().await,
            }
        }
    }

    async fn end(&mut self) {
        self.ended = true;
        let running = match self.missing.is_empty() {
            true => Some(Vec::new()),
            false => self.running().await,
        };
        self.ready.push(json!({ "end": true, "missing": self.missing, "running": running }));
    }

    /// Returns which of the missing minions still run the job or may begin it; `None` if the user may not know, or the master does not
    /// answer.
    async fn running(&self) -> Option<Vec<String>> {
        match Fleet::of(&self.api, &self.session).unfinished(&self.jid).await {
            Ok(known) => Some(known.running.into_iter().filter(|id| self.missing.contains(id)).collect()),
            Err(failure) => {
                tracing::debug!("it is not known which minions still run {}: {}", self.jid, failure.message);
                None
            }
        }
    }

    fn take(&mut self, event: &Event) {
        let mut parts = event.tag().split('/');
        let (Some("salt"), Some("job"), Some(jid), Some("ret"), Some(id), None) =
            (parts.next(), parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return;
        };
        if jid == self.jid {
            self.note(id, event.data());
        }
    }

    fn note(&mut self, id: &str, data: &Map) {
        // Others than those that are expected may return, too: only minions know whether grains match.
        self.missing.remove(id);
        if self.returned.insert(id.to_owned()) {
            let retcode = data.get("retcode").cloned().unwrap_or_default();
            let success = !retcode.truthy() && data.get("success").and_then(Value::as_bool) != Some(false);
            self.ready.push(json!({
                "id": id, "return": data.get("return"), "retcode": retcode, "success": success,
            }));
        }
    }
}
