//! Listening as a SUB socket does.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use rt::Rt;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;
use wire::zmtp::{Command, Incoming as Frame, SocketType};

use super::stream::{ZmtpStream, dial};
use crate::{Error, Subscription, Target};

/// Payloads that may wait to be taken.
const WAITING: usize = 256;

/// Connects to a publisher over zeromq and subscribes. `identity` is the minion's id; `topics` are the prefixes wanted, none
/// meaning everything.
///
/// # Errors
/// When no connection can be made.
pub async fn subscribe(
    rt: &Rt,
    target: &Target,
    identity: &str,
    topics: Vec<Bytes>,
) -> Result<Box<dyn Subscription>, Error> {
    let mut stream = dial(rt, target, SocketType::Sub, identity).await?;
    let wanted = if topics.is_empty() { vec![Bytes::new()] } else { topics.clone() };
    for prefix in wanted {
        let command = Command::Subscribe(prefix);
        // The form of ZMTP 3.0 is understood by all.
        stream.write(command.encode_legacy()).await?;
    }
    let (sender, payloads) = mpsc::channel(WAITING);
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
                // Whoever listened has gone, or hears of it now.
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

/// One frame is the payload; of two the first is the topic, which must be one of ours.
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
