//! What makes a program a daemon: the background, its process id file, user, limits, signals, directories.
//!
//! The order in which a daemon calls these, as Salt does: [`verify_env`], [`PidFile::check`], [`go_to_background`],
//! [`PidFile::write`], [`raise_open_files`], [`switch_user`], [`keep_memory_private`]; then the runtime is made, everything is
//! opened, [`notify_ready`] and [`Launch::ready`] are said, and [`Shutdown::wait`] waits for the end, which
//! [`notify_stopping`] announces. Meanwhile [`Reports`] tells what the daemon does when SIGUSR1 comes.
//! [`go_to_background`] forks and so must come before any thread exists.

mod background;
mod env;
mod limits;
mod memory;
mod notify;
mod pidfile;
mod report;
mod secrets;
mod signals;
mod user;

use std::path::PathBuf;

pub use background::{Launch, go_to_background};
pub use env::{Directories, verify_env};
pub use limits::{check_open_files, raise_open_files};
pub use memory::{map_only_what_is_used, share_one_heap};
pub use notify::{notify_ready, notify_stopping};
pub use pidfile::PidFile;
pub use report::{Report, Reports};
pub use secrets::{Children, keep_memory_private};
pub use signals::{Shutdown, Signal, spare};
pub use user::{current_user, switch_user};

/// The version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Exit status of a program whose user does not exist.
pub const EXIT_NO_USER: i32 = 67;

/// What can go wrong on the way to a daemon.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process cannot be copied or put into the background.
    #[error("failed to go to the background: {0}")]
    Fork(nix::Error),
    /// Another daemon has the same process id file.
    #[error("An instance is already running. Exiting (process {pid} of {})", path.display())]
    Running {
        /// The file.
        path: PathBuf,
        /// The process it names.
        pid: i32,
    },
    /// The process id file cannot be written.
    #[error("failed to write the process id to {}: {source}", path.display())]
    PidFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The user in the configuration does not exist. Programs exit with [`EXIT_NO_USER`].
    #[error("Failed to prepare the Salt environment for user {user}. The user is not available.")]
    NoUser {
        /// The name.
        user: String,
    },
    /// The user cannot be changed.
    #[error("Salt configured to run as user \"{user}\" but unable to switch. ({source})")]
    Switch {
        /// The name.
        user: String,
        /// What the system said.
        source: nix::Error,
    },
    /// A directory cannot be made.
    #[error("Failed to create directory path \"{}\" - {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Signals cannot be listened to.
    #[error("failed to listen to signals: {0}")]
    Signals(std::io::Error),
}

impl Error {
    /// Returns the exit status Salt has for this error.
    pub fn exit_status(&self) -> i32 {
        match self {
            Error::NoUser { .. } => EXIT_NO_USER,
            Error::Directory { source, .. } => source.raw_os_error().unwrap_or(1),
            _ => 1,
        }
    }
}
