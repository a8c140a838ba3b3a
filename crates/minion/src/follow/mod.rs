//! Follows the masters: resolves their names, connects, signs in and takes jobs, again and again.
//!
//! All of them are followed at the same time ([`follow`]), or one of them is ([`follow_one`]), as [`plan()`] says.

mod announce;
mod failover;
mod failover_policy;
mod plan;
mod session;

pub use failover::follow_one;
pub use failover_policy::shuffle;
pub use plan::{Plan, plan, warn_of_misunderstandings};
pub use session::follow;
