//! What a lease needs of a store: compare-and-set per name, and entries that expire.

use bytes::Bytes;
use futures_util::future::BoxFuture;

/// What is stored under the name of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Where it stands in the store. Later entries of any name have higher ones.
    pub sequence: u64,
    /// What it says.
    pub value: Bytes,
}

/// What is known of a store that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// How many servers keep a copy.
    pub replicas: usize,
    /// Nothing was ever stored in it: it is new, or was made again. Leases that an earlier one granted may still be held.
    pub unused: bool,
    /// The sequence of the last entry of any name; 0 if there was none.
    pub last: u64,
}

/// Why a store cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The servers say that they have no such thing.
    #[error("{0}")]
    Absent(String),
    /// It exists with other settings, which an operator has to change.
    #[error("{0}")]
    Settings(String),
    /// Nobody answers, or nobody can at the moment.
    #[error("{0}")]
    NoAnswer(String),
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BucketError {
    /// Another sequence than the expected one is the last: nothing was stored.
    #[error("another entry is the last one")]
    OtherSequence,
    /// Nobody answered. What was to be stored may be stored, now or later.
    #[error("{0}")]
    NoAnswer(String),
    /// The store is gone and has to be opened again: nothing was stored.
    #[error("{0}")]
    Gone(String),
    /// It was refused: nothing was stored.
    #[error("{0}")]
    Refused(String),
}

/// A store of leases. Entries expire by its own clock, a lease time after they were stored.
///
/// Each call ends within the request timeout of the store.
pub trait Bucket: Send + Sync + 'static {
    /// Opens it, and makes it if nobody has.
    ///
    /// # Errors
    /// If it cannot be used, now or at all.
    fn open(&self) -> BoxFuture<'_, Result<Opened, OpenError>>;

    /// Stores a value under a name if the last entry of that name has the expected sequence; 0: if there is none. Returns the new one.
    ///
    /// # Errors
    /// See [`BucketError`].
    fn publish<'a>(&'a self, name: &'a str, expected: u64, value: Bytes) -> BoxFuture<'a, Result<u64, BucketError>>;

    /// Returns the last entry of a name, as the server in charge knows it.
    ///
    /// # Errors
    /// See [`BucketError`].
    fn last<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Stored>, BucketError>>;

    /// Removes the entry with a sequence and no other.
    ///
    /// # Errors
    /// See [`BucketError`].
    fn delete(&self, sequence: u64) -> BoxFuture<'_, Result<(), BucketError>>;
}
