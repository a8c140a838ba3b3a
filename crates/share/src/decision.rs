//! Decisions about members and minion keys: signed, and naming the earlier decisions that they replace.
//!
//! A decision says over which others it was made. So copies can tell a decision that replaces another one from two that were
//! made without knowing of each other, whatever the clocks say.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use crypto::{MEMBER_SIGNATURE_LEN, MemberKey, MemberKeyError, MemberPublicKey};
use value::Value;

use crate::fields::{self, Fields, MAX_NAME, Malformed};
use crate::{Class, Key, Node, Stamp};

/// What was decided. The order is the one in which decisions beside each other are obeyed: the safest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum State {
    /// The key is deleted, the member removed.
    Deleted = 1,
    /// The key is rejected.
    Rejected = 2,
    /// The key is accepted, the member welcome.
    Accepted = 3,
    /// Nobody has decided yet.
    Pending = 4,
}

impl State {
    /// All states.
    pub const ALL: [State; 4] = [State::Deleted, State::Rejected, State::Accepted, State::Pending];

    fn from_number(number: u64) -> Option<State> {
        State::ALL.into_iter().find(|state| *state as u64 == number)
    }
}

/// Who decided.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum By {
    /// A user of the member.
    User(String),
    /// Somebody who changed the files in the key directories.
    Files,
    /// A rule of the member: a first sign-in, automatic acceptance.
    Auto,
}

impl By {
    /// Returns whether a person decided. People change files, too.
    pub fn is_person(&self) -> bool {
        *self != By::Auto
    }
}

/// For each node the time of its latest decision about one key that somebody had seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen(BTreeMap<Node, u64>);

impl Seen {
    /// The maximum number of nodes: those of all members, and of members that were replaced.
    pub const MAX_NODES: usize = 512;

    /// Takes note of a decision.
    pub fn add(&mut self, stamp: Stamp) {
        let time = self.0.entry(stamp.node).or_default();
        *time = stamp.time.max(*time);
    }

    /// Takes note of all that somebody else had seen.
    pub fn extend(&mut self, other: &Seen) {
        other.0.iter().for_each(|(&node, &time)| self.add(Stamp { time, node }));
    }

    /// Returns whether a decision had been seen.
    pub fn contains(&self, stamp: Stamp) -> bool {
        self.0.get(&stamp.node).is_some_and(|time| *time >= stamp.time)
    }

    /// Forgets a decision of a node and all its later ones.
    pub(crate) fn cut(&mut self, stamp: Stamp) {
        if let Some(time) = self.0.get_mut(&stamp.node) {
            // A node has one time here, so what it decided before the cut stays seen and what it decided after is not.
            *time = stamp.time.saturating_sub(1).min(*time);
        }
    }

    /// Returns the latest time.
    fn latest(&self) -> Option<u64> {
        self.0.values().copied().max()
    }

    /// Forgets nodes until there are no more than allowed: those that were not seen for longest, and none of `first`.
    pub(crate) fn limit(&mut self, first: &Seen) {
        let excess = self.0.len().saturating_sub(Seen::MAX_NODES);
        if excess == 0 {
            return;
        }
        // Forgetting one that stands in the entry would leave it there beside its replacement, as a conflict for ever.
        let others = self.0.iter().filter(|(node, _)| !first.0.contains_key(node));
        let mut oldest: Vec<(u64, Node)> = others.map(|(node, time)| (*time, *node)).collect();
        oldest.sort_unstable();
        for (_, node) in oldest.iter().take(excess) {
            self.0.remove(node);
        }
    }

    fn to_value(&self) -> Value {
        let pair = |(&node, &time): (&Node, &u64)| Value::List(vec![fields::node(node), fields::number(time)]);
        Value::List(self.0.iter().map(pair).collect())
    }

    fn read(mut list: Fields) -> Result<Seen, Malformed> {
        let mut seen = Seen::default();
        while list.left() > 0 {
            let mut pair = list.list("a seen decision", 8)?;
            let node = pair.node()?;
            seen.add(Stamp { time: pair.number("a time")?, node });
        }
        Ok(seen)
    }
}

/// What a member decided about a key or a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// [`Class::Keys`] or [`Class::Members`].
    pub class: Class,
    /// The minion id, or the node of the member.
    pub key: Key,
    /// When, and by which member.
    pub stamp: Stamp,
    /// The decided state.
    pub state: State,
    /// The public key of the minion, or what the set knows of the member.
    pub content: Bytes,
    /// Who or what decided.
    pub by: By,
    /// Everything that the member had seen about this key, and that this decision replaces.
    pub replaces: Seen,
    /// Deletions that the member had seen, and that this decision follows without replacing them.
    ///
    /// Minions whose key is deleted register again within seconds. If that replaced the deletion, an acceptance made elsewhere
    /// without knowing of the deletion would have nothing left against it.
    pub follows: Seen,
}

/// The maximum length of the content of a decision in bytes.
pub const MAX_CONTENT: usize = 16 * 1024;

/// The maximum length of a packed decision in bytes.
pub const MAX_DECISION: usize = 48 * 1024;

/// The maximum number of values in a packed decision.
const MAX_VALUES: usize = 64 + 8 * Seen::MAX_NODES;

/// What stands before the fields that are signed, so that a signature counts for nothing else.
const CONTEXT: &[u8] = b"saltern decision 1\0";

impl Decision {
    /// Returns whether this decision replaces another one about the same key.
    ///
    /// A removed member never comes back, and what it decides after its removal does not count. So its removal is replaced by
    /// nothing: another removal would move that moment.
    pub fn covers(&self, other: &Decision) -> bool {
        // Both are needed: without the time two decisions that each claim to replace the other would leave nothing.
        let later = self.stamp.time > other.stamp.time;
        later && self.replaces.contains(other.stamp) && !other.is_removal()
    }

    /// Returns whether this decision removes a member.
    pub fn is_removal(&self) -> bool {
        self.class == Class::Members && self.state == State::Deleted
    }

    /// Compares the precedence of decisions that stand beside each other: the least one is obeyed.
    pub fn precedence(&self, other: &Decision) -> Ordering {
        // The earlier of two stamps wins, so that nobody gains by a clock that is ahead.
        let rank = |decision: &Decision| (decision.state, !decision.by.is_person(), decision.stamp);
        rank(self).cmp(&rank(other))
    }

    /// Checks what whoever reads the decision checks, so that nothing is signed that others refuse.
    pub fn check(&self) -> Result<(), Malformed> {
        let packed = self.pack();
        // The whole way there and back, for a decision that is stored here and refused everywhere else would keep copies apart.
        if packed.len() > MAX_DECISION { Err(Malformed("a decision")) } else { Decision::unpack(&packed).map(drop) }
    }

    /// Packs the fields, in the form that is signed.
    fn pack(&self) -> Bytes {
        let (by, name) = match &self.by {
            By::User(name) => (1, name.as_str()),
            By::Files => (2, ""),
            By::Auto => (3, ""),
        };
        fields::packed(vec![
            fields::class(self.class),
            fields::key(&self.key),
            fields::number(self.stamp.time),
            fields::node(self.stamp.node),
            fields::number(self.state as u64),
            Value::bytes(self.content.clone()),
            Value::List(vec![fields::number(by), Value::from(name)]),
            self.replaces.to_value(),
            self.follows.to_value(),
        ])
    }

    fn unpack(packed: &Bytes) -> Result<Decision, Malformed> {
        let mut fields = Fields::open(packed, MAX_VALUES, "a decision")?;
        let class = fields.class()?.filter(|class| class.is_decided()).ok_or(Malformed("the class of a decision"))?;
        let key = fields.key()?;
        if !key.fits(class) {
            return Err(Malformed("the key of a decision"));
        }
        let stamp = fields.stamp()?;
        let state = State::from_number(fields.number("a state")?).ok_or(Malformed("a state"))?;
        let content = fields.bytes("the content of a decision", MAX_CONTENT)?;
        let mut by = fields.list("who decided", 8)?;
        // `plain`: the name goes into logs and to the terminals of others.
        let by = match (by.number("who decided")?, by.plain("a name", MAX_NAME)?) {
            (1, name) => By::User(name),
            (2, _) => By::Files,
            (3, _) => By::Auto,
            _ => return Err(Malformed("who decided")),
        };
        let replaces = Seen::read(fields.list("what was seen", Seen::MAX_NODES)?)?;
        let follows = Seen::read(fields.list("what was seen", Seen::MAX_NODES)?)?;
        // Whoever has seen a decision stamps his own above it.
        if replaces.latest().max(follows.latest()).is_some_and(|latest| latest >= stamp.time) {
            return Err(Malformed("what a decision replaces"));
        }
        Ok(Decision { class, key, stamp, state, content, by, replaces, follows })
    }
}

/// A decision with the signature of the member that made it, as it travels and is kept.
///
/// The signed bytes are kept as they came: fields that a later version adds stay in them and stay signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedDecision {
    decision: Decision,
    packed: Bytes,
    signature: [u8; MEMBER_SIGNATURE_LEN],
}

impl SignedDecision {
    /// Signs a decision.
    pub fn sign(decision: Decision, key: &MemberKey) -> Result<Arc<SignedDecision>, MemberKeyError> {
        let packed = decision.pack();
        let signature = key.sign(&signed(&packed))?;
        Ok(Arc::new(SignedDecision { decision, packed, signature }))
    }

    /// Reads what [`SignedDecision::packed`] and [`SignedDecision::signature`] returned. Checks no signature.
    pub fn unpack(packed: Bytes, signature: [u8; MEMBER_SIGNATURE_LEN]) -> Result<Arc<SignedDecision>, Malformed> {
        if packed.len() > MAX_DECISION {
            return Err(Malformed("a decision"));
        }
        let decision = Decision::unpack(&packed)?;
        Ok(Arc::new(SignedDecision { decision, packed, signature }))
    }

    /// Returns whether the member with this key made the decision.
    pub fn is_signed_by(&self, key: &MemberPublicKey) -> bool {
        key.verify(&signed(&self.packed), &self.signature)
    }

    /// Returns what was decided.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Returns the bytes that are signed.
    pub fn packed(&self) -> &Bytes {
        &self.packed
    }

    /// Returns the signature.
    pub fn signature(&self) -> &[u8; MEMBER_SIGNATURE_LEN] {
        &self.signature
    }

    /// Compares for the order within an entry, which is the same in every copy.
    pub(crate) fn order(&self, other: &SignedDecision) -> Ordering {
        let fields = |signed: &SignedDecision| (signed.decision.stamp, signed.packed.clone(), signed.signature);
        match self.decision.stamp.cmp(&other.decision.stamp) {
            Ordering::Equal => fields(self).cmp(&fields(other)),
            unequal => unequal,
        }
    }

    #[cfg(test)]
    pub(crate) fn unsigned(decision: Decision) -> Arc<SignedDecision> {
        let packed = decision.pack();
        Arc::new(SignedDecision { decision, packed, signature: [0; MEMBER_SIGNATURE_LEN] })
    }
}

impl std::ops::Deref for SignedDecision {
    type Target = Decision;

    fn deref(&self) -> &Decision {
        &self.decision
    }
}

fn signed(packed: &[u8]) -> Vec<u8> {
    [CONTEXT, packed].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision() -> Decision {
        let mut replaces = Seen::default();
        replaces.add(Stamp { time: 7, node: Node([2; 8]) });
        Decision {
            class: Class::Keys,
            key: Key::new("web1").unwrap(),
            stamp: Stamp { time: 1 << 50, node: Node([1; 8]) },
            state: State::Accepted,
            content: Bytes::from_static(b"a public key"),
            by: By::User("root".into()),
            replaces,
            follows: Seen::default(),
        }
    }

    #[test]
    fn a_signed_decision_comes_back_as_it_was() {
        let key = MemberKey::generate().unwrap();
        for by in [By::User("root".into()), By::Files, By::Auto] {
            let made = SignedDecision::sign(Decision { by, ..decision() }, &key).unwrap();
            let read = SignedDecision::unpack(made.packed().clone(), *made.signature()).unwrap();
            assert_eq!(read, made);
            assert!(read.is_signed_by(&MemberPublicKey::from_raw(&key.public()).unwrap()));
        }
    }

    #[test]
    fn nobody_can_change_what_a_decision_is_made_over() {
        let key = MemberKey::generate().unwrap();
        let public = MemberPublicKey::from_raw(&key.public()).unwrap();
        let made = SignedDecision::sign(decision(), &key).unwrap();
        let mut changed = decision();
        changed.replaces.add(Stamp { time: 8, node: Node([2; 8]) });
        let changed = SignedDecision::unpack(changed.pack(), *made.signature()).unwrap();
        assert!(!changed.is_signed_by(&public));
        let stranger = MemberKey::generate().unwrap();
        assert!(!made.is_signed_by(&MemberPublicKey::from_raw(&stranger.public()).unwrap()));
    }

    #[test]
    fn fields_of_later_versions_are_kept_and_passed_over() {
        let mut fields =
            wire::msgpack::unpack(&decision().pack(), wire::msgpack::Decode::Raw).unwrap().into_list().unwrap();
        fields.push(Value::from("later"));
        let read = SignedDecision::unpack(fields::packed(fields), [0; 64]).unwrap();
        assert_eq!(read.decision(), &decision());
        assert!(read.packed().ends_with(b"later"));
    }

    #[test]
    fn unreasonable_decisions_are_refused() {
        let pack = |decision: Decision| SignedDecision::unpack(decision.pack(), [0; 64]).map(|_| ());
        let long = Decision { content: vec![0; MAX_CONTENT + 1].into(), ..decision() };
        assert_eq!(pack(long), Err(Malformed("the content of a decision")));
        assert_eq!(pack(Decision { class: Class::Job, ..decision() }), Err(Malformed("the class of a decision")));
        let mut later = decision();
        later.replaces.add(later.stamp);
        assert_eq!(pack(later.clone()), Err(Malformed("what a decision replaces")));
        assert!(!later.covers(&later), "nothing replaces itself");
        let user = By::User("x".repeat(300));
        assert_eq!(Decision { by: user, ..decision() }.check(), Err(Malformed("a name")));
        let user = By::User("root\x1b[2K".into());
        assert_eq!(Decision { by: user, ..decision() }.check(), Err(Malformed("a name")));
        let mut crowded = decision();
        for node in 0..=Seen::MAX_NODES as u64 {
            crowded.replaces.add(Stamp { time: 1, node: Node(node.to_be_bytes()) });
        }
        assert!(pack(crowded).is_err());
        assert!(SignedDecision::unpack(Bytes::from_static(b"\x93"), [0; 64]).is_err());
    }
}
