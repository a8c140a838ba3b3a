//! The carrier as the master sees it: start, send, read reports, stop.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use openssl::error::ErrorStack;
use rt::{Listen, Rt};
use share::{Carrier, Incoming, Lane, Malformed, Node, SendResult, To};
use tokio::task::AbortHandle;

use crate::dial::{KEEPALIVE, dial};
use crate::handshake::own_hello;
use crate::hub::Hub;
use crate::listen::accept;
use crate::options::Options;
use peers::kind::Frame;
use peers::members::Members;
use peers::status::{LinkStatus, PeerInfo, WaitingMember};
use peers::target::Target;

/// Why links could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The member key cannot be used.
    #[error("failed to make a certificate from the member key")]
    Key(#[from] ErrorStack),
    /// Other members would not read what this one says about itself.
    #[error("{0}")]
    Hello(#[from] Malformed),
    /// The address cannot be listened on.
    #[error("failed to listen on {0}")]
    Listen(SocketAddr, #[source] io::Error),
}

/// The links of one member. They end when this is dropped.
pub struct Links {
    hub: Arc<Hub>,
    local: SocketAddr,
    accepting: AbortHandle,
    dialling: Mutex<BTreeMap<Target, [AbortHandle; 2]>>,
}

/// What links report. Whoever reads slowly makes the other members wait, lane by lane.
pub struct Reports(Arc<Hub>);

impl Links {
    /// Starts to listen. Members are dialled when their addresses are set.
    pub async fn start(rt: Rt, options: Options, members: Arc<dyn Members>) -> Result<(Links, Reports), StartError> {
        let at = options.listen;
        let hub = Arc::new(Hub::new(rt, options, members)?);
        Frame::decode(&Frame::Hello(own_hello(&hub, hub.node, false)).encode())?;
        let listen = Listen { keepalive: Some(KEEPALIVE), ..Listen::at(at) };
        let failed = |error| StartError::Listen(at, error);
        let listener = hub.rt.net().listen(&listen).await.map_err(failed)?;
        let local = listener.local_addr().map_err(failed)?;
        let accepting = hub.rt.spawn(accept(hub.clone(), listener)).abort_handle();
        let links = Links { hub: hub.clone(), local, accepting, dialling: Mutex::default() };
        Ok((links, Reports(hub)))
    }

    /// Returns the address that is listened on.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Returns the node of this member.
    pub fn node(&self) -> Node {
        self.hub.node
    }

    /// Sets all addresses that are dialled. Links that are up stay.
    pub fn set_addresses(&self, targets: &[Target]) {
        self.hub.set_addresses(targets);
        let mut dialling = self.dialling.lock().unwrap_or_else(PoisonError::into_inner);
        dialling.retain(|target, tasks| {
            let stays = targets.contains(target);
            if !stays {
                tasks.iter().for_each(AbortHandle::abort);
            }
            stays
        });
        for target in targets {
            let start = |lane| self.hub.rt.spawn(dial(self.hub.clone(), target.clone(), lane)).abort_handle();
            dialling.entry(target.clone()).or_insert_with(|| [start(Lane::Talk), start(Lane::Bulk)]);
        }
    }

    /// Ends links with nodes that were removed from the set, and dials at once whoever was refused before.
    pub fn members_changed(&self) {
        self.hub.drop_strangers();
    }

    /// Returns all members that are linked or were, newcomers that wait, and addresses where nobody has answered yet.
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
        self.hub.up(To::Member(node)).iter().map(|link| link.queues[lane as usize].bytes()).sum()
    }

    /// Returns what a linked member, or one that was linked, has said about itself. It is known when
    /// [`Incoming::Up`] is reported.
    pub fn info(&self, node: Node) -> Option<PeerInfo> {
        self.hub.info(node)
    }

    /// Returns the newcomers that wait until a person accepts them, the oldest first. Up to 100 are remembered, each until it has
    /// not tried for ten minutes. Names are their own choice: two may wait under one name, and their fingerprints tell them apart.
    pub fn waiting(&self) -> Vec<WaitingMember> {
        self.hub.waiting()
    }

    /// Says goodbye to all members, so that they know at once, and ends all links.
    pub async fn stop(&self) {
        self.end_tasks();
        self.hub.stop().await;
    }

    fn end_tasks(&self) {
        self.accepting.abort();
        let dialling = self.dialling.lock().unwrap_or_else(PoisonError::into_inner);
        dialling.values().flatten().for_each(AbortHandle::abort);
    }
}

impl Carrier for Links {
    fn send(&self, to: To, lane: Lane, message: Bytes) -> SendResult {
        self.hub.send(to, lane, &message)
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.end_tasks();
        self.hub.abort();
    }
}

impl Reports {
    /// Waits for the next report.
    pub async fn next(&mut self) -> Incoming {
        self.0.inbox.next().await
    }
}
