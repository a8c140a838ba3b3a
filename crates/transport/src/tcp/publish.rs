//! Publishing over tcp.

use std::sync::Arc;

use bytes::Bytes;
use rt::{Connection, Listen, Rt};
use tokio::sync::mpsc;
use value::Map;
use wire::envelope::Envelope;
use wire::tcp::Frame;

use super::stream::{Bounds, FrameReader, split};
use crate::accept::{Place, accept};
use crate::publish::{SubscriberGuard, Subscribers};
use crate::{Error, Introduction, Limits, Publisher, Tls};

/// Largest frame a subscriber may send, in bytes: the introduction.
const SUBSCRIBER_MESSAGE: usize = 16 << 10;

/// The largest number of introductions of one connection; minions send one per sign-in.
const MOST_INTRODUCTIONS: usize = 64;

/// The largest number of introductions that wait to be verified.
const WAITING: usize = 1024;

/// Listens for subscribers over tcp.
///
/// # Errors
/// If it cannot listen on the address.
pub async fn publish(rt: Rt, listen: Listen, limits: Limits, tls: Option<Tls>) -> std::io::Result<Publisher> {
    let listener = rt.net().listen(&listen).await?;
    let (address, inside) = (listener.local_addr()?, rt.clone());
    let (subscribers, drained) = Subscribers::new();
    let (said, introductions) = mpsc::channel(WAITING);
    let entered = subscribers.clone();
    let task = accept(&inside, listener, limits.half_open, "subscriber", move |connection, place| {
        let hall = Hall { subscribers: entered.clone(), rt: rt.clone(), said: said.clone() };
        attend(connection, place, limits, tls.clone(), hall)
    });
    let frame = |_: Option<&Bytes>, payload: &Bytes| Frame::encode_bytes(Map::new(), payload);
    Ok(Publisher {
        address,
        subscribers,
        frame,
        introductions: Some(introductions),
        drained: Some(drained),
        _task: task,
    })
}

/// The parts of the publisher that a connection uses.
struct Hall {
    subscribers: Arc<Subscribers>,
    rt: Rt,
    said: mpsc::Sender<Introduction>,
}

async fn attend(
    connection: Connection,
    place: Place,
    limits: Limits,
    tls: Option<Tls>,
    hall: Hall,
) -> Result<(), Error> {
    let record = place.record();
    // Minions may introduce themselves late, or never; so without TLS there is nothing to wait for.
    let stream = place.during(limits.handshake, crate::tls::secure(connection.stream, tls.as_ref())).await?;
    let (reader, mut writer) = split(stream, Bounds::of_peer(SUBSCRIBER_MESSAGE));
    let (guard, mut queue) = hall.subscribers.enter(connection.peer, record, None, hall.rt.now(), limits.queue);
    // Everything is for everybody until the master knows better.
    guard.subscriber.subscribe(Bytes::new());
    let write = async {
        while let Some(frame) = queue.next().await {
            writer.write(frame).await?;
        }
        Ok(())
    };
    tokio::select! {
        biased;
        ended = hear(reader, &guard, hall.said) => ended,
        ended = write => ended,
    }
}

/// Passes on the introductions of a subscriber.
async fn hear(mut reader: FrameReader, place: &SubscriberGuard, said: mpsc::Sender<Introduction>) -> Result<(), Error> {
    for _ in 0..MOST_INTRODUCTIONS {
        let frame = reader.next().await?;
        let introduction = Introduction::new(Envelope::from_value(frame.body), place);
        // If nobody verifies introductions, the publisher works without.
        let _ = said.send(introduction).await;
    }
    Err(Error::TooMany("introductions"))
}
