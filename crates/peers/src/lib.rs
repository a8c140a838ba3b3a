//! What the carriers of one set of masters share, links and the bus: who is a member and who may join, what strangers may cost,
//! what waits to be sent and to be read, and what people are told.
//!
//! Nothing here opens a socket. `inbox` and `queue` wait for each other; all else decides, and the time goes in.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod ahead;
pub mod budget;
pub mod changes;
pub mod checks;
pub mod copied_hosts;
pub mod credentials;
pub mod failed;
#[doc(hidden)]
pub mod fuzzing;
pub mod guard;
pub mod inbox;
pub mod kind;
pub mod members;
pub mod proof;
pub mod queue;
pub mod roster;
pub mod status;
pub mod target;
#[cfg_attr(not(test), expect(clippy::disallowed_methods, reason = "only tests use it"))]
pub mod testing;
