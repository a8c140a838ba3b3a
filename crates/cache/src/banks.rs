//! The interface of a driver.

use bytes::Bytes;
use futures_util::future::BoxFuture;

/// The bank and the key of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The bank, a path such as `grains` or `minions/web1`.
    pub bank: String,
    /// The key.
    pub key: String,
}

impl Place {
    /// Names a value.
    pub fn new(bank: impl Into<String>, key: impl Into<String>) -> Self {
        Place { bank: bank.into(), key: key.into() }
    }
}

/// The answer of a server, or its reason for failing.
pub type Outcome<T> = Result<T, Failure>;

/// An answer that is waited for.
pub type Answer<'a, T> = BoxFuture<'a, Outcome<T>>;

/// The reasons why a server failed. The text contains no values and no passwords.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct Failure {
    reason: String,
    /// No connection could be opened.
    unreached: bool,
}

impl Failure {
    /// Takes the reason.
    pub fn new(reason: impl ToString) -> Self {
        Failure { reason: reason.to_string(), unreached: false }
    }

    /// Takes the reason why there is no connection.
    pub(crate) fn unreached(reason: impl ToString) -> Self {
        Failure { reason: reason.to_string(), unreached: true }
    }

    /// Returns whether no connection could be opened.
    pub(crate) fn is_unreached(&self) -> bool {
        self.unreached
    }
}

/// Values by bank and key on a server, in the layout of one of Salt's drivers.
///
/// The caller checks banks and keys, packs values, and limits how long it waits.
pub trait Banks: Send + Sync {
    /// Writes a value and when that was, in seconds since 1970.
    fn store<'a>(&'a self, place: &'a Place, value: Vec<u8>, now: i64) -> Answer<'a, ()>;

    /// Returns what is stored in several places, in their order, in as few round trips as the server allows.
    fn fetch<'a>(&'a self, places: &'a [Place]) -> Answer<'a, Vec<Option<Vec<u8>>>>;

    /// Returns the packed value in what [`Self::fetch`] returns for a place, or why there is none.
    fn value(&self, stored: Bytes) -> Result<Bytes, String> {
        Ok(stored)
    }

    /// Returns when a value was last written, in seconds since 1970.
    fn updated<'a>(&'a self, place: &'a Place) -> Answer<'a, Option<i64>>;

    /// Removes a value, and returns whether it existed.
    fn flush<'a>(&'a self, place: &'a Place) -> Answer<'a, bool>;

    /// Removes a bank with the banks below it, and returns whether it existed.
    fn flush_bank<'a>(&'a self, bank: &'a str) -> Answer<'a, bool>;

    /// Returns the keys of a bank and the names of the banks directly below it, in no order.
    fn list<'a>(&'a self, bank: &'a str) -> Answer<'a, Vec<String>>;

    /// Returns whether there is a value.
    fn contains<'a>(&'a self, place: &'a Place) -> Answer<'a, bool>;

    /// Drops the connection. The next request opens another.
    fn reconnect(&self);
}
