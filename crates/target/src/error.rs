//! What can be wrong with a target.

/// A target that cannot be read. Salt's answer to each of these is that nobody matches.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A regular expression Python would refuse too, or one too large to run.
    #[error("invalid regular expression '{pattern}': {reason}")]
    Regex {
        /// The pattern as given.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A compound expression with words in an impossible order.
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
        /// The word it stands in.
        word: String,
    },
    /// A `tgt_type` nobody knows.
    #[error("unknown target type '{name}'")]
    UnknownType {
        /// The name as given.
        name: String,
    },
    /// A nodegroup that is not configured, contains itself, or is neither text nor list.
    #[error("failed nodegroup expansion of '{name}': {reason}")]
    Nodegroup {
        /// The group's name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
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
    /// Matching took more steps than one request may take.
    #[error("matching takes too many steps: the expression has too many words, or a pattern that is too slow")]
    TooExpensive,
    /// A list with more names than anybody has minions.
    #[error("a list target cannot have {found} names; {most} at most")]
    TooLong {
        /// How many there are.
        found: usize,
        /// How many may be.
        most: usize,
    },
    /// A path to match without the delimiter in it.
    #[error("got insufficient arguments for {kind} match statement '{target}'")]
    NoDelimiter {
        /// The target type.
        kind: &'static str,
        /// The target as given.
        target: String,
    },
}
