//! The filter topics of publications, and socket names that contain a hash.
//!
//! The hashes themselves are computed by the caller (crate `crypto`), so that this crate needs no cryptography.

use bytes::Bytes;

use crate::MinionId;

/// The filter topic of a publication with `zmq_filtering`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topic {
    /// `broadcast`: every minion listens.
    Broadcast,
    /// `syndic`: syndics listen.
    Syndic,
    /// The lower-case hex SHA-1 of a minion id.
    Minion(Box<str>),
}

impl Topic {
    /// Returns the topic of one minion; `sha1_hex` computes the lower-case hex SHA-1 of bytes.
    pub fn of_minion(id: &MinionId, sha1_hex: impl FnOnce(&[u8]) -> String) -> Self {
        Topic::Minion(sha1_hex(id.as_str().as_bytes()).into_boxed_str())
    }

    /// Reads the first frame of a filtered publication; `None` if it is none of the three forms.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        match bytes {
            b"broadcast" => Some(Topic::Broadcast),
            b"syndic" => Some(Topic::Syndic),
            _ => {
                let text = std::str::from_utf8(bytes).ok()?;
                // Upper case is refused: subscriptions are compared byte by byte, so such a topic would reach no
                // minion.
                let hash = text.len() == 40 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
                hash.then(|| Topic::Minion(text.into()))
            }
        }
    }

    /// Returns the topic as it is sent.
    pub fn as_str(&self) -> &str {
        match self {
            Topic::Broadcast => "broadcast",
            Topic::Syndic => "syndic",
            Topic::Minion(hash) => hash,
        }
    }

    /// Returns the topic as a frame body.
    pub fn to_bytes(&self) -> Bytes {
        match self {
            Topic::Broadcast => Bytes::from_static(b"broadcast"),
            Topic::Syndic => Bytes::from_static(b"syndic"),
            Topic::Minion(hash) => Bytes::copy_from_slice(hash.as_bytes()),
        }
    }
}

/// Returns the part of a minion's event socket names that identifies it: the first ten hex digits of the digest named
/// by `hash_type`; `hex_digest` computes that digest.
pub fn socket_hash(id: &str, hex_digest: impl FnOnce(&[u8]) -> String) -> String {
    let mut digest = hex_digest(id.as_bytes());
    // Salt keeps the socket names short because a Unix socket's path may have only about 107 bytes.
    digest.truncate(10);
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_read_as_written() {
        let hash = "977588a87e10582032716712ccf5d85d18a5fccf";
        let minion = Topic::of_minion(&MinionId::new("web1").unwrap(), |id| {
            // The hash is over the bare id, as Salt computes it on both sides.
            assert_eq!(id, b"web1");
            hash.to_owned()
        });
        for (topic, text) in [(Topic::Broadcast, "broadcast"), (Topic::Syndic, "syndic"), (minion, hash)] {
            assert_eq!(topic.to_bytes(), text.as_bytes());
            assert_eq!(Topic::from_bytes(text.as_bytes()), Some(topic));
        }
        assert_eq!(Topic::from_bytes(b"977588A87E10582032716712CCF5D85D18A5FCCF"), None);
        assert_eq!(Topic::from_bytes(b""), None);
    }
}
