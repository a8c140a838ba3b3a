//! What the set knows of a member: the content of a decision about it.

use std::fmt;

use bytes::Bytes;
use crypto::{MEMBER_KEY_LEN, MemberPublicKey};
use value::Value;

use crate::fields::{self, Fields, MAX_NAME, Malformed};
use crate::{Class, Classes, Entry, Node, SignedDecision, State};

/// A master of the set, or a witness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its short name, which no two members share.
    pub name: String,
    /// Its raw public key. The node follows from it.
    pub key: [u8; MEMBER_KEY_LEN],
    /// Where others reach it.
    pub addresses: Vec<String>,
    /// What it does.
    pub role: Role,
    /// What the others believe it.
    pub may: Rights,
    /// The last two digits of its job ids.
    pub slot: u8,
}

/// What a member does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// Serves minions.
    Master = 1,
    /// Only votes.
    Witness = 2,
    /// Gets everything but tokens and serves minions. It decides about no key and no member, and does not vote.
    Reader = 3,
}

/// Something that a member may be allowed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Right {
    /// Decide about members.
    Members = 0,
    /// Decide about minion keys.
    Keys = 1,
    /// Publish jobs and store returns.
    Jobs = 2,
    /// Store grains, pillar and mine.
    Data = 3,
    /// Make tokens.
    Tokens = 4,
    /// Fire events on other members.
    Events = 5,
    /// Hold and grant leases.
    Lease = 6,
}

impl Right {
    /// Returns the right that a record of this class needs.
    pub fn of_class(class: Class) -> Right {
        match class {
            Class::Members => Right::Members,
            Class::Keys | Class::Denied => Right::Keys,
            Class::Job | Class::Expected | Class::Return | Class::End => Right::Jobs,
            Class::Data => Right::Data,
            Class::Token => Right::Tokens,
            Class::Claim => Right::Lease,
        }
    }

    /// Returns the name, as messages to people show it.
    pub fn name(self) -> &'static str {
        ["members", "keys", "jobs", "data", "tokens", "events", "lease"][self as usize]
    }
}

/// What a member is allowed to do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Rights(u32);

impl Rights {
    /// Nothing.
    pub const NONE: Rights = Rights(0);

    /// Everything, also what later versions add.
    pub const ALL: Rights = Rights(u32::MAX);

    /// Returns exactly these rights.
    pub fn only(rights: &[Right]) -> Rights {
        Rights(rights.iter().fold(0, |all, right| all | 1 << *right as u32))
    }

    /// Returns these rights and others.
    pub fn and(self, others: Rights) -> Rights {
        Rights(self.0 | others.0)
    }

    /// Returns these rights without some.
    pub fn without(self, rights: &[Right]) -> Rights {
        Rights(self.0 & !Rights::only(rights).0)
    }

    /// Returns the rights that are among both.
    fn common(self, others: Rights) -> Rights {
        Rights(self.0 & others.0)
    }

    /// Returns whether a right is among them.
    pub fn contains(self, right: Right) -> bool {
        self.0 & 1 << right as u32 != 0
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rights({:#b})", self.0)
    }
}

/// What a reader may do at most: what its minions and the people who log in to it cause. Tokens are not among it: a token says whose
/// it is, and with that of an administrator a reader would decide about keys on a master.
const READS: [Right; 3] = [Right::Jobs, Right::Data, Right::Events];

/// The maximum number of addresses of a member.
const MOST_ADDRESSES: usize = 64;

impl Member {
    /// Returns the node.
    pub fn node(&self) -> Node {
        Node::of_key(&self.key)
    }

    /// Returns what the member may do in its role.
    pub fn rights(&self) -> Rights {
        match self.role {
            Role::Master => self.may,
            Role::Witness if self.may.contains(Right::Lease) => Rights::only(&[Right::Lease]),
            Role::Witness => Rights::NONE,
            Role::Reader => self.may.common(Rights::only(&READS)),
        }
    }

    /// Returns what the member gets from others: a witness has no use for what belongs to minions, and no business with it. A reader
    /// gets no tokens, with which it could act as the people whose they are.
    pub fn gets(&self) -> Classes {
        match self.role {
            Role::Master => Classes::ALL,
            Role::Reader => Classes::without(&[Class::Token]),
            Role::Witness => Classes::only(&[Class::Members, Class::Keys]),
        }
    }

    /// Packs the content of a decision about the member.
    pub fn pack(&self) -> Bytes {
        self.pack_with(Rights::NONE)
    }

    /// Packs the content of a decision about the member, with the rights that it had before.
    ///
    /// Decisions that it made with them still count, also for members that never heard how it got them.
    pub(crate) fn pack_with(&self, once: Rights) -> Bytes {
        let addresses = self.addresses.iter().map(|address| Value::from(address.as_str())).collect();
        fields::packed(vec![
            Value::from(self.name.as_str()),
            Value::bytes(Bytes::copy_from_slice(&self.key)),
            Value::List(addresses),
            fields::number(self.role as u64),
            fields::number(u64::from(self.may.0)),
            fields::number(u64::from(self.slot)),
            fields::number(u64::from(once.0)),
        ])
    }

    /// Reads the content of a decision about a member.
    pub fn unpack(packed: &Bytes) -> Result<Member, Malformed> {
        Member::unpack_with(packed).map(|(member, _)| member)
    }

    fn unpack_with(packed: &Bytes) -> Result<(Member, Rights), Malformed> {
        let mut fields = Fields::open(packed, 256, "a member")?;
        let name = fields.name("the name of a member")?;
        let key = fields.array("the key of a member")?;
        let mut list = fields.list("addresses", MOST_ADDRESSES)?;
        let mut addresses = Vec::new();
        while list.left() > 0 {
            addresses.push(list.plain("an address", MAX_NAME)?);
        }
        let role = match fields.number("a role")? {
            1 => Role::Master,
            2 => Role::Witness,
            3 => Role::Reader,
            _ => return Err(Malformed("a role")),
        };
        let may = Rights(fields.number("rights")? as u32);
        let slot = fields.number("a slot")?;
        let slot = u8::try_from(slot).ok().filter(|slot| *slot < 99).ok_or(Malformed("a slot"))?;
        let once = if fields.left() == 0 { Rights::NONE } else { Rights(fields.number("rights")? as u32) };
        Ok((Member { name, key, addresses, role, may, slot }, once))
    }

    /// Returns the key, ready to verify.
    pub fn public_key(&self) -> Option<MemberPublicKey> {
        MemberPublicKey::from_raw(&self.key)
    }
}

/// Returns what a member may do, or was once allowed to do, by all that was decided about it.
pub(crate) fn once_allowed(entry: &Entry) -> Rights {
    let rights = |decision: &SignedDecision| match Member::unpack_with(&decision.content) {
        Ok((member, once)) if decision.state == State::Accepted => once.and(member.rights()),
        Ok((_, once)) => once,
        Err(_) => Rights::NONE,
    };
    entry.decisions().iter().fold(Rights::NONE, |all, decision| all.and(rights(decision)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_comes_back_as_it_was() {
        let may = Rights::only(&[Right::Keys, Right::Lease]);
        let addresses = vec!["10.0.3.7:4520".into()];
        let member = Member { name: "m1".into(), key: [7; 32], addresses, role: Role::Witness, may, slot: 98 };
        assert_eq!(Member::unpack(&member.pack()), Ok(member.clone()));
        assert!(Member::unpack(&Member { slot: 99, ..member.clone() }.pack()).is_err());
        // Either would show something else in a terminal than what is there.
        for name in ["", "m1\x1b[2K", "../m1", "m\u{202e}1"] {
            let named = Member { name: name.into(), ..member.clone() };
            assert_eq!(Member::unpack(&named.pack()), Err(Malformed("the name of a member")), "{name:?}");
        }
        let member = Member { addresses: vec!["m1\n:4520".into()], ..member };
        assert_eq!(Member::unpack(&member.pack()), Err(Malformed("an address")));
        assert!(may.contains(Right::Keys) && !may.contains(Right::Jobs));
        assert_eq!(Right::Lease.name(), "lease");
    }

    #[test]
    fn who_only_votes_or_reads_decides_about_no_key_and_no_member() {
        let member =
            |role| Member { name: "m1".into(), key: [7; 32], addresses: vec![], role, may: Rights::ALL, slot: 0 };
        assert_eq!(member(Role::Witness).rights(), Rights::only(&[Right::Lease]));
        assert_eq!(member(Role::Reader).rights(), Rights::only(&READS));
        for right in [Right::Members, Right::Keys, Right::Tokens, Right::Lease] {
            assert!(!member(Role::Reader).rights().contains(right), "{}", right.name());
        }
        let few = Member { may: Rights::only(&[Right::Keys, Right::Jobs]), ..member(Role::Reader) };
        assert_eq!(few.rights(), Rights::only(&[Right::Jobs]));
        let gets = |role, class| member(role).gets().contains(class);
        assert!(gets(Role::Witness, Class::Keys) && !gets(Role::Witness, Class::Return));
        assert!(gets(Role::Reader, Class::Return) && !gets(Role::Reader, Class::Token));
    }
}
