//! Which decisions a request is about.

use std::time::SystemTime;

use share::{Node, SignedDecision};
use value::{Map, Value};

use super::times;

/// Which decisions an answer lists.
#[derive(Default)]
pub struct DecisionFilter {
    /// Only those of the members with this name or node.
    pub by: Option<String>,
    /// Only those about this minion or member.
    pub about: Option<String>,
    /// Only those from this time on, in milliseconds since 1970.
    pub since: Option<u64>,
}

impl DecisionFilter {
    /// Reads a request.
    pub fn of(load: &Map, now: SystemTime) -> Result<DecisionFilter, String> {
        let given = |name: &str| load.get(name).filter(|value| **value != Value::Null);
        let text = |name: &str| given(name).map(Value::to_string);
        let since = given("since").map(|since| times::since(since, now)).transpose()?;
        // The field `key` of a request is the credential of who asks.
        Ok(DecisionFilter { by: text("by"), about: text("about"), since })
    }

    /// Returns whether a decision is listed. `by` are the nodes that [`DecisionFilter::by`] names.
    pub fn includes(&self, decision: &SignedDecision, by: Option<&[Node]>) -> bool {
        let stamp = decision.stamp;
        by.is_none_or(|by| by.contains(&stamp.node)) && stamp.time >> 16 >= self.since.unwrap_or(0)
    }
}
