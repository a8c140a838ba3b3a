//! The client of a master on this host: publishes jobs, gathers returns.
//!
//! Decisions stand apart from sockets: [`gather`] knows when a job is over, [`batch`] who is next.

pub mod batch;
pub mod gather;
