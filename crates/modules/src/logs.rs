//! `log` — lines in the log of the minion.

use exec::{Module, Result, function};
use value::Value;

/// Registers the functions of `log`.
pub static MODULE: Module = Module::new(
    "log",
    "Functions that write to the log of the minion.",
    &[&CRITICAL, &DEBUG, &ERROR, &EXCEPTION, &INFO, &WARNING],
);

/// Logs a message at the level debug.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' log.debug 'a message'
#[function]
fn debug(message: Value) -> Result<bool> {
    tracing::debug!("{message}");
    Ok(true)
}

/// Logs a message at the level info.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' log.info 'a message'
#[function]
fn info(message: Value) -> Result<bool> {
    tracing::info!("{message}");
    Ok(true)
}

/// Logs a message at the level warning.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' log.warning 'a message'
#[function]
fn warning(message: Value) -> Result<bool> {
    tracing::warn!("{message}");
    Ok(true)
}

/// Logs a message at the level error.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' log.error 'a message'
#[function]
fn error(message: Value) -> Result<bool> {
    tracing::error!("{message}");
    Ok(true)
}

/// Logs a message at the level critical; the log knows it as an error.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' log.critical 'a message'
#[function]
fn critical(message: Value) -> Result<bool> {
    // tracing has no level above ERROR.
    tracing::error!("{message}");
    Ok(true)
}

/// Logs a message at the level error.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' log.exception 'a message'
#[function]
fn exception(message: Value) -> Result<bool> {
    // There is no exception whose stack could be added.
    tracing::error!("{message}");
    Ok(true)
}
