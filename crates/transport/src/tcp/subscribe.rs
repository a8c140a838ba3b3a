//! Receives publications over tcp.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use rt::{BoxStream, Rt};
use tracing::debug;
use value::Value;
use wire::envelope::Envelope;
use wire::msgpack::{self, Packing};
use wire::tcp::Frame;

use super::stream::{Bounds, FrameReader, FrameWriter, split};
use crate::{Error, Subscription, Target};

/// Makes a connection, with TLS if configured.
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

/// Connects to a publisher over tcp and sends it the introduction.
///
/// # Errors
/// If no connection can be made.
pub async fn subscribe(rt: &Rt, target: &Target, introduction: &Envelope) -> Result<Box<dyn Subscription>, Error> {
    let stream = open(rt, target).await?;
    let (reader, mut writer) = split(stream, Bounds::of_publications(target.message_limit));
    writer.write(Frame::plain(introduction.to_value()).encode()).await?;
    Ok(Box::new(TcpSubscription { reader, _writer: writer }))
}

struct TcpSubscription {
    reader: FrameReader,
    /// Kept, because dropping it would close our half of the connection.
    _writer: FrameWriter,
}

impl Subscription for TcpSubscription {
    fn next(&mut self) -> BoxFuture<'_, Result<Bytes, Error>> {
        Box::pin(async {
            loop {
                match payload(self.reader.next().await?.body) {
                    Ok(payload) => return Ok(payload),
                    // A strange publication must not end the connection: the next one may be a job.
                    Err(other) => debug!("a publication that is a {} is dropped", other.type_name()),
                }
            }
        })
    }
}

/// Returns a publication as bytes. Masters of release 3006 send it as a map in the frame, later ones pack it a second
/// time.
fn payload(body: Value) -> Result<Bytes, Value> {
    match body {
        Value::Bytes(payload) => Ok(*payload),
        Value::Str(text) => Ok(text.into()),
        map @ Value::Map(_) => Ok(msgpack::pack(&map, Packing::Wire).into()),
        other => Err(other),
    }
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    #[test]
    fn publications_come_packed_or_as_maps() {
        let publication = map! { "enc" => "aes", "load" => Bytes::from_static(b"\xff\x00") };
        let packed = Bytes::from(msgpack::pack(&publication.clone().into(), Packing::Wire));
        assert_eq!(payload(publication.into()).unwrap(), packed);
        assert_eq!(payload(packed.clone().into()).unwrap(), packed);
        assert_eq!(payload(Value::Int(1)).unwrap_err(), Value::Int(1));
    }
}
