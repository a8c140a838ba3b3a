//! What two members agree on, so that servers can neither read nor change nor repeat what they send each other.
//!
//! Each greeting has a fresh X25519 key. Both are signed with the member keys, and the keys of a session follow from the two: a
//! member that restarts has other keys, so no nonce comes twice under one key.

use bytes::Bytes;
use crypto::{MemberKey, MemberPublicKey, sha256};
use openssl::derive::Deriver;
use openssl::error::ErrorStack;
use openssl::md::Md;
use openssl::pkey::{Id, PKey, Private};
use openssl::pkey_ctx::PkeyCtx;
use openssl::symm::{Cipher, decrypt_aead, encrypt_aead};
use share::{Lane, Node};

use crate::envelope::{Envelope, Greeting, POINT_LEN, SESSION_LEN, Sealed, head};

/// The length of the mark of authenticity, in bytes.
const TAG_LEN: usize = 16;

/// The length of a key of AES-256, in bytes.
const KEY_LEN: usize = 32;

/// A key that counts for one session.
pub(crate) struct Fresh(PKey<Private>);

impl Fresh {
    pub fn generate() -> Result<Fresh, ErrorStack> {
        PKey::generate_x25519().map(Fresh)
    }

    fn point(&self) -> Result<[u8; POINT_LEN], ErrorStack> {
        let raw = self.0.raw_public_key()?;
        Ok(raw.try_into().expect("a key of X25519 has 32 bytes"))
    }

    fn agree(&self, point: &[u8; POINT_LEN]) -> Result<Vec<u8>, ErrorStack> {
        let theirs = PKey::public_key_from_raw_bytes(point, Id::X25519)?;
        let mut deriver = Deriver::new(&self.0)?;
        deriver.set_peer(&theirs)?;
        // It refuses points of small order.
        deriver.derive_to_vec()
    }
}

/// Makes a greeting, or the answer to one.
pub(crate) fn greet(
    key: &MemberKey,
    to: Node,
    fresh: &Fresh,
    hello: Bytes,
    answered: Option<&Greeting>,
) -> Result<Greeting, ErrorStack> {
    let from = Node::of_key(&key.public());
    let (is_answer, point, signature) = (answered.is_some(), fresh.point()?, [0; 64]);
    let unsigned = Greeting { is_answer, from, to, key: key.public(), point, hello, signature };
    // Signing with a key that has been read fails only without memory.
    let signature = key.sign(&about(&unsigned, answered)).map_err(|_| ErrorStack::get())?;
    Ok(Greeting { signature, ..unsigned })
}

/// Returns whether the owner of the node has made a greeting.
pub(crate) fn is_genuine(greeting: &Greeting, answered: Option<&Greeting>) -> bool {
    greeting.from == Node::of_key(&greeting.key)
        && MemberPublicKey::from_raw(&greeting.key)
            .is_some_and(|key| key.verify(&about(greeting, answered), &greeting.signature))
}

/// Returns what is signed. An answer counts for one greeting only.
fn about(greeting: &Greeting, answered: Option<&Greeting>) -> Vec<u8> {
    let answered = answered.map_or([0; 32], |first| sha256(&[&Envelope::Greeting(first.clone()).encode()]));
    [&b"saltern bus greeting\0"[..], &answered, &greeting.signed()].concat()
}

/// What two members have agreed on.
pub(crate) struct Session {
    pub id: [u8; SESSION_LEN],
    /// What both proofs are about.
    pub transcript: [u8; 32],
    me: Node,
    sends: Key,
    receives: Key,
    /// The last counter of each lane.
    sent: [u64; 2],
    received: [u64; 2],
}

struct Key([u8; KEY_LEN]);

impl Drop for Key {
    fn drop(&mut self) {
        self.0.fill(0);
        std::hint::black_box(&self.0);
    }
}

/// A message that was opened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    pub content: Bytes,
    /// Messages of the lane before it that have not arrived, and never will.
    pub missing: u64,
}

impl Session {
    /// Makes the session of a greeting and its answer.
    pub fn new(fresh: &Fresh, first: &Greeting, answer: &Greeting, is_first: bool) -> Result<Session, ErrorStack> {
        let [first, answer] = [first, answer].map(|greeting| (greeting, Envelope::Greeting(greeting.clone()).encode()));
        let transcript = sha256(&[b"saltern bus session\0", &first.1, &answer.1]);
        let (me, theirs) = if is_first { (first.0, answer.0) } else { (answer.0, first.0) };
        let shared = fresh.agree(&theirs.point)?;
        let mut keys = [0; 2 * KEY_LEN];
        let mut hkdf = PkeyCtx::new_id(Id::HKDF)?;
        hkdf.derive_init()?;
        hkdf.set_hkdf_md(Md::sha256())?;
        hkdf.set_hkdf_salt(&transcript)?;
        hkdf.set_hkdf_key(&shared)?;
        hkdf.add_hkdf_info(b"saltern bus keys")?;
        hkdf.derive(Some(&mut keys))?;
        let key = |place: usize| Key(keys[place * KEY_LEN..][..KEY_LEN].try_into().expect("its length is right"));
        let (sends, receives) = if is_first { (key(0), key(1)) } else { (key(1), key(0)) };
        let id = *transcript.first_chunk().expect("a digest is longer");
        Ok(Session { id, transcript, me: me.from, sends, receives, sent: [0; 2], received: [0; 2] })
    }

    /// Seals what is sent next in a lane.
    pub fn seal(&mut self, lane: Lane, content: &[u8]) -> Result<Bytes, ErrorStack> {
        let counter = &mut self.sent[lane as usize];
        *counter += 1;
        let (head, nonce) = (head(self.me, self.id, lane, *counter), nonce(lane, *counter));
        let mut tag = [0; TAG_LEN];
        let sealed = encrypt_aead(Cipher::aes_256_gcm(), &self.sends.0, Some(&nonce), &head, content, &mut tag)?;
        Ok([&head[..], &sealed, &tag].concat().into())
    }

    /// Opens a message; `None` if the peer has not sealed it in this session, or if it is not later than the last one of its lane.
    pub fn open(&mut self, sealed: &Sealed) -> Option<Opened> {
        let last = self.received[sealed.lane as usize];
        if sealed.session != self.id || sealed.counter <= last {
            return None;
        }
        let (content, tag) = sealed.content.split_last_chunk::<TAG_LEN>()?;
        let head = head(sealed.from, sealed.session, sealed.lane, sealed.counter);
        let nonce = nonce(sealed.lane, sealed.counter);
        let opened = decrypt_aead(Cipher::aes_256_gcm(), &self.receives.0, Some(&nonce), &head, content, tag).ok()?;
        self.received[sealed.lane as usize] = sealed.counter;
        Some(Opened { content: opened.into(), missing: sealed.counter - last - 1 })
    }
}

fn nonce(lane: Lane, counter: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[0] = lane as u8;
    nonce[4..].copy_from_slice(&counter.to_be_bytes());
    nonce
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> MemberKey {
        MemberKey::from_random([number; 32]).unwrap()
    }

    fn node(number: u8) -> Node {
        Node::of_key(&key(number).public())
    }

    fn greetings() -> (Fresh, Fresh, Greeting, Greeting) {
        let (one, two) = (Fresh::generate().unwrap(), Fresh::generate().unwrap());
        let first = greet(&key(1), node(2), &one, Bytes::from_static(b"one"), None).unwrap();
        let answer = greet(&key(2), node(1), &two, Bytes::from_static(b"two"), Some(&first)).unwrap();
        (one, two, first, answer)
    }

    fn sessions() -> (Session, Session) {
        let (one, two, first, answer) = greetings();
        let first_side = Session::new(&one, &first, &answer, true).unwrap();
        (first_side, Session::new(&two, &first, &answer, false).unwrap())
    }

    fn sealed(bytes: &Bytes) -> Sealed {
        let Ok(Some(Envelope::Sealed(sealed))) = Envelope::decode(bytes) else { panic!("it is sealed") };
        sealed
    }

    #[test]
    fn only_the_owner_of_a_node_greets_as_it_and_an_answer_counts_once() {
        let (_, _, first, answer) = greetings();
        assert!(is_genuine(&first, None) && is_genuine(&answer, Some(&first)));
        assert!(!is_genuine(&answer, None));
        let (_, _, other, _) = greetings();
        assert!(!is_genuine(&answer, Some(&other)), "an answer is no answer to another greeting");
        let forged = |change: &dyn Fn(&mut Greeting)| {
            let mut forged = first.clone();
            change(&mut forged);
            is_genuine(&forged, None)
        };
        assert!(!forged(&|greeting| greeting.from = node(3)));
        assert!(!forged(&|greeting| greeting.to = node(3)));
        assert!(!forged(&|greeting| greeting.key = key(3).public()));
        assert!(!forged(&|greeting| greeting.point = [9; 32]));
        assert!(!forged(&|greeting| greeting.hello = Bytes::from_static(b"three")));
    }

    #[test]
    fn what_is_sealed_is_read_once_by_the_other_and_by_nobody_else() {
        let (mut one, mut two) = sessions();
        assert_eq!((one.id, one.transcript), (two.id, two.transcript));
        let first = sealed(&one.seal(Lane::Talk, b"first").unwrap());
        let second = sealed(&one.seal(Lane::Talk, b"second").unwrap());
        let bulk = sealed(&one.seal(Lane::Bulk, b"").unwrap());
        assert_eq!(one.open(&first), None, "it cannot be sent back");
        let (_, mut other) = sessions();
        assert_eq!(other.open(&first), None, "nor into another session");
        assert_eq!(other.open(&Sealed { session: other.id, ..first.clone() }), None);
        let opened = |content: &'static [u8], missing| Some(Opened { content: Bytes::from_static(content), missing });
        assert_eq!(two.open(&second), opened(b"second", 1));
        assert_eq!(two.open(&second), None, "a replay");
        assert_eq!(two.open(&first), None, "an older one");
        assert_eq!(two.open(&bulk), opened(b"", 0), "lanes count by themselves");
    }

    #[test]
    fn every_changed_bit_is_noticed() {
        let (mut one, mut two) = sessions();
        let bytes = one.seal(Lane::Talk, b"content").unwrap();
        for place in 2..bytes.len() {
            let mut changed = bytes.to_vec();
            changed[place] ^= 1;
            if let Ok(Some(Envelope::Sealed(sealed))) = Envelope::decode(&changed.into()) {
                assert_eq!(two.open(&sealed), None, "byte {place}");
            }
        }
        assert!(two.open(&sealed(&bytes)).is_some());
    }

    #[test]
    fn a_point_that_gives_everybody_the_same_secret_is_refused() {
        let (one, _, first, answer) = greetings();
        let weak = Greeting { point: [0; 32], ..answer };
        assert!(Session::new(&one, &first, &weak, true).is_err());
    }
}
