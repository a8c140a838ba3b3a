//! The exit codes scripts look at, with Salt's values.

/// All good.
pub const OK: u8 = 0;
/// A general failure; with `salt`: a minion failed or kept silent.
pub const GENERIC: u8 = 1;
/// Refused by the master, or nothing came back.
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
