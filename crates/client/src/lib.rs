//! The client of a master on this host: publishes jobs, gathers returns.
//!
//! Decisions stand apart from sockets: [`gather`] knows when a job is over, [`batch`] who is next. [`LocalClient`]
//! connects them with the master's event bus and request port, ours or one of Salt's.

mod alive;
pub mod batch;
pub mod gather;
mod held;
mod local;
mod road;
pub mod settings;
pub mod user;

pub use alive::{Alive, Away};
pub use held::{Held, Progress};
pub use local::{Error, Job, LocalClient, Outcome, Settings, Ticket};
pub use road::{RoadError, RoadSettings};
