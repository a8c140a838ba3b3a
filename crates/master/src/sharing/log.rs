//! What the log says of decisions, and how often it names what other members do wrong.

use std::collections::HashMap;

use share::{By, Change, Class, Key, SignedDecision, State};
use tracing::{debug, info, warn};

use super::members::MemberBook;
use super::worker::Worker;

/// How often the log has the same warning about another member, in milliseconds.
const LOG_EVERY: u64 = 3_600_000;

/// The maximum number of warnings about other members in that time. Parts of them may be what a member says.
const MOST_WARNINGS: usize = 200;

/// The length to which warnings are compared.
const COMPARED: usize = 120;

/// The warnings of the last hour.
#[derive(Default)]
pub struct Warnings {
    logged: HashMap<String, u64>,
}

impl Warnings {
    /// Returns whether a warning is logged now. Warnings that differ only in numbers are the same.
    pub fn may_log(&mut self, text: &str, now: u64) -> bool {
        self.logged.retain(|_, last| now.saturating_sub(*last) < LOG_EVERY);
        let same = text.chars().filter(|character| !character.is_ascii_digit()).take(COMPARED).collect();
        if self.logged.len() >= MOST_WARNINGS || self.logged.contains_key(&same) {
            return false;
        }
        self.logged.insert(same, now);
        true
    }
}

/// Returns the word for a state.
pub fn word(state: State) -> &'static str {
    match state {
        State::Deleted => "deleted",
        State::Rejected => "rejected",
        State::Accepted => "accepted",
        State::Pending => "pending",
    }
}

/// Returns who decided, as the log names it.
pub fn decider(decision: &SignedDecision, members: &MemberBook) -> String {
    let master = members.called(decision.stamp.node);
    match &decision.by {
        By::User(user) => format!("{user} on {master}"),
        By::Files => format!("key files on {master}"),
        By::Auto => format!("{master} automatically"),
    }
}

/// Returns the key that a change is about, if it is one of a minion.
pub fn about(change: &Change) -> Option<&Key> {
    match change {
        Change::Key { id, .. } | Change::Files(id, _) => Some(id),
        _ => None,
    }
}

impl Worker {
    /// Warns of something that another member does.
    pub(super) fn warn_of_member(&mut self, text: &str) {
        let now = self.now().steady;
        match self.warnings.may_log(text, now) {
            true => warn!("{text}"),
            false => debug!("{text}"),
        }
    }

    /// Logs what this master has decided about keys since the time `before` of its stamps.
    pub(super) fn log_decided(&self, keys: &[Key], before: u64) {
        for key in keys {
            self.note_unkept_key(key);
            self.recheck_conflict(key);
        }
        for key in keys {
            let entry = self.model.entry(Class::Keys, key);
            let own =
                |decision: &&SignedDecision| decision.stamp.node == self.model.node() && decision.stamp.time > before;
            if let Some(decision) = entry.visible().filter(own) {
                let (word, by) = (word(decision.state), decider(decision, &self.members));
                info!("the key of {key} is {word} in the set {:?}: decided by {by}", self.settings.cluster_id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_does_the_same_wrong_again_and_again_is_named_once_an_hour() {
        let mut warnings = Warnings::default();
        assert!(warnings.may_log("3 records of m2 are refused: why", 5));
        assert!(!warnings.may_log("4 records of m2 are refused: why", 6));
        assert!(warnings.may_log("3 records of mx are refused: why", 6));
        assert!(warnings.may_log("3 records of m2 are refused: why", 5 + LOG_EVERY));
        let other = |number: usize| "x".repeat(number % COMPARED) + &"y".repeat(number / COMPARED);
        let logged = (0..10_000).filter(|number| warnings.may_log(&other(*number), LOG_EVERY)).count();
        assert!(logged < MOST_WARNINGS, "a member may say something else each time");
    }
}
