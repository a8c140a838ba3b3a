//! Values as JetStream keeps them: a code, the node and the signature of the member that has it kept, and the record.

use bytes::Bytes;
use crypto::{MEMBER_SIGNATURE_LEN, MemberKey, Signature, hmac_sha256, sha256, stretched};
use leases::LONGEST;
use links::Credentials;
use share::message::Put;
use share::{Class, KeptRecord, Message, Node, Record};
use tracing::error;

/// What the codes are made for, so that they count for nothing else.
const CONTEXT: &[u8] = b"saltern keep 2\0";

/// The length of a code in bytes.
const CODE: usize = 32;

/// The length of what is in front of a record.
const HEAD: usize = CODE + size_of::<Node>() + MEMBER_SIGNATURE_LEN;

/// What proves that a master belongs to the set, as the codes of values are made from it.
#[derive(Clone)]
pub struct KeepProof(Vec<u8>);

impl KeepProof {
    /// Returns the proof; `None` if nothing proves that a master belongs to the set.
    pub fn new(credentials: &Credentials) -> Option<KeepProof> {
        match (&credentials.secret, &credentials.master_key, &credentials.sign_key) {
            (Some(secret), _, _) => Some(KeepProof(sha256(&[secret.expose()]).to_vec())),
            // Nobody else can make this signature, and it is never shown.
            (None, Some(key), _) | (None, None, Some(key)) => {
                let signed = key.sign(Signature::Pkcs1v15Sha224, CONTEXT);
                signed.inspect_err(|error| error!("nothing is kept in JetStream: {error}")).ok().map(KeepProof)
            }
            (None, None, None) => None,
        }
    }

    /// Returns what the codes of values are made with, for a set whose name is written as in subjects. Takes a tenth of a second, on
    /// purpose: whoever can read the values can guess secrets.
    pub fn code(&self, context: &[u8], set: &str) -> Result<[u8; CODE], String> {
        stretched(&self.0, &[context, set.as_bytes()].concat()).map_err(|error| error.to_string())
    }
}

/// Makes values of records and reads them: a code, the node and the signature of the member that has it kept, and the record.
pub struct Seal {
    code: [u8; CODE],
    set: String,
    key: MemberKey,
    node: Node,
}

impl Seal {
    /// Creates the seal of a set, whose name is written as in subjects. Takes a tenth of a second: see [`KeepProof::code`].
    pub fn new(proof: &KeepProof, set: &str, key: MemberKey) -> Result<Seal, String> {
        let code = proof.code(CONTEXT, set)?;
        let node = Node::of_key(&key.public());
        Ok(Seal { code, set: set.to_owned(), key, node })
    }

    /// Returns what a member signs of a message, which names the class and the key.
    fn signed(&self, message: &[u8]) -> Bytes {
        [CONTEXT, self.set.as_bytes(), b"\0", message].concat().into()
    }

    pub fn close(&self, message: &[u8]) -> Result<Bytes, String> {
        let signature = self.key.sign(&self.signed(message)).map_err(|error| error.to_string())?;
        let inner = [&self.node.0[..], &signature, message].concat();
        let code = hmac_sha256(&self.code, &inner);
        Ok([&code[..], &inner].concat().into())
    }

    /// Returns the record in a value; `None` if it is damaged, or was not made by a member of the set. The signature is checked by the
    /// model, which knows the members.
    pub fn open(&self, class: Class, value: &Bytes) -> Option<KeptRecord> {
        let (code, inner) = value.split_first_chunk::<CODE>()?;
        // Compared as hashes, so that the time that it takes says nothing of the code.
        if sha256(&[code]) != sha256(&[&hmac_sha256(&self.code, inner)]) {
            return None;
        }
        self.unchecked(class, value)
    }

    /// Returns the record in a value whatever its code: a member with another secret may have made it.
    pub fn unchecked(&self, class: Class, value: &Bytes) -> Option<KeptRecord> {
        let (_, inner) = value.split_first_chunk::<CODE>()?;
        let (node, rest) = inner.split_first_chunk()?;
        let (signature, message) = rest.split_first_chunk()?;
        let Ok(Some(Message::Put(mut put))) = Message::decode(&value.slice_ref(message)) else { return None };
        let (record, age) = put.records.pop().filter(|_| put.records.is_empty())?;
        let (writer, signed) = (Node(*node), self.signed(message));
        let (signature, at) = (*signature, put.number);
        (record.class() == class).then_some(KeptRecord { record, writer, signed, signature, age, at })
    }
}

/// Packs a record that this member has known for `age` at the time `at`, in milliseconds; `None` if it is too long to be kept.
pub fn packed(record: Record, age: u64, at: u64) -> Option<Bytes> {
    // Nothing answers such a message, so its number is free to say when it was made. Earlier versions pass over that.
    let put = Put { number: at, records: vec![(record, age)], served: None, unreadable: Vec::new() };
    Some(Message::Put(put).encode()).filter(|message| message.len() + HEAD <= LONGEST)
}

#[cfg(test)]
mod tests {
    use crypto::MemberPublicKey;
    use links::Secret;
    use share::{By, Content, Entry, Key, SignedDecision, Stamp, State, Wish};

    use super::*;

    fn seal(secret: &str) -> Seal {
        let credentials = Credentials { secret: Some(Secret::new(secret)), ..Credentials::default() };
        Seal::new(&KeepProof::new(&credentials).unwrap(), "prod", signer()).unwrap()
    }

    fn signer() -> MemberKey {
        MemberKey::from_random([1; 32]).unwrap()
    }

    fn record(id: &str) -> Record {
        let signer = signer();
        let (key, node) = (Key::new(id).unwrap(), Node::of_key(&signer.public()));
        let content = Bytes::from_static(b"a public key");
        let wish = Wish { class: Class::Keys, key: key.clone(), state: State::Accepted, content, by: By::Auto };
        let stamp = Stamp { time: 1 << 40, node };
        let decision = SignedDecision::sign(Entry::default().decide(wish, stamp).unwrap(), &signer).unwrap();
        Record::new(key, stamp, Content::Decided(Class::Keys, Entry::new(vec![decision])))
    }

    fn message(record: Record) -> Bytes {
        packed(record, 7, 1_771_977_600_000).unwrap()
    }

    #[test]
    fn a_value_is_read_as_it_was_kept_and_no_other_one_is() {
        let (ours, theirs) = (seal("the secret of this set"), seal("the secret of another"));
        let value = ours.close(&message(record("web1"))).unwrap();
        let kept = ours.open(Class::Keys, &value).unwrap();
        assert_eq!((kept.record.key.as_str(), kept.writer), ("web1", ours.node));
        assert_eq!((kept.age, kept.at), (7, 1_771_977_600_000), "deletions go on ageing");
        let public = MemberPublicKey::from_raw(&signer().public()).unwrap();
        assert!(public.verify(&kept.signed, &kept.signature));
        assert!(ours.open(Class::Members, &value).is_none(), "it is of another class");
        assert!(theirs.open(Class::Keys, &value).is_none(), "its servers may have made it up");
        assert_eq!(
            theirs.unchecked(Class::Keys, &value).map(|kept| (kept.writer, kept.signature)),
            Some((kept.writer, kept.signature))
        );
        for place in 0..value.len() {
            let mut damaged = value.to_vec();
            damaged[place] ^= 1;
            assert!(ours.open(Class::Keys, &damaged.into()).is_none(), "{place}");
        }
        for garbage in [&b""[..], b"x", &[0; 32], &[0xff; 100]] {
            assert!(ours.open(Class::Keys, &Bytes::copy_from_slice(garbage)).is_none());
        }
        assert!(ours.open(Class::Keys, &ours.close(b"garbage").unwrap()).is_none());
    }
}
