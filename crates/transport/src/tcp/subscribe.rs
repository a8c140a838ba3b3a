//! Listening over tcp.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use rt::{BoxStream, Rt};
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
    writer.write(Frame::plain(introduction.to_value()).encode()).await?;
    Ok(Box::new(TcpSubscription { reader, _writer: writer }))
}

struct TcpSubscription {
    reader: FrameReader,
    /// Kept, because dropping it would close our half.
    _writer: FrameWriter,
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
