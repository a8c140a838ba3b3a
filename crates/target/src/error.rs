//! Errors of targets.

/// An invalid target. For Salt, each of these matches no minion.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A regular expression that Python would refuse too, or one too large to run.
    #[error("invalid regular expression '{pattern}': {reason}")]
    Regex {
        /// The pattern as given.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A compound expression whose words are in an impossible order.
    #[error("invalid compound target '{target}': {reason}")]
    Compound {
        /// The expression as given.
        target: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An engine letter without a matcher, such as `R@`.
    #[error("unrecognized target engine '{engine}' for target expression '{word}'")]
    UnknownEngine {
        /// The letter before the `@`.
        engine: char,
        /// The word that contains it.
        word: String,
    },
    /// An unknown `tgt_type`.
    #[error("unknown target type '{name}'")]
    UnknownType {
        /// The name as given.
        name: String,
    },
    /// A node group that is not configured, contains itself, or is neither a string nor a list.
    #[error("failed nodegroup expansion of '{name}': {reason}")]
    Nodegroup {
        /// The group's name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The minion data cache gave no answer, so the minions that match are unknown.
    #[error("the minion data cache gives no answer")]
    DataUnavailable,
    /// Neither an address nor a network.
    #[error("invalid IP/CIDR target: {target}")]
    Ipcidr {
        /// The text as given.
        target: String,
    },
    /// A target of a type the matcher cannot take, such as a number for a glob.
    #[error("a {kind} target cannot be a {found}")]
    WrongType {
        /// The target type.
        kind: &'static str,
        /// The Python name of the type found.
        found: &'static str,
    },
    /// Matching took more steps than a request may take.
    #[error("matching takes too many steps: the expression has too many words, or a pattern that is too slow")]
    TooExpensive,
    /// A list with more names than anybody has minions.
    #[error("a list target cannot have {found} names; {most} at most")]
    TooLong {
        /// The number of names.
        found: usize,
        /// The maximum number of names.
        most: usize,
    },
    /// A path without the delimiter in it.
    #[error("got insufficient arguments for {kind} match statement '{target}'")]
    NoDelimiter {
        /// The target type.
        kind: &'static str,
        /// The target as given.
        target: String,
    },
}
