//! What can go wrong on a connection.

use std::io;
use std::time::Duration;

/// A failure of a connection or of one exchange over it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The peer has closed the connection.
    #[error("the peer closed the connection")]
    Closed,
    /// Nothing was heard from the peer, not even heartbeats.
    #[error("nothing was heard from the peer for {} s", .0.as_secs_f32())]
    Silent(Duration),
    /// No answer came in time.
    #[error("no answer within {} s", .0.as_secs_f32())]
    Timeout(Duration),
    /// The operating system refused something.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The peer does not speak ZMTP as we do.
    #[error(transparent)]
    Zmtp(#[from] wire::zmtp::Error),
    /// The peer does not speak Salt's tcp transport.
    #[error(transparent)]
    Frame(#[from] wire::tcp::Error),
    /// What the peer sent cannot be unpacked.
    #[error(transparent)]
    Msgpack(#[from] wire::msgpack::Error),
    /// The peer takes nothing of what is written, or does not finish what it has begun.
    #[error("nothing moved on the connection for {} s", .0.as_secs_f32())]
    Stalled(Duration),
    /// All connections together hold more bytes than allowed.
    #[error("more than {0} bytes of unfinished or unanswered messages are waiting")]
    Budget(usize),
    /// A large message comes too slowly.
    #[error("a large message comes with less than 8 KiB/s for {} s", .0.as_secs_f32())]
    Slow(Duration),
    /// The peer reads its answers too slowly.
    #[error("an answer is read with less than 8 KiB/s for {} s", .0.as_secs_f32())]
    SlowReader(Duration),
    /// A large unfinished message had to make room for others.
    #[error("others need the memory of a large unfinished message")]
    Displaced,
    /// A request is none, or larger than its sender may send.
    #[error(transparent)]
    Request(#[from] wire::envelope::Error),
    /// The connection had not introduced itself, and newer ones needed its place.
    #[error("too many connections have not introduced themselves")]
    Crowded,
    /// The peer sent more of something than anybody needs.
    #[error("the peer sent too many {0}")]
    TooMany(&'static str),
    /// TLS could not be set up, or the peer does not present what is demanded.
    #[error("TLS: {0}")]
    Tls(String),
}
