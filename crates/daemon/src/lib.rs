//! The parts of a daemon: background, pid file, user, limits, signals, directories.
//!
//! As in Salt, a daemon calls these in the following order: [`verify_env`], [`PidFile::check`], [`go_to_background`],
//! [`PidFile::write`], [`raise_open_files`], [`switch_user`], [`keep_memory_private`]. Then it creates the runtime, opens
//! everything, calls [`notify_ready`] and [`Launch::ready`], and waits with [`Shutdown::wait`] for its end, which it announces
//! with [`notify_stopping`]. Meanwhile [`Reports`] writes a report at SIGUSR1. [`go_to_background`] forks, so it must be called
//! before any thread exists.

// `rt::complain` writes lines to standard error: `eprintln` panics when nobody reads them.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

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
pub use memory::{map_only_what_is_used, return_large_blocks, share_one_heap};
pub use notify::{notify_ready, notify_stopping};
pub use pidfile::PidFile;
pub use report::{Report, Reports};
pub use secrets::{Children, keep_memory_private};
pub use signals::{Shutdown, Signal, spare};
pub use user::{current_user, switch_user};

/// The version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The exit status of a program whose user does not exist.
pub const EXIT_NO_USER: i32 = 67;

/// Errors of starting a daemon.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process cannot be forked or put into the background.
    #[error("failed to go to the background: {0}")]
    Fork(nix::Error),
    /// Another daemon has the same pid file.
    #[error("An instance is already running. Exiting (process {pid} of {})", path.display())]
    Running {
        /// The file.
        path: PathBuf,
        /// Its process.
        pid: i32,
    },
    /// The pid file cannot be written.
    #[error("failed to write the process id to {}: {source}", path.display())]
    PidFile {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The configured user does not exist. Programs exit with [`EXIT_NO_USER`].
    #[error("Failed to prepare the Salt environment for user {user}. The user is not available.")]
    NoUser {
        /// The name.
        user: String,
    },
    /// The user cannot be switched.
    #[error("Salt configured to run as user \"{user}\" but unable to switch. ({source})")]
    Switch {
        /// The name.
        user: String,
        /// The system's error.
        source: nix::Error,
    },
    /// A directory cannot be created.
    #[error("Failed to create directory path \"{}\" - {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The signal handlers cannot be installed.
    #[error("failed to listen to signals: {0}")]
    Signals(std::io::Error),
}

impl Error {
    /// Returns Salt's exit status for this error.
    pub fn exit_status(&self) -> i32 {
        match self {
            Error::NoUser { .. } => EXIT_NO_USER,
            Error::Directory { source, .. } => source.raw_os_error().unwrap_or(1),
            _ => 1,
        }
    }
}
