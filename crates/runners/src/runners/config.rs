//! `config` — the master's options.

use exec::{Result, function};
use value::Value;

use crate::{Module, RunnerContext};

/// The functions of the runner `config`.
pub static MODULE: Module = Module::new("config", "The master's options.", &[&GET]);

/// Returns an option; a path selects values in maps and lists.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run config.get gitfs_remotes
///     salt-run config.get file_roots:base
///     salt-run config.get file_roots,base delimiter=','
#[function]
async fn get(
    ctx: &RunnerContext,
    key: String,
    #[default("")] default: Value,
    #[default(":")] delimiter: String,
) -> Result<Value> {
    let options = Value::Map(ctx.config.raw.clone());
    Ok(options.traverse(&key, &delimiter).cloned().unwrap_or(default))
}
