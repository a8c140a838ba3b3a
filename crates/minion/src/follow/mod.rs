//! Following the masters, from their names to their jobs, again and again.
//!
//! All of them are followed at the same time ([`follow`]), or one of them is ([`follow_one`]), as [`plan()`] says.

mod announce;
mod choice;
mod failover;
mod plan;
mod session;

pub use choice::shuffle;
pub use failover::follow_one;
pub use plan::{Plan, plan, warn_of_misunderstandings};
pub use session::follow;
