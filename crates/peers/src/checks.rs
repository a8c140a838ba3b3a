//! Why a peer is refused, in words that both sides show.

use std::fmt;
use std::net::IpAddr;

use share::Node;

use crate::kind::{FORMAT, Hello, OLDEST_FORMAT};
use crate::members::Standing;

/// A day in milliseconds: clocks follow stamps, so one that is further ahead would take all others along.
const MAX_AHEAD: u64 = 24 * 3600 * 1000;

/// Why a peer is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words in which each is shown say what it means")]
pub enum Refusal {
    Cluster {
        name: String,
        theirs: String,
        own_name: String,
        ours: String,
    },
    Format {
        theirs: u64,
    },
    Clock {
        name: String,
        days: u64,
    },
    Removed {
        name: String,
    },
    /// `by_me`: by the member that refuses.
    Name {
        name: String,
        by_me: bool,
    },
    Copied {
        name: String,
        hosts: Hosts,
    },
    Proof {
        name: String,
    },
    NoProof {
        name: String,
        own_name: String,
    },
    NotAccepted {
        name: String,
        own_name: String,
    },
    Admission {
        name: String,
        reason: String,
    },
}

/// Where two runs with one member key are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// At these addresses.
    At([IpAddr; 2]),
    /// Nobody on the bus has an address.
    Unknown,
}

impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hosts::At([one, two]) => write!(f, ": {} and {}", one.to_canonical(), two.to_canonical()),
            Hosts::Unknown => Ok(()),
        }
    }
}

/// The word for clocks that are too far ahead.
pub const CLOCK: &str = "clock";

/// The word for whoever was removed from the set.
pub const REMOVED: &str = "removed";

/// What a member that is removed is told when its link ends.
pub const REMOVED_NOW: &str = "it was removed from the set";

/// The words for whoever has nothing in common with the other one.
pub const NOTHING_IN_COMMON: [&str; 2] = ["no proof", "not accepted"];

/// The words of refusals, and what lists of members show for them.
const WORDS: [(&str, &str); 10] = [
    ("cluster", "another cluster_id"),
    ("format", "another format: one of the two is too old"),
    (CLOCK, "clock is ahead"),
    (REMOVED, "removed"),
    ("name", "name in use"),
    ("copied", "two hosts have its member key"),
    ("proof", "wrong secret"),
    ("no proof", "waiting to be accepted"),
    ("not accepted", "this member is not accepted there"),
    ("admission", "may not join"),
];

/// Returns a word of a refusal, if it is one, and what lists of members show for it.
pub fn few_words(word: &str) -> Option<(&'static str, &'static str)> {
    WORDS.into_iter().find(|(known, _)| *known == word)
}

impl Refusal {
    /// Returns the reason as lists of members show it.
    pub fn short(&self) -> String {
        match self {
            Refusal::Clock { days, .. } => format!("clock is {} days ahead", grouped(*days)),
            Refusal::Admission { reason, .. } => format!("may not join: {reason}"),
            other => few_words(other.word()).map_or(other.word(), |(_, words)| words).to_owned(),
        }
    }

    /// Returns the reason in one word, by which repeated lines of the log are found.
    pub fn word(&self) -> &'static str {
        match self {
            Refusal::Cluster { .. } => "cluster",
            Refusal::Format { .. } => "format",
            Refusal::Clock { .. } => CLOCK,
            Refusal::Removed { .. } => REMOVED,
            Refusal::Name { .. } => "name",
            Refusal::Copied { .. } => "copied",
            Refusal::Proof { .. } => "proof",
            Refusal::NoProof { .. } => "no proof",
            Refusal::NotAccepted { .. } => "not accepted",
            Refusal::Admission { .. } => "admission",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Names, and no "here" and "there": both members show it.
            Refusal::Cluster { name, theirs, own_name, ours } => {
                write!(f, "cluster_id is {theirs:?} on {name:?} and {ours:?} on {own_name:?}")
            }
            Refusal::Format { theirs } => write!(f, "format {theirs} is not understood by format {FORMAT}"),
            Refusal::Clock { name, days } => write!(f, "the clock of {name:?} is {} days ahead", grouped(*days)),
            Refusal::Removed { name } => {
                write!(f, "{name:?} was removed from the set: it needs a new member key to join again")
            }
            Refusal::Name { name, by_me: true } => write!(f, "the name {name:?} is in use by another member; set 'id'"),
            Refusal::Name { name, by_me: false } => write!(
                f,
                "the name {name:?} is in use by another member; set 'id', or run 'salt-run saltern.remove {name}' on a member \
                 if the other one is gone for good"
            ),
            Refusal::Copied { name, hosts } => write!(
                f,
                "two hosts have the member key of {name:?}{hosts}. On the copied one stop the master, delete \
                 'saltern/member.pem' in its pki_dir, give it an id of its own and start it again"
            ),
            Refusal::Proof { name } => write!(f, "the proof of {name:?} is wrong: cluster_secret or keys differ"),
            Refusal::NoProof { name, own_name } => write!(
                f,
                "{name:?} is not accepted, and has neither cluster_secret nor a key in common with {own_name:?}: it waits \
                 until somebody runs 'salt-run saltern.accept {name}' on {own_name:?}"
            ),
            Refusal::NotAccepted { name, own_name } => write!(
                f,
                "{name:?} has not accepted {own_name:?}, and has neither cluster_secret nor a key in common with it: run \
                 'salt-run saltern.accept {own_name}' on {name:?}"
            ),
            Refusal::Admission { name, reason } => write!(f, "{name:?} may not join: {reason}"),
        }
    }
}

/// Writes a number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What this member knows when it reads a `hello`.
pub struct Facts<'a> {
    /// The name of this member's set.
    pub cluster_id: &'a str,
    /// The name of this member.
    pub own_name: &'a str,
    /// The node of the peer.
    pub node: Node,
    /// What is decided about the peer.
    pub standing: Standing,
    /// The member that has the name of the peer.
    pub named: Option<Node>,
    /// The hosts of the peer and of another one that is linked with the same member key.
    pub copied: Option<Hosts>,
}

/// Decides about the time in a `hello`. `now` is the time by which this member goes, in milliseconds since 1970.
pub fn judge_time(hello: &Hello, now: u64) -> Result<(), Refusal> {
    match hello.now.saturating_sub(now) {
        0..=MAX_AHEAD => Ok(()),
        ahead => Err(Refusal::Clock { name: hello.name.clone(), days: ahead / MAX_AHEAD }),
    }
}

/// Decides about a `hello`, but for the time in it.
pub fn judge(hello: &Hello, facts: &Facts<'_>) -> Result<(), Refusal> {
    let name = hello.name.clone();
    if hello.cluster_id != facts.cluster_id {
        let (theirs, own_name) = (hello.cluster_id.clone(), facts.own_name.to_owned());
        return Err(Refusal::Cluster { name, theirs, own_name, ours: facts.cluster_id.to_owned() });
    }
    if hello.oldest_format > FORMAT || hello.format < OLDEST_FORMAT {
        return Err(Refusal::Format { theirs: hello.format });
    }
    if facts.standing == Standing::Removed {
        return Err(Refusal::Removed { name });
    }
    if let Some(hosts) = facts.copied {
        return Err(Refusal::Copied { name, hosts });
    }
    let other = facts.named.is_some_and(|known| known != facts.node);
    if name == facts.own_name || (other && facts.standing == Standing::Stranger) {
        return Err(Refusal::Name { by_me: name == facts.own_name, name });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::tests::hello;

    fn facts() -> Facts<'static> {
        let standing = Standing::Stranger;
        Facts { cluster_id: "prod", own_name: "m1", node: Node([2; 8]), standing, named: None, copied: None }
    }

    #[test]
    fn a_peer_is_refused_for_each_reason_and_told_it_in_words() {
        assert_eq!(judge(&hello(), &facts()), Ok(()));
        let words = |hello: &Hello, facts: &Facts<'_>| judge(hello, facts).unwrap_err().to_string();
        let other = Hello { cluster_id: "test".into(), ..hello() };
        assert_eq!(words(&other, &facts()), "cluster_id is \"test\" on \"m2\" and \"prod\" on \"m1\"");
        let later = Hello { format: 9, oldest_format: 5, ..hello() };
        assert_eq!(words(&later, &facts()), "format 9 is not understood by format 1");
        let ahead = Hello { now: hello().now + 3652 * MAX_AHEAD, ..hello() };
        let refused = judge_time(&ahead, hello().now).unwrap_err();
        assert_eq!(refused.to_string(), "the clock of \"m2\" is 3,652 days ahead");
        let removed = Facts { standing: Standing::Removed, ..facts() };
        assert!(words(&hello(), &removed).starts_with("\"m2\" was removed from the set"));
        let named = Facts { named: Some(Node([3; 8])), ..facts() };
        assert!(
            words(&hello(), &named)
                .ends_with("or run 'salt-run saltern.remove m2' on a member if the other one is gone for good")
        );
        let copied = Facts { copied: Some(Hosts::At([[10, 0, 0, 2].into(), [10, 0, 0, 3].into()])), ..facts() };
        assert!(words(&hello(), &copied).contains("member key of \"m2\": 10.0.0.2 and 10.0.0.3. On the copied one"));
        let copied = Facts { copied: Some(Hosts::Unknown), ..facts() };
        assert!(words(&hello(), &copied).contains("member key of \"m2\". On the copied one"));
        let own = Hello { name: "m1".into(), ..hello() };
        assert_eq!(words(&own, &facts()), "the name \"m1\" is in use by another member; set 'id'");
    }

    #[test]
    fn each_refusal_has_words_for_lists() {
        let name = || "m2".to_owned();
        for (refusal, words) in [
            (Refusal::Cluster { name: name(), theirs: name(), own_name: name(), ours: name() }, "another cluster_id"),
            (Refusal::Format { theirs: 9 }, "another format: one of the two is too old"),
            (Refusal::Clock { name: name(), days: 3_652 }, "clock is 3,652 days ahead"),
            (Refusal::Removed { name: name() }, "removed"),
            (Refusal::Name { name: name(), by_me: true }, "name in use"),
            (
                Refusal::Copied { name: name(), hosts: Hosts::At([[10, 0, 0, 2].into(); 2]) },
                "two hosts have its member key",
            ),
            (Refusal::Proof { name: name() }, "wrong secret"),
            (Refusal::NoProof { name: name(), own_name: name() }, "waiting to be accepted"),
            (Refusal::NotAccepted { name: name(), own_name: name() }, "this member is not accepted there"),
            (Refusal::Admission { name: name(), reason: "99 members".into() }, "may not join: 99 members"),
        ] {
            assert_eq!(refusal.short(), words);
            assert!(few_words(refusal.word()).is_some(), "{}", refusal.word());
        }
        let numbers = [0, 999, 1_000, 1_234_567].map(grouped);
        assert_eq!(numbers, ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn a_clock_up_to_a_day_ahead_is_followed_and_one_behind_is_no_reason() {
        let at = |now| judge_time(&Hello { now, ..hello() }, hello().now);
        assert_eq!(at(hello().now + MAX_AHEAD), Ok(()));
        assert_eq!(at(0), Ok(()));
    }

    #[test]
    fn a_member_keeps_its_name_although_another_has_it_too() {
        let both = Facts { standing: Standing::Member, named: Some(Node([3; 8])), ..facts() };
        assert_eq!(judge(&hello(), &both), Ok(()));
    }
}
