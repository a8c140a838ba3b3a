//! What is refused, in one form.

use exec::{Error, Result};

/// Refuses a function with what is missing.
pub fn refuse<T>(what: &str) -> Result<T> {
    Err(Error::execution(format!("not supported: {what}")))
}
