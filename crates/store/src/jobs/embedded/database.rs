//! The database file: rows by key, read and changed in transactions.

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use redb::{ConcurrencyMode, Database, ReadOnlyTable, ReadableDatabase, Table, TableDefinition};

use crate::redb_file::{self, Refused};
use crate::{Error, Result, disk};

const ROWS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("rows");

/// The database file. Several processes may open it; one at a time changes it.
pub struct DatabaseFile {
    path: PathBuf,
    /// `None` after a disk error, until it is opened again.
    database: RwLock<Option<Arc<Database>>>,
}

impl DatabaseFile {
    /// Opens or creates the file. A damaged file is renamed to `NAME.damaged-N`, with an error in the log, and a new one is
    /// created.
    pub fn open(path: &Path) -> Result<Self> {
        let database = match open(path) {
            // A master must start with a damaged cache. Old results are worth less than new jobs, but are kept for an
            // expert.
            Err(Refused::Damaged(reason)) => {
                let aside = put_aside(path)?;
                tracing::error!(
                    "the job cache {} cannot be read ({reason}): it is kept as {}, and a new one begins; the jobs in it are \
                     not found any more",
                    path.display(),
                    aside.display()
                );
                open(path).map_err(|refused| refused.error(path))?
            }
            other => other.map_err(|refused| refused.error(path))?,
        };
        Ok(DatabaseFile { path: path.to_owned(), database: RwLock::new(Some(Arc::new(database))) })
    }

    /// Returns the value under a key.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.read(|rows| Ok(rows.get(key)?.map(|value| value.value().to_vec())))
    }

    /// Passes the rows whose keys begin with `prefix` and follow `after` to the callback, in order, until it stops.
    pub fn scan(&self, prefix: &[u8], after: Option<&[u8]>, mut each: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let start = after.filter(|after| *after > prefix).map_or(Bound::Included(prefix), Bound::Excluded);
        self.read(|rows| {
            for row in rows.range::<&[u8]>((start, Bound::Unbounded))? {
                let (key, value) = row?;
                if !key.value().starts_with(prefix) || !each(key.value(), value.value()) {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Changes rows. When this returns, all changes are synced to the disk.
    pub fn change<T>(
        &self,
        change: impl FnOnce(&mut Table<'_, &'static [u8], &'static [u8]>) -> std::result::Result<T, redb::Error>,
    ) -> Result<T> {
        disk::admit(&self.path).map_err(Error::io("write", &self.path))?;
        let database = self.database()?;
        let attempt = || {
            let transaction = database.begin_write()?;
            let done = change(&mut transaction.open_table(ROWS)?)?;
            transaction.commit()?;
            Ok(done)
        };
        attempt().map_err(|error| self.failed("write", error))
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&ReadOnlyTable<&'static [u8], &'static [u8]>) -> std::result::Result<T, redb::Error>,
    ) -> Result<T> {
        let database = self.database()?;
        let attempt = || read(&database.begin_read()?.open_table(ROWS)?);
        attempt().map_err(|error| self.failed("read", error))
    }

    fn database(&self) -> Result<Arc<Database>> {
        if let Some(database) = &*self.database.read().unwrap_or_else(PoisonError::into_inner) {
            return Ok(database.clone());
        }
        let mut place = self.database.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have opened it between the two locks.
        if let Some(database) = &*place {
            return Ok(database.clone());
        }
        let database = Arc::new(open(&self.path).map_err(|refused| refused.error(&self.path))?);
        *place = Some(database.clone());
        Ok(database)
    }

    /// After a disk error the library accepts nothing more, so the file is opened again at the next use.
    fn failed(&self, action: &'static str, error: redb::Error) -> Error {
        *self.database.write().unwrap_or_else(PoisonError::into_inner) = None;
        redb_file::failed(action, &self.path, error)
    }
}

fn open(path: &Path) -> std::result::Result<Database, Refused> {
    let prepare = |database: &Database| -> std::result::Result<(), redb::Error> {
        let transaction = database.begin_read()?;
        // A write transaction only for a new file: it would make every visitor wait for the master.
        if let Err(redb::TableError::TableDoesNotExist(_)) = transaction.open_table(ROWS) {
            drop(transaction);
            let transaction = database.begin_write()?;
            transaction.open_table(ROWS)?;
            transaction.commit()?;
        }
        Ok(())
    };
    redb_file::open(path, ConcurrencyMode::MultiWriter, prepare).map(|(database, ())| database)
}

fn put_aside(path: &Path) -> Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let free = |number: u32| path.with_file_name(format!("{name}.damaged-{number}"));
    // An earlier damaged file is never overwritten.
    let aside = (1..).map(free).find(|aside| !aside.exists()).unwrap_or_else(|| free(0));
    std::fs::rename(path, &aside).map_err(Error::io("rename", path))?;
    Ok(aside)
}
