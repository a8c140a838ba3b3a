//! `lowpkg` — the database of packages, without the program that fetches them.

pub mod dpkg;
pub mod rpm;
mod rpm_info;

pub(crate) use dpkg::local_file;
