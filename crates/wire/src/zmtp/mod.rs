//! ZMTP 3.0 and 3.1 with the NULL mechanism, as state machines over buffers.
//!
//! Written from the ZeroMQ RFCs 23 (ZMTP 3.0) and 37 (ZMTP 3.1). A connection starts with a [`Handshake`]; afterwards a
//! [`Decoder`] cuts the stream into messages and commands, and the `encode_…` functions make the bytes to send. An
//! encoded message is a [`bytes::Bytes`], so one publication is encoded once for all connections.

mod command;
mod frame;
mod handshake;

pub use command::{Command, MAX_CONTEXT, Ready, subscription};
pub use frame::{Decoder, Header, Incoming, MAX_COMMAND, MAX_PARTS, encode_message, message_header};
pub use handshake::{GREETING_LEN, Handshake, MAX_HANDSHAKE, Peer, Step};

/// The kinds of sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SocketType {
    /// Sends one request at a time.
    Req,
    /// Answers one request at a time.
    Rep,
    /// Sends requests without waiting for answers.
    Dealer,
    /// Answers the peers it chooses.
    Router,
    /// Publishes.
    Pub,
    /// Subscribes.
    Sub,
    /// Publishes and sees subscriptions.
    XPub,
    /// Subscribes by messages.
    XSub,
    /// Hands out work.
    Push,
    /// Takes work.
    Pull,
    /// Talks to exactly one peer.
    Pair,
}

impl SocketType {
    const NAMES: [(SocketType, &'static str); 11] = [
        (SocketType::Req, "REQ"),
        (SocketType::Rep, "REP"),
        (SocketType::Dealer, "DEALER"),
        (SocketType::Router, "ROUTER"),
        (SocketType::Pub, "PUB"),
        (SocketType::Sub, "SUB"),
        (SocketType::XPub, "XPUB"),
        (SocketType::XSub, "XSUB"),
        (SocketType::Push, "PUSH"),
        (SocketType::Pull, "PULL"),
        (SocketType::Pair, "PAIR"),
    ];

    /// Returns the name as the handshake writes it.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    /// Returns the kind with this name.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::NAMES.iter().find(|(_, known)| known.as_bytes() == name).map(|(kind, _)| *kind)
    }

    /// Returns whether sockets of these kinds may talk to each other.
    pub fn talks_to(self, other: SocketType) -> bool {
        use SocketType::*;
        match self {
            // The valid combinations of ZMTP (RFC 23). A peer with another one waits for messages that never come.
            Req => matches!(other, Rep | Router),
            Rep => matches!(other, Req | Dealer),
            Dealer => matches!(other, Rep | Dealer | Router),
            Router => matches!(other, Req | Dealer | Router),
            Pub | XPub => matches!(other, Sub | XSub),
            Sub | XSub => matches!(other, Pub | XPub),
            Push => other == Pull,
            Pull => other == Push,
            Pair => other == Pair,
        }
    }
}

impl std::fmt::Display for SocketType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// An error of a peer's ZMTP. The connection must be closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The first bytes are not a ZMTP greeting.
    #[error("peer does not speak ZMTP")]
    NotZmtp,
    /// The peer speaks an older protocol than 3.0.
    #[error("peer speaks ZMTP {0}, at least 3 is needed")]
    OldVersion(u8),
    /// The peer wants a security mechanism other than NULL.
    #[error("peer wants the security mechanism {0:?}, only NULL is supported")]
    Mechanism(String),
    /// The handshake is not the READY command it has to be.
    #[error("peer sent {0} instead of READY")]
    NotReady(String),
    /// The peer refused us with an ERROR command.
    #[error("peer refused the connection: {0}")]
    Refused(String),
    /// The peer names no socket type, or one that does not exist.
    #[error("peer names no known socket type")]
    NoSocketType,
    /// The types of the sockets are incompatible.
    #[error("a {peer} socket cannot talk to a {local} socket")]
    Incompatible {
        /// Our kind.
        local: SocketType,
        /// The peer's kind.
        peer: SocketType,
    },
    /// Reserved flag bits are set.
    #[error("frame with the invalid flags {0:#04x}")]
    Flags(u8),
    /// A frame or message is larger than allowed.
    #[error("message of at least {size} bytes exceeds the limit of {limit}")]
    TooLarge {
        /// The announced or reached size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: usize,
    },
    /// A message has too many frames.
    #[error("message has more than {MAX_PARTS} frames")]
    TooManyParts,
    /// A command cannot be read.
    #[error("malformed {0} command")]
    Command(&'static str),
}

#[cfg(test)]
mod tests;
