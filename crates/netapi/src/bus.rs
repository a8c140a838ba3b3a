//! The master's event bus: one subscription for all HTTP clients.

use std::time::Duration;

use event::{Endpoints, Event, Filter, Listening, Remote, RemoteError};
use rt::Rt;
use tokio::sync::{Mutex, broadcast, watch};
use value::Map;

use crate::failure::Failure;

/// The number of events that a slow reader may lag behind.
const QUEUE: usize = 1024;

/// Pauses between attempts to connect.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How long a request waits for a master that has just started.
const CONNECT: Duration = Duration::from_secs(2);

/// The events of the master, and the way to fire some.
pub struct Bus {
    events: broadcast::Sender<Event>,
    connected: watch::Sender<bool>,
    remote: Mutex<Remote>,
}

impl Bus {
    /// Creates the bus, without connecting.
    pub fn new(rt: Rt, endpoints: Endpoints) -> Self {
        Bus {
            events: broadcast::Sender::new(QUEUE),
            connected: watch::Sender::new(false),
            remote: Mutex::new(Remote::new(rt, endpoints)),
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
            // Without readers there is nobody to tell.
            let _ = self.events.send(event);
        }
    }

    /// Subscribes to all events from now on.
    ///
    /// # Errors
    /// When the master is away.
    pub async fn subscribe(&self) -> Result<broadcast::Receiver<Event>, Failure> {
        let mut connected = self.connected.subscribe();
        let waited = tokio::time::timeout(CONNECT, connected.wait_for(|connected| *connected)).await;
        match waited {
            Ok(Ok(_)) => Ok(self.events.subscribe()),
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
