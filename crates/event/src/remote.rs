//! The client of another process's bus.

use std::io;

use bytes::{Bytes, BytesMut};
use rt::{BoxStream, Rt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use value::Map;
use wire::ipc::{self, Form};

use crate::endpoint::{self, Peer};
use crate::{DEFAULT_MAX_SIZE, Endpoint, Endpoints, Event, EventError, Filter, FormChoice, STAMP, stamp};

/// The largest frame that is accepted from a publish socket, in bytes. A master with a raised `max_event_size` may send large
/// ones.
const FRAME_LIMIT: usize = 1 << 30;

/// The bus of a Saltern or Salt daemon on this host.
///
/// Listening understands both forms of frames. Sending chooses the form by the release of Salt that the daemon belongs to
/// ([`FormChoice::Auto`]); see [`Remote::with_form`].
pub struct Remote {
    rt: Rt,
    endpoints: Endpoints,
    form: FormChoice,
    max_size: usize,
    pull: Option<Pull>,
}

struct Pull {
    stream: BoxStream,
    form: Form,
}

/// Errors of the connection to another process's bus.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// There is no listener, or this user may not connect.
    #[error("cannot connect to event bus {endpoint}")]
    Connect {
        /// The socket.
        endpoint: Endpoint,
        /// The system's error.
        source: io::Error,
    },
    /// The daemon closed the connection: it stopped, or we read too slowly.
    #[error("event bus {endpoint} closed the connection")]
    Closed {
        /// The socket.
        endpoint: Endpoint,
    },
    /// The connection broke.
    #[error("connection to event bus {endpoint} failed")]
    Io {
        /// The socket.
        endpoint: Endpoint,
        /// The system's error.
        source: io::Error,
    },
    /// The data is not in frames.
    #[error("{endpoint} is not an event bus: {source}")]
    Frame {
        /// The socket.
        endpoint: Endpoint,
        /// The reason.
        source: ipc::Error,
    },
    /// The event is invalid.
    #[error("cannot send event")]
    Event(#[from] EventError),
}

impl Remote {
    /// Creates a client, without connecting.
    pub fn new(rt: Rt, endpoints: Endpoints) -> Self {
        Remote { rt, endpoints, form: FormChoice::Auto, max_size: DEFAULT_MAX_SIZE, pull: None }
    }

    /// Sets the form of the frames that are sent.
    pub fn with_form(self, form: FormChoice) -> Self {
        Remote { form, ..self }
    }

    /// Sets the maximum size of an event's packed data (`max_event_size`).
    pub fn with_max_size(self, max_size: usize) -> Self {
        Remote { max_size, ..self }
    }

    /// Connects and listens.
    pub fn listen(&self, filter: Filter) -> impl Future<Output = Result<Listening, RemoteError>> + Send + use<> {
        // The connection for sending is not `Sync`, so the future must not borrow it.
        let (rt, endpoint) = (self.rt.clone(), self.endpoints.publish.clone());
        async move {
            let Peer { stream, .. } = connect(&rt, &endpoint).await?;
            Ok(Listening { endpoint, stream, filter, decoder: ipc::Decoder::new(FRAME_LIMIT), buffer: BytesMut::new() })
        }
    }

    /// Sends an event, with `_stamp` as the last entry of its data. The connection is kept for the next event.
    pub async fn fire(&mut self, tag: impl Into<String>, mut data: Map) -> Result<(), RemoteError> {
        data.remove(STAMP);
        data.insert(STAMP, stamp(self.rt.now()));
        let event = Event::new(tag, data, self.max_size)?;
        if let Some(pull) = self.pull.take() {
            // The daemon may have restarted since the last event.
            // A write into a closed connection fails at once on a Unix socket, so nothing is lost by trying.
            if self.send(pull, &event).await.is_ok() {
                return Ok(());
            }
        }
        let pull = self.connect_pull().await?;
        let endpoint = self.endpoints.pull.clone();
        self.send(pull, &event).await.map_err(|source| RemoteError::Io { endpoint, source })
    }

    /// Not `&self`, because `self` is not `Sync` and this waits.
    async fn connect_pull(&mut self) -> Result<Pull, RemoteError> {
        let Peer { stream, pid } = connect(&self.rt, &self.endpoints.pull).await?;
        Ok(Pull { stream, form: self.form.to_server(pid).await })
    }

    async fn send(&mut self, mut pull: Pull, event: &Event) -> io::Result<()> {
        pull.stream.write_all(&event.frame(pull.form)).await?;
        // The connection is put back only after a complete frame: half of one would spoil all that follow.
        pull.stream.flush().await?;
        self.pull = Some(pull);
        Ok(())
    }
}

async fn connect(rt: &Rt, endpoint: &Endpoint) -> Result<Peer, RemoteError> {
    let connected = endpoint::connect(rt, endpoint).await;
    connected.map_err(|source| RemoteError::Connect { endpoint: endpoint.clone(), source })
}

/// A subscription to another process's bus.
pub struct Listening {
    endpoint: Endpoint,
    stream: BoxStream,
    filter: Filter,
    decoder: ipc::Decoder,
    buffer: BytesMut,
}

impl Listening {
    /// Waits for the next event. After an error the connection is unusable.
    ///
    /// The future is cancel-safe: dropping it loses no event. An event whose data cannot be parsed is skipped with a
    /// warning.
    pub async fn next(&mut self) -> Result<Event, RemoteError> {
        loop {
            while let Some(bytes) = self.buffered()? {
                if let Some(event) = self.matching(&bytes) {
                    return Ok(event);
                }
            }
            self.read().await?;
        }
    }

    fn buffered(&mut self) -> Result<Option<Bytes>, RemoteError> {
        let decoded = self.decoder.decode(&mut self.buffer);
        decoded.map_err(|source| RemoteError::Frame { endpoint: self.endpoint.clone(), source })
    }

    fn matching(&self, bytes: &Bytes) -> Option<Event> {
        let event = match wire::event::split(bytes) {
            Ok((tag, _)) if !self.filter.wants(tag) => return None,
            Ok(_) => Event::from_bytes(bytes),
            Err(error) => Err(error),
        };
        event.inspect_err(|error| tracing::warn!(endpoint = %self.endpoint, %error, "skipping an event")).ok()
    }

    async fn read(&mut self) -> Result<(), RemoteError> {
        self.buffer.reserve(16 << 10);
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(1..) => Ok(()),
            Ok(0) => Err(RemoteError::Closed { endpoint: self.endpoint.clone() }),
            Err(source) => Err(RemoteError::Io { endpoint: self.endpoint.clone(), source }),
        }
    }
}
