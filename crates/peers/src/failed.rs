//! Why a connection became no link: in a sentence for the log, in one word to find repeated lines, and in a few words for lists
//! of members.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use openssl::ssl::ErrorCode;
use share::{Malformed, Node};

use crate::checks::{CLOCK, NOTHING_IN_COMMON, REMOVED, Refusal, few_words};
use crate::guard::REFUSED;
use crate::members::Refused;

/// How long a stranger may take until it is known.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Why a connection became no link.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the words in which each is shown say what it means")]
pub enum Failed {
    #[error("failed to resolve {host:?}: {error}")]
    Name { host: String, error: io::Error },
    #[error("{}", unreachable(*.to, .error))]
    Unreachable { to: SocketAddr, error: io::Error },
    #[error("{}", broken(.0))]
    Connection(#[from] io::Error),
    #[error("{}", no_tls(.0))]
    Tls(#[from] openssl::ssl::Error),
    #[error("no TLS: {0}")]
    Library(#[from] openssl::error::ErrorStack),
    #[error("{0}")]
    Malformed(#[from] Malformed),
    #[error("{0}")]
    NoTls(&'static str),
    #[error("the peer has no member key")]
    NoKey,
    #[error("its key is another one than that of the member with its node")]
    OtherKey,
    #[error("the address is that of this member")]
    Myself,
    #[error("the two do not know each other, and this member proves itself only at addresses in cluster_peers")]
    NotNamed,
    #[error("unexpected {0}")]
    Unexpected(&'static str),
    /// This member refuses the peer.
    #[error("{0}")]
    Refuse(Refusal),
    /// The peer refuses this member.
    #[error("refused there: {reason:?}")]
    Refused { reason: String, word: String },
    /// The peer has a connection for this lane.
    #[error("there is a link already")]
    Linked,
    #[error("no answer in {} s", PATIENCE.as_secs())]
    Slow,
}

/// How much a reason says about what to mend: the last one says most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Nothing answers: the host is off, or a firewall is in between.
    Silent,
    /// Nobody can be there: the name is unknown, or the host refuses the connection.
    Unreachable,
    /// Something listens, and says nothing that helps.
    Wordless,
    /// Something listens, and is not what it should be.
    Answered,
    /// One of the two refuses the other.
    Decided,
}

impl Failed {
    /// Returns the reason in one word, by which repeated lines of the log are found.
    pub fn word(&self) -> &'static str {
        match self {
            Failed::Name { .. } => "name resolution",
            Failed::Unreachable { .. } => "unreachable",
            Failed::Connection(_) => "connection",
            Failed::Tls(_) | Failed::Library(_) => "tls",
            Failed::Malformed(_) | Failed::Unexpected(_) => "malformed",
            Failed::NoTls(reason) => reason,
            Failed::NoKey => "key",
            Failed::OtherKey => "other key",
            Failed::Myself => "myself",
            Failed::NotNamed => "not named",
            Failed::Refuse(refusal) => refusal.word(),
            // Only known words: a peer must not fill the log with others.
            Failed::Refused { word, .. } => few_words(word).map_or("refused", |(word, _)| word),
            Failed::Linked => "linked",
            Failed::Slow => "slow",
        }
    }

    /// Returns the reason in a few words.
    pub fn short(&self) -> String {
        match self {
            Failed::Refuse(refusal) => refusal.short(),
            Failed::Refused { reason, word } => match few_words(word) {
                // Only the peer knows by how much.
                Some((CLOCK, _)) | None => format!("refused there: {reason}"),
                Some((_, words)) => format!("refused there: {words}"),
            },
            other => other.to_string(),
        }
    }

    /// Returns whether somebody has decided this, so that it says more than a connection that ends without a word.
    pub fn is_decided(&self) -> bool {
        matches!(self, Failed::Refuse(_) | Failed::Refused { .. } | Failed::OtherKey)
    }

    /// Returns what the master is told of it, if one of the two refuses the other.
    pub fn refused(&self, node: Node) -> Option<Refused> {
        let there = match self {
            Failed::Refused { .. } => true,
            Failed::Refuse(_) => false,
            _ => return None,
        };
        let word = self.word();
        let (waits, for_ever) = (NOTHING_IN_COMMON.contains(&word), word == REMOVED);
        Some(Refused { node, reason: self.short(), there, waits, for_ever })
    }

    /// Returns how much this says about what to mend, to choose among the addresses of one member.
    pub fn weight(&self) -> Weight {
        match self {
            Failed::Refuse(_) | Failed::Refused { .. } | Failed::OtherKey => Weight::Decided,
            Failed::Unreachable { error, .. } if error.kind() == io::ErrorKind::TimedOut => Weight::Silent,
            Failed::Unreachable { .. } | Failed::Name { .. } => Weight::Unreachable,
            Failed::Connection(_) | Failed::Tls(_) | Failed::Slow | Failed::Linked | Failed::Myself => Weight::Wordless,
            Failed::Library(_)
            | Failed::Malformed(_)
            | Failed::NoTls(_)
            | Failed::NoKey
            | Failed::NotNamed
            | Failed::Unexpected(_) => Weight::Answered,
        }
    }

    /// Returns whether the peer has closed the connection without a word, as it does after refusing somebody too often.
    pub fn is_wordless(&self) -> bool {
        matches!(self, Failed::Connection(_) | Failed::Tls(_))
    }
}

fn unreachable(to: SocketAddr, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut => format!("no answer on {to}"),
        io::ErrorKind::ConnectionRefused => format!("nothing listens on {to}"),
        _ => format!("no connection to {to}: {error}"),
    }
}

fn no_tls(error: &openssl::ssl::Error) -> String {
    match error.code() {
        ErrorCode::SYSCALL => format!(
            "it closed the connection without a word, as a master does for {} s after it has refused this address",
            REFUSED.as_secs()
        ),
        _ => format!("no TLS: {error}"),
    }
}

/// Describes the end of a connection.
pub fn broken(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut => "no answer".to_owned(),
        io::ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_short_and_the_words_of_a_peer_are_known_ones() {
        let to = "10.0.3.7:4520".parse().unwrap();
        let unreachable = |kind: io::ErrorKind| Failed::Unreachable { to, error: kind.into() }.short();
        assert_eq!(unreachable(io::ErrorKind::TimedOut), "no answer on 10.0.3.7:4520");
        assert_eq!(unreachable(io::ErrorKind::ConnectionRefused), "nothing listens on 10.0.3.7:4520");
        let refused = |word: &str| Failed::Refused { reason: "the clock is 9 days ahead".into(), word: word.into() };
        assert_eq!(refused("clock").short(), "refused there: the clock is 9 days ahead");
        assert_eq!(refused("removed").short(), "refused there: removed");
        assert_eq!((refused("removed").word(), refused("anything").word()), ("removed", "refused"));
        let told = |failed: Failed| {
            let refused = failed.refused(Node([1; 8]));
            refused.map(|refused| (refused.there, refused.waits, refused.for_ever))
        };
        assert_eq!(told(refused("removed")), Some((true, false, true)));
        assert_eq!(told(refused("no proof")), Some((true, true, false)));
        assert_eq!(told(Failed::Refuse(Refusal::Proof { name: "m2".into() })), Some((false, false, false)));
        assert_eq!(told(Failed::Slow), None);
    }
}
