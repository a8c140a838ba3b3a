//! What a connection has read and not yet understood.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::budget::Share;
use crate::{Budget, Error};

/// How long a peer may take nothing of what we write, or leave a large message unfinished.
pub(crate) const STALLED: Duration = Duration::from_secs(60);

/// Room for an idle connection, in bytes.
const LEAST: usize = 1 << 10;

/// Room for a connection that sends many small messages, in bytes.
const BUSY: usize = 64 << 10;

/// The most room that is made for a message because it was announced, in bytes.
const ANNOUNCED: usize = 4 << 20;

/// Bytes that have arrived: little room while idle, enough for a whole message once its length is known.
#[derive(Debug)]
pub(crate) struct ReadBuffer {
    /// The bytes; whoever understands them takes them off the front.
    pub(crate) bytes: BytesMut,
    room: usize,
    share: Share,
}

impl ReadBuffer {
    pub(crate) fn new(budget: Option<Arc<Budget>>) -> Self {
        ReadBuffer { bytes: BytesMut::new(), room: LEAST, share: Share::of(budget) }
    }

    /// Reads once, with room for `missing` bytes if so many are known to come. May be dropped and called again.
    pub(crate) async fn fill(&mut self, stream: &mut (impl AsyncRead + Unpin), missing: usize) -> Result<(), Error> {
        self.make_room(missing);
        let spare = self.bytes.capacity() - self.bytes.len();
        let count = if self.share.is_held() {
            let read = tokio::time::timeout(STALLED, stream.read_buf(&mut self.bytes)).await;
            read.map_err(|_| Error::Stalled(STALLED))??
        } else {
            stream.read_buf(&mut self.bytes).await?
        };
        if missing == 0 {
            self.room = if count == spare { (self.room * 2).min(BUSY) } else { LEAST };
        }
        self.share.hold(self.bytes.len())?;
        if count == 0 { Err(Error::Closed) } else { Ok(()) }
    }

    fn make_room(&mut self, missing: usize) {
        if self.bytes.is_empty() && !(LEAST / 4..=self.room * 2).contains(&self.bytes.capacity()) {
            // A new one, because the old one keeps the memory of past messages.
            self.bytes = BytesMut::with_capacity(self.room);
        }
        let (len, spare) = (self.bytes.len(), self.bytes.capacity() - self.bytes.len());
        let short = match missing {
            0 => spare < LEAST / 4,
            // At once when the message begins; later only when all room is used up.
            _ => spare < missing && (spare < LEAST / 4 || (len < BUSY && spare < missing.min(ANNOUNCED / 2))),
        };
        if short {
            // Who has sent much may be believed to send as much again.
            self.bytes.reserve(missing.clamp(self.room, ANNOUNCED.max(len)));
        }
    }

    /// Gives back what was held for the bytes that have been taken off.
    pub(crate) fn settle(&mut self) {
        self.share.shrink(self.bytes.len());
    }

    /// Holds bytes of a complete message for as long as the returned share lives.
    pub(crate) fn keep(&self, bytes: usize) -> Share {
        self.share.another(bytes)
    }
}

/// Writes all bytes, however long that takes, as long as the peer goes on taking some.
pub(crate) async fn write_patiently(stream: &mut (impl AsyncWrite + Unpin), mut bytes: impl Buf) -> Result<(), Error> {
    while bytes.has_remaining() {
        write_once(stream, &mut bytes).await?;
    }
    Ok(stream.flush().await?)
}

/// Writes some bytes and takes them off the front. May be dropped and called again.
pub(crate) async fn write_once(stream: &mut (impl AsyncWrite + Unpin), bytes: &mut impl Buf) -> Result<(), Error> {
    let written = tokio::time::timeout(STALLED, stream.write_buf(bytes)).await;
    match written.map_err(|_| Error::Stalled(STALLED))?? {
        0 => Err(Error::Closed),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_large_message_is_read_into_one_place_that_is_given_up_afterwards() {
        let mut buffer = ReadBuffer::new(None);
        let (message, mut far) = (vec![7; 1 << 20], tokio::io::duplex(1 << 21));
        far.1.write_all(&message).await.unwrap();
        buffer.fill(&mut far.0, 0).await.unwrap();
        assert!(buffer.bytes.capacity() <= 2 * LEAST, "nothing is known yet");
        buffer.fill(&mut far.0, message.len() - buffer.bytes.len()).await.unwrap();
        let place = buffer.bytes.as_ptr();
        while buffer.bytes.len() < message.len() {
            buffer.fill(&mut far.0, message.len() - buffer.bytes.len()).await.unwrap();
        }
        assert_eq!((buffer.bytes.as_ptr(), buffer.bytes == message), (place, true));
        buffer.bytes.clear();
        far.1.write_all(b"x").await.unwrap();
        buffer.fill(&mut far.0, 0).await.unwrap();
        assert!(buffer.bytes.capacity() <= 2 * BUSY);
    }

    #[tokio::test]
    async fn an_announcement_alone_costs_little() {
        let mut buffer = ReadBuffer::new(None);
        let (mut near, mut far) = tokio::io::duplex(64);
        far.write_all(b"x").await.unwrap();
        buffer.fill(&mut near, 2 << 30).await.unwrap();
        assert!(buffer.bytes.capacity() <= ANNOUNCED + LEAST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_message_that_stops_coming_is_given_up() {
        let mut buffer = ReadBuffer::new(Some(Budget::new(1 << 20)));
        let (mut near, mut far) = tokio::io::duplex(1 << 20);
        far.write_all(&vec![0; 100 << 10]).await.unwrap();
        while buffer.bytes.len() < 100 << 10 {
            buffer.fill(&mut near, 1 << 20).await.unwrap();
        }
        assert!(matches!(buffer.fill(&mut near, 1 << 20).await, Err(Error::Stalled(STALLED))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_given_up() {
        let (mut near, _far) = tokio::io::duplex(64);
        assert!(matches!(write_patiently(&mut near, &[0; 100][..]).await, Err(Error::Stalled(STALLED))));
    }
}
