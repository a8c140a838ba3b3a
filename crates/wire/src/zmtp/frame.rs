//! Frames: one byte of flags, a short or long length, the body.

use bytes::{BufMut, Bytes, BytesMut};

use super::{Command, Error};

/// The maximum number of frames in a message. Salt's messages have one to three.
pub const MAX_PARTS: usize = 64;

/// The longest command, in bytes: a PING, or a subscription.
pub const MAX_COMMAND: usize = 8 << 10;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// A message or command from a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A message, frame by frame; at least one.
    Message(Vec<Bytes>),
    /// A command.
    Command(Command),
}

/// The bytes in front of a frame's body: flags and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    bytes: [u8; 9],
    len: u8,
}

impl std::ops::Deref for Header {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Returns the header of a message frame, so that a large body can be written without a copy.
pub fn message_header(body_len: usize, more: bool) -> Header {
    header(if more { MORE } else { 0 }, body_len)
}

pub(super) fn command_header(body_len: usize) -> Header {
    header(COMMAND, body_len)
}

fn header(flags: u8, body_len: usize) -> Header {
    let mut bytes = [0; 9];
    match u8::try_from(body_len) {
        Ok(short) => {
            (bytes[0], bytes[1]) = (flags, short);
            Header { bytes, len: 2 }
        }
        Err(_) => {
            bytes[0] = flags | LONG;
            bytes[1..].copy_from_slice(&(body_len as u64).to_be_bytes());
            Header { bytes, len: 9 }
        }
    }
}

/// Returns a message as bytes that may be sent on any number of connections.
pub fn encode_message<B: AsRef<[u8]>>(parts: &[B]) -> Bytes {
    let size: usize = parts.iter().map(|part| part.as_ref().len() + 9).sum();
    let mut out = BytesMut::with_capacity(size);
    for (place, part) in parts.iter().enumerate() {
        let part = part.as_ref();
        out.put_slice(&message_header(part.len(), place + 1 < parts.len()));
        out.put_slice(part);
    }
    out.freeze()
}

/// Cuts the stream that follows the handshake into messages and commands.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    prefix: usize,
    parts: Vec<Bytes>,
    size: usize,
}

impl Decoder {
    /// Returns a decoder that refuses messages and commands of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Decoder { limit, prefix: limit, parts: Vec::new(), size: 0 }
    }

    /// From now on refuses messages of more than `limit` bytes.
    pub fn set_limit(&mut self, limit: usize) {
        (self.limit, self.prefix) = (limit, limit);
    }

    /// Refuses more than `prefix` bytes in the frames before the last one of a message.
    #[must_use]
    pub fn with_prefix(self, prefix: usize) -> Self {
        Decoder { prefix: prefix.min(self.limit), ..self }
    }

    /// Takes the next message or command off the front of the buffer; `None` when more bytes are needed.
    ///
    /// Commands may arrive between the frames of a message. After an error the stream cannot be read further.
    pub fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Incoming>, Error> {
        // Frames that have arrived leave the buffer at once, so a message of many frames needs no second scan.
        while let Some((flags, body)) = self.frame(buffer)? {
            if flags & COMMAND != 0 {
                return Command::decode(&body).map(|command| Some(Incoming::Command(command)));
            }
            // Empty frames cost no bytes of the limit, but memory for each.
            if self.parts.len() == MAX_PARTS {
                return Err(Error::TooManyParts);
            }
            self.size = self.size.saturating_add(body.len());
            if flags & MORE == 0 {
                self.size = 0;
                self.parts.push(body);
                return Ok(Some(Incoming::Message(std::mem::take(&mut self.parts))));
            }
            // A copy, because a few bytes that wait for the last frame, and for the answer, would keep the whole buffer.
            self.parts.push(Bytes::copy_from_slice(&body));
        }
        Ok(None)
    }

    /// Returns the number of bytes of the frame at the front of the buffer that are still to come: 0 while its header
    /// has not arrived. A reader may reserve that much memory at once.
    pub fn missing(&self, buffer: &[u8]) -> usize {
        let announced = buffer.first().and_then(|flags| length(buffer, *flags));
        announced.map_or(0, |(start, len)| (len as usize).saturating_add(start).saturating_sub(buffer.len()))
    }

    /// Returns how many bytes of an unfinished message have been taken off the buffer.
    pub fn held(&self) -> usize {
        self.size
    }

    /// Returns the part of the last frame of an unfinished message that is in the buffer, and how long the frame is; `None`
    /// while its header has not arrived, or when frames follow.
    pub fn last_frame<'a>(&self, buffer: &'a [u8]) -> Option<(&'a [u8], usize)> {
        let flags = buffer.first().filter(|flags| **flags & (MORE | COMMAND) == 0)?;
        let (start, len) = length(buffer, *flags)?;
        Some((&buffer[start..], usize::try_from(len).ok()?))
    }

    fn frame(&self, buffer: &mut BytesMut) -> Result<Option<(u8, Bytes)>, Error> {
        let Some(&flags) = buffer.first() else { return Ok(None) };
        // Reserved bits are zero in ZMTP 3. A command is always a single frame.
        if flags & !(MORE | LONG | COMMAND) != 0 || flags & (COMMAND | MORE) == COMMAND | MORE {
            return Err(Error::Flags(flags));
        }
        let Some((start, len)) = length(buffer, flags) else { return Ok(None) };
        let (size, limit) = match flags & (COMMAND | MORE) {
            0 => (len.saturating_add(self.size as u64), self.limit),
            MORE => (len.saturating_add(self.size as u64), self.prefix),
            // Commands do not count as part of a message, and none is as long as a message may be.
            _ => (len, self.limit.min(MAX_COMMAND)),
        };
        // Compared as 64 bits, before the cast below: on a small machine a huge length would wrap.
        if size > limit as u64 {
            return Err(Error::TooLarge { size, limit });
        }
        let end = start + len as usize;
        if buffer.len() < end {
            return Ok(None);
        }
        Ok(Some((flags, buffer.split_to(end).freeze().slice(start..))))
    }
}

/// Returns where the body starts and how long it is; `None` if that has not arrived yet.
fn length(buffer: &[u8], flags: u8) -> Option<(usize, u64)> {
    if flags & LONG == 0 {
        return buffer.get(1).map(|len| (2, u64::from(*len)));
    }
    let bytes = buffer.get(1..9)?;
    Some((9, u64::from_be_bytes(bytes.try_into().ok()?)))
}
