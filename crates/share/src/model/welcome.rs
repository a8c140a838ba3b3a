//! What becomes of the decisions about members that come with the welcome into the set.

use super::members::checked_welcome;
use super::{Action, Model, Moment};
use crate::records::Records;
use crate::{Node, Record};

impl<R: Records> Model<R> {
    pub(super) fn welcomed(&mut self, from: Node, decisions: Vec<Record>, now: Moment, actions: &mut Vec<Action>) {
        let decisions = self.without_far_ahead(from, decisions, now, actions);
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

    /// Leaves out records whose stamps the clock must not follow. The member that sends them has a wrong clock, or wants to lead
    /// this one astray.
    fn without_far_ahead(
        &mut self,
        from: Node,
        decisions: Vec<Record>,
        now: Moment,
        actions: &mut Vec<Action>,
    ) -> Vec<Record> {
        let (mut kept, mut refused) = (Vec::new(), Vec::new());
        for record in decisions {
            match self.far_ahead(&record, now) {
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
