//! The refusals of unsupported functions.

use exec::{Error, Result};

/// Refuses a function; `what` names the part that is not supported.
pub fn refuse<T>(what: &str) -> Result<T> {
    Err(Error::execution(format!("not supported: {what}")))
}
