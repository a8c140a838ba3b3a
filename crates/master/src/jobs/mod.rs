//! Jobs: how they are published, which may still be delivered, and how their returns are kept.

mod audience;
pub mod care;
pub mod held;
pub mod keep;
pub mod ledger;
mod open_jobs;
mod order;
pub mod publish;
pub mod settle;

pub use open_jobs::{CannotHold, OpenJobs, Opening};
pub use order::Order;
