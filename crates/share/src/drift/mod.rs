//! Drift: what all members must have alike but do not share, such as files and access control, and where they differ.
//!
//! Each member makes a [`Dir`] of each [`Kind`], and sends the others its digest. [`DriftWatch`] decides when a difference has
//! lasted for so long that somebody must hear of it, and [`Descent`] finds out by questions what differs.

mod descent;
mod listing;
mod options;
mod tree;
mod watch;

pub use descent::{Descent, MOST_FOUND, PathDifference};
pub use listing::{Listed, Listing, Question};
pub use options::{acl, is_left_out, option_tree, options};
pub use tree::{Dir, DirBuilder, Entry, Leaf, entry_name};
pub use watch::{DriftReport, DriftWatch, MemberDifference};

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The files of `file_roots`, by environment.
    Files,
    /// The files of `pillar_roots`, by environment.
    Pillar,
    /// The commits of branches and tags, by remote.
    Git,
    /// Who may do what.
    Acl,
    /// All other options that do not belong to one host.
    Config,
    /// The option `schedule`.
    Schedule,
    /// The option `reactor`, and the files that it names.
    Reactor,
    /// The files below `extension_modules`.
    Extmods,
    /// The public key that minions know the master by.
    MasterKey,
    /// The version of the program.
    Version,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 10] = [
        Kind::Files,
        Kind::Pillar,
        Kind::Git,
        Kind::Acl,
        Kind::Config,
        Kind::Schedule,
        Kind::Reactor,
        Kind::Extmods,
        Kind::MasterKey,
        Kind::Version,
    ];

    /// Returns the name, as people type it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Files => "files",
            Kind::Pillar => "pillar",
            Kind::Git => "git",
            Kind::Acl => "acl",
            Kind::Config => "config",
            Kind::Schedule => "schedule",
            Kind::Reactor => "reactor",
            Kind::Extmods => "extmods",
            Kind::MasterKey => "master_key",
            Kind::Version => "version",
        }
    }

    /// Returns the kind with this name; `None` if this version knows none.
    pub fn from_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns a path as people write it: of a file with slashes, of an option with colons.
    pub fn display_path(self, path: &[String]) -> String {
        match self {
            Kind::Files | Kind::Pillar | Kind::Extmods => path.join("/"),
            Kind::Git => path.join(" "),
            Kind::Acl | Kind::Config | Kind::Schedule | Kind::Reactor | Kind::MasterKey | Kind::Version => {
                path.join(":")
            }
        }
    }
}

#[cfg(test)]
mod tests;
