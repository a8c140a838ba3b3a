//! `virtualenv`: Python environments with their packages.

mod managed;

use exec::Module;

/// The module.
pub static MODULE: Module = Module::new(
    "virtualenv",
    "Environments of Python are there, with their packages.",
    &[&managed::MANAGE, &managed::MANAGED],
);
