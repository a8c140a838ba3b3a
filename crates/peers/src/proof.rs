//! How two nodes that do not know each other show that they belong to one set.
//!
//! Both sign the same conversation, so that nobody in the middle can pass a proof on. The role is signed, too: what one side
//! has sent is no proof for the other.

use bytes::Bytes;
use crypto::{MEMBER_KEY_LEN, PrivateKey, Signature, hmac_sha256, sha256};
use openssl::memcmp;
use share::Node;

use crate::credentials::Credentials;
use crate::kind::{Hello, How};

/// What a proof is about.
#[derive(Clone, Copy)]
pub struct Transcript {
    /// 32 bytes that belong to this conversation alone: over links only the two ends of the TLS connection know them.
    pub exporter: [u8; 32],
    /// Who began.
    pub dialler: Node,
    /// Who answered.
    pub listener: Node,
}

/// The label of the TLS exporter, and the first bytes of what is signed.
pub const LABEL: &str = "saltern join";

impl Transcript {
    fn signed(&self, by_dialler: bool) -> Vec<u8> {
        let role: &[u8] = if by_dialler { b"dialler" } else { b"listener" };
        [LABEL.as_bytes(), b"\0", &self.exporter, role, b"\0", &self.dialler.0, &self.listener.0].concat()
    }
}

/// The digests of the public halves of the master key and the signing key, by which members find that they have the same ones;
/// empty without the key.
#[derive(Clone)]
pub struct Fingers {
    /// That of the master key.
    pub master_key: Bytes,
    /// That of the signing key.
    pub sign_key: Bytes,
}

/// Returns the digests of a member's keys.
pub fn fingers(credentials: &Credentials) -> Fingers {
    let finger = |key: &Option<PrivateKey>| match key {
        Some(key) => Bytes::copy_from_slice(&sha256(&[key.public().to_pem().as_bytes()])),
        None => Bytes::new(),
    };
    Fingers { master_key: finger(&credentials.master_key), sign_key: finger(&credentials.sign_key) }
}

/// Returns by what a peer with this `hello` and this member can prove themselves to each other. With a secret nothing else
/// counts.
pub fn common(has_secret: bool, own: &Fingers, hello: &Hello) -> Option<How> {
    let same = |own: &Bytes, theirs: &Bytes| !own.is_empty() && own == theirs;
    match (has_secret, hello.secret) {
        (true, true) => Some(How::Secret),
        (false, false) if same(&own.master_key, &hello.master_key) => Some(How::MasterKey),
        (false, false) if same(&own.sign_key, &hello.sign_key) => Some(How::SignKey),
        _ => None,
    }
}

fn key(credentials: &Credentials, how: How) -> Option<&PrivateKey> {
    match how {
        How::Secret => None,
        How::MasterKey => credentials.master_key.as_ref(),
        How::SignKey => credentials.sign_key.as_ref(),
    }
}

/// Makes a proof; `None` without what it takes.
pub fn make(credentials: &Credentials, how: How, transcript: &Transcript, by_dialler: bool) -> Option<Bytes> {
    let signed = transcript.signed(by_dialler);
    if how == How::Secret {
        let secret = credentials.secret.as_ref()?;
        return Some(Bytes::copy_from_slice(&hmac_sha256(secret.expose(), &signed)));
    }
    key(credentials, how)?.sign(Signature::Pkcs1v15Sha224, &signed).ok().map(Bytes::from)
}

/// Returns whether a proof is right. With a secret nothing else counts.
pub fn is_right(
    credentials: &Credentials,
    (how, proof): (How, &[u8]),
    transcript: &Transcript,
    by_dialler: bool,
) -> bool {
    let signed = transcript.signed(by_dialler);
    match (&credentials.secret, how) {
        (Some(secret), How::Secret) => {
            let right = hmac_sha256(secret.expose(), &signed);
            proof.len() == MEMBER_KEY_LEN && memcmp::eq(&right, proof)
        }
        (None, How::MasterKey | How::SignKey) => {
            key(credentials, how).is_some_and(|key| key.public().verify(Signature::Pkcs1v15Sha224, &signed, proof))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::Secret;
    use crate::kind::tests::hello;

    const TRANSCRIPT: Transcript = Transcript { exporter: [1; 32], dialler: Node([2; 8]), listener: Node([3; 8]) };

    fn with_secret(secret: &str) -> Credentials {
        Credentials { secret: Some(Secret::new(secret)), ..Credentials::default() }
    }

    fn check(credentials: &Credentials, how: How) {
        let proof = make(credentials, how, &TRANSCRIPT, true).unwrap();
        let right = |transcript: &Transcript, by_dialler| is_right(credentials, (how, &proof), transcript, by_dialler);
        assert!(right(&TRANSCRIPT, true));
        assert!(!right(&TRANSCRIPT, false), "a proof cannot be sent back");
        assert!(!right(&Transcript { exporter: [9; 32], ..TRANSCRIPT }, true), "or over another connection");
        assert!(!right(&Transcript { dialler: Node([9; 8]), ..TRANSCRIPT }, true), "or by another node");
        assert!(!is_right(credentials, (how, &proof[1..]), &TRANSCRIPT, true));
    }

    #[test]
    fn a_proof_counts_for_one_connection_and_one_side() {
        check(&with_secret("a secret of twenty chars"), How::Secret);
        let key = PrivateKey::generate(2048).unwrap();
        check(&Credentials { master_key: Some(key.clone()), ..Credentials::default() }, How::MasterKey);
        check(&Credentials { sign_key: Some(key), ..Credentials::default() }, How::SignKey);
    }

    #[test]
    fn other_secrets_and_keys_prove_nothing() {
        let proof = make(&with_secret("one secret"), How::Secret, &TRANSCRIPT, true).unwrap();
        assert!(!is_right(&with_secret("another"), (How::Secret, &proof), &TRANSCRIPT, true));
        let key = || Credentials { master_key: PrivateKey::generate(2048).ok(), ..Credentials::default() };
        let proof = make(&key(), How::MasterKey, &TRANSCRIPT, true).unwrap();
        assert!(!is_right(&key(), (How::MasterKey, &proof), &TRANSCRIPT, true));
    }

    #[test]
    fn with_a_secret_the_master_key_is_no_proof() {
        let key = PrivateKey::generate(2048).unwrap();
        let without = Credentials { master_key: Some(key.clone()), ..Credentials::default() };
        let proof = make(&without, How::MasterKey, &TRANSCRIPT, true).unwrap();
        let with = Credentials { master_key: Some(key.clone()), ..with_secret("secret") };
        assert!(!is_right(&with, (How::MasterKey, &proof), &TRANSCRIPT, true));
        let fingers = fingers(&with);
        let theirs = Hello { master_key: fingers.master_key.clone(), ..hello() };
        assert_eq!(common(true, &fingers, &Hello { secret: true, ..theirs.clone() }), Some(How::Secret));
        assert_eq!(common(false, &fingers, &Hello { secret: true, ..theirs.clone() }), None);
        assert_eq!(common(true, &fingers, &theirs), None);
        assert_eq!(common(false, &fingers, &theirs), Some(How::MasterKey));
        assert_eq!(common(false, &fingers, &hello()), None);
    }
}
