//! The master's event bus: one subscription for all HTTP clients.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use event::{Endpoints, Event, Filter, Listening, Remote, RemoteError};
use rt::Rt;
use tokio::sync::{broadcast, watch};
use value::Map;

use crate::failure::Failure;
use crate::ring::Ring;
use crate::shown::Shown;

/// The number of events that a slow reader may lag behind.
const QUEUE: usize = 1024;

/// Pauses between attempts to connect.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How long a request waits for a master that has just started.
const CONNECT: Duration = Duration::from_secs(2);

/// The bytes of events that slow streams may keep in memory, together.
const MOST_KEPT: usize = 32 << 20;

/// The events of the master, and the way to fire some.
pub struct Bus {
    /// For requests, which read at once.
    events: broadcast::Sender<Event>,
    /// For streams, which read as fast as their clients.
    streams: Streams,
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
            streams: Streams::new(MOST_KEPT),
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
            self.streams.send(&event, event.bytes().len());
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
    pub async fn stream(&self) -> Result<broadcast::Receiver<Arc<Shown>>, Failure> {
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

/// Events on their way to streams. One that is read slowly keeps each event in memory that it has not read, so there is a bound to
/// their bytes: beyond it all streams end, and their clients connect again.
struct Streams {
    most: usize,
    queue: Mutex<Queue>,
}

struct Queue {
    events: broadcast::Sender<Arc<Shown>>,
    /// The sizes of the latest events, the oldest first.
    sizes: VecDeque<usize>,
}

impl Queue {
    fn new() -> Self {
        Queue { events: broadcast::Sender::new(QUEUE), sizes: VecDeque::new() }
    }
}

impl Streams {
    fn new(most: usize) -> Self {
        Streams { most, queue: Mutex::new(Queue::new()) }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn subscribe(&self) -> broadcast::Receiver<Arc<Shown>> {
        self.queue().events.subscribe()
    }

    fn send(&self, event: &Event, size: usize) {
        let mut queue = self.queue();
        if queue.events.send(Arc::new(Shown::new(event.clone()))).is_err() {
            return queue.sizes.clear();
        }
        queue.sizes.push_back(size);
        let kept = queue.events.len();
        while queue.sizes.len() > kept {
            queue.sizes.pop_front();
        }
        if queue.sizes.iter().sum::<usize>() > self.most {
            tracing::warn!("all streams of events end: some are read so slowly that too much waits for them");
            *queue = Queue::new();
        }
    }

    /// Ends all streams, once they have been read to the end.
    fn end(&self) {
        *self.queue() = Queue::new();
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

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    fn event() -> Event {
        Event::new("a/b", map! { "x" => 1 }, 1 << 20).unwrap()
    }

    #[test]
    fn streams_end_with_the_connection_and_new_ones_begin() {
        let streams = Streams::new(1000);
        let mut open = streams.subscribe();
        streams.send(&event(), 10);
        streams.end();
        assert!(open.try_recv().is_ok(), "what has come is read");
        assert_eq!(open.try_recv().unwrap_err(), broadcast::error::TryRecvError::Closed);
        let mut again = streams.subscribe();
        streams.send(&event(), 10);
        assert!(again.try_recv().is_ok());
    }

    #[test]
    fn what_slow_streams_keep_in_memory_is_bounded_by_bytes() {
        let streams = Streams::new(1000);
        streams.send(&event(), 5000);
        let (mut slow, mut quick) = (streams.subscribe(), streams.subscribe());
        for _ in 0..3 {
            streams.send(&event(), 400);
            assert!(quick.try_recv().is_ok());
        }
        // All end: the channel is theirs together.
        assert!((0..3).all(|_| slow.try_recv().is_ok()));
        assert_eq!(slow.try_recv().unwrap_err(), broadcast::error::TryRecvError::Closed);
        assert_eq!(quick.try_recv().unwrap_err(), broadcast::error::TryRecvError::Closed);
        let mut again = streams.subscribe();
        for _ in 0..100 {
            streams.send(&event(), 400);
            assert!(again.try_recv().is_ok(), "who reads in time is not cut off");
        }
    }
}
