//! The carrier as the master sees it: start, send, read reports, stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::client::PublishErrorKind;
use async_nats::{Client, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::select_all;
use peers::kind::Frame;
use peers::members::Members;
use peers::status::{LinkStatus, PeerInfo, WaitingMember};
use rt::Rt;
use share::{Carrier, Incoming, Lane, Malformed, Node, SendResult, To};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::MissedTickBehavior;

use crate::connect::{BusState, ConnectError, connect};
use crate::hub::{Hub, Leaving};
use crate::options::Options;
use crate::subject::Subjects;
use crate::wire::{Event, Place, Sending, Wire};

/// Why the bus could not be used.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An option, or a file that it names.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Other members would not read what this one says about itself.
    #[error("{0}")]
    Hello(#[from] Malformed),
    /// The client of the bus has ended.
    #[error("the client of the bus has ended")]
    Client,
}

/// One member on the bus. It leaves when this is dropped.
pub struct Bus {
    hub: Arc<Hub>,
    tasks: Vec<AbortHandle>,
}

/// What the bus reports. Whoever reads slowly makes the other members wait, lane by lane.
pub struct Reports(Arc<Hub>);

impl Bus {
    /// Connects to the servers. Returns at once: members come and go as servers do.
    ///
    /// # Errors
    /// When a file that the options name cannot be used. A server that does not answer is no error.
    pub async fn start(
        rt: Rt,
        servers: &config::bus::Bus,
        options: Options,
        members: Arc<dyn Members>,
    ) -> Result<(Bus, Reports), StartError> {
        // The few states of clients, and no messages.
        let (told, states) = mpsc::unbounded_channel();
        let open = |lane: Lane| {
            let told = told.clone();
            connect(servers, options.heartbeat, move |state| _ = told.send((lane, state)))
        };
        // Nothing small waits behind something large: each lane has a connection.
        let clients = [open(Lane::Talk).await?, open(Lane::Bulk).await?];
        let node = Node::of_key(&options.key.public());
        let subjects = Subjects::new(&options.cluster_id);
        let mut subscribers = Vec::new();
        for place in [Place::To(node, Lane::Talk), Place::To(node, Lane::Bulk), Place::Beat] {
            let subscribed = clients[place.lane() as usize].subscribe(subjects.at(place)).await;
            subscribers.push((place, subscribed.map_err(|_| StartError::Client)?));
        }
        let wire = Arc::new(Nats { clients, subjects, told_too_long: AtomicBool::new(false) });
        let (mut bus, reports) = Bus::over(rt.clone(), options, members, wire)?;
        let pump = rt.spawn(pump(bus.hub.clone(), subscribers, states)).abort_handle();
        bus.tasks.push(pump);
        Ok((bus, reports))
    }

    /// Starts a member over a wire.
    pub(crate) fn over(
        rt: Rt,
        options: Options,
        members: Arc<dyn Members>,
        wire: Arc<dyn Wire>,
    ) -> Result<(Bus, Reports), Malformed> {
        let (hub, leaving) = Hub::new(rt, options, members, wire);
        let hub = Arc::new(hub);
        Frame::decode(&Frame::Hello(hub.own_hello(false)).encode())?;
        let tasks = vec![
            hub.rt.spawn(leave(hub.clone(), leaving)).abort_handle(),
            hub.rt.spawn(tick(hub.clone())).abort_handle(),
        ];
        Ok((Bus { hub: hub.clone(), tasks }, Reports(hub)))
    }

    #[cfg(test)]
    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Returns the node of this member.
    pub fn node(&self) -> Node {
        self.hub.node
    }

    /// Ends links with nodes that were removed from the set, and greets at once whoever was refused before.
    pub fn members_changed(&self) {
        self.hub.members_changed();
    }

    /// Returns all members that are linked or were, and newcomers that wait.
    pub fn status(&self) -> Vec<LinkStatus> {
        self.hub.statuses()
    }

    /// Returns this member's clock that never jumps, in milliseconds, by which others know how old a message is.
    pub fn steady(&self) -> u64 {
        self.hub.steady()
    }

    /// Returns how long ago a linked member sent something at a time of its clock that never jumps; `None` if that is not known.
    pub fn age(&self, node: Node, sent: u64) -> Option<Duration> {
        self.hub.age(node, sent)
    }

    /// Returns how many bytes wait to be sent to a linked member in a lane.
    pub fn queued(&self, node: Node, lane: Lane) -> usize {
        self.hub.links(To::Member(node)).iter().map(|link| link.queues[lane as usize].bytes()).sum()
    }

    /// Returns what a linked member, or one that was linked, has said about itself. It is known when [`Incoming::Up`] is reported.
    pub fn info(&self, node: Node) -> Option<PeerInfo> {
        self.hub.info(node)
    }

    /// Returns the newcomers that wait until a person accepts them, the oldest first.
    pub fn waiting(&self) -> Vec<WaitingMember> {
        self.hub.waiting()
    }

    /// Returns why no server has let this member in, `None` if one has; empty before the first attempt has ended.
    pub fn problem(&self) -> Option<String> {
        self.hub.problem()
    }

    /// Returns the servers, as people read them.
    pub fn servers(&self) -> &str {
        &self.hub.options.servers
    }

    /// Says goodbye to all members, so that they know at once, and leaves.
    pub async fn stop(&self) {
        self.hub.stop().await;
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Carrier for Bus {
    fn send(&self, to: To, lane: Lane, message: Bytes) -> SendResult {
        self.hub.send(to, lane, &message)
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
        self.hub.abort();
    }
}

impl Reports {
    /// Waits for the next report.
    pub async fn next(&mut self) -> Incoming {
        let report = self.0.inbox.next().await;
        if let Incoming::Message { from, .. } = &report {
            self.0.was_read(*from);
        }
        report
    }
}

/// Sends what belongs to no link.
async fn leave(hub: Arc<Hub>, mut leaving: Leaving) {
    while let Some((place, envelope)) = leaving.next().await {
        hub.wire.publish(place, envelope).await;
    }
}

async fn tick(hub: Arc<Hub>) {
    let mut beat = tokio::time::interval(hub.options.heartbeat);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        beat.tick().await;
        hub.tick();
    }
}

/// Hands over what the clients report, until they end.
async fn pump(
    hub: Arc<Hub>,
    subscribers: Vec<(Place, Subscriber)>,
    mut states: mpsc::UnboundedReceiver<(Lane, BusState)>,
) {
    let placed = |(place, subscriber): (Place, Subscriber)| subscriber.map(move |message| (place, message.payload));
    let (mut messages, mut both) = (select_all(subscribers.into_iter().map(placed)), Both::default());
    loop {
        tokio::select! {
            biased;
            state = states.recv() => match state {
                Some((lane, state)) => {
                    if let Some(state) = both.hear(lane, state) {
                        hub.heard(Event::State(state));
                    }
                }
                None => return,
            },
            message = messages.next() => match message {
                Some((place, envelope)) => hub.heard(Event::Envelope(place, envelope)),
                None => return,
            },
        }
    }
}

/// Whether the connections of both lanes are up: the bus is when they are.
#[derive(Default)]
struct Both([bool; 2]);

impl Both {
    /// Returns what the state of one connection means for the bus.
    fn hear(&mut self, lane: Lane, state: BusState) -> Option<BusState> {
        let were_up = self.0 == [true; 2];
        match &state {
            BusState::Connected => self.0[lane as usize] = true,
            BusState::Disconnected => self.0[lane as usize] = false,
            BusState::Slow | BusState::Trouble(_) => return Some(state),
        }
        (were_up != (self.0 == [true; 2])).then_some(state)
    }
}

/// The servers of NATS.
struct Nats {
    /// By lane.
    clients: [Client; 2],
    subjects: Subjects,
    /// A message was too long for the servers, and that was told.
    told_too_long: AtomicBool,
}

impl Wire for Nats {
    fn publish(&self, place: Place, envelope: Bytes) -> Sending<'_> {
        Box::pin(async move {
            let len = envelope.len();
            let Err(error) = self.clients[place.lane() as usize].publish(self.subjects.at(place), envelope).await
            else {
                return;
            };
            let is_too_long = error.kind() == PublishErrorKind::MaxPayloadExceeded;
            if is_too_long && !self.told_too_long.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    "the servers of cluster_bus take no message of {len} bytes: set max_payload to 1MB there"
                );
            }
            tracing::debug!("a message of {len} bytes is not sent over the bus: {error}");
        })
    }

    fn flush(&self) -> Sending<'_> {
        Box::pin(async move {
            for client in &self.clients {
                if let Err(error) = client.flush().await {
                    tracing::debug!("the last messages may not have been sent over the bus: {error}");
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bus_is_there_while_both_connections_are() {
        let mut both = Both::default();
        let (up, down) = (BusState::Connected, BusState::Disconnected);
        assert_eq!(both.hear(Lane::Bulk, up.clone()), None);
        assert_eq!(both.hear(Lane::Talk, up.clone()), Some(up.clone()));
        assert_eq!(both.hear(Lane::Talk, down.clone()), Some(down.clone()));
        assert_eq!(both.hear(Lane::Bulk, down), None);
        assert_eq!(both.hear(Lane::Talk, up.clone()), None);
        assert_eq!(both.hear(Lane::Bulk, BusState::Slow), Some(BusState::Slow));
        assert_eq!(both.hear(Lane::Bulk, up.clone()), Some(up));
    }
}
