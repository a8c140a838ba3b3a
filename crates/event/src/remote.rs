//! The bus of another process.

use std::io;

use bytes::{Bytes, BytesMut};
use rt::{BoxStream, Rt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use value::Map;
use wire::ipc::{self, Form};

use crate::endpoint::{self, Peer};
use crate::{DEFAULT_MAX_SIZE, Endpoint, Endpoints, Event, EventError, Filter, FormChoice, STAMP, stamp};

/// The largest frame taken from a publish socket, in bytes. A master with a raised `max_event_size` may send large
/// ones.
const FRAME_LIMIT: usize = 1 << 30;

/// The bus of a daemon on this host, ours or one of Salt's.
///
/// Listening understands both forms of frames. Sending chooses the form by the release of Salt the daemon belongs to
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

/// What may go wrong between us and another process's bus.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// Nobody listens there, or we may not connect.
    #[error("cannot connect to event bus {endpoint}")]
    Connect {
        /// Where.
        endpoint: Endpoint,
        /// Why.
        source: io::Error,
    },
    /// The daemon closed the connection: it ended, or we read too slowly.
    #[error("event bus {endpoint} closed the connection")]
    Closed {
        /// Where.
        endpoint: Endpoint,
    },
    /// The connection broke.
    #[error("connection to event bus {endpoint} failed")]
    Io {
        /// Where.
        endpoint: Endpoint,
        /// Why.
        source: io::Error,
    },
    /// What arrives are no frames.
    #[error("{endpoint} is no event bus: {source}")]
    Frame {
        /// Where.
        endpoint: Endpoint,
        /// What is wrong.
        source: ipc::Error,
    },
    /// The event to be sent is none.
    #[error("cannot send event")]
    Event(#[from] EventError),
}

impl Remote {
    /// Returns a handle; nothing is connected yet.
    pub fn new(rt: Rt, endpoints: Endpoints) -> Self {
        Remote { rt, endpoints, form: FormChoice::Auto, max_size: DEFAULT_MAX_SIZE, pull: None }
    }

    /// Chooses the form of the frames that are sent.
    pub fn with_form(self, form: FormChoice) -> Self {
        Remote { form, ..self }
    }

    /// Sets the most bytes of packed data in an event that is sent (`max_event_size`).
    pub fn with_max_size(self, max_size: usize) -> Self {
        Remote { max_size, ..self }
    }

    /// Starts to listen.
    pub fn listen(&self, filter: Filter) -> impl Future<Output = Result<Listening, RemoteError>> + Send + use<> {
        // The connection for sending cannot be looked at from two threads at once, so the future knows nothing of it.
        let (rt, endpoint) = (self.rt.clone(), self.endpoints.publish.clone());
        async move {
            let Peer { stream, .. } = connect(&rt, &endpoint).await?;
            Ok(Listening { endpoint, stream, filter, decoder: ipc::Decoder::new(FRAME_LIMIT), buffer: BytesMut::new() })
        }
    }

    /// Sends an event, with `_stamp` as the last entry of its data. The connection is kept for the next one.
    pub async fn fire(&mut self, tag: impl Into<String>, mut data: Map) -> Result<(), RemoteError> {
        data.remove(STAMP);
        data.insert(STAMP, stamp(self.rt.now()));
        let event = Event::new(tag, data, self.max_size)?;
        if let Some(pull) = self.pull.take() {
            // The daemon may have been restarted since the last event.
            if self.send(pull, &event).await.is_ok() {
                return Ok(());
            }
        }
        let pull = self.connect_pull().await?;
        let endpoint = self.endpoints.pull.clone();
        self.send(pull, &event).await.map_err(|source| RemoteError::Io { endpoint, source })
    }

    /// Not `&self`, which another thread might look through while this waits.
    async fn connect_pull(&mut self) -> Result<Pull, RemoteError> {
        let Peer { stream, pid } = connect(&self.rt, &self.endpoints.pull).await?;
        Ok(Pull { stream, form: self.form.to_server(pid).await })
    }

    async fn send(&mut self, mut pull: Pull, event: &Event) -> io::Result<()> {
        pull.stream.write_all(&event.frame(pull.form)).await?;
        pull.stream.flush().await?;
        self.pull = Some(pull);
        Ok(())
    }
}

async fn connect(rt: &Rt, endpoint: &Endpoint) -> Result<Peer, RemoteError> {
    let connected = endpoint::connect(rt, endpoint).await;
    connected.map_err(|source| RemoteError::Connect { endpoint: endpoint.clone(), source })
}

/// A place on another process's bus.
pub struct Listening {
    endpoint: Endpoint,
    stream: BoxStream,
    filter: Filter,
    decoder: ipc::Decoder,
    buffer: BytesMut,
}

impl Listening {
    /// Waits for the next event. After an error the connection is of no more use.
    ///
    /// Nothing is lost when the future is dropped before it is ready. An event whose data cannot be read is passed
    /// over with a warning.
    pub async fn next(&mut self) -> Result<Event, RemoteError> {
        loop {
            while let Some(bytes) = self.buffered()? {
                if let Some(event) = self.wanted(&bytes) {
                    return Ok(event);
                }
            }
            self.read().await?;
        }
    }

    /// Changes what is listened for, beginning with the next event that has not been returned yet.
    pub fn set_filter(&mut self, filter: Filter) {
        self.filter = filter;
    }

    fn buffered(&mut self) -> Result<Option<Bytes>, RemoteError> {
        let decoded = self.decoder.decode(&mut self.buffer);
        decoded.map_err(|source| RemoteError::Frame { endpoint: self.endpoint.clone(), source })
    }

    fn wanted(&self, bytes: &Bytes) -> Option<Event> {
        let event = match wire::event::split(bytes) {
            Ok((tag, _)) if !self.filter.wants(tag) => return None,
            Ok(_) => Event::from_bytes(bytes),
            Err(error) => Err(error),
        };
        event.inspect_err(|error| tracing::warn!(endpoint = %self.endpoint, %error, "passing over an event")).ok()
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
