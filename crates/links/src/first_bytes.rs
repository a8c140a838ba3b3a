//! What a peer is, from its first bytes: this comes before TLS, so that a stock Salt master is named as one.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use rt::BoxStream;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

use peers::kind::MAX_STRANGER;

/// What begins a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Tls,
    /// The frames of Salt's own tcp transport, by which its clustered masters talk: a MessagePack map, since 3008 behind its
    /// length in four bytes.
    Salt,
    /// The greeting of ZeroMQ.
    ZeroMq,
    Other,
}

impl Peer {
    fn of(first: u8) -> Peer {
        match first {
            0x16 => Peer::Tls,
            first if is_map(first) => Peer::Salt,
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

fn is_map(first: u8) -> bool {
    matches!(first, 0x80..=0x8f | 0xde | 0xdf)
}

/// A stream whose first bytes have been read already, and are read again. What a stranger may send on it is bounded.
pub(crate) struct Peeked {
    first: Bytes,
    /// How many bytes a stranger may still send, those of TLS itself included; `None` for members.
    allowance: Option<usize>,
    stream: BoxStream,
}

impl Peeked {
    /// Wraps a stream of which nothing has been read.
    pub fn whole(stream: BoxStream) -> Self {
        Peeked { first: Bytes::new(), allowance: Some(MAX_STRANGER), stream }
    }

    /// Notes that the peer has proven that it is a member.
    pub fn trust(&mut self) {
        self.allowance = None;
    }
}

/// The length before a frame of Salt 3008. Its frames are far shorter than 16 MiB.
const SALT_LENGTH: usize = 4;

/// Waits for the first byte, and for as many more as it takes to tell what the peer is.
pub(crate) async fn peek(mut stream: BoxStream) -> io::Result<(Peer, Peeked)> {
    let mut first = vec![stream.read_u8().await?];
    let mut peer = Peer::of(first[0]);
    if first[0] == 0 {
        first.resize(SALT_LENGTH + 1, 0);
        stream.read_exact(&mut first[1..]).await?;
        peer = if is_map(first[SALT_LENGTH]) { Peer::Salt } else { Peer::Other };
    }
    Ok((peer, Peeked { first: first.into(), ..Peeked::whole(stream) }))
}

impl AsyncRead for Peeked {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if into.remaining() > 0 && !self.first.is_empty() {
            let len = into.remaining().min(self.first.len());
            into.put_slice(&self.first.split_to(len));
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
            // The first bytes of a master of 3008.5 with cluster_peers.
            (b"\0\0\0f\x82\xa4head\x80\xa4body\xc4Xcluster/peer/m1\n\n", Peer::Salt),
            (b"\0\0\0\x05\x91\xa4ping", Peer::Other),
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
