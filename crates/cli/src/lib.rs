//! The programs: flags, outputters, exit codes.

pub mod args;
pub mod outputters;
