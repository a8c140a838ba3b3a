//! What is inside a sealed message.

use bytes::{BufMut, Bytes, BytesMut};
use peers::kind::Frame;
use share::Malformed;
use share::message::MAX_MESSAGE;

/// What two members say to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// What links say too.
    Frame(Frame),
    /// A message of the model.
    Message {
        /// Where the lane is after it: what all messages so far count together.
        position: u64,
        message: Bytes,
    },
    /// Up to where the model has read each lane.
    Credit([u64; 2]),
    /// Where the lane is. What has not arrived by now never will.
    Mark(u64),
}

impl Content {
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        match self {
            Content::Frame(frame) => {
                out.put_u8(0);
                out.put_slice(&frame.encode());
            }
            Content::Message { position, message } => {
                out.reserve(9 + message.len());
                out.put_u8(1);
                out.put_u64(*position);
                out.put_slice(message);
            }
            Content::Credit([talk, bulk]) => {
                out.put_u8(2);
                out.put_u64(*talk);
                out.put_u64(*bulk);
            }
            Content::Mark(position) => {
                out.put_u8(3);
                out.put_u64(*position);
            }
        }
        out.freeze()
    }

    /// Reads a content; `None` for a kind of a later version.
    pub fn decode(bytes: &Bytes) -> Result<Option<Content>, Malformed> {
        let (kind, rest) = bytes.split_first().ok_or(Malformed("a content"))?;
        let number = |at: usize| {
            let digits = rest.get(at..).and_then(|rest| rest.first_chunk()).ok_or(Malformed("a position"))?;
            Ok(u64::from_be_bytes(*digits))
        };
        Ok(Some(match kind {
            0 => return Ok(Frame::decode(&bytes.slice(1..))?.map(Content::Frame)),
            1 if bytes.len() <= 9 + MAX_MESSAGE => Content::Message { position: number(0)?, message: bytes.slice(9..) },
            1 => return Err(Malformed("a message")),
            2 => Content::Credit([number(0)?, number(8)?]),
            3 => Content::Mark(number(0)?),
            _ => return Ok(None),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_come_back_as_they_were_and_no_cut_one_panics() {
        let message = Content::Message { position: 7, message: Bytes::from(vec![1; MAX_MESSAGE]) };
        for content in [Content::Frame(Frame::Pong { number: 1 }), message, Content::Credit([1, 2]), Content::Mark(3)] {
            let bytes = content.encode();
            assert_eq!(Content::decode(&bytes), Ok(Some(content)));
            (0..17.min(bytes.len())).for_each(|len| {
                let _ = Content::decode(&bytes.slice(..len)).is_err();
            });
        }
        let long = Content::Message { position: 7, message: Bytes::from(vec![1; MAX_MESSAGE + 1]) };
        assert!(Content::decode(&long.encode()).is_err());
        assert_eq!(Content::decode(&Bytes::from_static(&[9])), Ok(None));
    }
}
