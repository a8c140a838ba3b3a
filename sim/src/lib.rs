//! A whole cluster in one process: the masters and minions that run in production, on simulated hosts, in a storm that
//! follows from a seed.
//!
//! [`storm`] runs one hour of it and says what was found wrong; the same seed gives the same trace. Beneath it lies
//! [`Cluster`], with which a test can tell a single story.

mod cluster;
mod keys;
mod ledger;
mod listen;
mod operator;
pub mod seeds;
mod weather;

pub use cluster::{Cluster, Mode, Plan};

pub use ledger::Ledger;
pub use operator::Job;
pub use weather::{Outcome, storm};
