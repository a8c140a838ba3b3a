//! What becomes of decisions that nobody brings but a store outside the set.
//!
//! Each comes with the signature of the member that had it kept, and is judged as if that member had passed it on: what a member without
//! the right decides counts there no more than elsewhere.

use bytes::Bytes;
use crypto::MEMBER_SIGNATURE_LEN;

use super::members::checked_kept;
use super::receive::Refusal;
use super::{Action, Model, Moment};
use crate::member::Right;
use crate::records::Records;
use crate::{Class, Digest, Key, Node, Record};

/// How often decisions about members are looked at again: one may be of a member that another one of them makes known.
const MOST_PASSES: usize = 8;

/// A record that a store outside the set keeps.
#[derive(Clone, Debug)]
pub struct KeptRecord {
    /// The record.
    pub record: Record,
    /// The member that had it kept, as the store says.
    pub writer: Node,
    /// What that member signed. Whoever reads the record makes sure that it says the same.
    pub signed: Bytes,
    /// The signature.
    pub signature: [u8; MEMBER_SIGNATURE_LEN],
    /// For how long that member had known the record when it had it kept, in milliseconds.
    pub age: u64,
    /// When it had it kept, in milliseconds since 1970; 0 for a member of an earlier version, which did not say.
    pub at: u64,
}

/// What is to become of what a store outside the set keeps about one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptVerdict {
    /// It stays as it is, or nothing is there and nothing belongs there.
    Leave,
    /// This takes its place.
    Replace {
        /// The record of this member.
        record: Record,
        /// See [`KeptRecord::age`].
        age: u64,
        /// See [`KeptRecord::at`].
        at: u64,
    },
    /// It is removed: it is a deletion that is not remembered any more.
    Remove,
}

impl KeptRecord {
    /// Returns for how long the record has been known. Deletions go on ageing while they are kept: otherwise a member that has
    /// forgotten one would get it back as a new one, for ever.
    fn age_at(&self, now: Moment) -> u64 {
        match self.at {
            0 => self.age,
            at => self.age.saturating_add(now.wall.saturating_sub(at)),
        }
    }
}

impl<R: Records> Model<R> {
    pub(super) fn kept(&mut self, decisions: Vec<KeptRecord>, now: Moment, actions: &mut Vec<Action>) {
        let (mut left, mut refused) = (Vec::new(), Vec::new());
        for kept in decisions {
            match self.far_ahead(&kept.record) {
                Some(reason) => refused.push(reason),
                None if matches!(kept.record.class(), Class::Members | Class::Keys) => left.push(kept),
                None => {}
            }
        }
        if !self.members.knows_others(self.node) {
            let (members, others) = left.into_iter().partition(|kept| kept.record.class() == Class::Members);
            left = others;
            self.first_known(members, now, &mut refused, actions);
        }
        self.judged_kept(left, now, &mut refused, actions);
        if let Some(reason) = refused.first() {
            let count = refused.len();
            actions
                .push(Action::Warn(format!("{count} decisions that were kept outside the set are refused: {reason}")));
        }
        if let Err(error) = self.store_staged(now, actions) {
            actions.push(Action::Warn(format!("what was kept outside the set is not stored: {error}")));
        }
    }

    /// Decides about what is kept outside the set about a key, after [`Change::Kept`](super::Change::Kept) has taken what counts of
    /// it. So the record here has nothing less in it, and an earlier decision never replaces a later one. `forgotten` is what the
    /// deletion said that this member has just forgotten.
    pub fn kept_verdict(
        &mut self,
        class: Class,
        key: &Key,
        there: Option<&KeptRecord>,
        forgotten: Option<Digest>,
        now: Moment,
    ) -> KeptVerdict {
        let (now, right) = (self.read_clock(now), Right::of_class(class));
        // Others believe nothing that a member without the right has kept.
        if !self.members.rights(self.node).contains(right) {
            return KeptVerdict::Leave;
        }
        match (self.records.get(class, key), there) {
            (Some(own), there) => {
                let is_believed = |kept: &KeptRecord| {
                    self.members.rights(kept.writer).contains(right) && self.members.refuse_writer(kept).is_none()
                };
                let is_kept = there.is_some_and(|kept| kept.record.digest == own.digest && is_believed(kept));
                match is_kept || !self.is_for_others(&own) {
                    true => KeptVerdict::Leave,
                    false => KeptVerdict::Replace { age: self.age(&own, now), at: now.wall, record: own },
                }
            }
            (None, Some(kept)) if forgotten == Some(kept.record.digest) || self.is_kept_over(kept, now) => {
                KeptVerdict::Remove
            }
            (None, _) => KeptVerdict::Leave,
        }
    }

    /// Returns whether what is kept is a deletion that members do not remember any more.
    pub fn is_kept_expired(&mut self, kept: &KeptRecord, now: Moment) -> bool {
        let now = self.read_clock(now);
        self.is_kept_over(kept, now)
    }

    fn is_kept_over(&self, kept: &KeptRecord, now: Moment) -> bool {
        kept.record.class() == Class::Keys && self.is_over(&kept.record, kept.age_at(now), now)
    }

    /// Takes decisions about members where this one knows nobody by whose key they could be checked: they vouch for each other, as in
    /// a welcome.
    fn first_known(
        &mut self,
        decisions: Vec<KeptRecord>,
        now: Moment,
        refused: &mut Vec<String>,
        actions: &mut Vec<Action>,
    ) {
        match checked_kept(decisions, refused) {
            Ok(records) => {
                for record in records {
                    if let Err(reason) = self.merge(record, 0, now, actions) {
                        refused.push(reason);
                    }
                }
            }
            Err(reason) => refused.push(reason),
        }
    }

    fn judged_kept(
        &mut self,
        mut left: Vec<KeptRecord>,
        now: Moment,
        refused: &mut Vec<String>,
        actions: &mut Vec<Action>,
    ) {
        let mut reasons = Vec::new();
        for pass in 0..MOST_PASSES {
            let count = left.len();
            let mut again = Vec::new();
            reasons.clear();
            for kept in left {
                let result = match self.members.refuse_writer(&kept) {
                    Some(reason) => Err(Refusal::Refused(reason)),
                    None => self.receive_one(kept.writer, kept.record.clone(), kept.age_at(now), now, actions),
                };
                if let Err(Refusal::Refused(reason)) = result {
                    reasons.push(reason);
                    again.push(kept);
                }
            }
            left = again;
            let may_be_known_now = left.iter().any(|kept| kept.record.class() == Class::Members);
            if !may_be_known_now || pass > 0 && left.len() == count {
                break;
            }
        }
        refused.append(&mut reasons);
    }
}
