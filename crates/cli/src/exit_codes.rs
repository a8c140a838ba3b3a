//! The exit codes that scripts check, with Salt's values.

/// Success.
pub const OK: u8 = 0;
/// A general failure. Of `salt`: a minion failed or did not answer.
pub const GENERIC: u8 = 1;
/// The master refused, or no minion returned anything.
pub const NO_RETURN: u8 = 2;
/// The master's ports cannot be bound.
pub const NO_PORTS: u8 = 4;
/// `salt` without a target or a function.
pub const INCOMPLETE: u8 = 42;
/// The command line is wrong.
pub const USAGE: u8 = 64;
/// The user to run as does not exist.
pub const NO_USER: u8 = 67;
/// A service cannot be reached.
pub const UNAVAILABLE: u8 = 69;
