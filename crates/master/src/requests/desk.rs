//! Where requests arrive: opened, handed to their handlers, sealed and sent back.
//!
//! Whatever may touch the disk or cost time runs on threads of its own, as many at once as `worker_threads` says; the rest
//! waits in the queues of the connections, which have bounds. Sign-ins queue apart, and so do large requests: the return of a
//! ping does not wait behind the returns of a thousand highstates.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use channel::server::{Opened, Refused, SealedRequest};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use transport::{Incoming, RequestServer};
use value::Value;
use wire::envelope::Envelope;

use super::refusals::Refusals;
use super::sign_in::SignIns;
use super::{Answer, Ask, clear, handler, nothing, sealed};
use crate::Shared;

/// Takes requests and answers them.
pub struct Desk {
    shared: Arc<Shared>,
    workers: Arc<Semaphore>,
    /// For large requests, as many again, but no more than there are processors.
    porters: Arc<Semaphore>,
    sign_ins: SignIns,
    refusals: Refusals,
}

/// A request of so many bytes is large.
const LARGE: usize = 16 << 10;

/// The most bytes of large requests that wait here. Only when there are more do small ones wait behind them, in the queues of
/// the connections: two thousand minions may return a highstate of 50 kB at the same moment before that.
const MOST_LARGE: usize = 128 << 20;

/// What is left to do after the blocking part.
enum Step {
    Done(Option<Value>),
    Wait(futures_util::future::BoxFuture<'static, Value>, Option<SealedRequest>),
}

impl Desk {
    /// A desk for a master.
    pub fn new(shared: Arc<Shared>) -> Arc<Self> {
        let workers = shared.stores.config.network.worker_threads.max(1);
        // Large requests are work for processors: more at once would only keep small ones from them.
        let porters = std::thread::available_parallelism().map_or(workers, |processors| workers.min(processors.get()));
        let [workers, porters] = [workers, porters].map(|permits| Arc::new(Semaphore::new(permits)));
        Arc::new(Desk { shared, workers, porters, sign_ins: SignIns::new(), refusals: Refusals::default() })
    }

    /// Answers requests until told to stop.
    pub async fn attend(self: Arc<Self>, mut requests: RequestServer, stop: CancellationToken) {
        let (tasks, rt) = (TaskTracker::new(), self.shared.stores.rt.clone());
        let (mut large, mut waiting) = (VecDeque::new(), 0);
        loop {
            let porter = self.porters.clone().acquire_owned();
            let incoming = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Ok(porter) = porter, if !large.is_empty() => {
                    if let Some(incoming) = large.pop_front() {
                        waiting -= size(&incoming);
                        tasks.spawn(rt.task(self.clone().answer(incoming, porter)));
                    }
                    continue;
                }
                incoming = requests.next(), if waiting < MOST_LARGE => incoming,
            };
            let Some(incoming) = incoming else { break };
            if is_sign_in(&incoming) {
                tasks.spawn(rt.task(self.clone().sign_in(incoming)));
            } else if size(&incoming) >= LARGE {
                waiting += size(&incoming);
                large.push_back(incoming);
            } else {
                let Ok(worker) = self.workers.clone().acquire_owned().await else { break };
                tasks.spawn(rt.task(self.clone().answer(incoming, worker)));
            }
        }
        // What has begun is finished, so that what a minion was told is true; the daemon bounds the time.
        tasks.close();
        tasks.wait().await;
    }

    async fn sign_in(self: Arc<Self>, incoming: Incoming) {
        let peer = incoming.peer;
        match self.shared.channel.open(incoming.envelope) {
            Ok(Opened::SignIn(request)) => self.sign_ins.answer(&self.shared, request, peer, incoming.reply).await,
            Ok(_) => {}
            Err(refused) => incoming.reply.send(self.refuse(peer, refused)),
        }
    }

    fn refuse(&self, peer: std::net::SocketAddr, refused: Refused) -> Value {
        self.shared.metrics.refused.count();
        self.refusals.note(peer.ip(), &refused.reason);
        refused.answer.into_value()
    }

    async fn answer(self: Arc<Self>, incoming: Incoming, worker: tokio::sync::OwnedSemaphorePermit) {
        let Incoming { envelope, peer, reply } = incoming;
        if is_of_a_program(&envelope) {
            // It listens already, or is about to be heard of: its job must not be over before.
            self.shared.bus.let_in().await;
        }
        let desk = self.clone();
        let handled = self.shared.stores.rt.blocking(move || {
            let step = desk.handle(envelope, peer);
            drop(worker);
            step
        });
        let answer = match handled.await {
            Ok(Step::Done(answer)) => answer,
            Ok(Step::Wait(value, request)) => Some(finish(request.as_ref(), value.await)),
            Err(failed) => {
                tracing::error!("a request of {peer} could not be handled: {failed}");
                Some("Some exception handling minion payload".into())
            }
        };
        if let Some(answer) = answer {
            reply.send(answer);
        }
    }

    fn handle(&self, envelope: Result<Envelope, wire::envelope::Error>, peer: std::net::SocketAddr) -> Step {
        match self.shared.channel.open(envelope) {
            Err(refused) => Step::Done(Some(self.refuse(peer, refused))),
            Ok(Opened::Sealed(request)) => self.handle_sealed(request, peer),
            Ok(Opened::Clear(load)) => {
                let (cmd, began) = (load.get_str("cmd").unwrap_or_default().to_owned(), Instant::now());
                let answer = match handler(clear::TABLE, &cmd) {
                    Some(handle) => handle(Ask { shared: self.shared.clone(), id: None, load }),
                    None => nothing(),
                };
                self.shared.metrics.request(&cmd, began.elapsed());
                self.step(answer, None)
            }
            // Sign-ins were taken aside before.
            Ok(Opened::SignIn(_)) => Step::Done(None),
        }
    }

    fn handle_sealed(&self, mut request: SealedRequest, peer: std::net::SocketAddr) -> Step {
        let proven = request.seal.version() > 2 || request.token;
        if let Some(id) = request.id.as_ref().filter(|_| proven) {
            self.shared.heard(id, peer.ip());
        }
        let Some(handle) = handler(sealed::TABLE, &request.cmd) else {
            self.shared.metrics.refused.count();
            self.refusals.note(peer.ip(), &format!("there is no command {:?}", shortened(&request.cmd)));
            return self.step(nothing(), Some(request));
        };
        let load = std::mem::take(&mut request.load);
        let ask = Ask { shared: self.shared.clone(), id: request.id.clone(), load };
        // A bug in one handler harms one request, as in Salt: the sender gets an empty text.
        let began = Instant::now();
        let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| handle(ask)));
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

/// The bytes of a sealed request; others are small.
fn size(incoming: &Incoming) -> usize {
    match &incoming.envelope {
        Ok(Envelope::Sealed(sealed)) => sealed.load.len(),
        _ => 0,
    }
}

fn is_of_a_program(envelope: &Result<Envelope, wire::envelope::Error>) -> bool {
    matches!(envelope, Ok(Envelope::Clear(_)))
}

fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}
