//! Flags: what each program takes, how a command line is read, the help.

pub mod help;
pub mod option;
pub mod parse;
pub mod programs;

pub use parse::{Parsed, Stop, parse};
pub use programs::Program;

/// The words that `saltern` knows besides the programs.
pub const OWN_WORDS: [&str; 5] = ["completions", "demo", "link", "swarm", "wheel"];
