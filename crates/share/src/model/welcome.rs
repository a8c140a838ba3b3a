//! What becomes of the decisions about members that come with the welcome into the set.

use super::members::checked_welcome;
use super::receive::Refusal;
use super::{Action, Model, Moment};
use crate::member::Right;
use crate::records::Records;
use crate::{Class, Node, Record};

impl<R: Records> Model<R> {
    pub(super) fn welcomed(&mut self, from: Node, decisions: Vec<Record>, now: Moment, actions: &mut Vec<Action>) {
        if !self.believes_welcome(from) {
            return self.judged_welcome(from, decisions, now, actions);
        }
        let decisions = self.without_far_ahead(from, decisions, actions);
        match checked_welcome(decisions, from) {
            Ok(records) => {
                for record in records {
                    if let Err(error) = self.merge(record, 0, now, actions) {
                        actions.push(Action::Warn(format!("a member of the set is not stored: {error}")));
                    }
                }
            }
            Err(error) => {
                let name = self.members.called(from);
                actions.push(Action::Warn(format!("the welcome of {name} does not count: {error}")));
            }
        }
        if let Err(error) = self.store_staged(now, actions) {
            actions.push(Action::Warn(format!("the members of the set are not stored: {error}")));
        }
    }

    /// Returns whether a welcome is judged by nothing but the decisions in it.
    ///
    /// That is for newcomers, who cannot judge it otherwise, and for members who may decide about members anyway: they know
    /// of decisions whose authors this member never heard of. Everybody else, such as a reader, could make itself a master.
    fn believes_welcome(&self, from: Node) -> bool {
        !self.members.knows_others(self.node) || self.members.rights(from).contains(Right::Members)
    }

    /// Takes the decisions in a welcome like records that a member sends at any other time.
    fn judged_welcome(&mut self, from: Node, decisions: Vec<Record>, now: Moment, actions: &mut Vec<Action>) {
        let mut refused = Vec::new();
        for record in decisions.into_iter().filter(|record| record.class() == Class::Members) {
            if let Err(Refusal::Refused(reason)) = self.receive_one(from, record, 0, now, actions) {
                refused.push(reason);
            }
        }
        self.warn_of_refused(from, &refused, actions);
        if let Err(error) = self.store_staged(now, actions) {
            actions.push(Action::Warn(format!("the members of the set are not stored: {error}")));
        }
    }

    /// Leaves out records whose stamps the clock must not follow. The member that sends them has a wrong clock, or wants to lead
    /// this one astray.
    fn without_far_ahead(&mut self, from: Node, decisions: Vec<Record>, actions: &mut Vec<Action>) -> Vec<Record> {
        let (mut kept, mut refused) = (Vec::new(), Vec::new());
        for record in decisions {
            match self.far_ahead(&record) {
                Some(reason) => refused.push(reason),
                None => kept.push(record),
            }
        }
        self.warn_of_refused(from, &refused, actions);
        kept
    }

    fn warn_of_refused(&self, from: Node, refused: &[String], actions: &mut Vec<Action>) {
        if let Some(reason) = refused.first() {
            let (count, name) = (refused.len(), self.members.called(from));
            actions.push(Action::Warn(format!(
                "{count} records about members in the welcome of {name} are refused: {reason}"
            )));
        }
    }
}
