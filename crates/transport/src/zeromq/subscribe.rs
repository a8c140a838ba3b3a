//! Receives publications as a SUB socket does.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use rt::Rt;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;
use wire::zmtp::{Command, Incoming as Frame, SocketType};

use super::stream::{ZmtpStream, dial};
use crate::{Error, Subscription, Target};

/// The largest number of payloads that wait to be taken.
const WAITING: usize = 256;

/// Connects to a publisher over zeromq and subscribes. `identity` is the minion's id. `topics` are the prefixes to
/// subscribe to; without any, everything.
///
/// # Errors
/// If no connection can be made.
pub async fn subscribe(
    rt: &Rt,
    target: &Target,
    identity: &str,
    topics: Vec<Bytes>,
) -> Result<Box<dyn Subscription>, Error> {
    let mut stream = dial(rt, target, SocketType::Sub, identity).await?;
    // An empty prefix is ZeroMQ's subscription to everything.
    let wanted = if topics.is_empty() { vec![Bytes::new()] } else { topics.clone() };
    for prefix in wanted {
        let command = Command::Subscribe(prefix);
        // All peers understand the form of ZMTP 3.0.
        stream.write(command.encode_legacy()).await?;
    }
    let (sender, payloads) = mpsc::channel(WAITING);
    // A task of its own, so that heartbeats are answered while nobody takes payloads.
    let task = AbortOnDropHandle::new(rt.spawn(listen(stream, topics, sender)));
    Ok(Box::new(ZmqSubscription { payloads, _task: task }))
}

struct ZmqSubscription {
    payloads: mpsc::Receiver<Result<Bytes, Error>>,
    _task: AbortOnDropHandle<()>,
}

impl Subscription for ZmqSubscription {
    fn next(&mut self) -> BoxFuture<'_, Result<Bytes, Error>> {
        Box::pin(async { self.payloads.recv().await.unwrap_or(Err(Error::Closed)) })
    }
}

async fn listen(mut stream: ZmtpStream, topics: Vec<Bytes>, payloads: mpsc::Sender<Result<Bytes, Error>>) {
    loop {
        let payload = match stream.next().await {
            Ok(Frame::Message(parts)) => payload(parts, &topics),
            Ok(Frame::Command(_)) => None,
            Err(error) => {
                // Whoever listened has gone, or learns it now.
                let _ = payloads.send(Err(error)).await;
                return;
            }
        };
        if let Some(payload) = payload
            && payloads.send(Ok(payload)).await.is_err()
        {
            return;
        }
    }
}

/// Returns the payload: the only frame, or the second of two, whose first is a topic that we subscribed to.
fn payload(mut parts: Vec<Bytes>, topics: &[Bytes]) -> Option<Bytes> {
    match parts.len() {
        1 => parts.pop(),
        2 if topics.is_empty() || topics.contains(&parts[0]) => parts.pop(),
        frames => {
            debug!(frames, "a publication with a strange topic or too many frames is dropped");
            None
        }
    }
}
