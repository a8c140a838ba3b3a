//! The start of a connection: greetings, then READY commands.

use bytes::{Buf, Bytes, BytesMut};

use super::{Command, Decoder, Error, Incoming, Ready, SocketType};

/// The length of a greeting in bytes.
pub const GREETING_LEN: usize = 64;

/// The maximum length of a peer's READY command in bytes: names, a socket type and an identity.
pub const MAX_HANDSHAKE: usize = 4096;

/// The two ends of the signature, the version 3.1, the mechanism NULL.
const GREETING: [u8; GREETING_LEN] = {
    let mut greeting = [0; GREETING_LEN];
    greeting[0] = 0xff;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    greeting[11] = 1;
    greeting[12] = b'N';
    greeting[13] = b'U';
    greeting[14] = b'L';
    greeting[15] = b'L';
    greeting
};

/// The properties of a peer after the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The kind of its socket.
    pub socket_type: SocketType,
    /// Its routing id, which anybody may claim; empty when it has none.
    pub identity: Bytes,
    /// The minor version: 0 for ZMTP 3.0, 1 for 3.1 with its SUBSCRIBE and PING commands.
    pub minor: u8,
}

/// The next step of the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// More bytes from the peer.
    Read,
    /// These bytes sent to the peer; then [`Handshake::advance`] called again.
    Send(Bytes),
    /// Nothing: messages may flow. Bytes left in the buffer belong to the first ones.
    Done(Peer),
}

/// One side of the handshake.
#[derive(Debug)]
pub struct Handshake {
    local: Ready,
    state: State,
}

#[derive(Debug)]
enum State {
    Greeting,
    Ready { minor: u8 },
}

impl Handshake {
    /// Begins a handshake; the returned greeting is to be sent first.
    pub fn new(socket_type: SocketType, identity: Bytes) -> (Self, Bytes) {
        (Handshake { local: Ready { socket_type, identity }, state: State::Greeting }, Bytes::from_static(&GREETING))
    }

    /// Advances as far as the bytes in the buffer allow, and removes what it has read from the front.
    ///
    /// Bytes that cannot become a greeting are refused as soon as they are seen.
    pub fn advance(&mut self, buffer: &mut BytesMut) -> Result<Step, Error> {
        match self.state {
            State::Greeting => self.greeting(buffer),
            State::Ready { minor } => self.ready(buffer, minor),
        }
    }

    fn greeting(&mut self, buffer: &mut BytesMut) -> Result<Step, Error> {
        check_signature(buffer)?;
        if buffer.len() < GREETING_LEN {
            return Ok(Step::Read);
        }
        // Any minor version: peers speak the lower of both, and this side sends nothing that 3.0 lacks unless the peer
        // has 3.1.
        let minor = buffer[11];
        // The rest of the greeting, the flag `as-server` and filler, means nothing with the mechanism NULL.
        check_mechanism(&buffer[12..32])?;
        buffer.advance(GREETING_LEN);
        self.state = State::Ready { minor };
        Ok(Step::Send(Command::Ready(self.local.clone()).encode()))
    }

    fn ready(&self, buffer: &mut BytesMut, minor: u8) -> Result<Step, Error> {
        // A new decoder each time: READY is a single frame, which stays in the buffer until it is complete.
        let ready = match Decoder::new(MAX_HANDSHAKE).decode(buffer)? {
            None => return Ok(Step::Read),
            Some(Incoming::Command(Command::Ready(ready))) => ready,
            Some(Incoming::Command(Command::Error(reason))) => return Err(Error::Refused(reason)),
            Some(Incoming::Command(_)) => return Err(Error::NotReady("another command".into())),
            Some(Incoming::Message(_)) => return Err(Error::NotReady("a message".into())),
        };
        let (local, peer) = (self.local.socket_type, ready.socket_type);
        if !local.talks_to(peer) {
            return Err(Error::Incompatible { local, peer });
        }
        Ok(Step::Done(Peer { socket_type: peer, identity: ready.identity, minor }))
    }
}

/// The eight bytes within the signature are ignored, as the RFC requires: old versions put a length there.
fn check_signature(start: &[u8]) -> Result<(), Error> {
    let expected = [(0, 0xff), (9, 0x7f)];
    if expected.iter().any(|&(place, byte)| start.get(place).is_some_and(|found| *found != byte)) {
        return Err(Error::NotZmtp);
    }
    match start.get(10) {
        // Higher major versions are accepted, as the RFC demands: the peer with the newer one falls back.
        Some(&major) if major < 3 => Err(Error::OldVersion(major)),
        _ => Ok(()),
    }
}

fn check_mechanism(field: &[u8]) -> Result<(), Error> {
    let name = field.split(|byte| *byte == 0).next().unwrap_or_default();
    if name == b"NULL" { Ok(()) } else { Err(Error::Mechanism(String::from_utf8_lossy(name).into_owned())) }
}
