//! `pkg` — packages, by the program that manages them.
//!
//! As in Salt, each provider checks the grains (`os_family`, `os`), and the first that fits is `pkg`; the option
//! `providers` overrides that.

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
