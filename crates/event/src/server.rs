//! Serves a bus to other programs on the host through its sockets.

use std::future::Future;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rt::{BoxStream, Rt};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tracing::{debug, error, warn};
use wire::ipc::{self, Form};

use crate::bus::AcceptWaiting;
use crate::endpoint::{Accepted, ListeningSocket};
use crate::peer::WriteMode;
use crate::{Bus, Endpoint, Endpoints, Event, Filter, FormChoice, Lag, Limits, Subscription};

/// How many frames are written with one call.
const BATCH: usize = 64;

/// The maximum size of a write of more than one frame, in bytes. Frames taken out of a queue no longer count in it, so
/// this bounds what a slow program keeps in memory beyond its queue.
const BATCH_BYTES: usize = 1 << 20;

/// The minimum limit of a frame on the pull socket. Programs may have a larger `max_event_size` than the daemon.
const MIN_FRAME_LIMIT: usize = 16 << 20;

/// Options of a served bus.
#[derive(Clone, Copy, Debug)]
pub struct ServeOptions {
    /// The form of frames for programs that listen (`ipc_event_format`).
    pub form: FormChoice,
    /// How many bytes may wait for one listening program before it is disconnected (`ipc_write_buffer`); 0 means 64 MiB.
    pub write_buffer: usize,
}

impl Default for ServeOptions {
    fn default() -> Self {
        ServeOptions { form: FormChoice::Auto, write_buffer: 0 }
    }
}

/// A socket that could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open event socket {endpoint}")]
pub struct ServeError {
    /// The socket.
    pub endpoint: Endpoint,
    /// The system's error.
    pub source: io::Error,
}

/// The open sockets of a bus. Dropping it closes them, disconnects every program and removes the files.
#[derive(Debug)]
pub struct Server {
    tasks: [JoinHandle<()>; 2],
}

/// Opens a bus to other programs on the host.
///
/// Programs that connect to the publish socket get every event. A program that leaves more than
/// [`ServeOptions::write_buffer`] unread is disconnected. Events that are sent to the pull socket, in the form of any release,
/// are fired as they are; a connection that sends anything else is closed with a warning.
pub async fn serve(bus: &Bus, endpoints: &Endpoints, options: ServeOptions) -> Result<Server, ServeError> {
    // The pull socket first: a program that can listen must be able to send as well.
    let pull = open(bus, &endpoints.pull, 0o600).await?;
    let publish = open(bus, &endpoints.publish, endpoints.publish_mode).await?;
    let listeners = Listeners { bus: bus.clone(), options, endpoint: Arc::new(endpoints.publish.clone()) };
    let senders = Senders { bus: bus.clone(), endpoint: Arc::new(endpoints.pull.clone()) };
    let rt = bus.rt();
    let (listening, listeners) = Acceptor::new(publish, move |accepted| listeners.clone().attend(accepted).boxed());
    let (sending, senders) = Acceptor::new(pull, move |accepted| senders.clone().attend(accepted).boxed());
    // A program that has connected gets all events that are fired from then on.
    let socket: Arc<dyn AcceptWaiting> = listening.clone();
    bus.add_socket(Arc::downgrade(&socket));
    Ok(Server {
        tasks: [
            rt.spawn(accept_all(rt.clone(), endpoints.publish.clone(), listening, listeners)),
            rt.spawn(accept_all(rt.clone(), endpoints.pull.clone(), sending, senders)),
        ],
    })
}

impl Server {
    /// Closes the sockets, and returns when their files are removed.
    pub async fn close(mut self) {
        for task in &mut self.tasks {
            task.abort();
            // An aborted task ends with an error, which is expected here.
            let _ = task.await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn open(bus: &Bus, endpoint: &Endpoint, mode: u32) -> Result<ListeningSocket, ServeError> {
    let opened = ListeningSocket::open(bus.rt(), endpoint, mode).await;
    opened.map_err(|source| ServeError { endpoint: endpoint.clone(), source })
}

/// A listening socket, and the handler of its connections.
struct Acceptor<A> {
    socket: ListeningSocket,
    attend: A,
    /// Held while a connection is accepted and attended to.
    one_at_a_time: Mutex<()>,
    visits: mpsc::UnboundedSender<Visit>,
}

type Visit = BoxFuture<'static, ()>;

impl<A: Fn(Accepted) -> Visit> Acceptor<A> {
    fn new(socket: ListeningSocket, attend: A) -> (Arc<Self>, mpsc::UnboundedReceiver<Visit>) {
        let (visits, come) = mpsc::unbounded_channel();
        (Arc::new(Acceptor { socket, attend, one_at_a_time: Mutex::new(()), visits }), come)
    }

    fn one_at_a_time(&self) -> MutexGuard<'_, ()> {
        self.one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to serve a connection: from here on, a listener is on the bus.
    fn enter(&self, accepted: Accepted) {
        // While the server is being closed, the connection is not served.
        let _ = self.visits.send((self.attend)(accepted));
    }

    /// Waits for the next connection.
    async fn wait(&self) -> io::Result<()> {
        self.socket.wait(|| self.one_at_a_time(), |accepted| self.enter(accepted)).await
    }
}

impl<A: Fn(Accepted) -> Visit + Send + Sync> AcceptWaiting for Acceptor<A> {
    fn accept_waiting(&self) {
        let _one = self.one_at_a_time();
        // An error ends the loop; the accepting task gets it too, and reports it.
        while let Ok(accepted) = self.socket.try_accept() {
            self.enter(accepted);
        }
    }
}

/// Accepts connections for ever. The tasks of all connections end with this one.
async fn accept_all<A>(
    rt: Rt,
    endpoint: Endpoint,
    entrance: Arc<Acceptor<A>>,
    mut visits: mpsc::UnboundedReceiver<Visit>,
) where
    A: Fn(Accepted) -> Visit + Send + Sync + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            // First: these programs are connected, and events for them are already in their queues.
            Some(visit) = visits.recv() => {
                connections.spawn(rt.task(visit));
            }
            entered = entrance.wait() => if let Err(error) = entered {
                // Most likely there are too many open files, which is a temporary condition.
                error!(%endpoint, %error, "cannot accept a connection to the event bus");
                tokio::time::sleep(Duration::from_millis(100)).await;
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

// === Programs that listen ===

#[derive(Clone)]
struct Listeners {
    bus: Bus,
    options: ServeOptions,
    endpoint: Arc<Endpoint>,
}

impl Listeners {
    /// Sends every event until the program disconnects or is too slow.
    ///
    /// Not an `async fn`: the subscription has to exist before the first await, so that nothing is missed while the form is being
    /// detected.
    fn attend(self, accepted: Accepted) -> impl Future<Output = ()> + Send + 'static {
        let bytes = if self.options.write_buffer == 0 { 64 << 20 } else { self.options.write_buffer };
        // A gap in the events would go unnoticed by the program, a closed connection does not.
        let limits = Limits { events: usize::MAX, bytes, lag: Lag::Close };
        let events = self.bus.subscribe_within(Filter::all(), limits);
        async move {
            let Ok(peer) = accepted.into_peer() else { return };
            let manner = self.options.form.to_listener(peer.pid).await;
            let (read, write) = tokio::io::split(peer.stream);
            tokio::select! {
                biased;
                // Reading is the only way to notice that a program has left while there is nothing to write.
                () = until_gone(read) => {}
                () = self.send_all(events, write, manner, peer.pid) => {}
            }
        }
    }

    async fn send_all(
        &self,
        mut events: Subscription,
        mut stream: WriteHalf<BoxStream>,
        manner: WriteMode,
        pid: Option<i32>,
    ) {
        let overrun = events.overrun();
        let WriteMode { form, pause } = manner;
        let sending = async {
            if !pause.is_zero()
                && let Some(first) = events.next().await
            {
                write_frames(&mut stream, vec![first.frame(form)]).await?;
                tokio::time::sleep(pause).await;
            }
            while let Some(event) = events.next().await {
                write_frames(&mut stream, batch(event, &mut events, form)).await?;
            }
            io::Result::Ok(())
        };
        tokio::select! {
            biased;
            () = overrun => {
                let endpoint = &self.endpoint;
                warn!(%endpoint, pid, "disconnecting a program that reads events too slowly");
            }
            result = sending => if let Err(error) = result {
                debug!(endpoint = %self.endpoint, pid, %error, "a listening program has disconnected");
            }
        }
    }
}

/// Collects the frames that are waiting already: some, until they have [`BATCH_BYTES`].
fn batch(first: Event, events: &mut Subscription, form: Form) -> Vec<Bytes> {
    let mut frames = vec![first.frame(form)];
    let mut bytes = frames[0].len();
    while frames.len() < BATCH
        && bytes < BATCH_BYTES
        && let Some(event) = events.try_next()
    {
        let frame = event.frame(form);
        bytes += frame.len();
        frames.push(frame);
    }
    frames
}

async fn write_frames(stream: &mut WriteHalf<BoxStream>, mut frames: Vec<Bytes>) -> io::Result<()> {
    let mut first = 0;
    while first < frames.len() {
        let slices: Vec<IoSlice<'_>> = frames[first..].iter().map(|frame| IoSlice::new(frame)).collect();
        // One system call for many frames; it may stop in the middle of any of them.
        let mut written = stream.write_vectored(&slices).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        while written > 0 {
            let step = written.min(frames[first].len());
            frames[first].advance(step);
            written -= step;
            if frames[first].is_empty() {
                first += 1;
            }
        }
    }
    Ok(())
}

/// Waits until the program disconnects, and ignores what it sends.
async fn until_gone(mut stream: ReadHalf<BoxStream>) {
    let mut ignored = [0; 512];
    while let Ok(1..) = stream.read(&mut ignored).await {}
}

// === Programs that send ===

#[derive(Clone)]
struct Senders {
    bus: Bus,
    endpoint: Arc<Endpoint>,
}

impl Senders {
    /// Fires what the program sends until it disconnects, or sends something that is not a frame.
    async fn attend(self, accepted: Accepted) {
        let Ok(peer) = accepted.into_peer() else { return };
        let pid = peer.pid;
        if let Err(error) = self.receive(peer.stream).await {
            warn!(endpoint = %self.endpoint, pid, %error, "closing a connection that does not send events");
        }
    }

    async fn receive(&self, mut stream: BoxStream) -> Result<(), ipc::Error> {
        let limit = MIN_FRAME_LIMIT.max(self.bus.max_size().saturating_mul(4));
        let mut decoder = ipc::Decoder::new(limit);
        let mut buffer = BytesMut::new();
        loop {
            while let Some(bytes) = decoder.decode(&mut buffer)? {
                self.publish(&bytes);
            }
            buffer.reserve(4096);
            match stream.read_buf(&mut buffer).await {
                Ok(1..) => {}
                // Disconnecting in the middle of a frame loses only that frame.
                Ok(0) | Err(_) => return Ok(()),
            }
        }
    }

    fn publish(&self, bytes: &Bytes) {
        match Event::from_bytes(bytes) {
            Ok(event) => self.bus.publish(&event),
            Err(error) => warn!(endpoint = %self.endpoint, %error, "dropping an event that cannot be read"),
        }
    }
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    #[tokio::test]
    async fn no_more_than_a_mebibyte_of_events_is_taken_out_of_the_queue_at_a_time() {
        let bus = Bus::new(Rt::real(), 1 << 20);
        let mut events = bus.subscribe_within(Filter::all(), Limits { bytes: 64 << 20, ..Limits::default() });
        for _ in 0..20 {
            bus.fire("large", map! { "x" => "y".repeat(300_000) }).unwrap();
        }
        let mut counts = Vec::new();
        while let Some(first) = events.try_next() {
            counts.push(batch(first, &mut events, Form::Bare).len());
        }
        assert_eq!(counts, [4, 4, 4, 4, 4]);
        for _ in 0..BATCH + 1 {
            bus.fire("small", map! {}).unwrap();
        }
        let first = events.try_next().unwrap();
        assert_eq!(batch(first, &mut events, Form::Bare).len(), BATCH);
    }
}
