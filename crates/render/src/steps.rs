//! The renderers.

pub mod gpg;
pub mod json;
pub(crate) mod stateconf;
mod stateconf_ids;
pub mod yaml;

use value::Value;

use crate::Error;

/// Returns the text a renderer wants. What an earlier one made data of cannot be read as text again.
pub(crate) fn text(data: Value) -> Result<String, Error> {
    match data {
        Value::Str(text) => Ok(text),
        Value::List(_) | Value::Map(_) => {
            Err(Error::new(format!("'{}' object has no attribute 'read'", data.type_name())))
        }
        other => Ok(other.to_string()),
    }
}
