//! The outermost bytes of what is on the bus: who sent it, and what it is. Everybody on the bus can read and forge them.

use bytes::Bytes;
use crypto::{MEMBER_KEY_LEN, MEMBER_SIGNATURE_LEN};
use share::{Lane, Malformed, Node};

/// The first byte of all that this version writes.
const VERSION: u8 = 1;

/// The length of an X25519 key in bytes.
pub(crate) const POINT_LEN: usize = 32;

/// The number of a session in bytes.
pub(crate) const SESSION_LEN: usize = 8;

/// The head of a sealed message in bytes: version, kind, sender, session, lane and counter.
pub(crate) const HEAD_LEN: usize = 2 + 8 + SESSION_LEN + 1 + 8;

/// The maximum length of a greeting. A `hello` has up to 16 addresses and some names of up to 256 bytes.
const MAX_GREETING: usize = 16 * 1024;

/// The maximum length of what is sealed: a message and its head, or a `welcome`.
const MAX_SEALED: usize = peers::kind::MAX_FRAME + HEAD_LEN + 64;

/// What two nodes say first to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    /// It answers another one.
    pub is_answer: bool,
    pub from: Node,
    pub to: Node,
    /// The public member key of the sender.
    pub key: [u8; MEMBER_KEY_LEN],
    /// The public half of a key that counts for this session only.
    pub point: [u8; POINT_LEN],
    /// The packed `hello`.
    pub hello: Bytes,
    pub signature: [u8; MEMBER_SIGNATURE_LEN],
}

/// A message that only the two members of a session can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sealed {
    pub from: Node,
    pub session: [u8; SESSION_LEN],
    pub lane: Lane,
    /// Grows with each message of a lane.
    pub counter: u64,
    pub content: Bytes,
}

/// What is on the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Envelope {
    /// A node is there. Nothing proves it: whoever hears it may greet the node.
    Beat {
        from: Node,
        boot: u64,
    },
    Greeting(Greeting),
    Sealed(Sealed),
}

impl Envelope {
    pub fn encode(&self) -> Bytes {
        let mut out = vec![VERSION, self.kind()];
        match self {
            Envelope::Beat { from, boot } => {
                out.extend_from_slice(&from.0);
                out.extend_from_slice(&boot.to_be_bytes());
            }
            Envelope::Greeting(greeting) => {
                out = greeting.signed();
                out.extend_from_slice(&greeting.signature);
            }
            Envelope::Sealed(sealed) => {
                out = head(sealed.from, sealed.session, sealed.lane, sealed.counter).to_vec();
                out.extend_from_slice(&sealed.content);
            }
        }
        out.into()
    }

    fn kind(&self) -> u8 {
        match self {
            Envelope::Beat { .. } => 0,
            Envelope::Greeting(greeting) => 1 + u8::from(greeting.is_answer),
            Envelope::Sealed(_) => 3,
        }
    }

    /// Reads what somebody has sent; `None` for a version or kind of a later time.
    pub fn decode(bytes: &Bytes) -> Result<Option<Envelope>, Malformed> {
        let mut reader = Reader(bytes.clone());
        let [version, kind] = reader.array("a head")?;
        if version != VERSION {
            return Ok(None);
        }
        Ok(Some(match kind {
            0 => Envelope::Beat {
                from: Node(reader.array("a node")?),
                boot: u64::from_be_bytes(reader.array("a boot")?),
            },
            1 | 2 if bytes.len() <= MAX_GREETING => {
                let (from, to) = (Node(reader.array("a node")?), Node(reader.array("a node")?));
                let (key, point) = (reader.array("a key")?, reader.array("a key")?);
                let hello = reader.all_but(MEMBER_SIGNATURE_LEN, "a signature")?;
                let signature = reader.array("a signature")?;
                Envelope::Greeting(Greeting { is_answer: kind == 2, from, to, key, point, hello, signature })
            }
            3 if bytes.len() <= MAX_SEALED => {
                let (from, session) = (Node(reader.array("a node")?), reader.array("a session")?);
                let [lane] = reader.array("a lane")?;
                let lane = match lane {
                    0 => Lane::Talk,
                    1 => Lane::Bulk,
                    _ => return Err(Malformed("a lane")),
                };
                let counter = u64::from_be_bytes(reader.array("a counter")?);
                Envelope::Sealed(Sealed { from, session, lane, counter, content: reader.0 })
            }
            1..=3 => return Err(Malformed("a message")),
            _ => return Ok(None),
        }))
    }
}

impl Greeting {
    /// Returns what the signature is about.
    pub fn signed(&self) -> Vec<u8> {
        let head = [VERSION, 1 + u8::from(self.is_answer)];
        [&head[..], &self.from.0, &self.to.0, &self.key, &self.point, &self.hello].concat()
    }
}

/// Returns the head of a sealed message, which is authentic with it.
pub(crate) fn head(from: Node, session: [u8; SESSION_LEN], lane: Lane, counter: u64) -> [u8; HEAD_LEN] {
    let mut head = [0; HEAD_LEN];
    head[..2].copy_from_slice(&[VERSION, 3]);
    head[2..10].copy_from_slice(&from.0);
    head[10..18].copy_from_slice(&session);
    head[18] = lane as u8;
    head[19..].copy_from_slice(&counter.to_be_bytes());
    head
}

struct Reader(Bytes);

impl Reader {
    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Malformed> {
        let array = *self.0.first_chunk().ok_or(Malformed(what))?;
        self.0 = self.0.slice(N..);
        Ok(array)
    }

    fn all_but(&mut self, last: usize, what: &'static str) -> Result<Bytes, Malformed> {
        let len = self.0.len().checked_sub(last).ok_or(Malformed(what))?;
        Ok(self.0.split_to(len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Envelope> {
        let greeting = |is_answer| Greeting {
            is_answer,
            from: Node([1; 8]),
            to: Node([2; 8]),
            key: [3; 32],
            point: [4; 32],
            hello: Bytes::from_static(b"hello"),
            signature: [5; 64],
        };
        let content = Bytes::from_static(b"sealed");
        let sealed = Sealed { from: Node([1; 8]), session: [6; 8], lane: Lane::Bulk, counter: 7, content };
        let beat = Envelope::Beat { from: Node([1; 8]), boot: 8 };
        vec![beat, Envelope::Greeting(greeting(false)), Envelope::Greeting(greeting(true)), Envelope::Sealed(sealed)]
    }

    #[test]
    fn envelopes_come_back_as_they_were_and_no_cut_one_panics() {
        for envelope in all() {
            let bytes = envelope.encode();
            assert_eq!(Envelope::decode(&bytes), Ok(Some(envelope)));
            (0..HEAD_LEN.min(bytes.len())).for_each(|len| {
                let _ = Envelope::decode(&bytes.slice(..len)).is_err();
            });
        }
        assert_eq!(Envelope::decode(&Bytes::from_static(&[9, 9])), Ok(None));
        assert_eq!(Envelope::decode(&Bytes::from_static(&[1, 9])), Ok(None));
        assert!(Envelope::decode(&Bytes::new()).is_err());
    }

    #[test]
    fn lengths_are_bounded() {
        for (kind, len) in [(1, MAX_GREETING), (2, MAX_GREETING), (3, MAX_SEALED)] {
            let bytes = |len| {
                let mut bytes = vec![0; len];
                bytes[..2].copy_from_slice(&[VERSION, kind]);
                Bytes::from(bytes)
            };
            assert!(Envelope::decode(&bytes(len)).is_ok() && Envelope::decode(&bytes(len + 1)).is_err());
        }
    }
}
