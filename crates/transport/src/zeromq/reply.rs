//! Answering as a ROUTER with workers behind it does.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use rt::{Connection, Listen, Rt};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;
use value::Value;
use wire::envelope::Envelope;
use wire::msgpack::{Packing, pack};
use wire::zmtp::{Incoming as Frame, SocketType, encode_message};

use super::stream::{Setup, ZmtpStream};
use crate::serve::rest_after;
use crate::{Budget, Error, Heartbeat, Incoming, Limits, Reply, RequestServer};

/// Requests a connection may send ahead of its answers.
const AHEAD: usize = 16;

/// Listens for requests over zeromq.
///
/// # Errors
/// When the address cannot be listened on.
pub async fn serve(
    rt: Rt,
    listen: Listen,
    limits: Limits,
    heartbeat: Option<Heartbeat>,
) -> std::io::Result<RequestServer> {
    let listener = rt.net().listen(&listen).await?;
    let address = listener.local_addr()?;
    let (requests, incoming) = mpsc::channel(1024);
    let budget = Budget::new(limits.unfinished);
    let half_open = Arc::new(Semaphore::new(limits.half_open));
    let task = tokio::spawn(async move {
        loop {
            let connection = match listener.accept().await {
                Ok(connection) => connection,
                Err(error) => {
                    rest_after(&error).await;
                    continue;
                }
            };
            let Ok(permit) = half_open.clone().try_acquire_owned() else {
                debug!(peer = %connection.peer, "too many connections are in their handshake; one more is closed");
                continue;
            };
            let (requests, budget) = (requests.clone(), budget.clone());
            tokio::spawn(async move {
                let peer = connection.peer;
                let setup = setup(&limits, heartbeat, budget);
                if let Err(error) = converse(connection, setup, permit, requests).await {
                    debug!(%peer, "request connection ended: {error}");
                }
            });
        }
    });
    Ok(RequestServer { address, incoming, _task: AbortOnDropHandle::new(task) })
}

fn setup(limits: &Limits, heartbeat: Option<Heartbeat>, budget: Arc<Budget>) -> Setup {
    Setup {
        socket: SocketType::Router,
        identity: Bytes::new(),
        limit: limits.message,
        budget: Some(budget),
        heartbeat,
        timeout: limits.handshake,
    }
}

/// A request whose answer is waited for, with the frames to put before the answer.
struct Pending {
    envelope: Vec<Bytes>,
    answer: oneshot::Receiver<Value>,
}

async fn converse(
    connection: Connection,
    setup: Setup,
    permit: tokio::sync::OwnedSemaphorePermit,
    requests: mpsc::Sender<Incoming>,
) -> Result<(), Error> {
    let peer = connection.peer;
    let mut stream = ZmtpStream::open(connection.stream, setup).await?;
    drop(permit);
    let mut pending: VecDeque<Pending> = VecDeque::new();
    loop {
        tokio::select! {
            incoming = stream.next(), if pending.len() < AHEAD => {
                let Frame::Message(mut envelope) = incoming? else { continue };
                let Some(payload) = envelope.pop() else { continue };
                let (reply, answer) = oneshot::channel();
                let request = Incoming { envelope: Envelope::decode(&payload), peer, reply: Reply(reply) };
                drop(payload);
                if requests.send(request).await.is_err() {
                    return Ok(());
                }
                pending.push_back(Pending { envelope, answer });
            }
            answer = next_answer(&mut pending) => {
                // A request that nobody answers leaves the peer waiting, as a crashed worker does.
                let Some((mut envelope, answer)) = answer else { continue };
                envelope.push(pack(&answer, Packing::Wire).into());
                stream.write(&encode_message(&envelope)).await?;
            }
        }
    }
}

/// Waits for the answer to the oldest request. May be dropped and called again.
async fn next_answer(pending: &mut VecDeque<Pending>) -> Option<(Vec<Bytes>, Value)> {
    let Some(first) = pending.front_mut() else { return std::future::pending().await };
    let answer = (&mut first.answer).await;
    let first = pending.pop_front()?;
    Some((first.envelope, answer.ok()?))
}
