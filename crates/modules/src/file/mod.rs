//! `file` — looking at and changing files.
//!
//! [`facts`] looks, [`content`] reads and writes, [`tree`] moves and makes, [`owners`] gives away, [`edit`] changes text,
//! [`find`] finds, [`hash`] sums, [`backups`] keeps copies, [`paths`] knows paths. Functions that keep a file as a state
//! describes it come with the states.

mod backups;
mod content;
pub mod difflib;
mod edit;
pub mod facts;
mod find;
pub mod hash;
mod owners;
pub mod paths;
mod pattern;
mod tree;

use std::io;

use exec::{Error, Module, Result};

/// The module.
pub static MODULE: Module = Module::new(
    "file",
    "Functions that look at files, change them and move them.",
    &[
        &facts::ACCESS,
        &content::APPEND,
        &paths::BASENAME,
        &hash::CHECK_HASH,
        &owners::CHGRP,
        &owners::CHOWN,
        &edit::COMMENT,
        &edit::COMMENT_LINE,
        &content::CONTAINS,
        &content::CONTAINS_GLOB,
        &content::CONTAINS_REGEX,
        &tree::COPY,
        &backups::DELETE_BACKUP,
        &facts::DIRECTORY_EXISTS,
        &paths::DIRNAME,
        &facts::DISKUSAGE,
        &facts::FILE_EXISTS,
        &find::FIND,
        &facts::GET_DEVMM,
        &facts::GET_GID,
        &facts::GET_GROUP,
        &hash::GET_HASH,
        &facts::GET_MODE,
        &hash::GET_SUM,
        &facts::GET_UID,
        &facts::GET_USER,
        &owners::GID_TO_GROUP,
        &content::GREP,
        &owners::GROUP_TO_GID,
        &facts::IS_BLKDEV,
        &facts::IS_CHRDEV,
        &facts::IS_FIFO,
        &facts::IS_HARDLINK,
        &facts::IS_LINK,
        &paths::JOIN,
        &owners::LCHOWN,
        &tree::LINK,
        &backups::LIST_BACKUP,
        &backups::LIST_BACKUPS,
        &backups::LIST_BACKUPS_DIR,
        &facts::LSTAT,
        &tree::MAKEDIRS,
        &tree::MAKEDIRS_PERMS,
        &tree::MKDIR,
        &tree::MKNOD,
        &tree::MKNOD_BLKDEV,
        &tree::MKNOD_CHRDEV,
        &tree::MKNOD_FIFO,
        &tree::MOVE,
        &paths::NORMPATH,
        &facts::OPEN_FILES,
        &paths::PARDIR,
        &facts::PATH_EXISTS_GLOB,
        &content::PREPEND,
        &content::READ,
        &facts::READDIR,
        &tree::READLINK,
        &tree::REMOVE,
        &backups::REMOVE_BACKUP,
        &tree::RENAME,
        &edit::REPLACE,
        &backups::RESTORE_BACKUP,
        &tree::RMDIR,
        &edit::SEARCH,
        &edit::SED,
        &edit::SED_CONTAINS,
        &content::SEEK_READ,
        &content::SEEK_WRITE,
        &owners::SET_MODE,
        &facts::STATS,
        &facts::STATVFS,
        &tree::SYMLINK,
        &content::TOUCH,
        &content::TRUNCATE,
        &owners::UID_TO_USER,
        &edit::UNCOMMENT,
        &owners::USER_TO_UID,
        &content::WRITE,
    ],
);

/// Returns the text Python has for a failure of the system: "[Errno 2] No such file or directory: '/x'".
fn python_text(error: &io::Error, path: &str) -> String {
    match error.raw_os_error() {
        Some(number) => format!("[Errno {number}] {}: '{path}'", nix::Error::from_raw(number).desc()),
        None => format!("{error}: '{path}'"),
    }
}

/// A failure of the system that Salt's function lets through as Python's exception.
fn os_error(error: &io::Error, path: &str) -> Error {
    Error::Other(python_text(error, path))
}

/// Refuses a path that depends on the directory of this process.
fn must_be_absolute(path: &str, reason: &str) -> Result<()> {
    if path.starts_with('/') { Ok(()) } else { Err(Error::invocation(reason)) }
}
