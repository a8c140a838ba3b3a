//! What all connections of a member share: who is linked, what waits to be sent, what strangers may cost.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use openssl::error::ErrorStack;
use openssl::ssl::SslContext;
use rt::Rt;
use share::{Lane, Node, SendResult, To};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use wire::Network;

use crate::beats::Beats;
use crate::options::Options;
use crate::pair::{Candidate, Change, ConnectionId, Pair};
use crate::tls;
use peers::ahead::Ahead;
use peers::changes::{Changes, Flag};
use peers::copied_hosts::CopiedHosts;
use peers::failed::Failed;
use peers::guard::Guard;
use peers::inbox::Inbox;
use peers::kind::LinkNumber;
use peers::members::{Members, SelfReport, Standing};
use peers::proof::{Fingers, fingers};
use peers::queue::{LaneQueue, push_to_each};
use peers::roster::Roster;
use peers::status::{LinkStatus, PeerInfo, WaitingMember};
use peers::target::Target;

/// The middle of all connections of a member.
pub(crate) struct Hub {
    pub rt: Rt,
    pub options: Options,
    pub members: Arc<dyn Members>,
    pub node: Node,
    pub boot: u64,
    started: Instant,
    pub tls: SslContext,
    pub fingers: Fingers,
    pub inbox: Inbox,
    state: Mutex<State>,
    guard: Mutex<Guard>,
    /// Changes with each connection that comes or goes.
    changed: Changes,
    /// Changes when members were decided about: whoever was refused is dialled again.
    decided: Changes,
}

#[derive(Default)]
struct State {
    next: u64,
    roster: Roster,
    copied_hosts: CopiedHosts,
    peers: BTreeMap<Node, Peer>,
    /// Ordered, so that a simulation closes them in the same order each time.
    connections: BTreeMap<ConnectionId, (Node, AbortHandle)>,
    stopped: bool,
}

struct Peer {
    pair: Pair,
    link: Option<Arc<Link>>,
}

/// A proven connection that may become part of a link.
pub(crate) struct Offer {
    pub node: Node,
    pub lane: Lane,
    pub dialled: bool,
    /// The boot of the peer.
    pub boot: u64,
    /// The last link that the peer has lost.
    pub lost: LinkNumber,
    /// The host of the peer.
    pub address: IpAddr,
    pub info: PeerInfo,
}

/// What the connections of one link share.
pub(crate) struct Link {
    /// Names the link in this process.
    pub id: u64,
    pub node: Node,
    pub queues: [LaneQueue; 2],
    pub up: Flag,
    pub health: Mutex<Health>,
}

/// What pings have shown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Health {
    pub beats: Beats,
    /// By how many milliseconds the clock of the peer is ahead.
    pub clock: Option<i64>,
    /// How far its clock that never jumps is ahead.
    pub ahead: Ahead,
}

impl Hub {
    pub fn new(rt: Rt, options: Options, members: Arc<dyn Members>) -> Result<Hub, ErrorStack> {
        let tls = tls::context(&options.key)?;
        let node = Node::of_key(&options.key.public());
        // Numbers of the format have 63 bits.
        let boot = u64::from_le_bytes(rt.bytes()) >> 1;
        let fingers = fingers(&options.credentials);
        let (state, guard, changed) = (Mutex::default(), Mutex::default(), Changes::default());
        let (inbox, decided) = (Inbox::default(), Changes::default());
        let started = Instant::now();
        Ok(Hub { rt, options, members, node, boot, started, tls, fingers, inbox, state, guard, changed, decided })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn guard(&self) -> MutexGuard<'_, Guard> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time of both clocks: the one that never jumps, and the wall clock.
    fn time(&self) -> (std::time::Instant, SystemTime) {
        (Instant::now().into_std(), self.rt.now())
    }

    /// Returns the clock that never jumps, in milliseconds.
    pub fn steady(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// Returns how long ago a linked member sent something, by its clock that never jumps.
    pub fn age(&self, node: Node, sent: u64) -> Option<Duration> {
        let link = self.up(To::Member(node)).pop()?;
        let ahead = link.health.lock().unwrap_or_else(PoisonError::into_inner).ahead;
        ahead.age(sent, self.steady())
    }

    // === strangers ===

    pub fn enter(&self, address: IpAddr) -> bool {
        self.guard().enter(address.into(), self.time().0)
    }

    pub fn leave(&self, address: IpAddr) {
        self.guard().leave(address.into());
    }

    pub fn wrong_proof(&self, address: IpAddr) {
        self.guard().wrong_proof(address.into(), self.time().0);
    }

    /// Keeps places for an address where a member is looked for or has proven itself.
    pub fn reserve(&self, address: IpAddr) {
        self.guard().reserve(address.into(), self.time().0);
    }

    /// Notes and logs why a connection from this address became no link.
    pub fn answered_in_vain(&self, address: IpAddr, failed: &Failed) {
        self.guard().failed(address.into(), self.time().0);
        self.log(&Network::from(address).to_string(), &address, failed);
    }

    /// Notes and logs why dialling this address gave no link.
    pub fn dialled_in_vain(&self, target: &Target, failed: &Failed) {
        let address = &target.address;
        self.state().roster.failed(address, failed, self.time().0);
        match failed {
            Failed::Linked | Failed::Myself => {}
            // A member may say of itself that it is somewhere where others do not reach it.
            _ if target.member.is_some() => tracing::debug!("no link with the master at {address}: {failed}"),
            _ => self.log(address, address, failed),
        }
    }

    /// Logs why a connection became no link, once an hour for each place and reason.
    fn log(&self, place: &str, address: &dyn fmt::Display, failed: &Failed) {
        if self.guard().may_log(place, failed.word(), self.time().0) {
            tracing::warn!("no link with the master at {address}: {failed}");
        } else {
            tracing::debug!("no link with the master at {address}: {failed}");
        }
    }

    /// Notes that a newcomer could not prove that it belongs to the set.
    pub fn waits(&self, waiting: WaitingMember) {
        let newcomer = waiting.newcomer.clone();
        let now = self.time().0;
        // Told once, when it begins: it calls again every few seconds.
        if self.state().roster.waits(waiting, now) {
            self.members.waits(&newcomer);
        }
    }

    /// Notes that a node that is no member is refused.
    pub fn turned_away(&self, node: Node, info: PeerInfo, address: IpAddr, failed: &Failed) {
        self.state().roster.turned_away(node, info, Some(address), failed, self.time());
    }

    // === what people ask ===

    pub fn set_addresses(&self, targets: &[Target]) {
        self.state().roster.set_addresses(targets, self.time().1);
    }

    /// Notes who has answered at an address that was dialled.
    pub fn answered(&self, address: &str, node: Node) {
        self.state().roster.answered(address, node);
    }

    /// Notes why a member is not linked.
    pub fn refused(&self, node: Node, failed: &Failed) {
        self.state().roster.refused(node, failed, self.time());
    }

    /// Notes a report of a member.
    pub fn reported(&self, node: Node, report: SelfReport) {
        self.members.heard_report(node, &report);
        self.state().roster.reported(node, report);
    }

    pub fn info(&self, node: Node) -> Option<PeerInfo> {
        self.state().roster.info(node).cloned()
    }

    /// Returns the newcomers that wait. One that was accepted meanwhile does not.
    pub fn waiting(&self) -> Vec<WaitingMember> {
        let mut waiting = self.state().roster.waiting(self.time().0);
        waiting.retain(|waiting| self.members.standing(waiting.newcomer.node) == Standing::Stranger);
        waiting
    }

    pub fn statuses(&self) -> Vec<LinkStatus> {
        let mut statuses = self.state().roster.statuses(self.time().0);
        for status in &mut statuses {
            let Some(link) = status.node.and_then(|node| self.up(To::Member(node)).pop()) else { continue };
            let health = *link.health.lock().unwrap_or_else(PoisonError::into_inner);
            (status.rtt, status.clock, status.unanswered) =
                (health.beats.rtt(), health.clock, health.beats.unanswered());
            status.queue_bytes = link.queues.iter().map(LaneQueue::bytes).sum();
        }
        statuses
    }

    // === links ===

    /// Returns the last link with a peer that this member has lost.
    pub fn lost(&self, peer: Node) -> LinkNumber {
        self.state().peers.get(&peer).map_or(LinkNumber::default(), |peer| peer.pair.lost())
    }

    /// Returns the host of a member that is linked, if this boot is of another host with the same member key.
    pub fn copied_host(&self, peer: Node, boot: u64) -> Option<IpAddr> {
        let state = self.state();
        let linked = state.peers.get(&peer).is_some_and(|peer| peer.link.is_some());
        linked.then(|| state.copied_hosts.runs_elsewhere(peer, boot)).flatten()
    }

    /// Waits until a connection for this lane is missing. Of nobody is known which node he is before he is dialled.
    pub async fn lacks(&self, node: Option<Node>, lane: Lane) {
        let lacks = |node| self.state().peers.get(&node).is_none_or(|peer| peer.pair.lacks(lane));
        self.changed.until(|| node.is_none_or(lacks)).await;
    }

    /// Returns what changes when members are decided about.
    pub fn decided(&self) -> &Changes {
        &self.decided
    }

    /// Adds a proven connection to its link, and lets `spawn` run it; gives it back if it does not count.
    pub fn join<C>(
        &self,
        offer: Offer,
        number: u64,
        connection: C,
        spawn: impl FnOnce((ConnectionId, u64), Arc<Link>, C) -> AbortHandle,
    ) -> Option<C> {
        let Offer { node, lane, boot, lost, address, .. } = offer;
        let mut state = self.state();
        // It may have been removed since it has proven itself.
        if state.stopped || self.members.standing(node) == Standing::Removed {
            return Some(connection);
        }
        state.next += 1;
        let id = state.next;
        let dialled_by_lower = offer.dialled == (self.node < node);
        let new = Candidate { id, lane, dialled_by_lower, boot, lost };
        let fresh = || Peer { pair: Pair::new(self.node, node, self.boot), link: None };
        let pair = &mut state.peers.entry(node).or_insert_with(fresh).pair;
        let change = if pair.decides() { pair.offer(new) } else { pair.follow(new, number) };
        let Some(change) = change else { return Some(connection) };
        let number = pair.number();
        self.apply(&mut state, node, &change, "another connection took its place");
        let link = self.link(&mut state, node);
        state.roster.introduced(node, offer.info, self.time().1);
        state.copied_hosts.linked(node, boot, address);
        let handle = spawn((id, number), link.clone(), connection);
        state.connections.insert(id, (node, handle));
        if change.up {
            state.roster.up(node, self.time().1);
            self.inbox.up(node, link.id);
            link.up.raise();
        }
        drop(state);
        self.changed.note();
        None
    }

    fn link(&self, state: &mut State, node: Node) -> Arc<Link> {
        state.next += 1;
        let queue = || LaneQueue::new(self.options.queue);
        let (id, queues) = (state.next, [queue(), queue()]);
        let peer = state.peers.get_mut(&node).expect("its pair exists");
        let fresh = || Link { id, node, queues, up: Flag::default(), health: Mutex::default() };
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
        self.changed.note();
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
            state.roster.down(node, reason, self.time());
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
            state.roster.forget(node);
            state.copied_hosts.forget(node);
        }
        drop(state);
        self.changed.note();
        self.decided.note();
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
        let queues = links.iter().map(|link| (link.node, &link.queues[lane as usize]));
        push_to_each(queues, message, |node, is_first| {
            self.state().roster.dropped(node);
            if is_first {
                self.inbox.overflowed(node);
            }
        })
    }

    /// Says goodbye on all links, and takes no connections any more. Waits until it is said, for a second at most.
    pub async fn stop(&self) {
        self.state().stopped = true;
        self.up(To::All).iter().for_each(|link| link.queues[Lane::Talk as usize].say_goodbye("it was stopped"));
        let said = self.changed.until(|| self.linked().is_empty());
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
