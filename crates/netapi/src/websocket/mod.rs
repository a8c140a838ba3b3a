//! `/ws`: the master's events over a WebSocket, as the netapi client in Java and pages in browsers read them.
//!
//! Events begin when the client has sent [`READY`]. Each text of the client is answered with [`RECEIVED`].

mod progress;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRequestParts as _;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use tokio_tungstenite::tungstenite::Error as WireError;

use crate::api::{Api, Caller};
use crate::exchange::Peer;
use crate::failure::Failure;
use crate::feed::{End, Feed, Received};
use crate::incoming::{self, provenance};
use crate::origin::may_read_socket;
use crate::pack;
use crate::server::Kept;
use crate::stream_event::StreamEvent;
use progress::Progress;

/// What a client sends when it is ready for events.
const READY: &str = "websocket client ready";

/// The answer to each text of a client.
const RECEIVED: Utf8Bytes = Utf8Bytes::from_static("server received message");

/// The largest message of a client, in bytes.
const MOST_MESSAGE: usize = 4096;

/// The memory for reading. A client has next to nothing to say.
const READ_BUFFER: usize = 1024;

/// How many pings a client may leave unanswered.
const MOST_UNANSWERED: u32 = 2;

/// How long a client may take to agree to the end.
const PARTING: Duration = Duration::from_secs(5);

/// Codes of RFC 6455 and of the registry of IANA.
mod code {
    pub const GOING_AWAY: u16 = 1001;
    pub const PROTOCOL: u16 = 1002;
    pub const NO_TEXT: u16 = 1007;
    pub const POLICY: u16 = 1008;
    pub const TOO_BIG: u16 = 1009;
    pub const RESTART: u16 = 1012;
    pub const TRY_AGAIN: u16 = 1013;
}

/// Answers a handshake. The id of the session may be in the path, since pages cannot send a header with it.
///
/// # Errors
/// When the client may not read events, or does not speak WebSocket.
pub async fn open(api: &Arc<Api>, id: &str, request: axum::extract::Request) -> Result<Response, Failure> {
    let (mut parts, _) = request.into_parts();
    let formatted = is_formatted(parts.uri.query())?;
    let caller = caller(api, id, &parts).await?;
    let kept = parts.extensions.get::<Kept>().cloned().ok_or_else(Failure::unexpected)?;
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &())
        .await
        .map_err(|refusal| Failure::new(refusal.status().as_u16(), refusal.body_text()))?;
    let feed = Feed::open(api.clone(), caller).await?;
    let upgrade = upgrade.max_message_size(MOST_MESSAGE).max_frame_size(MOST_MESSAGE);
    // Each message is written at once, so nothing is kept for writing.
    let upgrade = upgrade.read_buffer_size(READ_BUFFER).write_buffer_size(0);
    let progress = formatted.then(Progress::default);
    Ok(upgrade.on_upgrade(|socket| Connection { socket, feed, kept, progress, ready: false, unanswered: 0 }.run()))
}

/// Returns whether the client wants maps of minions and jobs in place of events.
fn is_formatted(query: Option<&str>) -> Result<bool, Failure> {
    let mut formatted = false;
    for (name, _) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        match &*name {
            "format_events" => formatted = true,
            _ => {
                return Err(Failure::bad_request("The only parameter is format_events: a token belongs in a header"));
            }
        }
    }
    Ok(formatted)
}

async fn caller(api: &Api, id: &str, parts: &Parts) -> Result<Caller, Failure> {
    let address = parts.extensions.get::<Peer>().map(|peer| peer.0).ok_or_else(Failure::unexpected)?;
    let caller = match id {
        "" => incoming::caller(api, &parts.headers, address).await?,
        id => api.caller(Some(id), None, address).await?,
    };
    let caller = caller.ok_or_else(Failure::no_session)?;
    let from = provenance(&parts.headers);
    if caller.by_cookie && !may_read_socket(from, &api.options.cors) {
        return Err(Failure::new(403, from.reason()));
    }
    match api.is_confirmed(&caller).await? {
        true => Ok(caller),
        false => Err(Failure::no_session()),
    }
}

/// An open WebSocket.
struct Connection {
    socket: WebSocket,
    feed: Feed,
    kept: Kept,
    /// What has happened so far, for a client that wants maps.
    progress: Option<Progress>,
    /// True when the client wants events.
    ready: bool,
    /// Pings since the client was heard last.
    unanswered: u32,
}

/// Why a connection ends.
#[derive(Debug)]
enum Over {
    /// The client has closed it, or is gone.
    Gone,
    /// The client is told a code and a reason.
    Closed(u16, &'static str),
}

impl From<End> for Over {
    fn from(end: End) -> Self {
        match end {
            End::Session => Over::Closed(code::POLICY, "the session has ended"),
            End::Behind => Over::Closed(code::TRY_AGAIN, "events are missing: they are read too slowly"),
            End::CutOff => Over::Closed(code::RESTART, "events are missing: the connection to the master was lost"),
        }
    }
}

impl From<axum::Error> for Over {
    fn from(error: axum::Error) -> Self {
        let error = error.into_inner();
        match error.downcast_ref::<WireError>() {
            Some(WireError::Capacity(_)) => Over::Closed(code::TOO_BIG, "messages may have 4096 bytes"),
            Some(WireError::Utf8(_)) => Over::Closed(code::NO_TEXT, "messages are text"),
            Some(WireError::Protocol(_)) => Over::Closed(code::PROTOCOL, "no valid frame"),
            _ => {
                tracing::debug!("a WebSocket has failed: {error}");
                Over::Gone
            }
        }
    }
}

impl Connection {
    /// Serves the client to the end of the connection.
    async fn run(mut self) {
        let Err(over) = self.serve().await;
        if let Over::Closed(code, reason) = over {
            tracing::debug!("a WebSocket is closed with {code}: {reason}");
            let frame = CloseFrame { code, reason: Utf8Bytes::from_static(reason) };
            if self.socket.send(Message::Close(Some(frame))).await.is_err() {
                return;
            }
        }
        // The client closes the connection when it has read the end. What it says until then is of no interest.
        let parting = async { while let Some(Ok(_)) = self.socket.recv().await {} };
        let _ = tokio::time::timeout(PARTING, parting).await;
    }

    async fn serve(&mut self) -> Result<Infallible, Over> {
        loop {
            while let Some(shown) = self.feed.pop() {
                self.show(&shown).await?;
            }
            tokio::select! {
                biased;
                () = self.kept.stop.cancelled() => return Err(Over::Closed(code::GOING_AWAY, "salt-api stops")),
                received = self.feed.wait() => self.take(received).await?,
                message = self.socket.recv() => self.hear(message).await?,
            }
        }
    }

    async fn take(&mut self, received: Received) -> Result<(), Over> {
        if !self.feed.take(received).await? {
            return Ok(());
        }
        if self.unanswered >= MOST_UNANSWERED {
            tracing::debug!("a WebSocket ends: its client answers no pings");
            return Err(Over::Gone);
        }
        self.unanswered += 1;
        Ok(self.socket.send(Message::Ping(Bytes::new())).await?)
    }

    async fn show(&mut self, shown: &StreamEvent) -> Result<(), Over> {
        // As in Salt, a client misses what happens before it is ready.
        if !self.ready {
            return Ok(());
        }
        let Some(progress) = &mut self.progress else {
            // It was made as text.
            let text = shown.data().and_then(|data| Utf8Bytes::try_from(data).ok());
            return match text {
                Some(text) => Ok(self.socket.send(Message::Text(text)).await?),
                None => Ok(()),
            };
        };
        for update in progress.take(&shown.event) {
            if let Ok(packed) = pack::json(&update) {
                self.socket.send(Message::Text(packed.into())).await?;
            }
        }
        Ok(())
    }

    /// Answers a message of the client.
    async fn hear(&mut self, message: Option<Result<Message, axum::Error>>) -> Result<(), Over> {
        let message = message.ok_or(Over::Gone)??;
        self.unanswered = 0;
        let said = match &message {
            Message::Text(text) => text.as_str(),
            Message::Binary(bytes) => {
                std::str::from_utf8(bytes).map_err(|_| Over::Closed(code::NO_TEXT, "messages are text"))?
            }
            Message::Close(_) => return Err(Over::Gone),
            // Pings are answered by the library.
            Message::Ping(_) | Message::Pong(_) => return Ok(()),
        };
        self.ready |= said == READY;
        Ok(self.socket.send(Message::Text(RECEIVED)).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_token_is_read_from_the_query() {
        assert!(!is_formatted(None).unwrap() && !is_formatted(Some("")).unwrap());
        assert!(is_formatted(Some("format_events")).unwrap() && is_formatted(Some("format_events=1")).unwrap());
        assert_eq!(is_formatted(Some("format_events&token=abc")).unwrap_err().status, 400);
    }
}
