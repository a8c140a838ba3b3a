//! Wheel functions, one file per Salt name.

pub mod config;
pub mod error;
pub mod file_roots;
pub mod key;
pub mod minions;
pub mod pillar_roots;
mod roots;

use crate::Module;

/// All modules of wheel functions.
pub static WHEEL: &[&Module] = &[
    // In alphabetical order.
    &config::MODULE,
    &error::MODULE,
    &file_roots::MODULE,
    &key::MODULE,
    &minions::MODULE,
    &pillar_roots::MODULE,
];
