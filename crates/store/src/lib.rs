//! Salt's disk formats: job cache, minion data cache, tokens, sessions, proc files, file server caches.
//!
//! There are two layers. [`Store`] is what masters share: values by bank and key, with preconditions; each backend is one file
//! (so far [`LocalFs`], Salt's `localfs`). The other modules each know one of Salt's own file layouts, which the real programs
//! on the same host can read and write:
//!
//! * [`jobs`]: `jobs/`, one directory per job;
//! * [`minion_data`]: grains, pillar and mine of minions, in the layout of 3006 and 3007 or of 3008;
//! * [`tokens`], [`sessions`], [`user_keys`], [`drop_file`], [`publish_auth`]: credentials and their rotation;
//! * [`proc_dir`]: running jobs;
//! * [`returns`]: the spool of a minion's unacknowledged returns (not Salt's);
//! * [`file_server`]: caches of the file server;
//! * [`share`]: the records that a master shares with others (not Salt's).
//!
//! Everything here blocks on the disk. Nothing reads the clock or generates random bytes: times and keys come from the caller.
//! Whatever becomes part of a path is checked first, and each error names its path.

pub mod disk;
pub mod drop_file;
mod error;
pub mod file_server;
pub mod jobs;
mod local_fs;
pub mod minion_data;
pub mod proc_dir;
pub mod publish_auth;
mod redb_file;
pub mod returns;
pub mod sessions;
pub mod share;
pub mod tokens;
pub mod user_keys;

pub use error::{Error, Result};
pub use local_fs::{LocalFs, unexpired};

/// The Salt line whose file layout is used, where they differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// 3006 and 3007.
    Until3007,
    /// 3008.
    #[default]
    Since3008,
}

/// The precondition of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// None: an existing value is replaced.
    None,
    /// There must be no value under the key.
    Absent,
}

/// The data that masters share: values by bank and key.
///
/// A bank is a path such as `grains` or `minions/web1`; a key may be a path too. Both are refused if they are empty or absolute,
/// or have a part that is empty, `.`, `..` or contains NUL.
pub trait Store: Send + Sync {
    /// Returns the value under a key.
    fn get(&self, bank: &str, key: &str) -> Result<Option<Vec<u8>>>;

    /// Writes a value, and returns whether the precondition held. Readers see either the old or the new value.
    fn put(&self, bank: &str, key: &str, value: &[u8], when: Precondition) -> Result<bool>;

    /// Removes a value, and returns whether it existed.
    fn delete(&self, bank: &str, key: &str) -> Result<bool>;

    /// Returns the keys of a bank in alphabetical order.
    fn list(&self, bank: &str) -> Result<Vec<String>>;
}
