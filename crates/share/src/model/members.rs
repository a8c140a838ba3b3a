//! The members of the set, as decided: who is one, what each may do, and by which key its decisions are checked.

use std::collections::{BTreeMap, BTreeSet};

use crypto::MemberPublicKey;

use super::KeptRecord;
use crate::member::{self, Member, Right, Rights, Role};
use crate::records::Records;
use crate::{Class, Classes, Content, Decision, Entry, Key, Node, Record, SignedDecision, State, distinct_slots};

/// Everything that was decided about members.
#[derive(Default)]
pub(super) struct Members(BTreeMap<Node, DecidedMember>);

struct DecidedMember {
    member: Member,
    key: Option<MemberPublicKey>,
    state: State,
    /// What it may do now, or was once allowed to do.
    once_allowed: Rights,
    /// From this time of stamps on it is removed.
    removed_at: Option<u64>,
}

impl Members {
    /// Reads what the records say about members.
    pub fn load(records: &impl Records) -> Members {
        let mut members = Members::default();
        for (key, _) in records.items(Class::Members, 0..=u32::MAX) {
            if let Some(record) = records.get(Class::Members, &key) {
                _ = members.learn(&record);
            }
        }
        members
    }

    /// Takes note of what was decided about a member. Returns the member if its removal, or an earlier one, is news.
    pub fn learn(&mut self, record: &Record) -> Option<Node> {
        let Content::Decided(_, entry) = &record.content else { return None };
        let Some(visible) = entry.visible() else {
            // All decisions were taken back: they were of a member that had been removed by then.
            record.key.node().map(|node| self.0.remove(&node));
            return None;
        };
        let member = described(&record.key, visible)?;
        let (key, once_allowed, removed_at) = (member.public_key(), member::once_allowed(entry), entry.removed_at());
        let (node, state) = (member.node(), visible.state);
        let before = self
            .0
            .insert(node, DecidedMember { member, key, state, once_allowed, removed_at })
            .and_then(|one| one.removed_at);
        // Only an earlier moment is news. It takes further decisions back; a later one cannot give any back.
        removed_at.is_some_and(|at| before.is_none_or(|before| at < before)).then_some(node)
    }

    /// Returns whether a decision was made after its author was removed, by the stamps of both.
    ///
    /// Whoever knows of his removal stamps above it. Removals of members always count: otherwise a removed member could take its own
    /// removal back, with an earlier stamp on the removal of whoever removed it.
    pub fn is_too_late(&self, decision: &Decision) -> bool {
        let removed_at = self.0.get(&decision.stamp.node).and_then(|author| author.removed_at);
        !decision.is_removal() && removed_at.is_some_and(|at| decision.stamp.time > at)
    }

    /// Returns whether a node is a member of the set.
    pub fn is_accepted(&self, node: Node) -> bool {
        self.0.get(&node).is_some_and(|decided| decided.state == State::Accepted)
    }

    /// Returns whether anything is known of other nodes than this one.
    pub fn knows_others(&self, own: Node) -> bool {
        self.0.keys().any(|node| *node != own)
    }

    /// Returns what messages to people call a node.
    pub fn called(&self, node: Node) -> String {
        match self.0.get(&node) {
            Some(decided) => format!("{} ({node:?})", decided.member.name),
            None => format!("{node:?}"),
        }
    }

    /// Returns how many members there are, those that wait for acceptance included.
    pub fn count(&self) -> usize {
        self.0.values().filter(|decided| decided.state != State::Deleted).count()
    }

    /// Returns what a member does; `None` if it is not known.
    pub fn role(&self, node: Node) -> Option<Role> {
        self.0.get(&node).map(|decided| decided.member.role)
    }

    /// Returns what a member gets from others.
    pub fn gets(&self, node: Node) -> Classes {
        self.0.get(&node).map_or(Classes::ALL, |decided| decided.member.gets())
    }

    /// Returns the member whose job ids end in this slot.
    pub fn with_slot(&self, slot: u8) -> Option<Node> {
        let accepted = self.0.iter().filter(|(_, decided)| decided.state == State::Accepted);
        let slots = accepted.map(|(node, decided)| (*node, decided.member.slot)).collect();
        distinct_slots(&slots).into_iter().find(|(_, taken)| *taken == slot).map(|(node, _)| node)
    }

    /// Returns what a member may do now.
    pub fn rights(&self, node: Node) -> Rights {
        let accepted = self.0.get(&node).filter(|decided| decided.state == State::Accepted);
        accepted.map_or(Rights::NONE, |decided| decided.member.rights())
    }

    /// Returns whether others refuse what a member decides now.
    pub fn decides_in_vain(&self, node: Node, right: Right) -> bool {
        self.is_accepted(node) && !self.rights(node).contains(right)
    }

    /// Returns whether others have refused all that a member ever decided.
    pub fn never_decided(&self, node: Node, right: Right) -> bool {
        self.0.get(&node).is_some_and(|decided| !decided.once_allowed.contains(right))
    }

    /// Returns why a decision that `from` brings does not count, if it does not.
    ///
    /// A member's rights are looked at where its decision comes straight from it. Whoever passes it on has done so, and the others
    /// may have heard of a removal or of lost rights meanwhile: there it is enough that its author once had the right.
    pub fn refuse(&self, decision: &SignedDecision, from: Node) -> Option<String> {
        let author = decision.stamp.node;
        let Some(decided) = self.0.get(&author) else { return Some(format!("{author:?} is not known as a member")) };
        let (name, right) = (&decided.member.name, Right::of_class(decision.class));
        let passed_on = from != author && self.rights(from).contains(right);
        let rights = if passed_on { decided.once_allowed } else { self.rights(author) };
        if !rights.contains(right) {
            return Some(match decided.state {
                State::Accepted => format!("{name} lacks the right {}", right.name()),
                State::Deleted => format!("{name} is removed"),
                State::Pending | State::Rejected => format!("{name} is not accepted"),
            });
        }
        if self.is_too_late(decision) {
            return Some(format!("{name} decided it after its removal"));
        }
        if decision.class == Class::Members && described(&decision.key, decision).is_none() {
            return Some(format!("{name} decided about a member that it does not describe"));
        }
        // Last, because it costs most: a member without the right must not have it computed.
        let signed = decided.key.as_ref().is_some_and(|key| decision.is_signed_by(key));
        (!signed).then(|| format!("the signature of {name} is wrong"))
    }

    /// Returns why what a store outside the set keeps does not count, if the member that is said to have had it kept did not.
    ///
    /// Who is not known needs no signature: nothing counts because he passes it on.
    pub fn refuse_writer(&self, kept: &KeptRecord) -> Option<String> {
        let decided = self.0.get(&kept.writer)?;
        let signed = decided.key.as_ref().is_some_and(|key| key.verify(&kept.signed, &kept.signature));
        (!signed).then(|| format!("the signature of {} under what it had kept is wrong", decided.member.name))
    }
}

/// Returns the member that a decision describes; `None` if that is another one than the decision is about.
pub(super) fn described(key: &Key, decision: &Decision) -> Option<Member> {
    let member = Member::unpack(&decision.content).ok()?;
    (key.node() == Some(member.node())).then_some(member)
}

/// Returns what of the decisions in a welcome into the set is consistent: each is made by a member that is described there, had
/// the right, and signed it. An error if by these decisions `welcomer` is no member.
pub(super) fn checked_welcome(records: Vec<Record>, welcomer: Node) -> Result<Vec<Record>, String> {
    let (left, good) = consistent(records.into_iter().map(|record| (welcomer, record)).collect())?;
    match left.is_accepted(welcomer) {
        false => Err(format!("{welcomer:?} is no member of its own set")),
        true => Ok(good),
    }
}

/// Returns what is consistent of decisions about members that a store keeps, as [`checked_welcome`] does, where whoever had one kept
/// passes it on. Adds why others do not count.
pub(super) fn checked_kept(all: Vec<KeptRecord>, refused: &mut Vec<String>) -> Result<Vec<Record>, String> {
    let mut members = Members::default();
    all.iter().for_each(|kept| _ = members.learn(&kept.record));
    let mut records = Vec::new();
    for kept in all {
        match members.refuse_writer(&kept) {
            Some(reason) => refused.push(reason),
            None => records.push((kept.writer, kept.record)),
        }
    }
    let is_empty = records.is_empty();
    match consistent(records)? {
        (_, good) if good.is_empty() && !is_empty => Err("no member that they accept has signed them".to_owned()),
        (_, good) => Ok(good),
    }
}

/// Returns what of decisions about members is consistent with each other, and the members by them. Each comes with who passes it on.
fn consistent(records: Vec<(Node, Record)>) -> Result<(Members, Vec<Record>), String> {
    let mut members = Members::default();
    let about_members = |record: &Record| record.class() == Class::Members && record.key.node().is_some();
    let records: Vec<(Node, Record)> = records.into_iter().filter(|(_, record)| about_members(record)).collect();
    // The keys in the decisions are taken first, and then all signatures are checked with them.
    records.iter().for_each(|(_, record)| _ = members.learn(record));
    let mut good = Vec::new();
    for (from, record) in records {
        let Content::Decided(class, entry) = &record.content else { continue };
        let believed = entry.decisions().iter().filter(|one| members.refuse(one, from).is_none());
        let entry = Entry::new(believed.cloned().collect());
        if !entry.decisions().is_empty() {
            good.push(Record::new(record.key.clone(), record.stamp, Content::Decided(*class, entry)));
        }
    }
    // What is left must stand without what was taken away.
    let mut left = Members::default();
    good.iter().for_each(|record| _ = left.learn(record));
    let authors: BTreeSet<Node> = good.iter().flat_map(authors).collect();
    match authors.iter().find(|author| !left.0.get(author).is_some_and(|one| one.once_allowed.contains(Right::Members)))
    {
        Some(author) => Err(format!("{author:?} decides there about members, and nobody accepted it")),
        None => Ok((left, good)),
    }
}

fn authors(record: &Record) -> Vec<Node> {
    match &record.content {
        Content::Decided(_, entry) => entry.decisions().iter().map(|decision| decision.stamp.node).collect(),
        _ => Vec::new(),
    }
}
