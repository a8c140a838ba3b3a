//! Receives requests, decrypts them, passes them to their handlers, and encrypts and sends the answers.
//!
//! Work that may block or take time runs on threads, at most `worker_threads` at a time; further requests wait in a
//! queue here or in the queues of the connections, all of which have limits. Sign-ins have a queue of their own. So do
//! costly requests, whose senders take turns: the return of a ping does not wait behind the returns of a thousand
//! highstates, and a minion that sends many requests delays only itself.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use channel::server::{Opened, Refused, SealedRequest};
use futures_util::future::BoxFuture;
use keys::KeyState;
use logscope::{Peer, Scope};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use transport::{Incoming, Reply, RequestServer};
use value::{Map, Value};
use wire::command::Origin;
use wire::envelope::{Clear, Envelope};
use wire::loads::AWAIT_FIELD;
use wire::msgpack::{Packing, pack};
use wire::{Command, MinionId, Network};

use super::answer_room::{self, AnswerRoom, Due, Reservation, is_question};
use super::commands::handler;
use super::contained::contained;
use super::fair_queue::{Entered, FairQueue};
use super::refusals::Refusals;
use super::sign_in::SignIns;
use super::work_queue::WorkQueue;
use super::{Answer, MasterRequest, nothing, sign_in};
use crate::Shared;
use crate::awaiting::{self, Awaiting};
use crate::logins::{Attempt, Login, TokenUser};
use crate::pool::{Full, Pool, Room};
use crate::senders::{Sender, is_proven};
use crate::witness;

/// Takes requests and answers them.
pub struct Dispatcher {
    shared: Arc<Shared>,
    /// Small requests, with the size of encrypted ones in bytes.
    small: WorkQueue<(Incoming, usize)>,
    costly: FairQueue<Sender, Costly>,
    /// Limits the bytes of large requests that wait.
    large: Arc<Semaphore>,
    sign_ins: SignIns,
    refusals: Refusals,
    awaiting: Awaiting,
    room: AnswerRoom,
    /// The memory of decrypted requests that wait.
    opened: Pool,
    /// Cancelled when the master stops.
    closing: CancellationToken,
    /// Running tasks, which are finished before the master ends.
    tasks: TaskTracker,
}

/// The size in bytes from which a request is large.
const LARGE: usize = 16 << 10;

/// The state of a request until it is answered.
struct Ticket {
    peer: SocketAddr,
    reply: Reply,
    /// The size of the request in bytes, if it is encrypted.
    bytes: usize,
    /// Room among large requests.
    place: Option<OwnedSemaphorePermit>,
    /// Room for the answer.
    room: Option<Room>,
    /// The memory that the decrypted request occupies while it waits.
    opened: Option<Room>,
    turn: Turn,
}

/// Which turns a costly request has had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    None,
    /// A turn of the sender that it claims, to be decrypted.
    Claimed,
    /// A turn of its authenticated sender, to be handled.
    Own,
}

impl Ticket {
    fn new(peer: SocketAddr, reply: Reply, bytes: usize) -> Self {
        Ticket { peer, reply, bytes, place: None, room: None, opened: None, turn: Turn::None }
    }

    /// Sends the answer, which holds its room until it is written.
    fn send(mut self, answer: Value) {
        if let Some(mut room) = self.room {
            room.resize(usize::try_from(crate::bounds::size(&answer)).unwrap_or(usize::MAX));
            self.reply.keep_until_written(room);
        }
        self.reply.send(answer);
    }
}

/// A costly request that waits until its sender has its turn.
enum Costly {
    /// It is large and must be decrypted first.
    Closed(Result<Envelope, wire::envelope::Error>, Ticket),
    Opened(SealedRequest, Ticket),
}

/// The largest number of small requests that wait here. Most have a few hundred bytes; the transport limits them.
const MOST_SMALL: u32 = 256;

/// The largest number of bytes of large requests that wait here. Only beyond it do small requests wait behind large
/// ones, in the queues of the connections. Two thousand minions can return a highstate of 50 kB at the same moment
/// without reaching it.
const MOST_LARGE: usize = 128 << 20;

/// The largest number of bytes of one sender that count against `MOST_LARGE`. Further requests wait behind its own
/// requests without delaying others; the transport limits them.
const SHARE: usize = 16 << 20;

/// The largest number of waiting costly requests of one sender. Honest minions have a few dozen. Requests beyond it are
/// not answered, so that their sender retries.
const MOST_COSTLY: usize = 2048;

/// The memory in bytes that waiting decrypted requests of one sender may occupy. The values of a small request may take
/// sixty times its size.
const OPENED_OF_ONE: usize = 64 << 20;

/// The same for all senders.
const OPENED_OF_ALL: usize = 256 << 20;

/// How long a request that only reads waits for room.
const ROOM_TIMEOUT: Duration = Duration::from_secs(30);

/// The next step after the blocking part of a request.
/// Whether work ends when its sender has gone.
struct WhileAwaited(bool);

enum Step {
    Done(Option<Value>),
    /// Handle the request of a minion.
    Handle(SealedRequest),
    /// Answer with a value that is not available yet; with the last field, only as long as the sender waits for it.
    Wait(BoxFuture<'static, Value>, Option<SealedRequest>, WhileAwaited),
    /// Log in, and then handle the request of a program.
    LogIn(Attempt, Map),
    /// Ask whether the account of a token's user may still be used, and then handle the request.
    AskAbout(TokenUser, Map),
    /// Wait for a decision about a pending key, as the minion has requested: for how long, and the answer if there is
    /// none in time.
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
            small: WorkQueue::new(workers, MOST_SMALL),
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

    /// Describes the load of the master, for troubleshooting.
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

    /// Puts a request into its queue, when there is room.
    async fn receive(self: &Arc<Self>, incoming: Incoming) {
        if is_sign_in(&incoming) {
            if self.sign_ins.enter(&self.shared, incoming) {
                self.on_a_thread(|dispatcher| {
                    dispatcher.sign_ins.answer_all(&dispatcher.shared, |incoming| dispatcher.answer_small(incoming))
                });
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
            self.on_a_thread(|dispatcher| {
                dispatcher.small.serve(|(Incoming { envelope, peer, reply }, bytes)| {
                    dispatcher.answer(envelope, Ticket::new(peer, reply, bytes));
                });
            });
        }
    }

    /// Puts a large request into the queue of its sender.
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

    /// Reacts to the result of putting a costly request into the queue.
    fn attend_to(self: &Arc<Self>, entered: Entered<Costly>) {
        match entered {
            Entered::Waits => {}
            Entered::Full(costly) => {
                let (Costly::Closed(_, ticket) | Costly::Opened(_, ticket)) = costly;
                tracing::debug!(peer = %ticket.peer, "a request is not answered: {MOST_COSTLY} of its sender wait already");
            }
            // At a lower priority: costly requests keep the processors busy, and a ping needs little of them.
            Entered::Start => {
                let (dispatcher, begun) = (self.clone(), self.tasks.token());
                self.shared.stores.rt.behind_others(move || {
                    let _begun = begun;
                    dispatcher.take_turns();
                });
            }
        }
    }

    /// Handles costly requests as long as a sender has a turn.
    fn take_turns(self: &Arc<Self>) {
        self.costly.serve(|costly| match costly {
            Costly::Closed(envelope, ticket) => self.answer(envelope, Ticket { turn: Turn::Claimed, ..ticket }),
            // Nobody would hear the answer to a question; what a minion tells counts all the same.
            Costly::Opened(request, ticket) if is_question(&request.cmd) && !ticket.reply.is_awaited() => {}
            Costly::Opened(request, ticket) if ticket.room.is_some() => self.handle(request, ticket),
            Costly::Opened(request, ticket) => self.handle_when_due(request, Ticket { turn: Turn::Own, ..ticket }),
        });
    }

    /// Runs work that may block on a thread. The master waits for it when it stops.
    fn on_a_thread(self: &Arc<Self>, work: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let (dispatcher, begun) = (self.clone(), self.tasks.token());
        self.shared.stores.rt.blocking(move || {
            let _begun = begun;
            work(&dispatcher);
        });
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(self.shared.stores.rt.task(task));
    }

    fn refuse(&self, peer: std::net::SocketAddr, refused: Refused) -> Value {
        self.shared.metrics.refused.count();
        // Lines about a minion with a key have a share of their own, so that strangers cannot hide them.
        let _peer = refused.about.as_ref().map(|id| logscope::enter(Peer::Claimed(id.clone())));
        self.refusals.note(peer.ip(), refused.about.as_ref(), &refused.reason);
        refused.answer.into_value()
    }

    /// Logs an unknown command, in Salt's words.
    fn not_exposed(&self, cmd: &str, peer: std::net::SocketAddr) {
        self.shared.metrics.refused.count();
        self.refusals.note(peer.ip(), None, &format!("Requested method not exposed: {}", shortened(cmd)));
    }

    /// Answers a request whose size is not counted.
    fn answer_small(self: &Arc<Self>, Incoming { envelope, peer, reply }: Incoming) {
        self.answer(envelope, Ticket::new(peer, reply, 0));
    }

    /// Answers a request, or starts what answers it later. May block.
    fn answer(self: &Arc<Self>, envelope: Result<Envelope, wire::envelope::Error>, ticket: Ticket) {
        let peer = ticket.peer;
        self.run_step(ticket, |reply| self.open(envelope, peer, reply));
    }

    /// Handles a request of a minion.
    fn handle(self: &Arc<Self>, request: SealedRequest, mut ticket: Ticket) {
        // It does not wait any more.
        ticket.opened = None;
        let peer = ticket.peer;
        self.run_step(ticket, |_| self.handle_sealed(request, peer));
    }

    /// Runs one step of a request, and starts the next one.
    fn run_step(self: &Arc<Self>, mut ticket: Ticket, step: impl FnOnce(&Reply) -> Step) {
        // Until it has proved more, the sender is somebody at an address, whose lines in the log are limited.
        let _peer = logscope::enter(Peer::Stranger(Network::from(ticket.peer.ip())));
        // A bug in what answers one request must not take the thread away from the others.
        let step = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| step(&ticket.reply)));
        match step {
            Ok(Step::Done(Some(answer))) => ticket.send(answer),
            Ok(Step::Done(None)) => {}
            Ok(Step::Handle(request)) => self.handle_when_due(request, ticket),
            Ok(Step::Wait(value, request, while_awaited)) => {
                ticket.place = None;
                self.spawn(async move {
                    let value = tokio::select! {
                        biased;
                        () = ticket.reply.gone(), if while_awaited.0 => return,
                        value = value => value,
                    };
                    ticket.send(finish(request.as_ref(), value));
                });
            }
            Ok(Step::LogIn(attempt, load)) => self.log_in(attempt, load, ticket),
            Ok(Step::AskAbout(of, load)) => self.ask_about(of, load, ticket),
            Ok(Step::Await(request, time, answer)) => {
                self.await_key(*request, time, answer, (ticket.peer, ticket.reply));
            }
            Err(_) => {
                tracing::error!("a request of {} could not be handled", ticket.peer);
                ticket.send("Some exception handling minion payload".into());
            }
        }
    }

    /// Handles the request of a minion: now, when its sender has its turn, or when there is room for its answer.
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

    /// Handles a costly request when its sender has its turn.
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

    /// Handles a request that only reads as soon as there is room for its answer. Its sender retries, so it need not
    /// wait here for long.
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
        let dispatcher = self.clone();
        self.spawn(async move {
            ticket.room = tokio::select! {
                biased;
                () = dispatcher.closing.cancelled() => return,
                () = ticket.reply.gone() => return,
                // Answers of a connection are sent in the order of its requests, so a request may wait for room that answers
                // behind it hold. The minion asks again.
                () = tokio::time::sleep(ROOM_TIMEOUT) => return,
                room = dispatcher.room.reserve(&sender, wanted) => room,
            };
            let bytes = ticket.bytes;
            match is_costly(&request, bytes) {
                true => {
                    dispatcher.attend_to(dispatcher.costly.enter_first(sender, Costly::Opened(request, ticket), bytes))
                }
                false => dispatcher.on_a_thread(move |dispatcher| contained(|| dispatcher.handle(request, ticket))),
            }
        });
    }

    /// Keeps a sign-in until the key was accepted or rejected, the time has passed, or the connection has ended. If
    /// there is no room, the sign-in is answered at once.
    fn await_key(self: &Arc<Self>, mut request: Clear, time: Duration, answer: Value, at: (SocketAddr, Reply)) {
        let (peer, mut reply) = at;
        request.load.remove(AWAIT_FIELD);
        // What a stranger sends beside the load, or many values in it, must not occupy the budget for a minute.
        let small = !reply.is_charged() && pack(&request.load.clone().into(), Packing::Wire).len() <= awaiting::LARGEST;
        let id = request.load.get_str("id").and_then(|id| MinionId::new(id).ok()).filter(|_| small);
        let waiting = id.as_ref().and_then(|id| self.awaiting.register(&self.shared, id, peer.ip().into()));
        let (Some(id), Some(waiting)) = (id, waiting) else { return reply.send(answer) };
        let dispatcher = self.clone();
        self.spawn(async move {
            let over = tokio::time::sleep(time.min(awaiting::LONGEST));
            tokio::pin!(over);
            // Looked at before the first wait, too: it may have been decided about before anybody watched.
            while dispatcher.is_undecided(&id) {
                tokio::select! {
                    biased;
                    () = dispatcher.closing.cancelled() => return,
                    () = reply.gone() => return,
                    () = waiting.changed() => {}
                    () = &mut over => return reply.send(answer),
                }
            }
            drop(waiting);
            dispatcher.receive(Incoming { envelope: Ok(Envelope::Clear(request)), peer, reply }).await;
        });
    }

    /// Returns whether a key waits for a decision. One that is gone counts, or a minion would register again at the moment in
    /// which an operator deletes its key.
    fn is_undecided(&self, id: &MinionId) -> bool {
        let found = self.shared.stores.keys.store().find(id);
        found.is_ok_and(|found| found.is_none_or(|stored| stored.state == KeyState::Pending))
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
            Ok(Opened::Clear(mut load)) => {
                let cmd = load.get_str("cmd").unwrap_or_default().to_owned();
                if let Some(attempt) = Attempt::take(&cmd, &mut load) {
                    return Step::LogIn(attempt, load);
                }
                match self.shared.logins.account_due(&cmd, &load, &self.shared.stores) {
                    Some(of) => Step::AskAbout(of, load),
                    None => self.handle_clear(load, None, peer),
                }
            }
            Ok(Opened::SignIn(request)) => {
                if witness::is_witness(&self.shared.stores.config) {
                    self.refusals.note(peer.ip(), None, witness::NO_SIGN_IN);
                }
                match sign_in::sign_in(&self.shared, &request, peer) {
                    (answer, Some(time)) => Step::Await(Box::new(request), time, answer),
                    (answer, None) => Step::Done(Some(answer)),
                }
            }
        }
    }

    /// Lets the sender of a request log in, and then handles the request. Meanwhile it occupies no thread.
    fn log_in(self: &Arc<Self>, attempt: Attempt, load: Map, mut ticket: Ticket) {
        let peer = ticket.peer;
        ticket.place = None;
        let Some(place) = self.shared.logins.place(attempt.address(peer)) else {
            self.refusals.note(peer.ip(), None, "too many logins wait");
            let refused = attempt.refused();
            return self.run_step(ticket, |_| self.handle_clear(load, Some(refused), peer));
        };
        let dispatcher = self.clone();
        let log_in = async move {
            let shared = &dispatcher.shared;
            let login = tokio::select! {
                biased;
                () = dispatcher.closing.cancelled() => return,
                login = shared.logins.decide(attempt, peer, &shared.stores.rt) => login,
            };
            dispatcher.on_a_thread(move |dispatcher| {
                let _place = place;
                contained(|| dispatcher.run_step(ticket, |_| dispatcher.handle_clear(load, Some(login), peer)));
            });
        };
        // In the scope of the address, whose log lines are limited.
        self.spawn(Scope::current().around(Box::pin(log_in)));
    }

    /// Asks about an account, and then handles the request of its token. Meanwhile it occupies no thread.
    fn ask_about(self: &Arc<Self>, of: TokenUser, load: Map, mut ticket: Ticket) {
        let peer = ticket.peer;
        ticket.place = None;
        let dispatcher = self.clone();
        let ask = async move {
            let stores = &dispatcher.shared.stores;
            let is_sharing = stores.config.cluster.is_some();
            tokio::select! {
                biased;
                () = dispatcher.closing.cancelled() => return,
                () = dispatcher.shared.logins.ask_about(of, is_sharing, &stores.rt) => {}
            }
            dispatcher.on_a_thread(move |dispatcher| {
                contained(|| dispatcher.run_step(ticket, |_| dispatcher.handle_clear(load, None, peer)));
            });
        };
        self.spawn(Scope::current().around(Box::pin(ask)));
    }

    /// Handles the request of a program.
    fn handle_clear(&self, load: Map, login: Option<Login>, peer: SocketAddr) -> Step {
        let (cmd, began) = (load.get_str("cmd").unwrap_or_default().to_owned(), Instant::now());
        tracing::trace!(target: "salt.master", "Clear payload received with command {}", shortened(&cmd));
        let answer = match handler(&cmd, Origin::Program) {
            Some(handle) => handle(MasterRequest { shared: self.shared.clone(), id: None, nonce: None, login, load }),
            None => {
                self.not_exposed(&cmd, peer);
                nothing()
            }
        };
        self.shared.metrics.request(&cmd, began.elapsed());
        self.step(answer, None)
    }

    fn handle_sealed(&self, mut request: SealedRequest, peer: std::net::SocketAddr) -> Step {
        let sender = if is_proven(&request) { Peer::Minion } else { Peer::Claimed };
        let _peer = request.id.clone().map(|id| logscope::enter(sender(id)));
        let Some(handle) = handler(&request.cmd, Origin::Minion) else {
            self.not_exposed(&request.cmd, peer);
            return self.step(nothing(), Some(request));
        };
        tracing::trace!(target: "salt.master", "AES payload received with command {}", request.cmd);
        let load = std::mem::take(&mut request.load);
        let nonce = request.seal.nonce().map(str::to_owned);
        let ask = MasterRequest { shared: self.shared.clone(), id: request.id.clone(), nonce, login: None, load };
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
            Answer::Later(value) => return wait(value, request, WhileAwaited(false)),
            Answer::WhileAwaited(value) => return wait(value, request, WhileAwaited(true)),
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

/// Waits for a value in the scope of the peer that has asked for it.
fn wait(value: BoxFuture<'static, Value>, request: Option<SealedRequest>, while_awaited: WhileAwaited) -> Step {
    Step::Wait(Box::pin(Scope::current().around(value)), request, while_awaited)
}

/// Returns the span that adds job and minion to the log lines of the handler, for `%(jid)s` and `%(minion_id)s`.
fn span(ask: &MasterRequest) -> tracing::Span {
    let (jid, id) = (ask.load.get_str("jid"), ask.id.as_ref());
    tracing::info_span!("request", jid, minion_id = id.map(|id| id.as_str()))
}

/// Returns whether a decrypted request may take much processor time, because the request is large, or the work for its
/// answer.
fn is_costly(request: &SealedRequest, bytes: usize) -> bool {
    let compresses = || request.load.get("gzip").is_some_and(Value::truthy);
    bytes >= LARGE
        || match Command::from_name(&request.cmd) {
            Some(Command::Mine | Command::MineGet | Command::MineDelete | Command::PeerReturns) => true,
            Some(Command::ServeFile) => compresses(),
            _ => false,
        }
}

/// Encrypts an answer for the minion that sent the request. Programs get it unencrypted.
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
