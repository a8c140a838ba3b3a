//! Where requests arrive: opened, handed to their handlers, sealed and sent back.
//!
//! Whatever may touch the disk or cost time runs on threads of its own, as many at once as `worker_threads` says; the rest
//! waits in a line or in the queues of the connections, all of which have bounds. Sign-ins queue apart, and so do large
//! requests: the return of a ping does not wait behind the returns of a thousand highstates.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use channel::server::{Opened, Refused, SealedRequest};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use transport::{Incoming, Reply, RequestServer};
use value::Value;
use wire::MinionId;
use wire::envelope::{Clear, Envelope};
use wire::loads::AWAIT_FIELD;
use wire::msgpack::{Packing, pack};

use super::answer_room::{self, AnswerRoom, Room};
use super::awaiting::{self, Awaiting};
use super::identified::{Sender, is_proven};
use super::line::{Line, Place};
use super::refusals::Refusals;
use super::sign_in::SignIns;
use super::{Answer, Ask, clear, handler, nothing, sealed, sign_in};
use crate::Shared;

/// Takes requests and answers them.
pub struct Desk {
    shared: Arc<Shared>,
    small: Line<Incoming>,
    large: Line<Incoming>,
    sign_ins: SignIns,
    refusals: Refusals,
    awaiting: Awaiting,
    room: AnswerRoom,
    /// The master stops.
    closing: CancellationToken,
    /// What has begun and is to be finished.
    tasks: TaskTracker,
}

/// A request of so many bytes is large.
const LARGE: usize = 16 << 10;

/// Which line a request stands in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Size {
    Small,
    Large,
}

impl Size {
    /// What a request is, with the bytes of a sealed one; others are small.
    fn of(incoming: &Incoming) -> (Self, usize) {
        let bytes = match &incoming.envelope {
            Ok(Envelope::Sealed(sealed)) => sealed.load.len(),
            _ => 0,
        };
        (if bytes < LARGE { Size::Small } else { Size::Large }, bytes)
    }
}

/// The most small requests that wait here. They are as small as their connections let them be, mostly some hundred bytes.
const MOST_SMALL: u32 = 256;

/// The most bytes of large requests that wait here. Only when there are more do small ones wait behind them, in the queues of
/// the connections: two thousand minions may return a highstate of 50 kB at the same moment before that.
const MOST_LARGE: u32 = 128 << 20;

/// What is left to do after the blocking part.
enum Step {
    Done(Option<Value>),
    /// The request of a minion is to be handled.
    Handle(SealedRequest),
    Wait(futures_util::future::BoxFuture<'static, Value>, Option<SealedRequest>),
    /// A minion whose key waits for an operator has asked to be told at once; what it is told when nobody decides in time.
    Await(Box<Clear>, Duration, Value),
}

impl Desk {
    /// A desk for a master.
    pub fn new(shared: Arc<Shared>) -> Arc<Self> {
        let workers = shared.stores.config.network.worker_threads.max(1);
        // Large requests are work for processors: more at once would only keep small ones from them.
        let porters = std::thread::available_parallelism().map_or(workers, |processors| workers.min(processors.get()));
        Arc::new(Desk {
            shared,
            small: Line::new(workers, MOST_SMALL),
            large: Line::new(porters, MOST_LARGE),
            sign_ins: SignIns::new(),
            refusals: Refusals::default(),
            awaiting: Awaiting::default(),
            room: AnswerRoom::new(),
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

    /// What the master is at, for somebody who looks into a trouble.
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
        let lines = [("small requests", self.small.counts()), ("large requests", self.large.counts())];
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
        text.push_str(&crate::metrics::page(shared));
        text
    }

    /// Puts a request where it belongs, when there is room.
    async fn receive(self: &Arc<Self>, incoming: Incoming) {
        if is_sign_in(&incoming) {
            if self.sign_ins.enter(&self.shared, incoming) {
                self.on_a_thread(|desk| desk.sign_ins.answer_all(&desk.shared, |incoming| desk.answer(incoming)));
            }
            return;
        }
        let (size, bytes) = Size::of(&incoming);
        let wanted = if size == Size::Small { 1 } else { bytes };
        let Some(place) = self.line(size).place(wanted).await else { return };
        self.enter(size, incoming, place);
    }

    fn enter(self: &Arc<Self>, size: Size, incoming: Incoming, place: Place) {
        if !self.line(size).enter(incoming, place) {
            return;
        }
        let all = move |desk: &Arc<Self>| {
            while let Some(incoming) = desk.line(size).next() {
                desk.answer(incoming);
            }
        };
        match size {
            Size::Small => self.on_a_thread(all),
            // The processors have more than enough to do then, and a ping asks for little of them.
            Size::Large => {
                let (desk, begun) = (self.clone(), self.tasks.token());
                self.shared.stores.rt.behind_others(move || {
                    let _begun = begun;
                    all(&desk);
                });
            }
        }
    }

    fn line(&self, size: Size) -> &Line<Incoming> {
        match size {
            Size::Small => &self.small,
            Size::Large => &self.large,
        }
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
        self.refusals.note(peer.ip(), &refused.reason);
        refused.answer.into_value()
    }

    /// Salt's words for a command that is none.
    fn not_exposed(&self, cmd: &str, peer: std::net::SocketAddr) {
        self.shared.metrics.refused.count();
        self.refusals.note(peer.ip(), &format!("Requested method not exposed: {}", shortened(cmd)));
    }

    /// Answers a request, or has it answered. Called where it may block.
    fn answer(self: &Arc<Self>, incoming: Incoming) {
        let Incoming { envelope, peer, reply } = incoming;
        self.follow(peer, reply, None, |reply| self.open(envelope, peer, reply));
    }

    /// Makes a step with a request, and has the next one made.
    fn follow(
        self: &Arc<Self>,
        peer: SocketAddr,
        reply: Reply,
        room: Option<Room>,
        step: impl FnOnce(&Reply) -> Step,
    ) {
        // A bug in what answers one request must not take the thread away from the others.
        let step = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| step(&reply)));
        match step {
            Ok(Step::Done(Some(answer))) => send(reply, room, answer),
            Ok(Step::Done(None)) => {}
            Ok(Step::Handle(request)) => self.handle_with_room(request, peer, reply),
            Ok(Step::Wait(value, request)) => {
                self.spawn(async move { reply.send(finish(request.as_ref(), value.await)) });
            }
            Ok(Step::Await(request, time, answer)) => self.await_key(*request, time, answer, (peer, reply)),
            Err(_) => {
                tracing::error!("a request of {peer} could not be handled");
                reply.send("Some exception handling minion payload".into());
            }
        }
    }

    /// Handles the request of a minion as soon as there is room for its answer.
    fn handle_with_room(self: &Arc<Self>, request: SealedRequest, peer: SocketAddr, mut reply: Reply) {
        let sender = Sender::of(&request, peer.ip());
        let wanted = answer_room::wanted(&request.cmd, self.shared.stores.config.files.file_buffer_size);
        if wanted == 0 {
            return self.follow(peer, reply, None, |_| self.handle_sealed(request, peer));
        }
        if let Some(room) = self.room.try_reserve(&sender, wanted) {
            return self.follow(peer, reply, Some(room), |_| self.handle_sealed(request, peer));
        }
        let desk = self.clone();
        self.spawn(async move {
            let room = tokio::select! {
                biased;
                () = desk.closing.cancelled() => return,
                () = reply.gone() => return,
                room = desk.room.reserve(&sender, wanted) => room,
            };
            let handle = move |desk: &Arc<Desk>| desk.follow(peer, reply, room, |_| desk.handle_sealed(request, peer));
            desk.on_a_thread(handle);
        });
    }

    /// Keeps a sign-in until somebody has decided about the key, the time is over, or the minion has gone. Who finds no room is
    /// answered at once.
    fn await_key(self: &Arc<Self>, mut request: Clear, time: Duration, answer: Value, at: (SocketAddr, Reply)) {
        let (peer, mut reply) = at;
        request.load.remove(AWAIT_FIELD);
        let small = pack(&request.load.clone().into(), Packing::Wire).len() <= awaiting::LARGEST;
        let id = request.load.get_str("id").and_then(|id| MinionId::new(id).ok()).filter(|_| small);
        let seat = id.as_ref().and_then(|id| self.awaiting.sit(&self.shared, id, peer.ip().to_canonical()));
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
                }
                Step::Handle(request)
            }
            Ok(Opened::Clear(load)) => {
                let (cmd, began) = (load.get_str("cmd").unwrap_or_default().to_owned(), Instant::now());
                tracing::trace!(target: "salt.master", "Clear payload received with command {}", shortened(&cmd));
                let answer = match handler(clear::TABLE, &cmd) {
                    Some(handle) => handle(Ask { shared: self.shared.clone(), id: None, load }),
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
        if let Some(id) = request.id.as_ref().filter(|_| is_proven(&request)) {
            self.shared.heard(id, peer.ip());
        }
        let Some(handle) = handler(sealed::TABLE, &request.cmd) else {
            self.not_exposed(&request.cmd, peer);
            return self.step(nothing(), Some(request));
        };
        tracing::trace!(target: "salt.master", "AES payload received with command {}", request.cmd);
        let load = std::mem::take(&mut request.load);
        let ask = Ask { shared: self.shared.clone(), id: request.id.clone(), load };
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
            Answer::Later(value) => return Step::Wait(value, request),
            Answer::Silence => None,
            Answer::Plain(value) => Some(value),
            Answer::Value(value) => Some(finish(request.as_ref(), value)),
            Answer::Private(secret) => request.map(|request| self.private(&request, secret)),
        })
    }

    fn private(&self, request: &SealedRequest, secret: value::Map) -> Value {
        let Some(id) = &request.id else { return value::Map::new().into() };
        let sealed = self.shared.channel.private(id, &request.seal, "pillar", secret.into());
        sealed.unwrap_or_else(|refused| refused).into_value()
    }
}

/// Carries the job and the minion into the lines that are logged meanwhile, for `%(jid)s` and `%(minion_id)s`.
fn span(ask: &Ask) -> tracing::Span {
    let (jid, id) = (ask.load.get_str("jid"), ask.id.as_ref());
    tracing::info_span!("request", jid, minion_id = id.map(|id| id.as_str()))
}

/// Sends an answer, which keeps its room until it is written.
fn send(mut reply: Reply, room: Option<Room>, answer: Value) {
    if let Some(mut room) = room {
        room.settle(usize::try_from(crate::bounds::size(&answer)).unwrap_or(usize::MAX));
        reply.keep_until_written(room);
    }
    reply.send(answer);
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
