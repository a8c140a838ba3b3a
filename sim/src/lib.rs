//! A whole cluster in one process: the masters and minions of production on simulated hosts, in a storm of faults that
//! follows from a seed.
//!
//! [`storm`] and [`sharing_storm`] simulate one hour and report violated invariants. The same seed gives the same trace. Tests of a
//! single scenario use [`Cluster`] directly.

mod bus;
mod cluster;
mod decisions;
mod disks;
mod faults;
mod keys;
mod leases;
mod ledger;
mod listen;
mod operator;
pub mod seeds;
mod shared;
mod traffic;
mod weather;

pub use cluster::{Cluster, Mode, Plan};

pub use ledger::Ledger;
pub use operator::Job;
pub use traffic::Traffic;
pub use weather::{Outcome, sharing_storm, storm};
