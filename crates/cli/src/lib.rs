//! The programs: flags, outputters, exit codes.
//!
//! [`main`] finds out which program is meant; each has a module of its own name. What the programs do is done by the
//! crates below; here is what a person sees of it.

pub mod args;
mod catalogue;
mod complete;
mod daemons;
mod demo;
mod dispatch;
mod elsewhere;
pub mod exit_codes;
mod hint;
mod link;
mod log_setup;
mod prepare;
mod programs;
mod salt;
mod salt_call;
mod salt_cp;
mod salt_key;
mod salt_master;
mod salt_minion;
mod salt_run;
mod swarm;
pub mod version;
mod wheel;

pub use dispatch::main;
