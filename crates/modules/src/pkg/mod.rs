//! `pkg` — packages, by the program that manages them.
//!
//! Which provider serves a machine is decided as in Salt: each one looks at the grains (`os_family`, `os`), the first that
//! fits is `pkg`; the option `providers` names one regardless.

pub mod apk;
pub mod apt;
pub(crate) mod common;
mod debian_version;
pub mod pacman;
pub(crate) mod repo_file;
pub(crate) mod rpm;
pub mod sources;
pub mod yum;
pub mod zypper;

pub(crate) use common::Loose;
