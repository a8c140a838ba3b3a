//! Repositories that a master serves files and pillar from.
//!
//! A [`Group`] is what `gitfs_remotes` or a `git` in `ext_pillar` names. Each of its [`Repository`]s is fetched now and
//! then by the program `git` (behind the trait [`Git`]) into a bare copy below the cache directory, under a lock file
//! that masters which share the directory respect. After a fetch all references are published as one [`Snapshot`]; whoever
//! reads takes one and stays with it, so nobody sees half a commit. Directories are held as [`Tree`]s in memory, contents
//! are taken out once ([`Blobs`], [`checkout`]), so that serving starts no program.
//!
//! [`GitPillar`] gives the directories pillar is made from. Nothing here is asynchronous: fetching waits for the network,
//! reading for the disk.

mod blobs;
pub mod checkout;
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
pub use pillar::{GitPillar, PillarDir, Wanted};
pub use program::{Fetch, Git, Program, end_all};
pub use remote::{Login, RefType, Remote, SaltEnv};
pub use repository::{Fetched, Places, Repository, Surroundings};
pub use secret::Secret;
pub use snapshot::Snapshot;
pub use tree::{Entry, Tree, Visited, normalise};
pub use values::is_hex;

/// What repositories are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The file server.
    GitFs,
    /// Pillar.
    GitPillar,
}

impl Role {
    /// Returns Salt's name, which options begin with.
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
