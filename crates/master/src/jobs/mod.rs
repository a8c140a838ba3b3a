//! Jobs: how they are published, and how their returns are kept.

mod audience;
pub mod expiry;
mod failed_states;
pub mod keep;
pub mod publish;
pub mod shared;
pub mod write_behind;
