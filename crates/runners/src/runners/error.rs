//! `error` — a failure on purpose.

use exec::{Result, function};
use value::Map;

use crate::exceptions::on_purpose;
use crate::{Module, RunnerContext};

/// The functions of the runner `error`.
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
