//! The programs: flags, outputters, exit codes.
//!
//! [`main`] finds the program; each has a module with its name. The work is done in other crates; here is the user
//! interface.

// `rt::complain` writes lines to standard error: `eprintln` panics when nobody reads them.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

pub mod args;
mod catalogue;
mod complete;
mod daemons;
mod demo;
mod dispatch;
mod elsewhere;
pub mod exit_codes;
mod hint;
mod ldap;
mod link;
mod log_setup;
mod login;
mod pam;
mod prepare;
mod programs;
mod salt;
mod salt_api;
mod salt_call;
mod salt_cp;
mod salt_key;
mod salt_master;
mod salt_minion;
mod salt_run;
mod swarm;
mod terminal;
pub mod version;
mod wheel;

pub use dispatch::main;
