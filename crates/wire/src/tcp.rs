//! The frames of the `tcp` transport: packed maps of `head` and `body`, one after the other, without lengths.
//!
//! Salt writes these frames in bin packing (text over 31 bytes as `str8`, bytes as `bin`) and reads either.

use bytes::{BufMut, Bytes, BytesMut};
use value::{Map, Value};

use crate::msgpack::{self, Decode, Framer, Packing};

/// One frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Request id (`mid`), or empty.
    pub head: Map,
    /// A map, text or bytes, depending on the direction.
    pub body: Value,
}

/// An error: a frame cannot be read. Its stream cannot be read any further.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The MessagePack inside is broken or too large.
    #[error(transparent)]
    Msgpack(#[from] msgpack::Error),
    /// The document is not a map of `head` and `body`.
    #[error("frame is not a map with a head map and a body")]
    Shape,
}

impl Frame {
    /// Returns a frame with an empty head.
    pub fn plain(body: impl Into<Value>) -> Self {
        Frame { head: Map::new(), body: body.into() }
    }

    /// Returns a frame that belongs to the request with this id.
    pub fn with_mid(mid: &str, body: impl Into<Value>) -> Self {
        Frame { head: value::map! { "mid" => mid }, body: body.into() }
    }

    /// Returns the request id, if the head has one.
    pub fn mid(&self) -> Option<&str> {
        self.head.get_str("mid")
    }

    /// Returns the frame as bytes.
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(64);
        self.encode_head(&mut out);
        msgpack::pack_into(&mut out, &self.body, Packing::Bin);
        out.into()
    }

    fn encode_head(&self, out: &mut Vec<u8>) {
        msgpack::pack_map_header(out, 2);
        msgpack::pack_into(out, &Value::from("head"), Packing::Bin);
        msgpack::pack_map_into(out, &self.head, Packing::Bin);
        msgpack::pack_into(out, &Value::from("body"), Packing::Bin);
    }

    /// Returns a frame around bytes, which are copied once.
    pub fn encode_bytes(head: Map, body: &[u8]) -> Bytes {
        let mut out = Vec::with_capacity(64 + body.len());
        Self::bytes_head(&mut out, head, body.len());
        out.put_slice(body);
        out.into()
    }

    /// Appends everything before a body that is already packed.
    pub fn head(out: &mut Vec<u8>, head: Map) {
        Frame { head, body: Value::Null }.encode_head(out);
    }

    /// Appends everything before a body of `len` bytes, so that a large body can be written without a copy.
    pub fn bytes_head(out: &mut Vec<u8>, head: Map, len: usize) {
        Self::head(out, head);
        msgpack::pack_bytes_header(out, len, Packing::Bin);
    }

    /// Reads a frame from the bytes of exactly one document.
    pub fn decode(document: &Bytes) -> Result<Self, Error> {
        let Value::Map(mut frame) = msgpack::unpack_bytes(document, Decode::Default)? else { return Err(Error::Shape) };
        match (frame.remove("head"), frame.remove("body")) {
            (Some(Value::Map(head)), Some(body)) => Ok(Frame { head, body }),
            // Some releases leave the head out or send None.
            (None | Some(Value::Null), Some(body)) => Ok(Frame::plain(body)),
            _ => Err(Error::Shape),
        }
    }
}

/// A frame whose body has not been decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawFrame {
    /// The request id, if the head has one.
    pub mid: Option<String>,
    /// The packed body.
    pub body: Bytes,
}

impl RawFrame {
    /// Finds the parts of a frame that fills the input and holds at most `most` values.
    pub fn read(document: &Bytes, most: usize) -> Result<Self, Error> {
        let found = msgpack::fields(document, ["head", "body"], most)?.ok_or(Error::Shape)?;
        let [head, Some((body, _))] = found else { return Err(Error::Shape) };
        // The head is small and decoded at once; the body may be large and from a stranger, so it waits.
        let head = match head {
            Some((head, _)) => msgpack::unpack_within(&head, Decode::Default, MOST_HEAD_VALUES)?,
            None => Value::Null,
        };
        match head {
            Value::Map(mut head) => Ok(RawFrame { mid: head.remove("mid").and_then(Value::into_string), body }),
            // Some releases leave the head out or send None.
            Value::Null => Ok(RawFrame { mid: None, body }),
            _ => Err(Error::Shape),
        }
    }
}

/// The maximum number of values in the head of a frame. Real heads have two.
const MOST_HEAD_VALUES: usize = 64;

/// Returns the offset of a frame's body; `None` if too few bytes have arrived, or the head does not come first.
pub fn body_start(input: &[u8]) -> Option<usize> {
    const HEAD_FIRST: usize = 64;
    // A map of two entries. All releases pack `head` before `body`.
    input.first().filter(|marker| **marker == 0x82)?;
    let mut at = 1;
    for most in [1, HEAD_FIRST, 1] {
        at += msgpack::extent(&input[at..], most).ok()?.len;
    }
    Some(at)
}

/// Reads frames from a stream.
#[derive(Debug)]
pub struct Decoder(Framer);

impl Decoder {
    /// Returns a decoder that refuses frames of more than `limit` bytes or `values` values.
    pub fn new(limit: usize, values: usize) -> Self {
        Decoder(Framer::new(limit).with_values(values))
    }

    /// From now on refuses frames of more than `limit` bytes or `values` values.
    pub fn set_bounds(&mut self, limit: usize, values: usize) {
        self.0.set_bounds(limit, values);
    }

    /// Takes the next frame off the front of the buffer; `None` when more bytes are needed.
    pub fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Frame>, Error> {
        match self.0.next(buffer)? {
            Some(document) => Frame::decode(&document).map(Some),
            None => Ok(None),
        }
    }

    /// Returns how many announced bytes are missing, after [`Decoder::next_document`] or [`Decoder::decode`] has asked
    /// for more.
    pub fn missing(&self) -> usize {
        self.0.missing()
    }

    /// Takes the bytes of the next frame off the front of the buffer, undecoded.
    pub fn next_document(&mut self, buffer: &mut BytesMut) -> Result<Option<Bytes>, Error> {
        Ok(self.0.next(buffer)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytes, vectors};

    #[test]
    fn request_and_reply_vectors() {
        let all = vectors("tcp");
        let mid = all["mid"].as_str().unwrap();
        for (name, body) in [
            (
                "request_frame_hex",
                value::map! {"enc" => "clear", "load" => value::map!{"cmd" => "ping"}, "version" => 3},
            ),
            ("reply_frame_hex", value::map! {"cmd" => "ping"}),
        ] {
            let recorded = bytes(&all[name]);
            let frame = Frame::decode(&recorded).unwrap();
            assert_eq!(frame, Frame::with_mid(mid, body));
            assert_eq!(frame.mid(), Some(mid));
            assert_eq!(frame.encode(), recorded);
        }
    }

    #[test]
    fn client_id_vector() {
        let recorded = bytes(&vectors("tcp")["publish_client_id_frame_hex"]);
        let frame = Frame::decode(&recorded).unwrap();
        assert_eq!(frame.body.get("enc"), Some(&Value::from("aes")));
        assert_eq!(frame.encode(), recorded);
    }

    #[test]
    fn publication_vectors() {
        for message in vectors("publish")["messages"].as_array().unwrap() {
            let payload = bytes(&message["wire_hex"]);
            let recorded = bytes(&message["tcp_frame_hex"]);
            assert_eq!(Frame::encode_bytes(Map::new(), &payload), recorded);
            assert_eq!(Frame::decode(&recorded).unwrap(), Frame::plain(payload));
        }
    }

    #[test]
    fn frames_are_cut_wherever_the_pieces_end() {
        let frame = bytes(&vectors("tcp")["request_frame_hex"]);
        let mut decoder = Decoder::new(1000, 1000);
        let mut buffer = BytesMut::new();
        let mut found = 0;
        // TCP may deliver any pieces, and two frames in one.
        for byte in frame.iter().chain(frame.iter()) {
            buffer.extend_from_slice(&[*byte]);
            found += usize::from(decoder.decode(&mut buffer).unwrap().is_some());
        }
        assert_eq!((found, buffer.len()), (2, 0));
    }

    #[test]
    fn what_is_missing_is_known_after_the_header() {
        let frame = Frame::encode_bytes(Map::new(), &[7; 5000]);
        let mut decoder = Decoder::new(10_000, 1000);
        let mut buffer = BytesMut::from(&frame[..100]);
        assert_eq!((decoder.decode(&mut buffer), decoder.missing()), (Ok(None), frame.len() - 100));
        buffer.extend_from_slice(&frame[100..]);
        assert!(matches!(decoder.decode(&mut buffer), Ok(Some(_))));
        assert_eq!(decoder.missing(), 0);
    }

    #[test]
    fn garbage_and_huge_announcements_are_refused() {
        for (input, limit) in
            [(&b"\xc1"[..], 100), (b"\xdb\x7f\xff\xff\xff", 1 << 20), (b"\xdf\xff\xff\xff\xff", 1 << 20)]
        {
            let mut buffer = BytesMut::from(input);
            assert!(matches!(Decoder::new(limit, 1000).decode(&mut buffer), Err(Error::Msgpack(_))), "{input:x?}");
        }
        let mut buffer = BytesMut::from(&b"\x01"[..]);
        assert_eq!(Decoder::new(100, 100).decode(&mut buffer), Err(Error::Shape));
    }
}
