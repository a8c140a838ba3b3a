//! `error` — a failure on purpose.

use exec::{Error, Result, function};
use value::Map;

use crate::{Module, RunnerContext};

/// The module.
pub static MODULE: Module = Module::new("error", "A failure on purpose.", &[&ERROR]);

/// Fails with an exception of a name, or returns an empty map without one.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run error.error
///     salt-run error.error name="Exception" message="This is an error."
#[function]
async fn error(_ctx: &RunnerContext, name: Option<String>, #[default("")] message: String) -> Result<Map> {
    match name {
        None => Ok(Map::new()),
        Some(name) => Err(on_purpose(&name, &message)),
    }
}

/// Makes a failure that shows as an exception of the name.
pub(crate) fn on_purpose(name: &str, message: &str) -> Error {
    let name = if name.is_empty() { "Exception" } else { name };
    if matches!(name, "SaltInvocationError" | "TypeError") {
        return Error::Invocation(message.to_owned());
    }
    Error::Other(format!("{name}: {message}"))
}
