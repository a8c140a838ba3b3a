//! Publishes as a PUB socket does.

use std::sync::Arc;

use bytes::Bytes;
use rt::{Connection, Listen, Rt};
use wire::zmtp::{Command, Incoming as Frame, SocketType, encode_message, subscription};

use super::stream::{Setup, ZmtpStream, admit};
use crate::accept::{Place, accept};
use crate::publish::{Queue, Subscriber, SubscriberGuard, Subscribers};
use crate::{Error, Heartbeat, Limits, Publisher};

/// The largest number of subscriptions of one connection; minions have one or two.
const MOST_SUBSCRIPTIONS: usize = 64;

/// Largest message a subscriber may send, in bytes.
const SUBSCRIBER_MESSAGE: usize = 4096;

/// Listens for subscribers over zeromq.
///
/// # Errors
/// If it cannot listen on the address.
pub async fn publish(
    rt: Rt,
    listen: Listen,
    limits: Limits,
    heartbeat: Option<Heartbeat>,
) -> std::io::Result<Publisher> {
    let listener = rt.net().listen(&listen).await?;
    let (address, inside) = (listener.local_addr()?, rt.clone());
    let (subscribers, drained) = Subscribers::new();
    let entered = subscribers.clone();
    let task = accept(&inside, listener, limits.half_open, "subscriber", move |connection, place| {
        attend(connection, place, limits, heartbeat, entered.clone(), rt.clone())
    });
    let frame = |topic: Option<&Bytes>, payload: &Bytes| match topic {
        Some(topic) => encode_message(&[topic, payload]),
        None => encode_message(&[payload]),
    };
    Ok(Publisher { address, subscribers, frame, introductions: None, drained: Some(drained), _task: task })
}

async fn attend(
    connection: Connection,
    place: Place,
    limits: Limits,
    heartbeat: Option<Heartbeat>,
    subscribers: Arc<Subscribers>,
    rt: Rt,
) -> Result<(), Error> {
    let (socket, identity) = (SocketType::Pub, Bytes::new());
    let setup = Setup { socket, identity, limit: SUBSCRIBER_MESSAGE, budget: None, foreign: true, heartbeat };
    let record = place.record();
    let (stream, claimed) = {
        let (stream, peer) = admit(connection.stream, place, setup, limits.handshake).await?;
        let claimed = (!peer.identity.is_empty()).then(|| String::from_utf8_lossy(&peer.identity).into_owned());
        (stream, claimed)
    };
    let entered = subscribers.enter(connection.peer, record, claimed, rt.now(), limits.queue);
    // Only the guard keeps the list now.
    drop(subscribers);
    feed(stream, entered).await
}

/// Writes publications, and records the peer's subscriptions.
async fn feed(mut stream: ZmtpStream, entered: (SubscriberGuard, Queue)) -> Result<(), Error> {
    let (guard, mut queue) = entered;
    let mut subscriptions = 0;
    loop {
        tokio::select! {
            biased;
            incoming = stream.next() => {
                let command = match incoming? {
                    Frame::Message(parts) => subscription(&parts),
                    Frame::Command(command) => Some(command),
                };
                note(&guard.subscriber, command, &mut subscriptions)?;
            }
            frame = queue.next() => match frame {
                Some(frame) => stream.write(frame).await?,
                None => return Ok(()),
            },
        }
    }
}

fn note(subscriber: &Subscriber, command: Option<Command>, count: &mut usize) -> Result<(), Error> {
    match command {
        Some(Command::Subscribe(prefix)) if *count < MOST_SUBSCRIPTIONS => {
            *count += 1;
            // A copy of its own, because the frame is part of a larger buffer.
            subscriber.subscribe(Bytes::copy_from_slice(&prefix));
        }
        Some(Command::Subscribe(_)) => return Err(Error::TooMany("subscriptions")),
        Some(Command::Cancel(prefix)) => {
            *count = count.saturating_sub(1);
            subscriber.cancel(&prefix);
        }
        _ => {}
    }
    Ok(())
}
