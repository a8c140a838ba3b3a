//! `lowpkg` — what the data base of packages knows, without the program that fetches them.

pub mod dpkg;
pub mod rpm;
mod rpm_info;

pub(crate) use dpkg::local_file;
