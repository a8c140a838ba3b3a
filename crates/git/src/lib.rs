//! The git repositories from which a master serves files and pillar.
//!
//! A [`Group`] is the list `gitfs_remotes`, or one `git` in `ext_pillar`. The program `git` (behind the trait [`Git`]) fetches
//! each of its [`Repository`]s periodically into a bare copy in the cache directory, under a lock file that masters which share
//! the directory respect. After a fetch all references are published as one [`Snapshot`]. A reader keeps one snapshot, so it never
//! sees a mixture of commits. Directories are [`Tree`]s in memory, and contents are extracted once ([`Blobs`], [`checkout`]), so
//! serving starts no program.
//!
//! [`GitPillar`] returns the directories of a pillar. Nothing here is asynchronous: fetching waits for the network, reading for
//! the disk.

mod blobs;
mod cat_file;
pub mod checkout;
mod command;
mod configuration;
mod error;
mod group;
mod lock;
mod mapping;
mod object;
mod pillar;
mod program;
mod remote;
mod repository;
mod secret;
mod snapshot;
mod tree;
mod url;
mod values;

use std::fmt;

pub use blobs::Blobs;
pub use error::{Error, Result};
pub use group::Group;
pub use lock::{Held, Lock, LockType, machine_id};
pub use mapping::is_listed;
pub use object::{Kind, Object, Objects, Oid};
pub use pillar::{GitPillar, PillarDir, RequestedEnvs};
pub use program::{Fetch, Git, Program, end_all};
pub use remote::{Login, RefType, Remote, SaltEnv};
pub use repository::{Fetched, Places, Repository, SharedOptions};
pub use secret::Secret;
pub use snapshot::Snapshot;
pub use tree::{Entry, Tree, Visited, normalise};
pub use values::is_hex;

/// The use of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// For the file server.
    GitFs,
    /// For pillar.
    GitPillar,
}

impl Role {
    /// Returns Salt's name, the prefix of its options.
    pub fn name(self) -> &'static str {
        match self {
            Role::GitFs => "gitfs",
            Role::GitPillar => "git_pillar",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
