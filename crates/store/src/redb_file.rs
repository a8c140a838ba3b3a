//! Opens database files: closed to other users, and with errors that say what is wrong.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use redb::{ConcurrencyMode, Database};

use crate::{Error, disk};

/// A database's cache in bytes; the system caches the file too.
const CACHE: usize = 24 << 20;

/// Why a database cannot be opened.
pub(crate) enum Refused {
    /// The content is invalid.
    Damaged(String),
    /// Another process has it open, and shares it with nobody.
    InUse,
    /// Anything else.
    Failed(Error),
}

impl Refused {
    /// Returns the error, with the path of the database.
    pub(crate) fn error(self, path: &Path) -> Error {
        match self {
            Refused::Damaged(reason) => Error::malformed(path, reason),
            Refused::InUse => {
                let busy = std::io::Error::new(std::io::ErrorKind::ResourceBusy, "another process has it open");
                Error::io("open", path)(busy)
            }
            Refused::Failed(error) => error,
        }
    }
}

/// Opens or creates a database. `prepare` makes its tables or reads what is needed from the start.
pub(crate) fn open<T>(
    path: &Path,
    mode: ConcurrencyMode,
    prepare: impl FnOnce(&Database) -> Result<T, redb::Error>,
) -> Result<(Database, T), Refused> {
    disk::admit(path).map_err(|error| Refused::Failed(Error::io("open", path)(error)))?;
    let attempt = || -> Result<(Database, T), redb::Error> {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE).set_concurrency_mode(mode);
        // The file contains secrets, such as arguments of jobs; the builder would create it readable by everybody.
        let file = disk::private_file().read(true).write(true).create(true).truncate(false).open(path)?;
        // An existing file keeps its mode when it is opened, and an earlier release may have left it open.
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        drop(file);
        let database = builder.create(path)?;
        let prepared = prepare(&database)?;
        Ok((database, prepared))
    };
    // The library may panic over a file that something else has written to.
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(attempt)) {
        Ok(Ok(opened)) => Ok(opened),
        Ok(Err(redb::Error::Io(error))) if error.kind() == std::io::ErrorKind::InvalidData => {
            Err(Refused::Damaged(error.to_string()))
        }
        Ok(Err(redb::Error::Io(error))) => Err(Refused::Failed(Error::io("open", path)(error))),
        Ok(Err(error @ redb::Error::Corrupted(_))) => Err(Refused::Damaged(error.to_string())),
        Ok(Err(redb::Error::DatabaseAlreadyOpen)) => Err(Refused::InUse),
        Ok(Err(error)) => Err(Refused::Failed(Error::malformed(path, error))),
        Err(_) => Err(Refused::Damaged("its structure is broken".into())),
    }
}

/// Returns the error of a read or a write.
pub(crate) fn failed(action: &'static str, path: &Path, error: redb::Error) -> Error {
    match error {
        redb::Error::Io(source) => Error::io(action, path)(source),
        other => Error::malformed(path, other),
    }
}
