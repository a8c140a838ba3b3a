//! For tests of this crate and of carriers: a carrier in memory, and the conformance suite that every carrier must pass.

mod conformance;
mod memory;

pub use conformance::{Bench, check_carrier};
pub use memory::{Disorder, MemoryCarrier, MemoryNet};
