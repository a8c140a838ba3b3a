//! `file`: files, directories and links in a wanted state.
//!
//! One file per function or group of functions. What execution functions and states share is in [`modules::file`].

mod absent;
mod accumulated;
mod append;
mod beacon;
mod blockreplace;
mod cached;
mod clean;
mod comment;
mod common;
mod contents;
mod copy;
mod decode;
mod directory;
mod hardlink;
mod keyvalue;
mod line;
mod managed;
mod mknod;
mod patch;
mod prepend;
mod pruned;
#[cfg(test)]
mod recorded;
mod recurse;
mod recurse_plan;
mod rename;
mod replace;
mod retention;
mod serialize;
mod serializers;
mod symlink;
mod tidied;
mod touch;
mod walk;

use exec::Module;

/// The module.
pub static MODULE: Module = Module::new(
    "file",
    "Files, directories and links in a wanted state.",
    &[
        &absent::ABSENT,
        &accumulated::ACCUMULATED,
        &append::APPEND,
        &blockreplace::BLOCKREPLACE,
        &cached::CACHED,
        &comment::COMMENT,
        &copy::COPY,
        &decode::DECODE,
        &directory::DIRECTORY,
        &absent::EXISTS,
        &hardlink::HARDLINK,
        &keyvalue::KEYVALUE,
        &line::LINE,
        &managed::MANAGED,
        &absent::MISSING,
        &mknod::MKNOD,
        &beacon::MOD_BEACON,
        &managed::MOD_RUN_CHECK_CMD,
        &cached::NOT_CACHED,
        &patch::PATCH,
        &prepend::PREPEND,
        &pruned::PRUNED,
        &recurse::RECURSE,
        &rename::RENAME,
        &replace::REPLACE,
        &retention::RETENTION_SCHEDULE,
        &serialize::SERIALIZE,
        &absent::SHORTCUT,
        &symlink::SYMLINK,
        &tidied::TIDIED,
        &touch::TOUCH,
        &comment::UNCOMMENT,
    ],
);
