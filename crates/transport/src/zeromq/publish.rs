//! Publishing as a PUB socket does.

use std::sync::Arc;

use bytes::Bytes;
use rt::{Connection, Listen, Rt};
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;
use wire::zmtp::{Command, Incoming as Frame, SocketType, encode_message, subscription};

use super::stream::{Setup, ZmtpStream};
use crate::publish::{Roll, Subscriber};
use crate::serve::rest_after;
use crate::{Error, Heartbeat, Limits, Publisher};

/// Subscriptions a connection may have; minions have one or two.
const MOST_SUBSCRIPTIONS: usize = 64;

/// Largest message a subscriber may send.
const SUBSCRIBER_MESSAGE: usize = 4096;

/// Listens for subscribers over zeromq.
///
/// # Errors
/// When the address cannot be listened on.
pub async fn publish(
    rt: Rt,
    listen: Listen,
    limits: Limits,
    heartbeat: Option<Heartbeat>,
) -> std::io::Result<Publisher> {
    let listener = rt.net().listen(&listen).await?;
    let address = listener.local_addr()?;
    let roll = Arc::new(Roll::default());
    let half_open = Arc::new(Semaphore::new(limits.half_open));
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
            let (roll, rt) = (entered.clone(), rt.clone());
            tokio::spawn(async move {
                let peer = connection.peer;
                if let Err(error) = attend(connection, limits, heartbeat, permit, roll, rt).await {
                    debug!(%peer, "subscriber connection ended: {error}");
                }
            });
        }
    });
    let frame = |topic: Option<&Bytes>, payload: &Bytes| match topic {
        Some(topic) => encode_message(&[topic, payload]),
        None => encode_message(&[payload]),
    };
    Ok(Publisher { address, roll, frame, introductions: None, _task: AbortOnDropHandle::new(task) })
}

async fn attend(
    connection: Connection,
    limits: Limits,
    heartbeat: Option<Heartbeat>,
    permit: tokio::sync::OwnedSemaphorePermit,
    roll: Arc<Roll>,
    rt: Rt,
) -> Result<(), Error> {
    let peer = connection.peer;
    let setup = Setup {
        socket: SocketType::Pub,
        identity: Bytes::new(),
        limit: SUBSCRIBER_MESSAGE,
        budget: None,
        heartbeat,
        timeout: limits.handshake,
    };
    let mut stream = ZmtpStream::open(connection.stream, setup).await?;
    drop(permit);
    let claimed = Some(&stream.peer.identity).filter(|identity| !identity.is_empty());
    let claimed = claimed.map(|identity| String::from_utf8_lossy(identity).into_owned());
    let (guard, mut queue) = roll.enter(peer, claimed, rt.now(), limits.queue);
    let mut subscriptions = 0;
    loop {
        tokio::select! {
            incoming = stream.next() => {
                let command = match incoming? {
                    Frame::Message(parts) => subscription(&parts),
                    Frame::Command(command) => Some(command),
                };
                note(&guard.subscriber, command, &mut subscriptions)?;
            }
            frame = queue.recv() => match frame {
                Some(frame) => stream.write(&frame).await?,
                None => return Ok(()),
            },
        }
    }
}

fn note(subscriber: &Subscriber, command: Option<Command>, count: &mut usize) -> Result<(), Error> {
    match command {
        Some(Command::Subscribe(prefix)) if *count < MOST_SUBSCRIPTIONS => {
            *count += 1;
            subscriber.subscribe(prefix);
        }
        Some(Command::Subscribe(_)) => return Err(Error::Budget(MOST_SUBSCRIPTIONS)),
        Some(Command::Cancel(prefix)) => {
            *count = count.saturating_sub(1);
            subscriber.cancel(&prefix);
        }
        _ => {}
    }
    Ok(())
}
