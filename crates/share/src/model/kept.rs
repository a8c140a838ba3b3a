//! What becomes of decisions that nobody brings but a store outside the set.
//!
//! Each comes with the signature of the member that had it kept, and is judged as if that member had passed it on: what a member without
//! the right decides counts there no more than elsewhere.

use bytes::Bytes;
use crypto::MEMBER_SIGNATURE_LEN;

use super::members::checked_kept;
use super::receive::Refusal;
use super::{Action, Model, Moment};
use crate::records::Records;
use crate::{Class, Node, Record};

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
                    None => self.receive_one(kept.writer, kept.record.clone(), 0, now, actions),
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
