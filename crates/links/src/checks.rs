//! Why a peer is refused, in words that both sides show.

use std::fmt;

use share::Node;

use crate::kind::{FORMAT, Hello, OLDEST_FORMAT};
use crate::members::Standing;

/// A day in milliseconds: clocks follow stamps, so one that is further ahead would take all others along.
const MAX_AHEAD: u64 = 24 * 3600 * 1000;

/// Why a peer is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Cluster { theirs: String, ours: String },
    Format { theirs: u64 },
    Clock { name: String, days: u64 },
    Removed { name: String },
    Name { name: String },
    Proof { name: String },
    NoProof { name: String },
    Admission { name: String, reason: String },
}

impl Refusal {
    /// Returns the reason in one word, by which repeated lines of the log are found.
    pub fn word(&self) -> &'static str {
        match self {
            Refusal::Cluster { .. } => "cluster",
            Refusal::Format { .. } => "format",
            Refusal::Clock { .. } => "clock",
            Refusal::Removed { .. } => "removed",
            Refusal::Name { .. } => "name",
            Refusal::Proof { .. } => "proof",
            Refusal::NoProof { .. } => "no proof",
            Refusal::Admission { .. } => "admission",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Cluster { theirs, ours } => write!(f, "cluster_id is {theirs:?} there and {ours:?} here"),
            Refusal::Format { theirs } => write!(f, "format {theirs} is not understood by format {FORMAT}"),
            Refusal::Clock { name, days } => write!(f, "the clock of {name:?} is {days} days ahead"),
            Refusal::Removed { name } => {
                write!(f, "{name:?} was removed from the set: it needs a new member key to join again")
            }
            Refusal::Name { name } => write!(f, "the name {name:?} is in use by another member"),
            Refusal::Proof { name } => write!(f, "the proof of {name:?} is wrong: cluster_secret or keys differ"),
            Refusal::NoProof { name } => {
                write!(
                    f,
                    "{name:?} is not accepted, and has neither cluster_secret nor a key in common with this member"
                )
            }
            Refusal::Admission { name, reason } => write!(f, "{name:?} may not join: {reason}"),
        }
    }
}

/// What this member knows when it reads a `hello`.
pub(crate) struct Facts<'a> {
    pub cluster_id: &'a str,
    pub own_name: &'a str,
    pub node: Node,
    pub standing: Standing,
    /// The member that has the name of the peer.
    pub named: Option<Node>,
    /// Milliseconds since 1970.
    pub now: u64,
}

/// Decides about a `hello`.
pub(crate) fn judge(hello: &Hello, facts: &Facts<'_>) -> Result<(), Refusal> {
    let name = hello.name.clone();
    if hello.cluster_id != facts.cluster_id {
        return Err(Refusal::Cluster { theirs: hello.cluster_id.clone(), ours: facts.cluster_id.to_owned() });
    }
    if hello.oldest_format > FORMAT || hello.format < OLDEST_FORMAT {
        return Err(Refusal::Format { theirs: hello.format });
    }
    if facts.standing == Standing::Removed {
        return Err(Refusal::Removed { name });
    }
    let ahead = hello.now.saturating_sub(facts.now);
    if ahead > MAX_AHEAD {
        return Err(Refusal::Clock { name, days: ahead / MAX_AHEAD });
    }
    let other = facts.named.is_some_and(|known| known != facts.node);
    if name.is_empty() || name == facts.own_name || (other && facts.standing == Standing::Stranger) {
        return Err(Refusal::Name { name });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::tests::hello;

    fn facts() -> Facts<'static> {
        let standing = Standing::Stranger;
        Facts { cluster_id: "prod", own_name: "m1", node: Node([2; 8]), standing, named: None, now: hello().now }
    }

    #[test]
    fn a_peer_is_refused_for_each_reason_and_told_it_in_words() {
        assert_eq!(judge(&hello(), &facts()), Ok(()));
        let words = |hello: &Hello, facts: &Facts<'_>| judge(hello, facts).unwrap_err().to_string();
        let other = Hello { cluster_id: "test".into(), ..hello() };
        assert_eq!(words(&other, &facts()), "cluster_id is \"test\" there and \"prod\" here");
        let later = Hello { format: 9, oldest_format: 5, ..hello() };
        assert_eq!(words(&later, &facts()), "format 9 is not understood by format 1");
        let ahead = Hello { now: hello().now + 3652 * MAX_AHEAD, ..hello() };
        assert_eq!(words(&ahead, &facts()), "the clock of \"m2\" is 3652 days ahead");
        let removed = Facts { standing: Standing::Removed, ..facts() };
        assert!(words(&hello(), &removed).starts_with("\"m2\" was removed from the set"));
        let named = Facts { named: Some(Node([3; 8])), ..facts() };
        assert_eq!(words(&hello(), &named), "the name \"m2\" is in use by another member");
        let own = Hello { name: "m1".into(), ..hello() };
        assert_eq!(words(&own, &facts()), "the name \"m1\" is in use by another member");
    }

    #[test]
    fn a_clock_up_to_a_day_ahead_is_followed_and_one_behind_is_no_reason() {
        let at = |now| judge(&Hello { now, ..hello() }, &facts());
        assert_eq!(at(hello().now + MAX_AHEAD), Ok(()));
        assert_eq!(at(0), Ok(()));
    }

    #[test]
    fn a_member_keeps_its_name_although_another_has_it_too() {
        let both = Facts { standing: Standing::Member, named: Some(Node([3; 8])), ..facts() };
        assert_eq!(judge(&hello(), &both), Ok(()));
    }
}
