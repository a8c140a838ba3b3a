//! What proves in the lease bucket that a member of the set wrote a value.
//!
//! A value has the signature of its member, and a code made with what proves that a master belongs to the set, as the values of the last
//! copy have (`kept::seal`). The value of a known member counts by its signature alone, so a secret may be changed on one master after
//! the other. The code makes the value of a member count that is not known here yet.

use std::sync::Arc;

use crypto::{MEMBER_SIGNATURE_LEN, MemberKey, hmac_sha256, sha256};
use leases::{Proof, Verdict};
use share::{Node, State};

use super::kept::KeepProof;
use super::members::MemberBook;

/// What the codes and signatures are made for, so that they count for nothing else.
const CONTEXT: &[u8] = b"saltern lease 1\0";

/// The length of a code in bytes.
const CODE: usize = 32;

/// Proves that this member wrote a value, and judges those of others.
pub struct LeaseProof {
    code: [u8; CODE],
    set: String,
    key: MemberKey,
    node: Node,
    members: Arc<MemberBook>,
}

impl LeaseProof {
    /// Creates the proof of a set, whose name is written as in subjects. Takes a tenth of a second: see [`KeepProof::code`].
    pub fn new(proof: &KeepProof, set: &str, key: MemberKey, members: Arc<MemberBook>) -> Result<LeaseProof, String> {
        let code = proof.code(CONTEXT, set)?;
        let node = Node::of_key(&key.public());
        Ok(LeaseProof { code, set: set.to_owned(), key, node, members })
    }

    /// Returns what is signed: a value counts for no other set and no other lease.
    fn signed(&self, lease: &str, token: &[u8]) -> Vec<u8> {
        [CONTEXT, self.set.as_bytes(), b"\0", lease.as_bytes(), b"\0", token].concat()
    }
}

impl Proof for LeaseProof {
    fn prove(&self, lease: &str, token: &[u8]) -> Result<String, String> {
        let signed = self.signed(lease, token);
        let signature = self.key.sign(&signed).map_err(|error| error.to_string())?;
        let code = hmac_sha256(&self.code, &[&signature[..], &signed].concat());
        Ok(hex::encode([&code[..], &signature].concat()))
    }

    fn judge(&self, lease: &str, node: Option<[u8; 8]>, token: &[u8], proof: &[u8]) -> Verdict {
        let mut proven = [0; CODE + MEMBER_SIGNATURE_LEN];
        let is_proof = hex::decode_to_slice(proof, &mut proven).is_ok();
        let knows_others = self.members.knows_others(self.node);
        let Some(node) = node.map(Node).filter(|_| is_proof) else { return verdict(Writer::Nobody, knows_others) };
        let (code, signature) = proven.split_at(CODE);
        let signed = self.signed(lease, token);
        let writer = match self.members.key_of(node) {
            Some((State::Accepted, key)) => match key.is_some_and(|key| key.verify(&signed, signature)) {
                true => Writer::Member,
                false => Writer::Nobody,
            },
            Some((State::Deleted, _)) => Writer::Nobody,
            // Compared as hashes, so that the time that it takes says nothing of the code.
            _ => match sha256(&[code]) == sha256(&[&hmac_sha256(&self.code, &[signature, &signed].concat())]) {
                true => Writer::Knows,
                false => Writer::Nobody,
            },
        };
        verdict(writer, knows_others)
    }
}

/// Who wrote a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    /// A member.
    Member,
    /// Somebody who is not known here and knows what proves that a master belongs to the set.
    Knows,
    /// Somebody else, or a member that was removed.
    Nobody,
}

/// Judges a value by its writer. A master that knows no other member cannot tell which of the two belongs to the set.
fn verdict(writer: Writer, knows_others: bool) -> Verdict {
    match (writer, knows_others) {
        (Writer::Member, _) | (Writer::Knows, false) => Verdict::Counts,
        (Writer::Knows, true) => Verdict::Unknown,
        (Writer::Nobody, true) => Verdict::Nobodys,
        (Writer::Nobody, false) => Verdict::Unsure,
    }
}

#[cfg(test)]
mod tests {
    use links::Credentials;
    use peers::credentials::Secret;
    use share::Classes;
    use share::member::{Member, Rights, Role};

    use super::*;

    fn key(number: u8) -> MemberKey {
        MemberKey::from_random([number; 32]).unwrap()
    }

    fn member(number: u8) -> Member {
        let (name, key) = (format!("m{number}"), key(number).public());
        Member { name, key, addresses: vec![], role: Role::Master, may: Rights::ALL, slot: number }
    }

    /// Returns what the member with this number proves and judges by, and knows of others.
    fn proof(number: u8, secret: &str, members: &[(u8, State)]) -> LeaseProof {
        let (worker, _work) = tokio::sync::mpsc::channel(1);
        let book = MemberBook::new(worker, Classes::ALL, None);
        book.know(members.iter().map(|(number, state)| (member(*number), *state)));
        let credentials = Credentials { secret: Some(Secret::new(secret)), ..Credentials::default() };
        let proof = KeepProof::new(&credentials).unwrap();
        LeaseProof::new(&proof, "prod", key(number), Arc::new(book)).unwrap()
    }

    #[test]
    fn a_value_counts_if_a_member_made_it_or_somebody_who_knows_the_secret_and_may_become_known() {
        let token = b"the token";
        let (ours, theirs) = ("the secret of this set", "the secret of another");
        let accepted = |number| (number, State::Accepted);
        let judge = |judge: &LeaseProof, by: u8, secret: &str| {
            let proven = proof(by, secret, &[]).prove("tick", token).unwrap();
            judge.judge("tick", Some(Node::of_key(&key(by).public()).0), token, proven.as_bytes())
        };
        let one = proof(1, ours, &[accepted(1), accepted(2), (3, State::Deleted)]);
        assert_eq!(judge(&one, 2, ours), Verdict::Counts);
        assert_eq!(judge(&one, 2, theirs), Verdict::Counts, "a known member, while a secret is changed");
        assert_eq!(judge(&one, 3, ours), Verdict::Nobodys, "it was removed");
        assert_eq!(judge(&one, 4, ours), Verdict::Unknown);
        assert_eq!(judge(&one, 4, theirs), Verdict::Nobodys);
        let alone = proof(1, ours, &[accepted(1)]);
        assert_eq!(judge(&alone, 4, ours), Verdict::Counts);
        assert_eq!(judge(&alone, 4, theirs), Verdict::Unsure, "this master may be the wrong one");
        let node = |number| Some(Node::of_key(&key(number).public()).0);
        let proven = proof(2, ours, &[]).prove("tick", token).unwrap();
        assert_eq!(one.judge("tock", node(2), token, proven.as_bytes()), Verdict::Nobodys, "of another lease");
        assert_eq!(one.judge("tick", node(2), b"another", proven.as_bytes()), Verdict::Nobodys);
        assert_eq!(one.judge("tick", node(1), token, proven.as_bytes()), Verdict::Nobodys, "in the name of another");
        for nothing in ["", "x", &proven[2..], "00"] {
            assert_eq!(one.judge("tick", node(2), token, nothing.as_bytes()), Verdict::Nobodys, "{nothing}");
        }
        assert_eq!(one.judge("tick", None, b"garbage", b""), Verdict::Nobodys);
    }
}
