//! Publishing over tcp.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rt::{BoxStream, Connection, Listen, Rt};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;
use value::Map;
use wire::envelope::Envelope;
use wire::tcp::Frame;

use super::stream::split;
use crate::publish::Roll;
use crate::serve::rest_after;
use crate::{Error, Introduction, Limits, Publisher, Tls};

/// Largest frame a subscriber may send: the introduction.
const SUBSCRIBER_MESSAGE: usize = 16 << 10;

/// Listens for subscribers over tcp.
///
/// # Errors
/// When the address cannot be listened on.
pub async fn publish(rt: Rt, listen: Listen, limits: Limits, tls: Option<Tls>) -> std::io::Result<Publisher> {
    let listener = rt.net().listen(&listen).await?;
    let address = listener.local_addr()?;
    let roll = Arc::new(Roll::default());
    let half_open = Arc::new(Semaphore::new(limits.half_open));
    let (said, introductions) = mpsc::channel(1024);
    let entered = roll.clone();
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
            let (roll, rt, tls, said) = (entered.clone(), rt.clone(), tls.clone(), said.clone());
            tokio::spawn(async move {
                let peer = connection.peer;
                let guest = Guest { connection, limits, tls, permit };
                if let Err(error) = attend(guest, roll, rt, said).await {
                    debug!(%peer, "subscriber connection ended: {error}");
                }
            });
        }
    });
    let frame = |_: Option<&Bytes>, payload: &Bytes| Frame::encode_bytes(Map::new(), payload);
    let _task = AbortOnDropHandle::new(task);
    Ok(Publisher { address, roll, frame, introductions: Some(introductions), _task })
}

/// Secures a fresh connection with TLS, if wished, within the time.
pub(super) async fn secure(stream: BoxStream, tls: Option<&Tls>, timeout: Duration) -> Result<BoxStream, Error> {
    match tls {
        None => Ok(stream),
        Some(tls) => tokio::time::timeout(timeout, tls.accept(stream)).await.map_err(|_| Error::Timeout(timeout))?,
    }
}

struct Guest {
    connection: Connection,
    limits: Limits,
    tls: Option<Tls>,
    permit: tokio::sync::OwnedSemaphorePermit,
}

async fn attend(guest: Guest, roll: Arc<Roll>, rt: Rt, said: mpsc::Sender<Introduction>) -> Result<(), Error> {
    let Guest { connection, limits, tls, permit } = guest;
    let peer = connection.peer;
    let stream = secure(connection.stream, tls.as_ref(), limits.handshake).await?;
    let (mut reader, mut writer) = split(stream, SUBSCRIBER_MESSAGE, None);
    let (guard, mut queue) = roll.enter(peer, None, rt.now(), limits.queue);
    // Everything is for everybody until the master knows better.
    guard.subscriber.subscribe(Bytes::new());
    let introduce = async {
        loop {
            let frame = reader.next().await?;
            let introduction = Introduction::new(Envelope::from_value(frame.body), guard.subscriber.clone());
            // A publisher without anybody who checks introductions goes on without.
            let _ = said.send(introduction).await;
        }
    };
    // Old minions may introduce themselves late, or never; the bound on half-open connections is not for them.
    drop(permit);
    let write = async {
        while let Some(frame) = queue.recv().await {
            writer.write(&frame).await?;
        }
        Ok(())
    };
    tokio::select! {
        ended = introduce => ended,
        ended = write => ended,
    }
}
