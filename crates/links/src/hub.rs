//! What all connections of a member share: who is linked, what waits to be sent, what strangers may cost.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use openssl::error::ErrorStack;
use openssl::ssl::SslContext;
use rt::Rt;
use share::{Lane, Node, SendResult, To};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::connection;
use crate::guard::Guard;
use crate::handshake::{Failed, Met, fingers};
use crate::inbox::Inbox;
use crate::kind::Frame;
use crate::members::{Members, Standing};
use crate::options::Options;
use crate::pair::{Candidate, Change, ConnectionId, LinkNumber, Pair};
use crate::queue::{LaneQueue, Pushed};
use crate::tls;

/// The middle of all connections of a member.
pub(crate) struct Hub {
    pub rt: Rt,
    pub options: Options,
    pub members: Arc<dyn Members>,
    pub node: Node,
    pub boot: u64,
    pub tls: SslContext,
    pub fingers: (Bytes, Bytes),
    pub inbox: Inbox,
    state: Mutex<State>,
    guard: Mutex<Guard>,
    /// Changes with each connection that comes or goes.
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    next: u64,
    peers: BTreeMap<Node, Peer>,
    connections: HashMap<ConnectionId, (Node, AbortHandle)>,
    stopped: bool,
}

struct Peer {
    pair: Pair,
    link: Option<Arc<Link>>,
}

/// What the connections of one link share.
pub(crate) struct Link {
    /// Names the link in this process.
    pub id: u64,
    pub node: Node,
    pub queues: [LaneQueue; 2],
    pub up: watch::Sender<bool>,
    pub health: Mutex<Health>,
}

/// What pings have shown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Health {
    pub pinged: Option<(u64, Instant)>,
    pub rtt: Option<Duration>,
    /// By how many milliseconds the clock of the peer is ahead, its way here included.
    pub clock: i64,
}

impl Hub {
    pub fn new(rt: Rt, options: Options, members: Arc<dyn Members>) -> Result<Hub, ErrorStack> {
        let tls = tls::context(&options.key)?;
        let node = Node::of_key(&options.key.public());
        // Numbers of the format have 63 bits.
        let boot = u64::from_le_bytes(rt.bytes()) >> 1;
        let fingers = fingers(&options.credentials);
        let (state, guard, changed) = (Mutex::default(), Mutex::default(), watch::Sender::new(()));
        Ok(Hub { rt, options, members, node, boot, tls, fingers, inbox: Inbox::default(), state, guard, changed })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn guard(&self) -> MutexGuard<'_, Guard> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // === strangers ===

    pub fn enter(&self, address: IpAddr) -> bool {
        self.guard().enter(address, Instant::now().into_std())
    }

    pub fn leave(&self, address: IpAddr) {
        self.guard().leave(address);
    }

    pub fn wrong_proof(&self, address: IpAddr) {
        self.guard().wrong_proof(address, Instant::now().into_std());
    }

    /// Logs why a connection became no link, once an hour for each address and reason.
    pub fn log(&self, address: &str, failed: &Failed) {
        if self.guard().may_log(address, failed.word(), Instant::now().into_std()) {
            tracing::warn!("no link with the master at {address}: {failed}");
        } else {
            tracing::debug!("no link with the master at {address}: {failed}");
        }
    }

    // === links ===

    /// Returns the last link with a peer that this member has lost.
    pub fn lost(&self, peer: Node) -> LinkNumber {
        self.state().peers.get(&peer).map_or(LinkNumber::default(), |peer| peer.pair.lost())
    }

    /// Waits until a connection for this lane is missing. Of nobody is known which node he is before he is dialled.
    pub async fn lacks(&self, node: Option<Node>, lane: Lane) {
        let mut changed = self.changed.subscribe();
        let lacks = |node| self.state().peers.get(&node).is_none_or(|peer| peer.pair.lacks(lane));
        while node.is_some_and(|node| !lacks(node)) {
            // The sender is part of the hub, and so lives as long as this.
            let _ = changed.changed().await;
        }
    }

    /// Makes a proven connection part of the link, if both members agree.
    pub async fn settle(self: &Arc<Self>, mut met: Met) -> Result<(), Failed> {
        let decides = self.node < met.node;
        let decisions = self.members.decisions();
        if !decides {
            met.send(&Frame::Welcome { number: 0, decisions: decisions.clone() }).await?;
        }
        let Frame::Welcome { number, decisions: theirs } = met.receive().await? else {
            return Err(Failed::Unexpected("frame before welcome"));
        };
        self.members.learn(theirs);
        match self.join(met, number, decisions) {
            None => Ok(()),
            Some(mut met) => {
                met.send(&Frame::Bye(Failed::Linked.to_string())).await?;
                Err(Failed::Linked)
            }
        }
    }

    /// Adds a connection to its link; gives it back if it does not count.
    fn join(self: &Arc<Self>, met: Met, number: u64, decisions: Vec<Bytes>) -> Option<Met> {
        let (node, lane) = (met.node, met.hello.lane);
        let mut state = self.state();
        if state.stopped {
            return Some(met);
        }
        state.next += 1;
        let id = state.next;
        let dialled_by_lower = met.dialled == (self.node < node);
        let new = Candidate { id, lane, dialled_by_lower, boot: met.hello.boot, lost: met.hello.lost };
        let fresh = || Peer { pair: Pair::new(self.node, node, self.boot), link: None };
        let pair = &mut state.peers.entry(node).or_insert_with(fresh).pair;
        let change = if pair.decides() { pair.offer(new) } else { pair.follow(new, number) };
        let Some(change) = change else { return Some(met) };
        let number = pair.number();
        let first = pair.decides().then_some(Frame::Welcome { number, decisions });
        self.apply(&mut state, node, &change, "another connection took its place");
        let link = self.link(&mut state, node);
        let task = connection::run(self.clone(), link.clone(), (id, lane), met, first);
        let handle = self.rt.spawn(task).abort_handle();
        state.connections.insert(id, (node, handle));
        if change.up {
            self.inbox.up(node, link.id);
            link.up.send_replace(true);
        }
        drop(state);
        self.changed.send_replace(());
        None
    }

    fn link(&self, state: &mut State, node: Node) -> Arc<Link> {
        state.next += 1;
        let queue = || LaneQueue::new(self.options.queue);
        let (id, queues) = (state.next, [queue(), queue()]);
        let peer = state.peers.get_mut(&node).expect("its pair exists");
        let fresh = || Link { id, node, queues, up: watch::Sender::new(false), health: Mutex::default() };
        peer.link.get_or_insert_with(|| Arc::new(fresh())).clone()
    }

    /// Notes that a connection has ended.
    pub fn closed(&self, id: ConnectionId, reason: &str) {
        let mut state = self.state();
        if let Some((node, _)) = state.connections.remove(&id) {
            let change = state.peers.get_mut(&node).map(|peer| peer.pair.closed(id)).unwrap_or_default();
            self.apply(&mut state, node, &change, reason);
        }
        drop(state);
        self.changed.send_replace(());
    }

    /// Closes connections that are no part of a link any more.
    fn apply(&self, state: &mut State, node: Node, change: &Change, reason: &str) {
        for id in &change.close {
            if let Some((_, task)) = state.connections.remove(id) {
                task.abort();
            }
        }
        if !change.close.is_empty()
            && let Some(peer) = state.peers.get_mut(&node)
        {
            peer.link = None;
        }
        if change.down {
            self.inbox.down(node, reason);
        }
    }

    /// Ends links with nodes that are no members any more.
    pub fn drop_strangers(&self) {
        let mut state = self.state();
        let nodes: Vec<Node> = state.peers.keys().copied().collect();
        for node in nodes.into_iter().filter(|node| self.members.standing(*node) == Standing::Removed) {
            let change = state.peers.get_mut(&node).map(|peer| peer.pair.end()).unwrap_or_default();
            self.apply(&mut state, node, &change, "it was removed from the set");
            state.peers.remove(&node);
        }
        drop(state);
        self.changed.send_replace(());
    }

    /// Returns the members that are linked.
    pub fn linked(&self) -> Vec<Node> {
        self.up(To::All).into_iter().map(|link| link.node).collect()
    }

    /// Returns the links that are up.
    pub fn up(&self, to: To) -> Vec<Arc<Link>> {
        let state = self.state();
        let up = |peer: &Peer| peer.link.clone().filter(|_| peer.pair.is_up());
        match to {
            To::Member(node) => state.peers.get(&node).and_then(up).into_iter().collect(),
            To::All => state.peers.values().filter_map(up).collect(),
        }
    }

    /// Queues a message. Never waits.
    pub fn send(&self, to: To, lane: Lane, message: &Bytes) -> SendResult {
        let links = self.up(to);
        let full = |link: &Arc<Link>| match link.queues[lane as usize].push(message.clone()) {
            Pushed::Queued => false,
            Pushed::Full { first } => {
                if first {
                    self.inbox.overflowed(link.node);
                }
                true
            }
        };
        // All of them get it: no `any`, which would stop at the first that is full.
        match links.iter().filter(|link| full(link)).count() {
            _ if links.is_empty() => SendResult::Away,
            0 => SendResult::Queued,
            _ => SendResult::Full,
        }
    }

    /// Says goodbye on all links, and takes no connections any more. Waits until it is said, for a second at most.
    pub async fn stop(&self) {
        self.state().stopped = true;
        self.up(To::All).iter().for_each(|link| link.queues[Lane::Talk as usize].say_goodbye("it was stopped"));
        let mut changed = self.changed.subscribe();
        let said = async {
            while !self.linked().is_empty() {
                let _ = changed.changed().await;
            }
        };
        // A peer that does not read notices by itself.
        let _ = tokio::time::timeout(Duration::from_secs(1), said).await;
        self.abort();
    }

    /// Ends all connections.
    pub fn abort(&self) {
        let mut state = self.state();
        state.stopped = true;
        state.connections.values().for_each(|(_, task)| task.abort());
    }
}
