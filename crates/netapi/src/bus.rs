//! The master's event bus: one subscription for all HTTP clients.

use std::sync::Arc;
use std::time::Duration;

use event::{Endpoints, Event, Filter, Listening, Remote, RemoteError};
use rt::Rt;
use tokio::sync::{broadcast, watch};
use value::Map;

use crate::failure::Failure;
use crate::ring::Ring;
use crate::stream_log::{Reader, StreamLog};

/// The number of events that a slow reader may lag behind.
const QUEUE: usize = 1024;

/// Pauses between attempts to connect.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How long a request waits for a master that has just started.
const CONNECT: Duration = Duration::from_secs(2);

/// The bytes of events that a slow reader may lag behind.
const MOST_BYTES: usize = 32 << 20;

/// The events of the master, and the way to fire some.
pub struct Bus {
    /// For requests, which read at once.
    events: broadcast::Sender<Event>,
    /// For streams, which read as fast as their clients.
    streams: Arc<StreamLog>,
    /// The latest events, for streams that go on where they were.
    pub ring: Ring,
    connected: watch::Sender<bool>,
    remote: tokio::sync::Mutex<Remote>,
}

impl Bus {
    /// Creates the bus, without connecting.
    pub fn new(rt: Rt, endpoints: Endpoints) -> Self {
        Bus {
            events: broadcast::Sender::new(QUEUE),
            streams: StreamLog::new(QUEUE, MOST_BYTES),
            ring: Ring::new(hex::encode(rt.bytes::<6>())),
            connected: watch::Sender::new(false),
            remote: tokio::sync::Mutex::new(Remote::new(rt, endpoints)),
        }
    }

    /// Reads the master's events, for ever.
    pub async fn run(&self, rt: Rt, endpoints: Endpoints) {
        let (remote, mut pause) = (Remote::new(rt, endpoints), FIRST_PAUSE);
        loop {
            match self.follow(remote.listen(Filter::all()), &mut pause).await {
                Ok(()) => {}
                Err(error) if *self.connected.borrow() => {
                    tracing::warn!("lost the connection to the master's event bus: {error}");
                }
                // The loss itself was logged, and there may be many attempts.
                Err(error) => tracing::debug!("failed to connect to the master's event bus: {error}"),
            }
            self.connected.send_replace(false);
            self.ring.break_off();
            // Clients learn by the end of their stream that they miss events from here on.
            self.streams.end();
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn follow(
        &self,
        connecting: impl Future<Output = Result<Listening, RemoteError>>,
        pause: &mut Duration,
    ) -> Result<(), RemoteError> {
        let mut listening = connecting.await?;
        tracing::debug!("connected to the master's event bus");
        self.connected.send_replace(true);
        *pause = FIRST_PAUSE;
        loop {
            let event = listening.next().await?;
            self.streams.send(&event);
            self.ring.push(&event);
            // Without readers there is nobody to tell.
            let _ = self.events.send(event);
        }
    }

    /// Returns whether the bus is connected to the master, now and after each change.
    pub fn connections(&self) -> watch::Receiver<bool> {
        self.connected.subscribe()
    }

    /// Subscribes to all events from now on, for a reader that reads at once.
    ///
    /// # Errors
    /// When the master is away.
    pub async fn subscribe(&self) -> Result<broadcast::Receiver<Event>, Failure> {
        self.ready().await.map(|()| self.events.subscribe())
    }

    /// Returns how many requests wait for events.
    pub fn waiting(&self) -> usize {
        self.events.receiver_count()
    }

    /// Subscribes to all events from now on, for the stream of a client.
    ///
    /// # Errors
    /// When the master is away.
    pub async fn stream(&self) -> Result<Reader, Failure> {
        self.ready().await.map(|()| self.streams.subscribe())
    }

    /// Waits until the bus is connected to the master.
    ///
    /// # Errors
    /// When the master is away.
    pub async fn ready(&self) -> Result<(), Failure> {
        let mut connected = self.connected.subscribe();
        let waited = tokio::time::timeout(CONNECT, connected.wait_for(|connected| *connected)).await;
        match waited {
            Ok(Ok(_)) => Ok(()),
            _ => Err(Failure::no_master()),
        }
    }

    /// Fires an event.
    ///
    /// # Errors
    /// When the master is away, or the event is too large.
    pub async fn fire(&self, tag: &str, data: Map) -> Result<(), Failure> {
        // One connection: events leave one after the other.
        self.remote.lock().await.fire(tag, data).await.map_err(|error| {
            tracing::error!("failed to fire an event: {error}");
            match error {
                RemoteError::Event(_) => Failure::new(413, "The event is too large"),
                _ => Failure::no_master(),
            }
        })
    }
}

/// Waits for the next event. Events that a slow reader has missed are skipped.
pub async fn next(events: &mut broadcast::Receiver<Event>) -> Option<Event> {
    loop {
        match events.recv().await {
            Ok(event) => return Some(event),
            Err(broadcast::error::RecvError::Lagged(missed)) => tracing::warn!("missed {missed} events of the master"),
            Err(broadcast::error::RecvError::Closed) => return None,
        }
    }
}
