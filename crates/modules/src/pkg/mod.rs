//! `pkg` — packages, by the program that manages them.

pub mod apt;
mod debian_version;
pub mod sources;
