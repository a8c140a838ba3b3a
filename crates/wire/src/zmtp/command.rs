//! Commands: READY, ERROR, PING, PONG, SUBSCRIBE, CANCEL.

use bytes::{BufMut, Bytes, BytesMut};

use super::frame::command_header;
use super::{Error, SocketType};

/// The longest context of a PING, in bytes.
pub const MAX_CONTEXT: usize = 16;

/// A ZMTP command. Unlike messages, commands are for the connection itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// End of the handshake.
    Ready(Ready),
    /// The peer refuses the connection.
    Error(String),
    /// The peer checks that the connection is alive.
    Ping {
        /// After how many tenths of a second without traffic the sender counts as dead; 0 if it does not say.
        ttl: u16,
        /// Repeated in the answer; at most [`MAX_CONTEXT`] bytes.
        context: Bytes,
    },
    /// The answer to a PING.
    Pong {
        /// The context of the PING.
        context: Bytes,
    },
    /// Messages that begin with these bytes are wanted.
    Subscribe(Bytes),
    /// One such subscription ends.
    Cancel(Bytes),
    /// A command of a later version; to be ignored.
    Unknown(Bytes),
}

/// The properties that a peer announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The kind of its socket.
    pub socket_type: SocketType,
    /// Its routing id; empty if it has none. It proves nothing: a peer may claim any.
    pub identity: Bytes,
}

impl Command {
    /// Returns the command as a frame.
    pub fn encode(&self) -> Bytes {
        let mut body = BytesMut::with_capacity(64);
        self.write(&mut body);
        let mut out = BytesMut::with_capacity(body.len() + 9);
        out.put_slice(&command_header(body.len()));
        out.put_slice(&body);
        out.freeze()
    }

    fn write(&self, out: &mut BytesMut) {
        let mut name = |name: &str| {
            out.put_u8(name.len() as u8);
            out.put_slice(name.as_bytes());
        };
        match self {
            Command::Ready(ready) => {
                name("READY");
                write_property(out, "Socket-Type", ready.socket_type.name().as_bytes());
                // libzmq sends it for these three kinds, even when empty, and never for others.
                let always = matches!(ready.socket_type, SocketType::Req | SocketType::Dealer | SocketType::Router);
                if always || !ready.identity.is_empty() {
                    write_property(out, "Identity", &ready.identity);
                }
            }
            Command::Error(reason) => {
                name("ERROR");
                let reason = short_reason(reason);
                out.put_u8(reason.len() as u8);
                out.put_slice(reason.as_bytes());
            }
            Command::Ping { ttl, context } => {
                name("PING");
                out.put_u16(*ttl);
                out.put_slice(context);
            }
            Command::Pong { context } => {
                name("PONG");
                out.put_slice(context);
            }
            Command::Subscribe(prefix) => {
                name("SUBSCRIBE");
                out.put_slice(prefix);
            }
            Command::Cancel(prefix) => {
                name("CANCEL");
                out.put_slice(prefix);
            }
            Command::Unknown(body) => out.put_slice(body),
        }
    }

    /// Reads the body of a command frame.
    pub fn decode(body: &Bytes) -> Result<Self, Error> {
        // Lengths come from the peer, so every access below is checked.
        let len = usize::from(*body.first().ok_or(Error::Command("empty"))?);
        let name = body.get(1..1 + len).ok_or(Error::Command("nameless"))?;
        let rest = body.slice(1 + len..);
        Ok(match name {
            b"READY" => Command::Ready(ready(rest)?),
            b"ERROR" => Command::Error(error_reason(&rest)?),
            b"PING" => {
                // The context is sent back. Unbounded, it would let a peer make this side send as much as it likes.
                if !(2..=2 + MAX_CONTEXT).contains(&rest.len()) {
                    return Err(Error::Command("PING"));
                }
                Command::Ping { ttl: u16::from_be_bytes([rest[0], rest[1]]), context: rest.slice(2..) }
            }
            b"PONG" => Command::Pong { context: rest },
            b"SUBSCRIBE" => Command::Subscribe(rest),
            b"CANCEL" => Command::Cancel(rest),
            // A later version may add commands; closing the connection would make upgrades impossible.
            _ => Command::Unknown(body.clone()),
        })
    }

    /// Returns a subscription or its end in the form of ZMTP 3.0: an ordinary message with a first byte 1 or 0.
    pub fn encode_legacy(&self) -> Bytes {
        match self {
            Command::Subscribe(prefix) => super::encode_message(&[[&[1], &prefix[..]].concat()]),
            Command::Cancel(prefix) => super::encode_message(&[[&[0], &prefix[..]].concat()]),
            _ => self.encode(),
        }
    }
}

/// Reads a subscription in the form of ZMTP 3.0 from a message; `None` if the message is something else.
pub fn subscription(parts: &[Bytes]) -> Option<Command> {
    match parts {
        // A subscription is a single frame. What else a subscriber sends is ignored.
        [only] if only.first() == Some(&1) => Some(Command::Subscribe(only.slice(1..))),
        [only] if only.first() == Some(&0) => Some(Command::Cancel(only.slice(1..))),
        _ => None,
    }
}

fn write_property(out: &mut BytesMut, name: &str, content: &[u8]) {
    out.put_u8(name.len() as u8);
    out.put_slice(name.as_bytes());
    out.put_u32(content.len() as u32);
    out.put_slice(content);
}

fn ready(mut rest: Bytes) -> Result<Ready, Error> {
    let mut socket_type = None;
    let mut identity = Bytes::new();
    // Unknown properties are skipped: peers may announce their own.
    while !rest.is_empty() {
        let (name, content) = property(&mut rest).ok_or(Error::Command("READY"))?;
        // Names are compared without regard to case.
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            socket_type = SocketType::from_name(&content);
        } else if name.eq_ignore_ascii_case(b"Identity") {
            identity = content;
        }
    }
    Ok(Ready { socket_type: socket_type.ok_or(Error::NoSocketType)?, identity })
}

fn property(rest: &mut Bytes) -> Option<(Bytes, Bytes)> {
    let len = usize::from(*rest.first()?);
    let lengths = rest.get(1 + len..5 + len)?;
    let content = u32::from_be_bytes(lengths.try_into().ok()?) as usize;
    let end = (5 + len).checked_add(content).filter(|end| *end <= rest.len())?;
    let property = rest.split_to(end);
    Some((property.slice(1..1 + len), property.slice(5 + len..)))
}

fn error_reason(rest: &Bytes) -> Result<String, Error> {
    let len = usize::from(*rest.first().ok_or(Error::Command("ERROR"))?);
    let reason = rest.get(1..1 + len).ok_or(Error::Command("ERROR"))?;
    Ok(short_reason(&String::from_utf8_lossy(reason)).to_owned())
}

/// Cuts a reason to the 255 bytes that its one-byte length allows, between characters.
///
/// Replacing bytes that are not UTF-8 makes a reason longer, so one that was read is cut too.
fn short_reason(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(usize::from(u8::MAX))]
}
