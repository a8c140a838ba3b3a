//! The state of a simulated world, and the task that delivers what is due.
//!
//! Everything in flight is in one heap, ordered by the time it is due and then by the order it was sent in, so what happens
//! follows from the seed. Connections behave like TCP: data sent into a cut link arrives late, once the link is restored, and
//! only if both ends still exist.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::life::Life;
use super::net::SimStream;
use crate::Keepalive;

/// The bytes that may be in flight in one direction before the sender has to wait.
pub(crate) const WINDOW: usize = 256 << 10;

/// The latency of ordinary packets in milliseconds.
const LATENCY: std::ops::RangeInclusive<u64> = 1..=4;

/// The longest pause between retransmissions.
const LONGEST_RETRY: Duration = Duration::from_secs(32);

/// The first pause before a retransmission.
const FIRST_RETRY: Duration = Duration::from_millis(200);

/// Linux probes an idle connection after two hours by default, and again after this interval.
const IDLE: Duration = Duration::from_secs(7200);
const INTERVAL: Duration = Duration::from_secs(75);

pub(crate) struct World {
    pub(crate) start: Instant,
    state: Mutex<State>,
    sooner: Notify,
}

pub(crate) struct State {
    pub(crate) random: StdRng,
    pub(crate) hosts: Vec<Host>,
    pub(crate) trace: Vec<String>,
    pub(crate) listeners: BTreeMap<(usize, u16), Listening>,
    links: BTreeMap<(usize, usize), Path>,
    /// How many bytes each host has sent to each other one.
    pub(crate) sent: BTreeMap<(usize, usize), u64>,
    pipes: BTreeMap<u64, Pipe>,
    next: u64,
    due: BinaryHeap<Reverse<Due>>,
}

/// A host, and the current run of its program.
pub(crate) struct Host {
    pub(crate) name: Arc<str>,
    pub(crate) ip: IpAddr,
    pub(crate) life: Arc<Life>,
    /// Without power nothing arrives and nothing leaves.
    pub(crate) power: bool,
    /// The clock error in microseconds.
    pub(crate) skew: i64,
    pub(crate) resolves: bool,
    next_port: u16,
}

/// The link from one host to another.
#[derive(Clone, Default)]
struct Path {
    cut: Option<Instant>,
    slow: Duration,
    /// Lost packets in percent.
    loss: u32,
    /// Pipes with data that could not leave.
    held: BTreeSet<u64>,
}

pub(crate) struct Listening {
    pub(crate) at: SocketAddr,
    pub(crate) life: u64,
    pub(crate) keepalive: Option<Keepalive>,
    pub(crate) waiting: VecDeque<(SimStream, SocketAddr, SocketAddr)>,
    pub(crate) waker: Option<Waker>,
}

/// One direction of a connection.
pub(crate) struct Pipe {
    from: End,
    to: End,
    back: u64,
    pub(crate) inbox: VecDeque<Bytes>,
    pub(crate) in_flight: usize,
    pub(crate) fin: bool,
    pub(crate) broken: Option<io::ErrorKind>,
    pub(crate) reader: Option<Waker>,
    pub(crate) writer: Option<Waker>,
    reader_gone: bool,
    closed: bool,
    held: VecDeque<Item>,
    last_due: Instant,
    heard: Instant,
    probes: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) host: usize,
    pub(crate) life: u64,
}

pub(crate) enum Item {
    Data(Bytes),
    Fin,
    Reset,
}

struct Due {
    at: Instant,
    number: u64,
    what: Delivery,
}

enum Delivery {
    Arrive(u64, Item),
    Syn(Syn),
    Probe(u64, Keepalive),
    Refused(oneshot::Sender<io::Result<Answered>>),
    Answer(oneshot::Sender<io::Result<Answered>>, Answered),
}

pub(crate) struct Syn {
    pub(crate) from: End,
    pub(crate) local: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) tries: u32,
    pub(crate) keepalive: Option<Keepalive>,
    pub(crate) answer: oneshot::Sender<io::Result<Answered>>,
}

/// An established connection, as its initiator sees it.
pub(crate) struct Answered {
    pub(crate) stream: SimStream,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    // The number makes the order total: things due at the same time happen in the order in which they were sent.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl World {
    pub(crate) fn new(seed: u64) -> Arc<Self> {
        let state = State {
            random: StdRng::seed_from_u64(seed),
            hosts: Vec::new(),
            trace: Vec::new(),
            listeners: BTreeMap::new(),
            links: BTreeMap::new(),
            sent: BTreeMap::new(),
            pipes: BTreeMap::new(),
            next: 0,
            due: BinaryHeap::new(),
        };
        Arc::new(World { start: Instant::now(), state: Mutex::new(state), sooner: Notify::new() })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Delivers what is due, for ever.
    pub(crate) async fn carry(self: Arc<Self>) {
        loop {
            // Registered before looking: what is sent meanwhile must not be missed.
            let sooner = self.sooner.notified();
            let next = self.deliver_due();
            match next {
                Some(at) => drop(tokio::time::timeout_at(at, sooner).await),
                None => sooner.await,
            }
        }
    }

    fn deliver_due(self: &Arc<Self>) -> Option<Instant> {
        let now = Instant::now();
        loop {
            let what = {
                let mut state = self.state();
                match state.due.peek() {
                    None => return None,
                    Some(Reverse(next)) if next.at > now => return Some(next.at),
                    Some(_) => state.due.pop().map(|Reverse(due)| due.what),
                }
            };
            // Dropping a stream may send something, so the lock must not be held.
            let left = what.and_then(|what| self.bring(what, now));
            drop(left);
        }
    }

    fn bring(self: &Arc<Self>, what: Delivery, now: Instant) -> Option<io::Result<Answered>> {
        match what {
            Delivery::Arrive(pipe, item) => {
                self.state().arrive(pipe, item, now);
                None
            }
            Delivery::Probe(pipe, keepalive) => {
                self.state().probe(pipe, keepalive, now);
                None
            }
            // Handed back if nobody waits any more: dropped by the caller, outside the lock.
            Delivery::Refused(answer) => answer.send(Err(io::ErrorKind::ConnectionRefused.into())).err(),
            Delivery::Answer(answer, answered) => answer.send(Ok(answered)).err(),
            Delivery::Syn(syn) => {
                self.meet(syn, now);
                None
            }
        }
    }

    /// Sends something, and wakes the delivering task.
    pub(crate) fn send(&self, pipe: u64, item: Item) {
        let sooner = {
            let mut state = self.state();
            state.send(pipe, item, Instant::now());
            state.newest_is_next()
        };
        if sooner {
            self.sooner.notify_one();
        }
    }

    pub(crate) fn ask(&self, syn: Syn) {
        {
            let mut state = self.state();
            let at = Instant::now() + state.latency(syn.from.host, syn.from.host);
            state.schedule(at, Delivery::Syn(syn));
        }
        // The courier may be asleep until a later time.
        self.sooner.notify_one();
    }

    /// Removes everything that is in flight or waits to be accepted, and the trace.
    pub(crate) fn empty(&self) -> impl Sized + use<> {
        let mut state = self.state();
        let trace = std::mem::take(&mut state.trace);
        (std::mem::take(&mut state.due), std::mem::take(&mut state.listeners), trace)
    }

    pub(crate) fn wake_courier(&self) {
        self.sooner.notify_one();
    }

    /// Handles the first packet of a connection: it arrives, or it is lost.
    fn meet(self: &Arc<Self>, mut syn: Syn, now: Instant) {
        let mut state = self.state();
        // The program has given up or was restarted: the kernel's retries end with it.
        if syn.answer.is_closed() || state.hosts[syn.from.host].life.number != syn.from.life {
            return;
        }
        let to = if syn.to.ip().is_loopback() {
            Some(syn.from.host)
        } else {
            state.hosts.iter().position(|host| host.ip == syn.to.ip())
        };
        let from = syn.from.host;
        let Some(to) = to.filter(|to| state.open(from, *to) && state.open(*to, from) && !state.lost(from, *to)) else {
            // Linux doubles the pause between SYNs, from one second on.
            let wait = Duration::from_secs(1 << syn.tries.min(5));
            syn.tries += 1;
            state.schedule(now + wait, Delivery::Syn(syn));
            return;
        };
        let back = now + state.latency(from, to) + state.latency(to, from);
        let Some(listening) = state.listeners.get(&(to, syn.to.port())).filter(|known| known.hears(&syn.to)) else {
            // A port without a listener answers; only a silent host makes the caller wait.
            state.schedule(back, Delivery::Refused(syn.answer));
            return;
        };
        let (there, hears) = (End { host: to, life: listening.life }, listening.keepalive);
        let (near, far) = state.connect(self, syn.from, there, now);
        let peer = SocketAddr::new(state.hosts[from].ip, syn.local.port());
        let peer = if syn.to.ip().is_loopback() { syn.local } else { peer };
        for (end, keepalive) in [(&near, syn.keepalive), (&far, hears)] {
            if let Some(keepalive) = keepalive {
                state.schedule(back + keepalive.idle.unwrap_or(IDLE), Delivery::Probe(end.inbound, keepalive));
            }
        }
        let answered = Answered { stream: near, peer: syn.to, local: peer };
        state.schedule(back, Delivery::Answer(syn.answer, answered));
        if let Some(listening) = state.listeners.get_mut(&(to, syn.to.port())) {
            // The kernel completes the handshake: connections are there before the program accepts them.
            listening.waiting.push_back((far, peer, syn.to));
            if let Some(waker) = listening.waker.take() {
                waker.wake();
            }
        }
    }
}

impl Listening {
    fn hears(&self, to: &SocketAddr) -> bool {
        self.at.ip().is_unspecified() || self.at.ip() == to.ip()
    }
}

impl State {
    pub(crate) fn add_host(&mut self, name: &str, ip: IpAddr) -> usize {
        let number = self.hosts.len();
        let name: Arc<str> = name.into();
        self.hosts.push(Host {
            life: Life::new(number, 0, name.clone()),
            name,
            ip,
            power: true,
            skew: 0,
            resolves: true,
            next_port: 40_000,
        });
        number
    }

    pub(crate) fn host(&self, name: &str) -> Option<usize> {
        self.hosts.iter().position(|host| *host.name == *name)
    }

    pub(crate) fn free_port(&mut self, host: usize) -> u16 {
        let port = &mut self.hosts[host].next_port;
        // Above the ports that services of the simulation use.
        *port = if *port == u16::MAX { 40_000 } else { *port + 1 };
        *port
    }

    pub(crate) fn pipe(&mut self, number: u64) -> Option<&mut Pipe> {
        self.pipes.get_mut(&number)
    }

    /// Describes both directions of all connections: from where to where, in which runs of the programs, and what has ended.
    pub(crate) fn directions(&self) -> Vec<String> {
        let name = |end: End| {
            let host = &self.hosts[end.host];
            format!("{}{}", host.name, if host.life.number == end.life { "" } else { " (gone)" })
        };
        let flags = |pipe: &Pipe| {
            let said = [(pipe.fin, "ended"), (pipe.broken.is_some(), "broken"), (pipe.reader_gone, "unread")];
            said.iter().filter(|(is, _)| *is).map(|(_, word)| format!(" {word}")).collect::<String>()
        };
        let word = |pipe: &Pipe| format!("{} to {}{}", name(pipe.from), name(pipe.to), flags(pipe));
        self.pipes.values().map(word).collect()
    }

    /// Returns whether what was sent last is due first, so that the delivering task has to wake up earlier.
    fn newest_is_next(&self) -> bool {
        self.due.peek().is_some_and(|Reverse(first)| first.number == self.next)
    }

    fn path(&mut self, from: usize, to: usize) -> &mut Path {
        self.links.entry((from, to)).or_default()
    }

    /// Returns whether packets pass from one host to another.
    fn open(&self, from: usize, to: usize) -> bool {
        // A host always reaches itself.
        let cut = from != to && self.links.get(&(from, to)).is_some_and(|path| path.cut.is_some());
        !cut && self.hosts[from].power && self.hosts[to].power
    }

    fn lost(&mut self, from: usize, to: usize) -> bool {
        let percent = self.links.get(&(from, to)).map_or(0, |path| path.loss);
        // Nothing is drawn on a link without loss, so that the seed's numbers go to the faults that were asked for.
        percent > 0 && self.random.random_range(0..100) < percent
    }

    pub(crate) fn latency(&mut self, from: usize, to: usize) -> Duration {
        if from == to {
            // Never zero: an answer must not arrive in the moment of the question.
            return Duration::from_millis(1);
        }
        let slow = self.links.get(&(from, to)).map_or(Duration::ZERO, |path| path.slow);
        Duration::from_millis(self.random.random_range(LATENCY)) + slow
    }

    fn schedule(&mut self, at: Instant, what: Delivery) {
        self.next += 1;
        self.due.push(Reverse(Due { at, number: self.next, what }));
    }

    fn connect(&mut self, world: &Arc<World>, near: End, far: End, now: Instant) -> (SimStream, SimStream) {
        let (there, back) = (self.next + 1, self.next + 2);
        self.next += 2;
        let pipe = |from: End, to: End, back: u64| Pipe {
            from,
            to,
            back,
            inbox: VecDeque::new(),
            in_flight: 0,
            fin: false,
            broken: None,
            reader: None,
            writer: None,
            reader_gone: false,
            closed: false,
            held: VecDeque::new(),
            last_due: now,
            heard: now,
            probes: 0,
        };
        self.pipes.insert(there, pipe(near, far, back));
        self.pipes.insert(back, pipe(far, near, there));
        (SimStream::new(world.clone(), back, there), SimStream::new(world.clone(), there, back))
    }

    pub(crate) fn send(&mut self, number: u64, item: Item, now: Instant) {
        let Some(pipe) = self.pipes.get(&number) else { return };
        let (from, to, life, last, waits) =
            (pipe.from.host, pipe.to.host, pipe.from.life, pipe.last_due, !pipe.held.is_empty());
        // A host without power sends no FIN, and neither does one that has restarted since.
        let host = &self.hosts[from];
        if !host.power || host.life.number != life && !matches!(item, Item::Reset | Item::Fin) {
            return;
        }
        if let Item::Data(bytes) = &item {
            *self.sent.entry((from, to)).or_default() += bytes.len() as u64;
        }
        // What was held goes first: bytes keep their order.
        if waits || !self.open(from, to) {
            self.hold(number, item);
            return;
        }
        let mut at = now + self.latency(from, to);
        let mut again = FIRST_RETRY;
        // Loss is delay: TCP sends again, and the bytes arrive late but whole.
        while self.lost(from, to) && again < LONGEST_RETRY {
            at += again;
            again *= 2;
        }
        // A fast packet must not overtake a slow one of the same connection.
        let at = at.max(last);
        if let Some(pipe) = self.pipes.get_mut(&number) {
            pipe.last_due = at;
        }
        self.schedule(at, Delivery::Arrive(number, item));
    }

    fn hold(&mut self, number: u64, item: Item) {
        let Some(pipe) = self.pipes.get_mut(&number) else { return };
        pipe.held.push_back(item);
        let ends = (pipe.from.host, pipe.to.host);
        self.path(ends.0, ends.1).held.insert(number);
    }

    fn arrive(&mut self, number: u64, item: Item, now: Instant) {
        let Some(pipe) = self.pipes.get(&number) else { return };
        let (to, back) = (pipe.to, pipe.back);
        if !self.hosts[to.host].power {
            // A host without power acknowledges nothing, so its peer keeps the bytes.
            return self.hold(number, item);
        }
        let gone = pipe.reader_gone || self.hosts[to.host].life.number != to.life;
        // Bytes for a program that is gone are answered with a reset; ends and resets are not.
        if gone && matches!(item, Item::Data(_)) {
            return self.refuse(number, back, now);
        }
        let Some(pipe) = self.pipes.get_mut(&number) else { return };
        pipe.heard = now;
        pipe.probes = 0;
        match item {
            Item::Data(bytes) => pipe.inbox.push_back(bytes),
            Item::Fin => pipe.fin = true,
            Item::Reset => {
                pipe.broken = Some(io::ErrorKind::ConnectionReset);
                // A reset ends both directions.
                self.break_pipe(back);
            }
        }
        self.wake_reader(number);
        self.forget(number, back);
    }

    /// Sends a reset to a sender whose bytes nobody accepts.
    fn refuse(&mut self, number: u64, back: u64, now: Instant) {
        if let Some(pipe) = self.pipes.get_mut(&back)
            && !pipe.closed
        {
            pipe.closed = true;
            // From the host itself, whatever program runs on it now.
            let host = pipe.from.host;
            pipe.from.life = self.hosts[host].life.number;
        }
        self.send(back, Item::Reset, now);
        if let Some(pipe) = self.pipes.get_mut(&number) {
            pipe.inbox.clear();
        }
    }

    fn break_pipe(&mut self, number: u64) {
        if let Some(pipe) = self.pipes.get_mut(&number) {
            // The first reason stays: a later one would hide it.
            pipe.broken.get_or_insert(io::ErrorKind::ConnectionReset);
            if let Some(waker) = pipe.writer.take() {
                waker.wake();
            }
        }
    }

    fn wake_reader(&mut self, number: u64) {
        if let Some(waker) = self.pipes.get_mut(&number).and_then(|pipe| pipe.reader.take()) {
            waker.wake();
        }
    }

    /// Notes that the reader of a pipe is gone.
    pub(crate) fn close_reader(&mut self, number: u64) {
        let Some(pipe) = self.pipes.get_mut(&number) else { return };
        pipe.reader_gone = true;
        pipe.inbox.clear();
        let back = pipe.back;
        self.forget(number, back);
    }

    /// Notes that the writer of a pipe has closed it.
    pub(crate) fn close_writer(&mut self, number: u64, now: Instant) {
        let Some(pipe) = self.pipes.get_mut(&number) else { return };
        if !std::mem::replace(&mut pipe.closed, true) {
            self.send(number, Item::Fin, now);
        }
    }

    /// Removes a connection whose ends are both gone, with what is in flight.
    fn forget(&mut self, one: u64, other: u64) {
        let gone = |pipe: Option<&Pipe>| pipe.is_none_or(|pipe| pipe.reader_gone);
        if gone(self.pipes.get(&one)) && gone(self.pipes.get(&other)) {
            self.pipes.remove(&one);
            self.pipes.remove(&other);
        }
    }

    /// Probes a peer, as the kernel of the reading side does.
    fn probe(&mut self, number: u64, keepalive: Keepalive, now: Instant) {
        let Some(pipe) = self.pipes.get(&number) else { return };
        if pipe.reader_gone || pipe.broken.is_some() || pipe.fin {
            return;
        }
        let (idle, interval) = (keepalive.idle.unwrap_or(IDLE), keepalive.interval.unwrap_or(INTERVAL));
        let quiet_until = pipe.heard + idle;
        // Bytes came meanwhile: the idle time starts from them.
        if pipe.probes == 0 && quiet_until > now {
            return self.schedule(quiet_until, Delivery::Probe(number, keepalive));
        }
        let (from, to, back) = (pipe.from, pipe.to, pipe.back);
        let answered = self.open(from.host, to.host) && self.open(to.host, from.host);
        let known = self.hosts[from.host].life.number == from.life;
        let Some(pipe) = self.pipes.get_mut(&number) else { return };
        let broken = match (answered, known) {
            (true, true) => {
                pipe.heard = now;
                pipe.probes = 0;
                None
            }
            // The peer's kernel answers for a program it does not know.
            (true, false) => Some(io::ErrorKind::ConnectionReset),
            (false, _) => {
                pipe.probes += 1;
                // Linux sends nine probes by default.
                (pipe.probes > keepalive.count.unwrap_or(9)).then_some(io::ErrorKind::TimedOut)
            }
        };
        let again = if pipe.probes == 0 { idle } else { interval };
        match broken {
            Some(kind) => {
                pipe.broken = Some(kind);
                self.break_pipe(back);
                self.wake_reader(number);
            }
            None => self.schedule(now + again, Delivery::Probe(number, keepalive)),
        }
    }

    /// Cuts the link from one host to another.
    pub(crate) fn cut(&mut self, from: usize, to: usize, now: Instant) {
        // A second cut does not make the outage shorter.
        self.path(from, to).cut.get_or_insert(now);
    }

    /// Restores the link; held data leaves when its sender retransmits.
    pub(crate) fn mend(&mut self, from: usize, to: usize, now: Instant) {
        let since = self.path(from, to).cut.take();
        self.release(from, to, since.map_or(FIRST_RETRY, |since| now - since), now);
    }

    /// Releases what was held between two hosts, if packets pass.
    fn release(&mut self, from: usize, to: usize, outage: Duration, now: Instant) {
        // One of the two hosts may be without power still.
        if !self.open(from, to) {
            return;
        }
        // A sender doubles its pause after each retransmission, so the next one comes within the length of the outage.
        let longest = outage.clamp(FIRST_RETRY, LONGEST_RETRY).as_millis() as u64;
        for number in std::mem::take(&mut self.path(from, to).held) {
            let wait = Duration::from_millis(self.random.random_range(0..=longest)) + self.latency(from, to);
            let Some(pipe) = self.pipes.get_mut(&number) else { continue };
            let items = std::mem::take(&mut pipe.held);
            let at = pipe.last_due.max(now + wait);
            pipe.last_due = at;
            for item in items {
                self.schedule(at, Delivery::Arrive(number, item));
            }
        }
    }

    /// Makes the link from one host to another slow or lossy.
    pub(crate) fn weaken(&mut self, from: usize, to: usize, slow: Duration, loss: u32) {
        let path = self.path(from, to);
        path.slow = slow;
        path.loss = loss;
    }

    /// Cuts or restores the power of a host.
    pub(crate) fn set_power(&mut self, host: usize, power: bool, now: Instant) {
        self.hosts[host].power = power;
        if power {
            for other in 0..self.hosts.len() {
                // The peers retry on their own; the host itself has forgotten everything.
                self.release(other, host, LONGEST_RETRY / 8, now);
            }
        }
    }

    /// Ends the program of a host: nobody listens any more, and its connections are gone.
    pub(crate) fn bury(&mut self, host: usize) -> Vec<Listening> {
        let name = self.hosts[host].name.clone();
        let number = self.hosts[host].life.number + 1;
        let ports: Vec<_> = self.listeners.keys().filter(|key| key.0 == host).copied().collect();
        let dead: Vec<u64> =
            self.pipes.iter().filter(|(_, pipe)| pipe.from.host == host).map(|(key, _)| *key).collect();
        // What an unplugged host had not sent is lost; a killed program's kernel still sends it.
        for key in dead.iter().filter(|_| !self.hosts[host].power) {
            self.pipes.get_mut(key).expect("it was just found").held.clear();
        }
        self.hosts[host].life = Life::new(host, number, name);
        ports.into_iter().filter_map(|key| self.listeners.remove(&key)).collect()
    }
}
