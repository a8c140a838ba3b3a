//! `pkg` — packages, by the program that manages them.
//!
//! As in Salt, each provider checks the grains (`os_family`, `os`), and the first that fits is `pkg`; the option
//! `providers` overrides that.

pub mod apk;
pub mod apt;
mod debian_version;
pub mod pacman;
pub(crate) mod repo_file;
pub mod sources;
pub mod yum;
pub mod zypper;
