//! Salt's disk formats: job cache, minion data cache, tokens, sessions, proc files, file server caches.
//!
//! Two layers. [`Store`] is what masters share: values by bank and key, with preconditions; a backend is one file
//! (so far [`LocalFs`], Salt's `localfs`). The other modules each know one of Salt's own file layouts, readable and
//! writable by the real programs on the same host:
//!
//! * [`jobs`]: `jobs/`, one directory per job;
//! * [`minion_data`]: grains, pillar and mine of minions, in the layout of 3006 and 3007 or of 3008;
//! * [`tokens`], [`sessions`], [`user_keys`], [`drop_file`], [`publish_auth`]: who may speak;
//! * [`proc_dir`]: what is running;
//! * [`returns`]: what a minion has not yet been rid of (not Salt's);
//! * [`file_server`]: what the file server remembers between runs.
//!
//! Everything here blocks on the disk, and nothing reads the clock or makes random bytes: times and keys come from the
//! caller. Whatever becomes part of a path is checked first; each error names the path it happened at.

pub mod disk;
pub mod drop_file;
mod error;
pub mod file_server;
pub mod jobs;
mod local_fs;
pub mod minion_data;
pub mod proc_dir;
pub mod publish_auth;
pub mod returns;
pub mod sessions;
pub mod tokens;
pub mod user_keys;

pub use error::{Error, Result};
pub use local_fs::LocalFs;

/// The line of Salt a file layout belongs to, where they differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// 3006 and 3007.
    Until3007,
    /// 3008.
    #[default]
    Since3008,
}

/// What has to be true for a value to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Nothing: the value is replaced.
    None,
    /// There is no value under the key yet.
    Absent,
}

/// What masters share: values by bank and key.
///
/// A bank is a path such as `grains` or `minions/web1`; a key may be a path too. Both are refused when they are empty,
/// absolute, or have a part that is empty, `.`, `..` or holds NUL.
pub trait Store: Send + Sync {
    /// Returns the value under a key.
    fn get(&self, bank: &str, key: &str) -> Result<Option<Vec<u8>>>;

    /// Writes a value and says whether the precondition held. Readers see the old value or the new one, nothing else.
    fn put(&self, bank: &str, key: &str, value: &[u8], when: Precondition) -> Result<bool>;

    /// Removes a value and says whether there was one.
    fn delete(&self, bank: &str, key: &str) -> Result<bool>;

    /// Returns the keys of a bank in alphabetical order.
    fn list(&self, bank: &str) -> Result<Vec<String>>;
}
