//! Jobs: how they are published, and how their returns are kept.

pub mod keep;
pub mod publish;
