//! What a peer is, from its first byte: this comes before TLS, so that a stock Salt master is named as one.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rt::BoxStream;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

use crate::frame::MAX_STRANGER;

/// What begins a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Tls,
    /// A MessagePack map: the frames of Salt's own tcp transport, by which its clustered masters talk.
    Salt,
    /// The greeting of ZeroMQ.
    ZeroMq,
    Other,
}

impl Peer {
    fn of(first: u8) -> Peer {
        match first {
            0x16 => Peer::Tls,
            0x80..=0x8f | 0xde | 0xdf => Peer::Salt,
            0xff => Peer::ZeroMq,
            _ => Peer::Other,
        }
    }

    /// Describes a peer that does not speak TLS.
    pub fn refusal(self) -> Option<&'static str> {
        match self {
            Peer::Tls => None,
            Peer::Salt => Some("a stock Salt master cannot be a member of this set"),
            Peer::ZeroMq => Some("the peer speaks ZeroMQ: this is the port for links between masters"),
            Peer::Other => Some("the peer does not speak TLS"),
        }
    }
}

/// A stream whose first byte has been read already, and is read again. What a stranger may send on it is bounded.
pub(crate) struct Peeked {
    first: Option<u8>,
    /// How many bytes a stranger may still send, those of TLS itself included; `None` for members.
    allowance: Option<usize>,
    stream: BoxStream,
}

impl Peeked {
    /// Wraps a stream of which nothing has been read.
    pub fn whole(stream: BoxStream) -> Self {
        Peeked { first: None, allowance: Some(MAX_STRANGER), stream }
    }

    /// Notes that the peer has proven that it is a member.
    pub fn trust(&mut self) {
        self.allowance = None;
    }
}

/// Waits for the first byte.
pub(crate) async fn peek(mut stream: BoxStream) -> io::Result<(Peer, Peeked)> {
    let first = stream.read_u8().await?;
    Ok((Peer::of(first), Peeked { first: Some(first), ..Peeked::whole(stream) }))
}

impl AsyncRead for Peeked {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if into.remaining() > 0
            && let Some(first) = self.first.take()
        {
            into.put_slice(&[first]);
            return Poll::Ready(Ok(()));
        }
        if self.allowance == Some(0) {
            let error = io::Error::new(io::ErrorKind::InvalidData, "a stranger sends more than is read");
            return Poll::Ready(Err(error));
        }
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
        let read = into.filled().len() - before;
        self.allowance = self.allowance.map(|left| left.saturating_sub(read));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Peeked {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn peers_are_told_apart_and_nothing_of_them_is_lost() {
        for (bytes, peer) in [
            (&b"\x16\x03\x01"[..], Peer::Tls),
            (b"\x82\xa4head", Peer::Salt),
            (b"\xff\0\0", Peer::ZeroMq),
            (b"GET / HTTP/1.1", Peer::Other),
        ] {
            let (found, mut stream) = peek(Box::new(std::io::Cursor::new(bytes.to_vec()))).await.unwrap();
            assert_eq!(found, peer);
            let mut all = Vec::new();
            stream.read_to_end(&mut all).await.unwrap();
            assert_eq!(all, bytes);
            assert_eq!(found.refusal().is_none(), peer == Peer::Tls);
        }
    }

    #[tokio::test]
    async fn a_stranger_may_send_only_so_many_bytes_whatever_they_are() {
        let stream = || Box::new(std::io::Cursor::new(vec![0x16; 1 << 20]));
        let (_, mut stranger) = peek(stream()).await.unwrap();
        let mut all = Vec::new();
        assert_eq!(stranger.read_to_end(&mut all).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!((MAX_STRANGER..2 * MAX_STRANGER + 1).contains(&all.len()), "{}", all.len());
        let (_, mut member) = peek(stream()).await.unwrap();
        member.trust();
        assert_eq!(member.read_to_end(&mut Vec::new()).await.unwrap(), 1 << 20);
    }
}
