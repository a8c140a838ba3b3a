//! `file` — querying and changing files.
//!
//! [`facts`] queries, [`content`] reads and writes, [`tree`] moves and makes, [`owners`] sets owners, [`edit`] changes
//! text, [`find`] finds, [`hash`] sums, [`backups`] keeps copies, [`paths`] handles paths. The functions for states are
//! here too: [`spec`] is what they are told about a file, [`managed`] fetches the wanted content of a file, [`manage`] and [`perms`] apply it, [`store`] writes,
//! [`replace`], [`line`] and [`block`] change parts.

pub mod address;
pub mod attrs;
pub mod backups;
pub mod block;
pub mod content;
pub mod diff;
pub mod difflib;
pub mod edit;
pub mod encode;
pub mod extract;
pub mod facts;
mod find;
pub mod hash;
pub mod line;
pub mod manage;
pub mod managed;
mod managed_calls;
pub mod owners;
pub mod patch;
pub mod paths;
pub mod pattern;
pub mod perms;
pub mod replace;
pub mod selinux;
pub mod signature;
pub mod sources;
pub mod spec;
pub mod store;
pub mod template;
pub mod tree;

use std::io;

use exec::{Error, Module, Result};

/// Registers the functions of `file`.
pub static MODULE: Module = Module::new(
    "file",
    "Functions that look at files, change them and move them.",
    &[
        &facts::ACCESS,
        &content::APPEND,
        &template::APPLY_TEMPLATE_ON_CONTENTS,
        &paths::BASENAME,
        &block::BLOCKREPLACE,
        &attrs::CHATTR,
        &managed_calls::CHECK_FILE_META,
        &hash::CHECK_HASH,
        &managed_calls::CHECK_MANAGED,
        &managed_calls::CHECK_MANAGED_CHANGES,
        &perms::CHECK_PERMS,
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
        &extract::EXTRACT_HASH,
        &facts::FILE_EXISTS,
        &find::FIND,
        &facts::GET_DEVMM,
        &diff::GET_DIFF,
        &facts::GET_GID,
        &facts::GET_GROUP,
        &hash::GET_HASH,
        &managed_calls::GET_MANAGED,
        &facts::GET_MODE,
        &selinux::GET_SELINUX_CONTEXT,
        &extract::GET_SOURCE_SUM,
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
        &line::LINE,
        &tree::LINK,
        &backups::LIST_BACKUP,
        &backups::LIST_BACKUPS,
        &backups::LIST_BACKUPS_DIR,
        &attrs::LSATTR,
        &facts::LSTAT,
        &tree::MAKEDIRS,
        &tree::MAKEDIRS_PERMS,
        &manage::MANAGE_FILE,
        &tree::MKDIR,
        &tree::MKNOD,
        &tree::MKNOD_BLKDEV,
        &tree::MKNOD_CHRDEV,
        &tree::MKNOD_FIFO,
        &tree::MOVE,
        &paths::NORMPATH,
        &facts::OPEN_FILES,
        &paths::PARDIR,
        &patch::PATCH,
        &facts::PATH_EXISTS_GLOB,
        &content::PREPEND,
        &edit::PSED,
        &content::READ,
        &facts::READDIR,
        &tree::READLINK,
        &tree::REMOVE,
        &backups::REMOVE_BACKUP,
        &tree::RENAME,
        &replace::REPLACE,
        &backups::RESTORE_BACKUP,
        &selinux::RESTORECON,
        &tree::RMDIR,
        &replace::SEARCH,
        &edit::SED,
        &edit::SED_CONTAINS,
        &content::SEEK_READ,
        &content::SEEK_WRITE,
        &owners::SET_MODE,
        &selinux::SET_SELINUX_CONTEXT,
        &sources::SOURCE_LIST,
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

/// Returns Python's message for a system error: "[Errno 2] No such file or directory: '/x'".
pub fn python_text(error: &io::Error, path: &str) -> String {
    match error.raw_os_error() {
        Some(number) => format!("[Errno {number}] {}: '{path}'", nix::Error::from_raw(number).desc()),
        None => format!("{error}: '{path}'"),
    }
}

/// Turns a system error into the exception that Salt's function does not catch.
pub fn os_error(error: &io::Error, path: &str) -> Error {
    Error::Other(python_text(error, path))
}

/// Refuses a path that is relative to the working directory.
fn must_be_absolute(path: &str, reason: &str) -> Result<()> {
    if path.starts_with('/') { Ok(()) } else { Err(Error::invocation(reason)) }
}
