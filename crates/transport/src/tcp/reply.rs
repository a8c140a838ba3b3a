//! Answering over tcp.

use std::sync::Arc;

use bytes::Bytes;
use rt::{Connection, Listen, Rt};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;
use value::Value;
use wire::envelope::Envelope;
use wire::tcp::Frame;

use super::stream::split;
use crate::serve::rest_after;
use crate::{Budget, Error, Incoming, Limits, Reply, RequestServer, Tls};

/// Requests of one connection that may be worked on at a time.
const AT_A_TIME: usize = 64;

/// Listens for requests over tcp.
///
/// # Errors
/// When the address cannot be listened on.
pub async fn serve(rt: Rt, listen: Listen, limits: Limits, tls: Option<Tls>) -> std::io::Result<RequestServer> {
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
            let (requests, budget, tls) = (requests.clone(), budget.clone(), tls.clone());
            tokio::spawn(async move {
                let peer = connection.peer;
                if let Err(error) = converse(connection, limits, tls, budget, permit, requests).await {
                    debug!(%peer, "request connection ended: {error}");
                }
            });
        }
    });
    Ok(RequestServer { address, incoming, _task: AbortOnDropHandle::new(task) })
}

async fn converse(
    connection: Connection,
    limits: Limits,
    tls: Option<Tls>,
    budget: Arc<Budget>,
    permit: tokio::sync::OwnedSemaphorePermit,
    requests: mpsc::Sender<Incoming>,
) -> Result<(), Error> {
    let peer = connection.peer;
    let stream = super::publish::secure(connection.stream, tls.as_ref(), limits.handshake).await?;
    let (mut reader, mut writer) = split(stream, limits.message, Some(budget));
    // Who has not asked anything by then is a stranger that only holds a connection.
    let first = tokio::time::timeout(limits.handshake, reader.next()).await;
    let mut frame = first.map_err(|_| Error::Timeout(limits.handshake))??;
    drop(permit);
    let room = Arc::new(Semaphore::new(AT_A_TIME));
    let (answers, mut to_write) = mpsc::channel::<Bytes>(AT_A_TIME);
    let read = async {
        loop {
            let permit = room.clone().acquire_owned().await.map_err(|_| Error::Closed)?;
            let (reply, answer) = oneshot::channel();
            tokio::spawn(carry(frame.mid().unwrap_or_default().to_owned(), answer, answers.clone(), permit));
            let request = Incoming { envelope: Envelope::from_value(frame.body), peer, reply: Reply(reply) };
            if requests.send(request).await.is_err() {
                return Ok(());
            }
            frame = reader.next().await?;
        }
    };
    let write = async {
        while let Some(frame) = to_write.recv().await {
            writer.write(&frame).await?;
        }
        Ok(())
    };
    tokio::select! {
        ended = read => ended,
        ended = write => ended,
    }
}

/// Carries one answer to the writer.
async fn carry(
    number: String,
    answer: oneshot::Receiver<Value>,
    answers: mpsc::Sender<Bytes>,
    _permit: tokio::sync::OwnedSemaphorePermit,
) {
    // A request that nobody answers leaves the peer waiting; a connection that ended needs no answer.
    if let Ok(answer) = answer.await {
        let _ = answers.send(Frame::with_mid(&number, answer).encode()).await;
    }
}
