//! Opens database files: closed to other users, and with errors that say what is wrong.

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

/// Opens or creates a database. `prepare` makes its tables or reads what is needed from the start. A file that cannot be made
/// whole, as on a full disk, is removed: the next attempt would take it for a damaged one.
pub(crate) fn open<T>(
    path: &Path,
    mode: ConcurrencyMode,
    prepare: impl FnOnce(&Database) -> Result<T, redb::Error>,
) -> Result<(Database, T), Refused> {
    disk::admit(path).map_err(|error| Refused::Failed(Error::io("open", path)(error)))?;
    let mut is_new = false;
    let attempt = || -> Result<(Database, T), redb::Error> {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE).set_concurrency_mode(mode);
        is_new = make_private(path)?;
        let database = builder.create(path)?;
        let prepared = prepare(&database)?;
        Ok((database, prepared))
    };
    // The library may panic over a file that something else has written to.
    let refused = match rt::panics::expected(attempt) {
        Some(Ok(opened)) => return Ok(opened),
        Some(Err(error)) => refused(error, path),
        None => Refused::Damaged("its structure is broken".into()),
    };
    if is_new
        && matches!(refused, Refused::Failed(_))
        && let Err(error) = std::fs::remove_file(path)
    {
        tracing::warn!("failed to remove the unfinished database {}: {error}", path.display());
    }
    Err(refused)
}

/// Makes sure that a file exists and that only its owner reads it, and returns whether it is new.
fn make_private(path: &Path) -> std::io::Result<bool> {
    // The file contains secrets, such as arguments of jobs; the builder would create it readable by everybody.
    match disk::private_file().write(true).create_new(true).open(path) {
        Ok(_) => Ok(true),
        // An existing file keeps its mode when it is opened, and an earlier release may have left it open.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            rt::owned::set_mode(path, 0o600).map(|()| false)
        }
        Err(error) => Err(error),
    }
}

fn refused(error: redb::Error, path: &Path) -> Refused {
    match error {
        redb::Error::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            Refused::Damaged(error.to_string())
        }
        // EPERM for the mode of a file that another user owns, EACCES for the file itself.
        redb::Error::Io(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            let needs_owner = format!("only the master's user may open it: {error}");
            Refused::Failed(Error::io("open", path)(std::io::Error::new(error.kind(), needs_owner)))
        }
        redb::Error::Io(error) => Refused::Failed(Error::io("open", path)(error)),
        error @ redb::Error::Corrupted(_) => Refused::Damaged(error.to_string()),
        redb::Error::DatabaseAlreadyOpen => Refused::InUse,
        error => Refused::Failed(Error::malformed(path, error)),
    }
}

/// Returns the error of a read or a write.
pub(crate) fn failed(action: &'static str, path: &Path, error: redb::Error) -> Error {
    match error {
        redb::Error::Io(source) => Error::io(action, path)(source),
        other => Error::malformed(path, other),
    }
}

#[cfg(test)]
mod tests {
    use redb::ReadableDatabase;

    use super::*;

    #[test]
    fn a_file_of_another_user_is_refused_with_the_remedy() {
        let denied = redb::Error::Io(std::io::Error::from_raw_os_error(1));
        let Refused::Failed(Error::Io { source, .. }) = refused(denied, Path::new("/x/jobs.redb")) else { panic!() };
        assert!(source.to_string().starts_with("only the master's user may open it: "), "{source}");
    }

    #[test]
    fn a_file_that_the_disk_has_no_room_for_is_not_left_half_made() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("share.redb");
        let full =
            |_: &Database| -> Result<(), redb::Error> { Err(redb::Error::Io(std::io::ErrorKind::StorageFull.into())) };
        assert!(matches!(open(&path, ConcurrencyMode::MultiWriter, full), Err(Refused::Failed(_))));
        assert!(!path.exists());

        let made = |database: &Database| database.begin_read().map(drop).map_err(redb::Error::from);
        drop(open(&path, ConcurrencyMode::MultiWriter, made).ok().unwrap());
        assert!(matches!(open(&path, ConcurrencyMode::MultiWriter, full), Err(Refused::Failed(_))));
        assert!(path.exists(), "what was there before stays");
    }
}
