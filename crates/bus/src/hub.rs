//! What a member on the bus knows: who is linked, who greets, what waits, what strangers may cost.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use peers::changes::Changes;
use peers::checks::REMOVED_NOW;
use peers::copied_hosts::CopiedHosts;
use peers::failed::Failed;
use peers::guard::Guard;
use peers::inbox::Inbox;
use peers::kind::Frame;
use peers::members::{Members, Standing};
use peers::proof::{Fingers, fingers};
use peers::queue::{LaneQueue, push_to_each};
use peers::roster::Roster;
use peers::status::{LinkStatus, PeerInfo, WaitingMember};
use rt::Rt;
use share::{Lane, Node, SendResult, To};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::content::Content;
use crate::costs::Costs;
use crate::envelope::{Envelope, SESSION_LEN};
use crate::link::{Link, NOTES};
use crate::options::Options;
use crate::session::Session;
use crate::talk::{Begun, Talk};
use crate::tries::Tries;
use crate::wire::{Place, Wire};

/// Envelopes of handshakes that wait to be sent. What does not fit is lost, as the bus may lose it, too.
pub(crate) const OUT: usize = 256;

/// Envelopes that wait to be sent and belong to no link.
pub(crate) struct Leaving {
    to_members: mpsc::Receiver<(Place, Bytes)>,
    to_strangers: mpsc::Receiver<(Place, Bytes)>,
}

impl Leaving {
    /// Waits for the next one: those for members go first. `None` when the member is gone.
    pub async fn next(&mut self) -> Option<(Place, Bytes)> {
        tokio::select! {
            biased;
            next = self.to_members.recv() => next,
            next = self.to_strangers.recv() => next,
        }
    }
}

/// A member on the bus.
pub(crate) struct Hub {
    pub rt: Rt,
    pub options: Options,
    pub members: Arc<dyn Members>,
    pub node: Node,
    pub boot: u64,
    pub fingers: Fingers,
    pub inbox: Inbox,
    pub wire: Arc<dyn Wire>,
    /// For members, and beats.
    out: mpsc::Sender<(Place, Bytes)>,
    out_to_strangers: mpsc::Sender<(Place, Bytes)>,
    started: Instant,
    state: Mutex<State>,
    guard: Mutex<Guard>,
    costs: Mutex<Costs>,
    /// Changes with each link that comes or goes.
    changed: Changes,
    /// Nodes that tests keep this member from hearing.
    #[cfg(test)]
    deaf: Mutex<std::collections::BTreeSet<Node>>,
}

#[derive(Default)]
pub(crate) struct State {
    next: u64,
    pub roster: Roster,
    pub links: BTreeMap<Node, Arc<Link>>,
    /// Greetings that wait for an answer.
    pub begun: BTreeMap<Node, Begun>,
    /// Those who know each other's greeting, and are no link yet.
    pub talks: BTreeMap<[u8; SESSION_LEN], Talk>,
    pub tries: Tries,
    copied_hosts: CopiedHosts<()>,
    connected: Option<bool>,
    /// Why there is no connection to the servers.
    problem: String,
    /// The loss of the servers was told.
    told: bool,
    pub stopped: bool,
}

impl Hub {
    /// Creates the member, and what takes its handshakes to the wire.
    pub fn new(rt: Rt, options: Options, members: Arc<dyn Members>, wire: Arc<dyn Wire>) -> (Hub, Leaving) {
        let node = Node::of_key(&options.key.public());
        // Numbers of the format have 63 bits.
        let boot = u64::from_le_bytes(rt.bytes()) >> 1;
        let fingers = fingers(&options.credentials);
        let ((out, to_members), (out_to_strangers, to_strangers)) = (mpsc::channel(OUT), mpsc::channel(OUT));
        let (state, guard, costs) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (changed, inbox) = (Changes::default(), Inbox::default());
        let started = Instant::now();
        let hub = Hub {
            rt,
            options,
            members,
            node,
            boot,
            fingers,
            inbox,
            wire,
            out,
            out_to_strangers,
            started,
            state,
            guard,
            costs,
            changed,
            #[cfg(test)]
            deaf: Mutex::default(),
        };
        (hub, Leaving { to_members, to_strangers })
    }

    /// Keeps this member from hearing a node, or lets it hear it again.
    #[cfg(test)]
    pub fn deafen(&self, node: Node, is_deaf: bool) {
        let mut deaf = self.deaf.lock().unwrap();
        match is_deaf {
            true => deaf.insert(node),
            false => deaf.remove(&node),
        };
    }

    #[cfg(test)]
    pub fn is_deaf(&self, envelope: &Envelope) -> bool {
        let (Envelope::Beat { from, .. }
        | Envelope::Greeting(crate::envelope::Greeting { from, .. })
        | Envelope::Sealed(crate::envelope::Sealed { from, .. })) = envelope;
        self.deaf.lock().unwrap().contains(from)
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn guard(&self) -> MutexGuard<'_, Guard> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn costs(&self) -> MutexGuard<'_, Costs> {
        self.costs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time of both clocks: the one that never jumps, and the wall clock.
    pub fn time(&self) -> (std::time::Instant, SystemTime) {
        (Instant::now().into_std(), self.rt.now())
    }

    /// Returns the clock that never jumps, in milliseconds.
    pub fn steady(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// Sends what belongs to no link. What does not fit into the queue is lost. Nothing for members waits behind what is for strangers.
    pub fn say(&self, place: Place, envelope: Bytes) {
        let is_stranger = matches!(place, Place::To(node, _) if self.members.standing(node) != Standing::Member);
        let out = if is_stranger { &self.out_to_strangers } else { &self.out };
        if out.try_send((place, envelope)).is_err() {
            tracing::debug!("too many greetings wait to be sent: one is lost");
        }
    }

    // === servers ===

    /// Reports that messages of everybody may be lost.
    pub fn overflowed(&self) {
        let nodes: Vec<Node> = self.state().links.keys().copied().collect();
        nodes.into_iter().for_each(|node| self.inbox.overflowed(node));
    }

    pub fn connected(&self) {
        let mut state = self.state();
        (state.connected, state.told) = (Some(true), false);
        state.tries.clear();
        drop(state);
        tracing::info!("connected to the servers of cluster_bus ({})", self.options.servers);
        self.beat();
    }

    pub fn is_connected(&self) -> bool {
        self.state().connected == Some(true)
    }

    /// Returns why no server has let this member in; empty before the first attempt has ended.
    pub fn problem(&self) -> Option<String> {
        let state = self.state();
        (state.connected != Some(true)).then(|| state.problem.clone())
    }

    /// Ends all links, and says so once until a server answers.
    pub fn disconnected(&self, reason: &str) {
        let mut state = self.state();
        state.connected = Some(false);
        reason.clone_into(&mut state.problem);
        let tell = !std::mem::replace(&mut state.told, true);
        if tell && !state.stopped {
            tracing::warn!(
                "no connection to the servers of cluster_bus ({}): {reason}. Other masters are away until one answers",
                self.options.servers
            );
        }
        let links: Vec<Arc<Link>> = state.links.values().cloned().collect();
        drop(state);
        links.iter().for_each(|link| self.close(link, "no connection to the servers of cluster_bus"));
    }

    /// Says that this member is there.
    pub fn beat(&self) {
        if self.is_connected() {
            self.say(Place::Beat, Envelope::Beat { from: self.node, boot: self.boot }.encode());
        }
    }

    // === links ===

    /// Makes a link of a session with a proven member, and returns it with what it has to say besides messages; `None` if there can be
    /// none now.
    pub fn add(
        &self,
        (node, boot): (Node, u64),
        session: Session,
        info: PeerInfo,
    ) -> Option<(Arc<Link>, mpsc::Receiver<Content>)> {
        // It may have been removed since it has proven itself.
        if self.members.standing(node) == Standing::Removed {
            return None;
        }
        let old = self.state().links.get(&node).cloned();
        if let Some(old) = old {
            self.close(&old, if old.boot == boot { "it started a new session" } else { "it was restarted" });
        }
        let mut state = self.state();
        if state.stopped || state.connected != Some(true) {
            return None;
        }
        state.next += 1;
        let (notes, noted) = mpsc::channel(NOTES);
        let link = Arc::new(Link::new((state.next, node, boot), session, self.options.queue, notes));
        state.links.insert(node, link.clone());
        state.tries.forget(node);
        state.copied_hosts.linked(node, boot, ());
        let time = self.time().1;
        state.roster.introduced(node, info, time);
        state.roster.up(node, time);
        self.inbox.up(node, link.id);
        drop(state);
        self.changed.note();
        Some((link, noted))
    }

    /// Returns whether a member is linked with a later run than this one: another host has its key.
    pub fn has_copied_host(&self, node: Node, boot: u64) -> bool {
        let state = self.state();
        state.links.contains_key(&node) && state.copied_hosts.runs_elsewhere(node, boot).is_some()
    }

    /// Returns whether a link is up.
    pub fn is_up(&self, link: &Link) -> bool {
        self.state().links.get(&link.node).is_some_and(|last| last.id == link.id)
    }

    /// Ends a link, and tells the peer why.
    pub fn close_saying(&self, link: &Arc<Link>, reason: &str) {
        let bye = Content::Frame(Frame::Bye(reason.to_owned())).encode();
        // The writer may still send a message that it sealed earlier. The peer drops it, because it has closed the link by then.
        if let Ok(sealed) = link.state().session.seal(Lane::Talk, &bye) {
            self.say(Place::To(link.node, Lane::Talk), sealed);
        }
        self.close(link, reason);
    }

    /// Ends a link.
    pub fn close(&self, link: &Arc<Link>, reason: &str) {
        let mut state = self.state();
        let is_last = state.links.get(&link.node).is_some_and(|last| last.id == link.id);
        if is_last {
            state.links.remove(&link.node);
            state.roster.down(link.node, reason, self.time());
            self.inbox.down(link.node, reason);
        }
        drop(state);
        link.abort();
        self.changed.note();
    }

    /// Ends links with nodes that are no members any more, and greets at once whoever was refused before.
    pub fn members_changed(&self) {
        let links: Vec<Arc<Link>> = self.state().links.values().cloned().collect();
        for link in links.iter().filter(|link| self.members.standing(link.node) == Standing::Removed) {
            self.close_saying(link, REMOVED_NOW);
            self.costs().forget(link.node);
            let mut state = self.state();
            state.roster.forget(link.node);
            state.copied_hosts.forget(link.node);
        }
        self.state().tries.clear();
    }

    pub fn linked(&self) -> Vec<Node> {
        self.state().links.keys().copied().collect()
    }

    pub fn links(&self, to: To) -> Vec<Arc<Link>> {
        let state = self.state();
        match to {
            To::Member(node) => state.links.get(&node).cloned().into_iter().collect(),
            To::All => state.links.values().cloned().collect(),
        }
    }

    /// Queues a message. Never waits.
    pub fn send(&self, to: To, lane: Lane, message: &Bytes) -> SendResult {
        let links = self.links(to);
        let queues = links.iter().map(|link| (link.node, &link.queues[lane as usize]));
        push_to_each(queues, message, |node, is_first| {
            self.state().roster.dropped(node);
            if is_first {
                self.inbox.overflowed(node);
            }
        })
    }

    /// Takes note that the model has read a message of a member.
    pub fn was_read(&self, node: Node) {
        if let Some(link) = self.links(To::Member(node)).pop() {
            link.read(self.inbox.unread(node));
        }
    }

    // === what people ask ===

    pub fn age(&self, node: Node, sent: u64) -> Option<Duration> {
        let ahead = self.links(To::Member(node)).pop()?.state().health.ahead;
        ahead.age(sent, self.steady())
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
            let Some(link) = status.node.and_then(|node| self.links(To::Member(node)).pop()) else { continue };
            let health = link.state().health;
            (status.rtt, status.clock, status.unanswered) = (health.rtt, health.clock, health.unanswered);
            status.queue_bytes = link.queues.iter().map(LaneQueue::bytes).sum();
        }
        statuses
    }

    /// Says goodbye to all members. Waits until it is said, for a second at most.
    pub async fn stop(&self) {
        self.state().stopped = true;
        self.links(To::All).iter().for_each(|link| link.queues[Lane::Talk as usize].say_goodbye("it was stopped"));
        let said = async {
            self.changed.until(|| self.linked().is_empty()).await;
            self.wire.flush().await;
        };
        // A server that takes nothing cannot be told.
        let _ = tokio::time::timeout(Duration::from_secs(1), said).await;
        self.abort();
    }

    /// Ends all links.
    pub fn abort(&self) {
        let mut state = self.state();
        state.stopped = true;
        state.links.values().for_each(|link| link.abort());
    }

    // === strangers ===

    /// Returns whether a node is served now that is linked or not; then [`Hub::leave`] must follow.
    pub fn enter(&self, node: Node) -> bool {
        let (mut guard, now) = (self.guard(), self.time().0);
        if self.members.standing(node) == Standing::Member {
            // Strangers cannot take the places of members.
            guard.reserve(network(node).into(), now);
        }
        guard.enter(network(node).into(), now)
    }

    pub fn leave(&self, node: Node) {
        self.guard().leave(network(node).into());
    }

    /// Notes and logs why a greeting led to no link.
    pub fn in_vain(&self, node: Node, name: &str, failed: &Failed) {
        let now = self.time().0;
        // Nodes cost a stranger nothing, so all strangers share their lines in the log.
        let place = match self.members.standing(node) {
            Standing::Stranger => "a stranger".to_owned(),
            Standing::Member | Standing::Removed => format!("{node:?}"),
        };
        match self.guard().may_log(&place, failed.word(), now) {
            true => tracing::warn!("no link over the bus with the master {name:?} ({node:?}): {failed}"),
            false => tracing::debug!("no link over the bus with the master {name:?} ({node:?}): {failed}"),
        }
    }
}

/// Returns what stands for a node where others count networks: nobody on the bus has an address.
pub(crate) fn network(node: Node) -> IpAddr {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&node.0);
    Ipv6Addr::from(bytes).into()
}
