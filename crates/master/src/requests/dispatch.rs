//! Where requests arrive: opened, handed to their handlers, sealed and sent back.
//!
//! Whatever may touch the disk or cost time runs on threads of its own, as many at once as `worker_threads` says; the rest
//! waits in a line or in the queues of the connections, all of which have bounds. Sign-ins queue apart, and so do costly
//! requests, in which senders take turns: the return of a ping does not wait behind the returns of a thousand highstates, and a
//! minion that asks for much waits for itself.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use channel::server::{Opened, Refused, SealedRequest};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;
use transport::{Incoming, Reply, RequestServer};
use value::Value;
use wire::envelope::{Clear, Envelope};
use wire::loads::AWAIT_FIELD;
use wire::msgpack::{Packing, pack};
use wire::{MinionId, Network};

use super::answer_room::{self, AnswerRoom, Due, Reservation, is_question};
use super::awaiting::{self, Awaiting};
use super::contained::contained;
use super::fair_queue::{Entered, FairQueue};
use super::identified::{Sender, is_proven};
use super::line::Line;
use super::pool::{Full, Pool, Room};
use super::refusals::Refusals;
use super::sign_in::SignIns;
use super::{Answer, Ask, clear, handler, nothing, sealed, sign_in};
use crate::Shared;

/// Takes requests and answers them.
pub struct Dispatcher {
    shared: Arc<Shared>,
    /// Small requests, with the bytes of sealed ones.
    small: Line<(Incoming, usize)>,
    costly: FairQueue<Sender, Costly>,
    /// Bytes of large requests.
    large: Arc<Semaphore>,
    sign_ins: SignIns,
    refusals: Refusals,
    awaiting: Awaiting,
    room: AnswerRoom,
    /// What requests occupy that were opened and wait.
    opened: Pool,
    /// The master stops.
    closing: CancellationToken,
    /// What has begun and is to be finished.
    tasks: TaskTracker,
}

/// The size in bytes from which a request is large.
const LARGE: usize = 16 << 10;

/// What goes along with a request until it is answered.
struct Ticket {
    peer: SocketAddr,
    reply: Reply,
    /// The bytes of the request, if it is sealed.
    bytes: usize,
    /// Room among large requests.
    place: Option<OwnedSemaphorePermit>,
    /// Room for the answer.
    room: Option<Room>,
    /// What the opened request occupies while it waits.
    opened: Option<Room>,
    turn: Turn,
}

/// Whose turn a costly request has had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    None,
    /// That of the sender it claims, to be opened.
    Claimed,
    /// That of its sender, to be handled.
    Own,
}

impl Ticket {
    fn new(peer: SocketAddr, reply: Reply, bytes: usize) -> Self {
        Ticket { peer, reply, bytes, place: None, room: None, opened: None, turn: Turn::None }
    }

    /// Sends an answer, which keeps its room until it is written.
    fn send(mut self, answer: Value) {
        if let Some(mut room) = self.room {
            room.resize(usize::try_from(crate::bounds::size(&answer)).unwrap_or(usize::MAX));
            self.reply.keep_until_written(room);
        }
        self.reply.send(answer);
    }
}

/// A costly request that waits for the turn of its sender.
enum Costly {
    /// It is large and has to be opened first.
    Closed(Result<Envelope, wire::envelope::Error>, Ticket),
    Opened(SealedRequest, Ticket),
}

/// The most small requests that wait here. They are as small as their connections let them be, mostly some hundred bytes.
const MOST_SMALL: u32 = 256;

/// The most bytes of large requests that wait here. Only when there are more do small ones wait behind them, in the queues of
/// the connections: two thousand minions may return a highstate of 50 kB at the same moment before that.
const MOST_LARGE: usize = 128 << 20;

/// The most bytes of large requests of one sender that take room there. What it sends beyond that waits behind its own requests
/// and not in the way of others; the transport bounds it.
const SHARE: usize = 16 << 20;

/// The most costly requests of one sender that wait. Honest ones have some dozen; who has more is not answered and tries again.
const MOST_COSTLY: usize = 2048;

/// The most memory in bytes that opened requests of one sender occupy while they wait. The values of a small request may take
/// sixty times its bytes.
const OPENED_OF_ONE: usize = 64 << 20;

/// The same for all senders.
const OPENED_OF_ALL: usize = 256 << 20;

/// How long a question waits for room.
const ROOM_TIMEOUT: Duration = Duration::from_secs(30);

/// What follows the blocking part of a request.
enum Step {
    Done(Option<Value>),
    /// The request of a minion is to be handled.
    Handle(SealedRequest),
    Wait(futures_util::future::BoxFuture<'static, Value>, Option<SealedRequest>),
    /// A minion whose key waits for an operator has asked to be told at once; what it is told when nobody decides in time.
    Await(Box<Clear>, Duration, Value),
}

impl Dispatcher {
    /// Creates the dispatcher of a master.
    pub fn new(shared: Arc<Shared>) -> Arc<Self> {
        let workers = shared.stores.config.network.worker_threads.max(1);
        // Costly requests are work for processors: more at once would only keep small ones from them.
        let porters = std::thread::available_parallelism().map_or(workers, |processors| workers.min(processors.get()));
        Arc::new(Dispatcher {
            shared,
            small: Line::new(workers, MOST_SMALL),
            costly: FairQueue::new(porters, MOST_COSTLY),
            large: Arc::new(Semaphore::new(MOST_LARGE)),
            sign_ins: SignIns::new(),
            refusals: Refusals::default(),
            awaiting: Awaiting::default(),
            room: AnswerRoom::new(),
            opened: Pool::new(OPENED_OF_ONE, OPENED_OF_ALL),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
        })
    }

    /// Answers requests until told to stop.
    pub async fn attend(self: Arc<Self>, mut requests: RequestServer, stop: CancellationToken) {
        let serving = async {
            while let Some(incoming) = requests.next().await {
                self.receive(incoming).await;
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = serving => {}
        }
        // What has begun is finished, so that what a minion was told is true; the daemon bounds the time.
        self.closing.cancel();
        self.sign_ins.close();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Describes the load of the master, for somebody who looks for a problem.
    pub fn report(&self) -> String {
        let shared = &self.shared;
        let subscribers = shared.publisher.subscribers();
        let known = subscribers.iter().filter(|subscriber| subscriber.minion.is_some()).count();
        let connected = shared.connected();
        let mut text = format!(
            "subscribers: {} ({known} of known minions)\nconnected minions: {}\n",
            subscribers.len(),
            connected.len()
        );
        let lines = [("small requests", self.small.counts()), ("costly requests", self.costly.counts())];
        for (line, (waiting, working)) in lines.into_iter().chain([("sign-ins", self.sign_ins.counts())]) {
            text.push_str(&format!("{line}: {waiting} waiting, {working} threads at work\n"));
        }
        text.push_str(&format!("minions that wait for a decision about their key: {}\n", self.awaiting.count()));
        text.push_str(&format!(
            "requests begun: {}\nlisteners on the event bus: {}\n",
            self.tasks.len(),
            shared.bus.subscribers()
        ));
        text.push('\n');
        text.push_str(&crate::exporter::page(shared));
        text
    }

    /// Puts a request where it belongs, when there is room.
    async fn receive(self: &Arc<Self>, incoming: Incoming) {
        if is_sign_in(&incoming) {
            if self.sign_ins.enter(&self.shared, incoming) {
                self.on_a_thread(|desk| desk.sign_ins.answer_all(&desk.shared, |incoming| desk.answer_small(incoming)));
            }
            return;
        }
        let bytes = match &incoming.envelope {
            Ok(Envelope::Sealed(sealed)) if sealed.load.len() >= LARGE => {
                let sender = Sender::claimed(sealed, incoming.peer.ip());
                return self.receive_large(sender, incoming).await;
            }
            Ok(Envelope::Sealed(sealed)) => sealed.load.len(),
            _ => 0,
        };
        let Some(place) = self.small.place(1).await else { return };
        if self.small.enter((incoming, bytes), place) {
            self.on_a_thread(|desk| {
                desk.small.serve(|(Incoming { envelope, peer, reply }, bytes)| {
                    desk.answer(envelope, Ticket::new(peer, reply, bytes));
                });
            });
        }
    }

    /// Puts a large request where it waits for the turn of its sender.
    async fn receive_large(self: &Arc<Self>, sender: Sender, incoming: Incoming) {
        let Incoming { envelope, peer, reply } = incoming;
        let Ok(Envelope::Sealed(sealed)) = &envelope else { return };
        let bytes = sealed.load.len();
        let waiting = self.costly.waiting_bytes(&sender);
        // Also its first one: a request that takes all the room would stop everybody until this sender has been served.
        let place = match waiting.saturating_add(bytes) > SHARE {
            true => None,
            false => {
                self.large.clone().acquire_many_owned(u32::try_from(bytes.min(MOST_LARGE)).unwrap_or(0)).await.ok()
            }
        };
        let ticket = Ticket { place, ..Ticket::new(peer, reply, bytes) };
        self.attend_to(self.costly.enter(sender, Costly::Closed(envelope, ticket), bytes));
    }

    /// Does what follows when a costly request has been put into the queue.
    fn attend_to(self: &Arc<Self>, entered: Entered<Costly>) {
        match entered {
            Entered::Waits => {}
            Entered::Full(costly) => {
                let (Costly::Closed(_, ticket) | Costly::Opened(_, ticket)) = costly;
                tracing::debug!(peer = %ticket.peer, "a request is not answered: {MOST_COSTLY} of its sender wait already");
            }
            // At a lower priority: costly requests keep the processors busy, and a ping needs little of them.
            Entered::Start => {
                let (desk, begun) = (self.clone(), self.tasks.token());
                self.shared.stores.rt.behind_others(move || {
                    let _begun = begun;
                    desk.take_turns();
                });
            }
        }
    }

    /// Takes costly requests as long as there are senders whose turn it is.
    fn take_turns(self: &Arc<Self>) {
        self.costly.serve(|costly| match costly {
            Costly::Closed(envelope, ticket) => self.answer(envelope, Ticket { turn: Turn::Claimed, ..ticket }),
            // Nobody would hear the answer to a question; what a minion tells counts all the same.
            Costly::Opened(request, ticket) if is_question(&request.cmd) && !ticket.reply.is_awaited() => {}
            Costly::Opened(request, ticket) if ticket.room.is_some() => self.handle(request, ticket),
            Costly::Opened(request, ticket) => self.handle_when_due(request, Ticket { turn: Turn::Own, ..ticket }),
        });
    }

    /// Does what may block, and what the end waits for.
    fn on_a_thread(self: &Arc<Self>, work: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let (desk, begun) = (self.clone(), self.tasks.token());
        self.shared.stores.rt.blocking(move || {
            let _begun = begun;
            work(&desk);
        });
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(self.shared.stores.rt.task(task));
    }

    fn refuse(&self, peer: std::net::SocketAddr, refused: Refused) -> Value {
        self.shared.metrics.refused.count();
        // Lines about a minion with a key have a share of their own, so that strangers cannot hide them.
        let claimed =
            refused.about.as_ref().map(|id| tracing::info_span!("log.peer", peer = id.as_str(), claimed = true));
        let _caused = claimed.map(tracing::Span::entered);
        self.refusals.note(peer.ip(), refused.about.as_ref(), &refused.reason);
        refused.answer.into_value()
    }

    /// Salt's words for a command that is none.
    fn not_exposed(&self, cmd: &str, peer: std::net::SocketAddr) {
        self.shared.metrics.refused.count();
        self.refusals.note(peer.ip(), None, &format!("Requested method not exposed: {}", shortened(cmd)));
    }

    /// Answers a request that has no size worth counting.
    fn answer_small(self: &Arc<Self>, Incoming { envelope, peer, reply }: Incoming) {
        self.answer(envelope, Ticket::new(peer, reply, 0));
    }

    /// Answers a request, or has it answered. Called where it may block.
    fn answer(self: &Arc<Self>, envelope: Result<Envelope, wire::envelope::Error>, ticket: Ticket) {
        let peer = ticket.peer;
        self.follow(ticket, |reply| self.open(envelope, peer, reply));
    }

    /// Has a request of a minion handled.
    fn handle(self: &Arc<Self>, request: SealedRequest, mut ticket: Ticket) {
        // It does not wait any more.
        ticket.opened = None;
        let peer = ticket.peer;
        self.follow(ticket, |_| self.handle_sealed(request, peer));
    }

    /// Makes a step with a request, and has the next one made.
    fn follow(self: &Arc<Self>, mut ticket: Ticket, step: impl FnOnce(&Reply) -> Step) {
        // Until it has proved more, the sender is somebody at an address, whose lines in the log are limited.
        let _caused = tracing::info_span!("log.peer", peer = %Network::from(ticket.peer.ip())).entered();
        // A bug in what answers one request must not take the thread away from the others.
        let step = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| step(&ticket.reply)));
        match step {
            Ok(Step::Done(Some(answer))) => ticket.send(answer),
            Ok(Step::Done(None)) => {}
            Ok(Step::Handle(request)) => self.handle_when_due(request, ticket),
            Ok(Step::Wait(value, request)) => {
                ticket.place = None;
                self.spawn(async move { ticket.send(finish(request.as_ref(), value.await)) });
            }
            Ok(Step::Await(request, time, answer)) => {
                self.await_key(*request, time, answer, (ticket.peer, ticket.reply));
            }
            Err(_) => {
                tracing::error!("a request of {} could not be handled", ticket.peer);
                ticket.send("Some exception handling minion payload".into());
            }
        }
    }

    /// Handles the request of a minion: now, when it is the turn of its sender, or when there is room for its answer.
    fn handle_when_due(self: &Arc<Self>, request: SealedRequest, mut ticket: Ticket) {
        let sender = Sender::of(&request, ticket.peer.ip());
        let wanted = answer_room::reservation(&request.cmd, self.shared.stores.config.files.file_buffer_size);
        let waits_for_turn = ticket.turn != Turn::Own && is_costly(&request, ticket.bytes);
        match self.room.due(&sender, wanted, waits_for_turn) {
            Due::Now(room) => {
                ticket.room = room;
                self.handle(request, ticket);
            }
            Due::InTurn => self.handle_in_turn(sender, request, ticket),
            Due::WithRoom(wanted) => self.handle_with_room(sender, wanted, request, ticket),
        }
    }

    /// Handles a costly request when it is the turn of its sender.
    fn handle_in_turn(self: &Arc<Self>, sender: Sender, request: SealedRequest, mut ticket: Ticket) {
        match self.opened.try_reserve(&sender, crate::bounds::memory(&request.load)) {
            Ok(opened) => {
                ticket.opened = Some(opened);
                let bytes = ticket.bytes;
                self.attend_to(self.costly.enter(sender, Costly::Opened(request, ticket), bytes));
            }
            // A question comes again. What a minion tells is handled at once, so that it does not occupy memory for longer; but
            // nobody gets more threads by sending more small requests than may wait.
            Err(full) if !is_question(&request.cmd) && (full == Full::All || ticket.turn == Turn::Claimed) => {
                self.handle(request, ticket);
            }
            Err(_) => {
                tracing::debug!(peer = %ticket.peer, "a request is not answered: those that wait occupy too much memory");
            }
        }
    }

    /// Handles a question as soon as there is room for its answer. It comes again, so it need not wait here.
    fn handle_with_room(
        self: &Arc<Self>,
        sender: Sender,
        wanted: Reservation,
        request: SealedRequest,
        mut ticket: Ticket,
    ) {
        if ticket.opened.is_none() {
            ticket.opened = self.opened.try_reserve(&sender, crate::bounds::memory(&request.load)).ok();
        }
        if self.room.is_crowded(&sender, wanted) || ticket.opened.is_none() {
            tracing::debug!(peer = %ticket.peer, "a request is not answered: there is no room for its answer");
            return;
        }
        // Who waits for itself must not keep others from their place.
        ticket.place = None;
        let desk = self.clone();
        self.spawn(async move {
            ticket.room = tokio::select! {
                biased;
                () = desk.closing.cancelled() => return,
                () = ticket.reply.gone() => return,
                // Answers of a connection are sent in the order of its requests, so a request may wait for room that answers
                // behind it hold. The minion asks again.
                () = tokio::time::sleep(ROOM_TIMEOUT) => return,
                room = desk.room.reserve(&sender, wanted) => room,
            };
            let bytes = ticket.bytes;
            match is_costly(&request, bytes) {
                true => desk.attend_to(desk.costly.enter_first(sender, Costly::Opened(request, ticket), bytes)),
                false => desk.on_a_thread(move |desk| contained(|| desk.handle(request, ticket))),
            }
        });
    }

    /// Keeps a sign-in until somebody has decided about the key, the time is over, or the minion has gone. Who finds no room is
    /// answered at once.
    fn await_key(self: &Arc<Self>, mut request: Clear, time: Duration, answer: Value, at: (SocketAddr, Reply)) {
        let (peer, mut reply) = at;
        request.load.remove(AWAIT_FIELD);
        // What a stranger sends beside the load, or many values in it, must not occupy the budget for a minute.
        let small = !reply.is_charged() && pack(&request.load.clone().into(), Packing::Wire).len() <= awaiting::LARGEST;
        let id = request.load.get_str("id").and_then(|id| MinionId::new(id).ok()).filter(|_| small);
        let seat = id.as_ref().and_then(|id| self.awaiting.sit(&self.shared, id, peer.ip().into()));
        let (Some(id), Some(mut seat)) = (id, seat) else { return reply.send(answer) };
        // It may have been decided about before anybody watched.
        let decided = !matches!(self.shared.stores.keys.accepted_key(&id), Ok(None));
        let desk = self.clone();
        self.spawn(async move {
            tokio::select! {
                biased;
                () = desk.closing.cancelled() => return,
                () = reply.gone() => return,
                () = seat.decided(), if !decided => {}
                () = std::future::ready(()), if decided => {}
                () = tokio::time::sleep(time.min(awaiting::LONGEST)) => return reply.send(answer),
            }
            drop(seat);
            desk.receive(Incoming { envelope: Ok(Envelope::Clear(request)), peer, reply }).await;
        });
    }

    fn open(
        &self,
        envelope: Result<Envelope, wire::envelope::Error>,
        peer: std::net::SocketAddr,
        reply: &transport::Reply,
    ) -> Step {
        match self.shared.channel.open(envelope) {
            Err(refused) => Step::Done(Some(self.refuse(peer, refused))),
            Ok(Opened::Sealed(request)) => {
                if is_proven(&request) {
                    reply.prove();
                    // Here and not when its turn comes: what a newer request has shown must not be overwritten.
                    if let Some(id) = &request.id {
                        self.shared.publisher.heard(id, peer.ip());
                        self.shared.presence.note_sender(id, &request.sender);
                    }
                }
                Step::Handle(request)
            }
            Ok(Opened::Clear(load)) => {
                let (cmd, began) = (load.get_str("cmd").unwrap_or_default().to_owned(), Instant::now());
                tracing::trace!(target: "salt.master", "Clear payload received with command {}", shortened(&cmd));
                let answer = match handler(clear::TABLE, &cmd) {
                    Some(handle) => handle(Ask { shared: self.shared.clone(), id: None, nonce: None, load }),
                    None => {
                        self.not_exposed(&cmd, peer);
                        nothing()
                    }
                };
                self.shared.metrics.request(&cmd, began.elapsed());
                self.step(answer, None)
            }
            Ok(Opened::SignIn(request)) => match sign_in::sign_in(&self.shared, &request, peer) {
                (answer, Some(time)) => Step::Await(Box::new(request), time, answer),
                (answer, None) => Step::Done(Some(answer)),
            },
        }
    }

    fn handle_sealed(&self, mut request: SealedRequest, peer: std::net::SocketAddr) -> Step {
        let proven = is_proven(&request);
        let caused =
            |id: &MinionId| tracing::info_span!("log.peer", peer = id.as_str(), known = proven, claimed = !proven);
        let _caused = request.id.as_ref().map(|id| caused(id).entered());
        let Some(handle) = handler(sealed::TABLE, &request.cmd) else {
            self.not_exposed(&request.cmd, peer);
            return self.step(nothing(), Some(request));
        };
        tracing::trace!(target: "salt.master", "AES payload received with command {}", request.cmd);
        let load = std::mem::take(&mut request.load);
        let nonce = request.seal.nonce().map(str::to_owned);
        let ask = Ask { shared: self.shared.clone(), id: request.id.clone(), nonce, load };
        // A bug in one handler harms one request, as in Salt: the sender gets an empty text.
        let began = Instant::now();
        let span = span(&ask);
        let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| span.in_scope(|| handle(ask))));
        self.shared.metrics.request(&request.cmd, began.elapsed());
        let answer = answer.unwrap_or_else(|_| {
            tracing::error!("Error in function {}", request.cmd);
            "".into()
        });
        self.step(answer, Some(request))
    }

    fn step(&self, answer: Answer, request: Option<SealedRequest>) -> Step {
        Step::Done(match answer {
            Answer::Later(value) => return Step::Wait(Box::pin(value.in_current_span()), request),
            Answer::Silence => None,
            Answer::Plain(value) => Some(value),
            Answer::Value(value) => Some(finish(request.as_ref(), value)),
            Answer::Pillar(pillar) => request.map(|request| self.pillar(&request, pillar)),
        })
    }

    fn pillar(&self, request: &SealedRequest, pillar: value::Map) -> Value {
        let Some(id) = &request.id else { return value::Map::new().into() };
        let sealed = self.shared.channel.pillar(id, &request.seal, pillar.into());
        sealed.unwrap_or_else(|refused| refused).into_value()
    }
}

/// Carries the job and the minion into the lines that are logged meanwhile, for `%(jid)s` and `%(minion_id)s`.
fn span(ask: &Ask) -> tracing::Span {
    let (jid, id) = (ask.load.get_str("jid"), ask.id.as_ref());
    tracing::info_span!("request", jid, minion_id = id.map(|id| id.as_str()))
}

/// Says whether a request that was opened may take much time of a processor: it is large, or what it asks for is.
fn is_costly(request: &SealedRequest, bytes: usize) -> bool {
    let compresses = || request.load.get("gzip").is_some_and(Value::truthy);
    bytes >= LARGE
        || match request.cmd.as_str() {
            "_mine" | "_mine_get" | "_mine_delete" | "pub_ret" => true,
            "_serve_file" => compresses(),
            _ => false,
        }
}

/// Seals a value for the minion that asked; programs get it as it is.
fn finish(request: Option<&SealedRequest>, value: Value) -> Value {
    match request {
        Some(request) => request.seal.seal(&value).into_value(),
        None => value,
    }
}

fn is_sign_in(incoming: &Incoming) -> bool {
    matches!(&incoming.envelope, Ok(Envelope::Clear(clear)) if clear.load.get_str("cmd") == Some("_auth"))
}

fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}
