//! Listening over tcp.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use rt::{BoxStream, Rt};
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;
use value::Value;
use wire::envelope::Envelope;
use wire::tcp::Frame;

use super::stream::{FrameReader, FrameWriter, split};
use crate::{Error, Subscription, Target};

/// Makes a connection, with TLS if wished.
pub(super) async fn open(rt: &Rt, target: &Target) -> Result<BoxStream, Error> {
    let made = rt.net().connect(&target.connect()).await?;
    match &target.tls {
        None => Ok(made.stream),
        Some((tls, name)) => {
            let shaken = tokio::time::timeout(target.timeout, tls.connect(made.stream, name)).await;
            shaken.map_err(|_| Error::Timeout(target.timeout))?
        }
    }
}

/// Connects to a publisher over tcp and says who we are with the envelope.
///
/// # Errors
/// When no connection can be made.
pub async fn subscribe(rt: &Rt, target: &Target, introduction: &Envelope) -> Result<Box<dyn Subscription>, Error> {
    let stream = open(rt, target).await?;
    let (reader, mut writer) = split(stream, target.message_limit, None);
    let frame = Frame::plain(introduction.to_value()).encode();
    writer.write(frame.clone()).await?;
    let task = AbortOnDropHandle::new(tokio::spawn(introduce_again(writer, frame)));
    Ok(Box::new(TcpSubscription { reader, _task: task }))
}

/// The pauses between further introductions, in seconds.
const AGAIN: [u64; 4] = [1, 3, 10, 45];

/// Says who we are a few times more, and keeps our half of the connection open.
///
/// A master of Salt that cannot check the first introduction, because the key was accepted or its own key renewed that very
/// moment, says nothing, and then never sends this connection a job for a list, a glob or a regular expression.
async fn introduce_again(mut writer: FrameWriter, frame: Bytes) {
    for pause in AGAIN {
        tokio::time::sleep(Duration::from_secs(pause)).await;
        if let Err(error) = writer.write(frame.clone()).await {
            debug!("an introduction was not sent: {error}");
        }
    }
    std::future::pending().await
}

struct TcpSubscription {
    reader: FrameReader,
    /// Holds the other half, because dropping that would close it.
    _task: AbortOnDropHandle<()>,
}

impl Subscription for TcpSubscription {
    fn next(&mut self) -> BoxFuture<'_, Result<Bytes, Error>> {
        Box::pin(async {
            loop {
                match self.reader.next().await?.body {
                    Value::Bytes(payload) => return Ok(payload),
                    Value::Str(text) => return Ok(text.into()),
                    other => debug!("a publication that is a {} is dropped", other.type_name()),
                }
            }
        })
    }
}
