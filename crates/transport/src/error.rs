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
    /// The operating system reported an error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The peer violates ZMTP.
    #[error(transparent)]
    Zmtp(#[from] wire::zmtp::Error),
    /// The peer violates Salt's tcp protocol.
    #[error(transparent)]
    Frame(#[from] wire::tcp::Error),
    /// What the peer sent cannot be unpacked.
    #[error(transparent)]
    Msgpack(#[from] wire::msgpack::Error),
    /// The peer does not read what is written, or does not finish a message that it has begun.
    #[error("nothing moved on the connection for {} s", .0.as_secs_f32())]
    Stalled(Duration),
    /// All connections together hold more bytes than allowed.
    #[error("more than {0} bytes of unfinished or unanswered messages are waiting")]
    Budget(usize),
    /// A large message arrives too slowly.
    #[error("a large message comes with less than 8 KiB/s for {} s", .0.as_secs_f32())]
    Slow(Duration),
    /// The peer reads its answers too slowly.
    #[error("an answer is read with less than 8 KiB/s for {} s", .0.as_secs_f32())]
    SlowReader(Duration),
    /// A large unfinished message was dropped because others needed its memory.
    #[error("others need the memory of a large unfinished message")]
    Displaced,
    /// A message is not a request, or is larger than its sender may send.
    #[error(transparent)]
    Request(#[from] wire::envelope::Error),
    /// The peer had not introduced itself, and newer connections needed its place.
    #[error("too many connections have not introduced themselves")]
    Crowded,
    /// The peer sent too many items of one kind.
    #[error("the peer sent too many {0}")]
    TooMany(&'static str),
    /// TLS could not be set up, or the peer does not present the required certificate.
    #[error("TLS: {0}")]
    Tls(String),
}
