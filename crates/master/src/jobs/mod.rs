//! Jobs: how they are published, and how their returns are kept.

pub mod keep;
mod order;
pub mod publish;

pub use order::Order;
