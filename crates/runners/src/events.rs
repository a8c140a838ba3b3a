//! The master's event bus, from inside the master or from another process.

use std::sync::Arc;

use event::{Bus, Event, Filter, Listening, Remote, RemoteError, Subscription};
use rt::Rt;
use tokio::sync::Mutex;
use value::Map;

/// The master's event bus.
#[derive(Clone)]
pub enum Events {
    /// The bus of this process.
    Bus(Bus),
    /// The bus of another process on this host.
    Socket(Arc<Mutex<Remote>>),
}

/// Events as they come.
pub enum Listener {
    /// From the bus of this process.
    Bus(Subscription),
    /// From another process.
    Socket(Listening),
}

impl Events {
    /// Returns the bus of the master on this host.
    pub fn of_master(config: &config::Master, rt: Rt) -> Self {
        let endpoints = client::settings::from_config(config).bus;
        let remote = Remote::new(rt, endpoints).with_max_size(config.network.max_event_size);
        Events::Socket(Arc::new(Mutex::new(remote)))
    }

    /// Fires an event and returns whether the bus accepted it. Without a master there are no listeners, which is not an
    /// error.
    pub async fn fire(&self, tag: &str, data: Map) -> bool {
        let (sent, reason) = match self {
            Events::Bus(bus) => (bus.fire(tag, data).map_err(|error| error.to_string()), "the event is none"),
            // The lock orders writers of one socket: two frames must not mix.
            Events::Socket(remote) => {
                let sent = remote.lock().await.fire(tag, data).await;
                (sent.map_err(|error| value::error::chain(&error)), "the master does not run or refuses")
            }
        };
        match sent {
            Ok(()) => true,
            Err(error) => {
                tracing::debug!(tag, %error, "an event was not sent: {reason}");
                false
            }
        }
    }

    /// Starts to listen.
    ///
    /// # Errors
    /// When the master does not run, or its socket may not be used.
    pub async fn listen(&self, filter: Filter) -> Result<Listener, RemoteError> {
        match self {
            Events::Bus(bus) => Ok(Listener::Bus(bus.subscribe(filter))),
            Events::Socket(remote) => remote.lock().await.listen(filter).await.map(Listener::Socket),
        }
    }
}

impl Listener {
    /// Waits for the next event; nothing when the bus has closed.
    pub async fn next(&mut self) -> Option<Event> {
        match self {
            Listener::Bus(subscription) => subscription.next().await,
            Listener::Socket(listening) => listening
                .next()
                .await
                .inspect_err(|error| tracing::debug!(error = %value::error::chain(error), "the event bus closed"))
                .ok(),
        }
    }
}
