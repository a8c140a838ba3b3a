//! Digests by Salt's names for them.

use std::fmt;
use std::str::FromStr;

use openssl::hash::{Hasher as OpensslHasher, MessageDigest, hash};
use openssl::sha::Sha256;
use wire::MinionId;
use wire::topic::{self, Topic};

/// A digest, with the names that the option `hash_type` accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HashType {
    /// MD5, insecure, only for old configurations.
    Md5,
    /// SHA-1, insecure, only for old configurations.
    Sha1,
    /// SHA-224.
    Sha224,
    /// SHA-256, the default.
    #[default]
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

/// An unknown digest name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unsupported hash type {0:?}")]
pub struct UnknownHashType(pub String);

impl HashType {
    const NAMES: [(HashType, &'static str); 6] = [
        (HashType::Md5, "md5"),
        (HashType::Sha1, "sha1"),
        (HashType::Sha224, "sha224"),
        (HashType::Sha256, "sha256"),
        (HashType::Sha384, "sha384"),
        (HashType::Sha512, "sha512"),
    ];

    /// Returns Salt's name.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    /// Guesses the type of a digest from its number of hex digits, as `source_hash` does.
    pub fn from_hex_len(digits: usize) -> Option<Self> {
        let all = Self::NAMES.iter().map(|(kind, _)| *kind);
        // The six lengths all differ, so that the first match is the only one.
        all.into_iter().find(|kind| kind.message_digest().size() * 2 == digits)
    }

    /// Returns the lower-case hex digest of the bytes.
    pub fn hex(self, bytes: &[u8]) -> String {
        hex::encode(self.digest(bytes))
    }

    /// Returns the digest of the bytes.
    pub fn digest(self, bytes: &[u8]) -> Vec<u8> {
        hash(self.message_digest(), bytes).expect("digests of the vendored library always work").to_vec()
    }

    pub(crate) fn message_digest(self) -> MessageDigest {
        match self {
            HashType::Md5 => MessageDigest::md5(),
            HashType::Sha1 => MessageDigest::sha1(),
            HashType::Sha224 => MessageDigest::sha224(),
            HashType::Sha256 => MessageDigest::sha256(),
            HashType::Sha384 => MessageDigest::sha384(),
            HashType::Sha512 => MessageDigest::sha512(),
        }
    }
}

impl FromStr for HashType {
    type Err = UnknownHashType;

    fn from_str(name: &str) -> Result<Self, UnknownHashType> {
        let known = Self::NAMES.iter().find(|(_, known)| *known == name);
        known.map(|(kind, _)| *kind).ok_or_else(|| UnknownHashType(name.to_owned()))
    }
}

impl fmt::Display for HashType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the SHA-256 of the pieces, one after the other.
///
/// For the many short inputs of sums: [`HashType::digest`] looks up its algorithm at each call, which takes longer than the work.
pub fn sha256(pieces: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    pieces.iter().for_each(|piece| hasher.update(piece));
    hasher.finish()
}

/// An incremental digest, for files.
pub struct Hasher(OpensslHasher);

impl Hasher {
    /// Starts an empty digest.
    pub fn new(kind: HashType) -> Self {
        Hasher(OpensslHasher::new(kind.message_digest()).expect("digests of the vendored library always work"))
    }

    /// Adds data.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece).expect("digests of the vendored library always work");
    }

    /// Returns the lower-case hex digest.
    pub fn finish_hex(mut self) -> String {
        hex::encode(self.0.finish().expect("digests of the vendored library always work"))
    }
}

impl std::io::Write for Hasher {
    fn write(&mut self, piece: &[u8]) -> std::io::Result<usize> {
        self.update(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns the topic of one minion with `zmq_filtering`.
pub fn filter_topic(id: &MinionId) -> Topic {
    Topic::of_minion(id, |bytes| HashType::Sha1.hex(bytes))
}

/// Returns the part of a minion's event socket names that represents its id.
pub fn socket_hash(id: &str, kind: HashType) -> String {
    topic::socket_hash(id, |bytes| kind.hex(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::vectors;

    #[test]
    fn topics_and_socket_names() {
        let all = vectors("misc");
        for case in all["zmq_topic_sha1"].as_array().unwrap() {
            let id = MinionId::new(case["id"].as_str().unwrap()).unwrap();
            assert_eq!(filter_topic(&id).as_str(), case["topic"].as_str().unwrap());
        }
        for case in all["minion_ipc_hash"].as_array().unwrap() {
            let kind = case["hash_type"].as_str().unwrap().parse().unwrap();
            assert_eq!(socket_hash(case["id"].as_str().unwrap(), kind), case["hash10"].as_str().unwrap());
        }
    }

    #[test]
    fn names_and_lengths() {
        for (kind, name) in HashType::NAMES {
            assert_eq!(name.parse(), Ok(kind));
            assert_eq!(HashType::from_hex_len(kind.hex(b"").len()), Some(kind));
            let mut pieces = Hasher::new(kind);
            pieces.update(b"sa");
            pieces.update(b"lt");
            assert_eq!(pieces.finish_hex(), kind.hex(b"salt"));
        }
        assert_eq!(hex::encode(sha256(&[b"sa", b"lt"])), HashType::Sha256.hex(b"salt"));
        assert_eq!("sha0".parse::<HashType>(), Err(UnknownHashType("sha0".into())));
        assert_eq!(HashType::Md5.hex(b""), "d41d8cd98f00b204e9800998ecf8427e");
    }
}
