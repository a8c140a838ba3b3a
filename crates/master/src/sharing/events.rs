//! Events of this master on the buses of the others, and theirs on its own.
//!
//! What travels is decided in `share::events`. An event is sent once and not kept: a member that is not linked misses it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use event::{Event, Filter, PEER, STAMP, Source, Subscription, stamp};
use share::event_copies::{CameFrom, content, is_of_program};
use share::events::{EventQueue, EventRate, receivers, refusal, size_of, stays_here};
use share::member::Right;
use share::message::{self, MAX_MESSAGE};
use share::{Carrier as _, Digest, Lane, Message, Node, SendResult, Stamp, To};
use targeting::Glob;
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;
use value::Map;
use wire::MinionId;
use wire::event::SEPARATOR;
use wire::msgpack::{Decode, most_values, unpack_within};

use super::SetLinks;
use super::log::Warnings;
use super::worker::{Work, Worker};
use crate::Shared;

/// How many messages with events of others may wait to be fired, and their bytes together.
const MOST_WAITING: usize = 256;
const MOST_BYTES: usize = 16 << 20;

/// How many events of the bus are routed before something else has its turn.
const TOGETHER: usize = 256;

/// Messages with more bytes go where large things go.
const SMALL: usize = 64 << 10;

/// While more bytes wait in the lane to a member, no event is added: decisions and jobs come first.
const MOST_IN_LANE: usize = 256 << 10;

/// How long events wait for such a lane, in milliseconds. The links do not report when it is empty.
const LOOK_AGAIN: u64 = 50;

/// The option `cluster_events`.
struct Patterns {
    wanted: Vec<Glob>,
    unwanted: Vec<Glob>,
}

impl Patterns {
    fn new(globs: &[String]) -> Patterns {
        let unwanted = globs.iter().filter_map(|glob| glob.strip_prefix('!')).map(Glob::new).collect();
        let mut wanted: Vec<Glob> =
            globs.iter().filter(|glob| !glob.starts_with('!')).map(|glob| Glob::new(glob)).collect();
        if wanted.is_empty() && !globs.is_empty() {
            // Who only leaves something out wants the rest.
            wanted.push(Glob::new("*"));
        }
        Patterns { wanted, unwanted }
    }

    fn want(&self, tag: &str) -> bool {
        let among = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(tag));
        among(&self.wanted) && !among(&self.unwanted)
    }
}

/// Events of other members that wait to be fired.
#[derive(Clone)]
pub struct EventInbox {
    queue: Sender<(Node, Vec<message::Event>)>,
    bytes: Arc<AtomicUsize>,
}

impl EventInbox {
    /// Creates it, with the end that [`run`] reads.
    pub fn new() -> (EventInbox, Receiver<(Node, Vec<message::Event>)>) {
        let (queue, waiting) = tokio::sync::mpsc::channel(MOST_WAITING);
        (EventInbox { queue, bytes: Arc::default() }, waiting)
    }

    fn put(&self, from: Node, events: Vec<message::Event>) -> bool {
        let size = size_of(&events);
        let before = self.bytes.fetch_add(size, Ordering::AcqRel);
        // One message is always taken, however large.
        let taken = (before == 0 || before + size <= MOST_BYTES) && self.queue.try_send((from, events)).is_ok();
        if !taken {
            self.bytes.fetch_sub(size, Ordering::AcqRel);
        }
        taken
    }
}

impl Worker {
    /// Takes events of another member.
    pub(super) fn take_events(&mut self, from: Node, events: Vec<message::Event>) {
        let (count, called) = (events.len(), self.members.called(from));
        let reads = self.members.is_reader(from);
        let events =
            events.into_iter().filter(|event| !(reads && is_of_runner_or_wheel(&event.tag))).collect::<Vec<_>>();
        if events.len() < count {
            self.warn_of_member(&format!(
                "{} events of the master {called} are refused: what runners and wheel functions return is not taken from a reader",
                count - events.len()
            ));
        }
        if !self.members.may(from, Right::Events) {
            return self.warn_of_member(&format!(
                "{count} events of the master {called} are refused: it lacks the right events"
            ));
        }
        if !self.events.put(from, events) {
            self.warn_of_member(&format!("{count} events of the master {called} are lost: too many wait to be fired"));
        }
    }
}

/// Returns whether an event is of a runner or a wheel function: programs that wait for its result believe the first one.
fn is_of_runner_or_wheel(tag: &str) -> bool {
    tag.starts_with("salt/run/") || tag.starts_with("salt/wheel/")
}

/// Sends and fires events until told to stop. `patterns` are those of `cluster_events`.
pub async fn run(
    shared: Arc<Shared>,
    links: SetLinks,
    patterns: Vec<String>,
    inbox: EventInbox,
    mut arriving: Receiver<(Node, Vec<message::Event>)>,
    stop: CancellationToken,
) {
    let mut bus = shared.bus.subscribe(if patterns.is_empty() { Filter::none() } else { Filter::all() });
    let mut courier = Courier::new(shared, links, &patterns);
    loop {
        let due = courier.next();
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Some((from, events)) = arriving.recv() => {
                let bytes = size_of(&events);
                courier.fire(from, events);
                inbox.bytes.fetch_sub(bytes, Ordering::AcqRel);
            }
            Some(event) = bus.next() => courier.route_all(event, &mut bus),
            () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
        }
        courier.send();
    }
}

/// Carries events between the bus of this master and the other members.
struct Courier {
    shared: Arc<Shared>,
    links: SetLinks,
    patterns: Patterns,
    queues: BTreeMap<Node, EventQueue>,
    /// How fast the events of each member come.
    rates: BTreeMap<Node, EventRate>,
    /// When to look again whether the lane to a member has room.
    held: BTreeMap<Node, u64>,
    warnings: Warnings,
    started: Instant,
}

impl Courier {
    fn new(shared: Arc<Shared>, links: SetLinks, patterns: &[String]) -> Courier {
        Courier {
            shared,
            links,
            patterns: Patterns::new(patterns),
            queues: BTreeMap::new(),
            rates: BTreeMap::new(),
            held: BTreeMap::new(),
            warnings: Warnings::default(),
            started: Instant::now(),
        }
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// Returns when something may be sent that waits.
    fn next(&self) -> Option<Instant> {
        let due = |(node, queue): (&Node, &EventQueue)| {
            let held = self.held.get(node).copied().unwrap_or_default();
            queue.next().map(|at| at.max(held))
        };
        self.queues.iter().filter_map(due).min().map(|at| self.started + Duration::from_millis(at))
    }

    fn warn(&mut self, text: &str) {
        if self.warnings.may_log(text, self.now()) {
            warn!("{text}");
        }
    }

    /// Queues an event, and others that are there already.
    fn route_all(&mut self, first: Event, bus: &mut Subscription) {
        let mut linked = self.links.fleet.linked();
        // What minions do is no business of a witness.
        linked.retain(|node| self.links.members.serves_minions(*node));
        self.route(&first, &linked);
        for event in std::iter::from_fn(|| bus.try_next()).take(TOGETHER) {
            self.route(&event, &linked);
        }
        let lost = bus.take_lost();
        if lost > 0 {
            self.warn(&format!("{lost} events did not reach other masters: this master was too slow"));
        }
    }

    /// Queues an event for those members that are to get it.
    fn route(&mut self, event: &Event, linked: &[Node]) {
        let tag = event.tag();
        let (minion, sends_to_all) = match event.source() {
            Source::OtherMaster => return,
            Source::Minion(id) => (Some(id.as_ref()), true),
            Source::ProgramOfMinion(id) => (Some(id.as_ref()), false),
            Source::Host => (None, false),
        };
        if linked.is_empty() || stays_here(tag) || !self.patterns.want(tag) {
            return;
        }
        let now = self.now();
        let wall = self.shared.stores.rt.now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let stamp = Stamp { time: (wall.as_millis() as u64) << 16, node: self.links.node };
        let told =
            message::Event { tag: tag.to_owned(), data: packed_data(event), minion: minion.map(str::to_owned), stamp };
        if let Some(reason) = refusal(&told) {
            return self.warn(&format!("an event is not sent to other masters: {reason}"));
        }
        let minion = minion.filter(|_| sends_to_all);
        let connected = minion.map(|id| self.links.fleet.members_of(id)).unwrap_or_default();
        let minion = minion.map(|id| (id, connected.as_slice()));
        for node in receivers(self.links.node, tag, minion, linked) {
            let queue = self.queues.entry(node).or_insert_with(|| EventQueue::new(now));
            if queue.push(told.clone()) {
                let called = self.links.members.called(node);
                warn!("events do not reach the master {called}: more are fired than it can be sent");
            }
        }
    }

    /// Sends what may be sent now.
    fn send(&mut self) {
        if self.queues.is_empty() {
            return;
        }
        let (linked, now) = (self.links.fleet.linked(), self.now());
        self.queues.retain(|node, _| linked.contains(node));
        self.held.retain(|_, until| *until > now);
        let mut lost = Vec::new();
        for (node, queue) in &mut self.queues {
            if self.held.contains_key(node) {
                continue;
            }
            let Emptied { held, lost: count } = empty(queue, &self.links, *node, now);
            if held {
                self.held.insert(*node, now + LOOK_AGAIN);
            }
            if count > 0 {
                lost.push((*node, count));
            }
            if let Some(dropped) = queue.recovered() {
                warn!("{dropped} events have not reached the master {}", self.links.members.called(*node));
            }
        }
        for (node, count) in lost {
            let called = self.links.members.called(node);
            self.warn(&format!("{count} events have not reached the master {called}: its queue is full"));
        }
    }

    /// Fires events of another member.
    fn fire(&mut self, from: Node, events: Vec<message::Event>) {
        let now = self.now();
        // There are not more members than that, and those that left need no rate.
        if self.rates.len() > 99 {
            self.rates.clear();
        }
        let name = self.links.members.name(from).unwrap_or_default();
        let mut refused = BTreeMap::<&str, usize>::new();
        for event in events {
            let rate = self.rates.entry(from).or_insert_with(|| EventRate::of_sender(now));
            let reason = match rate.take(&event, now) {
                true => self.fire_one(from, &name, event).err(),
                false => Some("it sends too many"),
            };
            if let Some(reason) = reason {
                *refused.entry(reason).or_default() += 1;
            }
        }
        for (reason, count) in refused {
            let called = self.links.members.called(from);
            self.warn(&format!("{count} events of the master {called} are refused: {reason}"));
        }
    }

    fn fire_one(&self, from: Node, name: &str, event: message::Event) -> Result<(), &'static str> {
        if let Some(reason) = refusal(&event) {
            return Err(reason);
        }
        if event.minion.as_ref().is_some_and(|id| MinionId::new(id.as_str()).is_err()) {
            return Err("it names an id that no minion can have");
        }
        let data = unpacked(&event.data).ok_or("its data cannot be read")?;
        if let Some(minion) = event.minion.as_ref().filter(|_| is_of_program(&data)) {
            let content = content(&event.tag, &data);
            if !is_first(&self.links, minion, content, CameFrom::Member(from)) {
                return Ok(());
            }
        }
        let data = marked(data, name, || stamp(self.shared.stores.rt.now()));
        let bus = &self.shared.bus;
        let event = Event::from_source(Source::OtherMaster, event.tag, data, bus.max_size())
            .map_err(|_| "its tag is not valid")?;
        bus.publish(&event);
        Ok(())
    }
}

/// Returns whether no other member has sent this event of a program on a minion.
pub(super) fn is_first_copy(links: &SetLinks, minion: &str, event: &Event) -> bool {
    // These are not sent to others, so each is the only copy.
    if stays_here(event.tag()) {
        return true;
    }
    // Read as others read it, so that they compare the same.
    let data = unpacked(&packed_data(event));
    data.is_none_or(|data| is_first(links, minion, content(event.tag(), &data), CameFrom::Minion))
}

fn is_first(links: &SetLinks, minion: &str, content: Digest, from: CameFrom) -> bool {
    let now = links.links.steady();
    links.copies.lock().unwrap_or_else(PoisonError::into_inner).is_first(minion, content, from, now)
}

fn packed_data(event: &Event) -> Bytes {
    event.bytes().slice(event.tag().len() + SEPARATOR.len()..)
}

fn unpacked(data: &Bytes) -> Option<Map> {
    unpack_within(data, Decode::Utf8, most_values(data.len())).ok()?.into_map()
}

/// What became of a queue.
struct Emptied {
    /// The lane has no room.
    held: bool,
    /// How many events are lost.
    lost: usize,
}

/// Sends a member what waits for it, as far as the rate and its lane allow.
fn empty(queue: &mut EventQueue, links: &SetLinks, to: Node, now: u64) -> Emptied {
    let mut lost = 0;
    while queue.next().is_some() {
        if links.links.queued(to, Lane::Talk) > MOST_IN_LANE {
            return Emptied { held: true, lost };
        }
        let events = queue.take(now);
        if events.is_empty() {
            break;
        }
        let count = events.len();
        if !give(links, to, Message::Events(events)) {
            lost += count;
        }
    }
    Emptied { held: false, lost }
}

/// Names the master on which an event was born. The stamp stays the last entry.
fn marked(mut data: Map, name: &str, now: impl FnOnce() -> String) -> Map {
    data.remove(PEER);
    let stamp = data.remove(STAMP).filter(|stamp| stamp.as_str().is_some());
    data.insert(PEER, name);
    data.insert(STAMP, stamp.unwrap_or_else(|| now().into()));
    data
}

/// Sends a message with events. Returns whether it is on its way.
fn give(links: &SetLinks, to: Node, message: Message) -> bool {
    let bytes = message.encode();
    let lane = if bytes.len() <= SMALL { Lane::Talk } else { Lane::Bulk };
    match bytes.len() <= MAX_MESSAGE {
        true => links.links.send(To::Member(to), lane, bytes) == SendResult::Queued,
        false => links.worker.try_send(Work::Tell(to, message)).is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    fn wanted(globs: &[&str], tag: &str) -> bool {
        Patterns::new(&globs.iter().map(|glob| (*glob).to_owned()).collect::<Vec<_>>()).want(tag)
    }

    #[test]
    fn patterns_with_an_exclamation_mark_leave_tags_out() {
        assert!(wanted(&["*"], "a/b") && !wanted(&[], "a/b"));
        assert!(wanted(&["a/*"], "a/b") && !wanted(&["a/*"], "b/a"));
        assert!(!wanted(&["*", "!a/*"], "a/b") && wanted(&["*", "!a/*"], "b"));
        assert!(!wanted(&["!a/*"], "a/b") && wanted(&["!a/*"], "b"), "who only leaves something out wants the rest");
        assert!(!wanted(&["!a/*", "a/b"], "a/b"), "whatever the order");
    }

    #[test]
    fn an_event_names_its_master_and_keeps_its_stamp() {
        let data = marked(map! { "__peer_id" => "forged", "_stamp" => "then", "n" => 1 }, "m2", || "now".into());
        assert_eq!(data, map! { "n" => 1, "__peer_id" => "m2", "_stamp" => "then" });
        assert_eq!(data.text_keys().last(), Some("_stamp"));
        let data = marked(map! { "_stamp" => 7 }, "m2", || "now".into());
        assert_eq!(data, map! { "__peer_id" => "m2", "_stamp" => "now" });
    }

    #[test]
    fn what_waits_to_be_fired_is_bounded() {
        let (inbox, mut waiting) = EventInbox::new();
        let event = |bytes: usize| {
            let (data, stamp) = (Bytes::from(vec![0; bytes]), Stamp { time: 1, node: Node([1; 8]) });
            vec![message::Event { tag: "a".into(), data, minion: None, stamp }]
        };
        assert!(inbox.put(Node([1; 8]), event(MOST_BYTES)));
        assert!(!inbox.put(Node([1; 8]), event(1)), "together they are too large");
        inbox.bytes.store(0, Ordering::Release);
        assert!((1..MOST_WAITING).all(|_| inbox.put(Node([1; 8]), event(1))));
        assert!(!inbox.put(Node([1; 8]), event(1)), "the queue is full");
        assert!(waiting.try_recv().is_ok());
    }
}
