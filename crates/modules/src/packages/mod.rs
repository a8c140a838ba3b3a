//! What `pkg` and `lowpkg` share: calling package managers, the database of rpm, and how versions compare.

pub mod common;
pub mod rpm;

pub use common::Loose;
