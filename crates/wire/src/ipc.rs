//! Frames on the event bus's Unix sockets, in the form of every release.
//!
//! A frame is the packed map `{"head": {}, "body": <event bytes>}`, bare or after its length in four bytes:
//!
//! | direction | releases | form |
//! |---|---|---|
//! | to the pull socket | 3006.0–3006.25, 3007.0–3007.13, 3008.0 | bare |
//! | to the pull socket | 3006.26+, 3007.14+, 3008.1+ | length |
//! | from the pub socket | 3006.26+ | length |
//! | from the pub socket | all others | bare |
//!
//! Reading distinguishes the forms by the first byte, which real Salt does not. Writing to the pub socket cannot: the
//! clients have to be known.

use bytes::{BufMut, Bytes, BytesMut};
use value::{Map, Value};

use crate::msgpack::{self, Framer, Packing};
use crate::tcp;

/// The form of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Only the packed map.
    #[default]
    Bare,
    /// Four bytes of length, big-endian, then the packed map.
    LengthPrefix,
}

/// An error: the stream is not that of an event bus.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The frame inside is broken or too large.
    #[error(transparent)]
    Frame(#[from] tcp::Error),
    /// A length prefix announces more than allowed.
    #[error("frame of {len} bytes exceeds the limit of {limit}")]
    TooLarge {
        /// The announced length in bytes.
        len: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The body is neither bytes nor text.
    #[error("frame body is a {0}, not bytes")]
    Body(&'static str),
}

impl From<msgpack::Error> for Error {
    fn from(error: msgpack::Error) -> Self {
        Error::Frame(error.into())
    }
}

/// Returns the frame around an event's bytes.
pub fn encode(event: &[u8], form: Form) -> Bytes {
    let mut out = BytesMut::with_capacity(event.len() + 32);
    if form == Form::LengthPrefix {
        out.put_u32(0);
    }
    let start = out.len();
    // The head comes first and is empty, byte for byte as real Salt packs it.
    out.extend_from_slice(b"\x82\xa4head\x80\xa4body");
    let mut header = Vec::with_capacity(5);
    msgpack::pack_bytes_header(&mut header, event.len(), Packing::Bin);
    out.extend_from_slice(&header);
    out.extend_from_slice(event);
    if form == Form::LengthPrefix {
        let len = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
        out[..start].copy_from_slice(&len.to_be_bytes());
    }
    out.freeze()
}

/// Reads events from a stream in either form, which may even change between frames.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    bare: Framer,
    /// The value being read has no length prefix.
    in_bare: bool,
}

impl Decoder {
    /// Returns a decoder that refuses frames of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Decoder { limit, bare: Framer::new(limit), in_bare: false }
    }

    /// Takes the next event's bytes off the front of the buffer; `None` when more bytes are needed.
    ///
    /// After an error the stream cannot be read on.
    pub fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Bytes>, Error> {
        match self.document(buffer)? {
            Some(document) => body(&document).map(Some),
            None => Ok(None),
        }
    }

    fn document(&mut self, buffer: &mut BytesMut) -> Result<Option<Bytes>, Error> {
        // A map begins with 0x80 or more; a length of this size would be over 2 GiB.
        self.in_bare = self.in_bare || buffer.first().is_some_and(|first| *first >= 0x80);
        if self.in_bare {
            let document = self.bare.next(buffer)?;
            self.in_bare = document.is_none();
            return Ok(document);
        }
        // The limit is checked as soon as the length is known: waiting for more would let a peer fill the memory.
        let Some(prefix) = buffer.first_chunk::<4>() else { return Ok(None) };
        let len = u32::from_be_bytes(*prefix) as usize;
        if len > self.limit {
            return Err(Error::TooLarge { len, limit: self.limit });
        }
        if buffer.len() < 4 + len {
            return Ok(None);
        }
        Ok(Some(buffer.split_to(4 + len).freeze().slice(4..)))
    }
}

fn body(document: &Bytes) -> Result<Bytes, Error> {
    // Raw mode: the event inside has its own rules for text, and its bytes must not be touched before.
    let Value::Map(mut frame) = msgpack::unpack_bytes(document, msgpack::Decode::Raw)? else {
        return Err(tcp::Error::Shape.into());
    };
    match take_body(&mut frame) {
        Some(Value::Bytes(body)) => Ok(*body),
        Some(other) => Err(Error::Body(other.type_name())),
        None => Err(tcp::Error::Shape.into()),
    }
}

fn take_body(frame: &mut Map) -> Option<Value> {
    // In raw mode keys are bytes too.
    frame.remove_value(&Value::bytes(Bytes::from_static(b"body")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytes, vectors};

    fn read_all(input: &[u8]) -> Result<Vec<Bytes>, Error> {
        let mut buffer = BytesMut::from(input);
        let mut decoder = Decoder::new(1 << 20);
        let mut found = Vec::new();
        while let Some(event) = decoder.decode(&mut buffer)? {
            found.push(event);
        }
        Ok(found)
    }

    #[test]
    fn the_frames_of_all_releases_are_read() {
        let all = vectors("ipc");
        let event = bytes(&all["body_hex"]);
        let mut forms = 0;
        for (name, recorded) in all.as_object().unwrap().iter().filter(|(name, _)| name.contains("_frame_")) {
            assert_eq!(read_all(&bytes(recorded)).unwrap(), std::slice::from_ref(&event), "{name}");
            forms += 1;
        }
        assert_eq!(forms, 6);
    }

    #[test]
    fn both_forms_are_written() {
        let all = vectors("ipc");
        let event = bytes(&all["body_hex"]);
        for (form, name) in [
            (Form::Bare, "pull_frame_without_length (3006.0-3006.25, 3007.0-3007.13, 3008.0)"),
            (Form::LengthPrefix, "pull_frame_with_length (3006.26+, 3007.14+, 3008.1+)"),
        ] {
            assert_eq!(encode(&event, form), bytes(&all[name]));
        }
    }

    #[test]
    fn forms_may_mix_and_pieces_be_small() {
        let frames = [
            encode(b"a\n\n\x80", Form::LengthPrefix),
            encode(b"b\n\n\x80", Form::Bare),
            encode(b"c", Form::LengthPrefix),
        ];
        let mut decoder = Decoder::new(100);
        let mut buffer = BytesMut::new();
        let mut found = Vec::new();
        for byte in frames.concat() {
            buffer.extend_from_slice(&[byte]);
            found.extend(decoder.decode(&mut buffer).unwrap());
        }
        assert_eq!(found, [&b"a\n\n\x80"[..], b"b\n\n\x80", b"c"]);
    }

    #[test]
    fn hostile_lengths_are_refused_at_once() {
        assert!(matches!(read_all(b"\x7f\xff\xff\xff"), Err(Error::TooLarge { len: 0x7fff_ffff, .. })));
        assert!(matches!(read_all(b"\x82\xa4body\xc6\xff\xff\xff\xff"), Err(Error::Frame(_))));
        assert!(matches!(read_all(b"\x81\xa4body\x07"), Err(Error::Body("int"))));
        assert!(matches!(read_all(b"\0\0\0\x01\x07"), Err(Error::Frame(tcp::Error::Shape))));
    }
}
