//! `error` — a failure on purpose.

use exec::{Result, function};
use value::Map;

use crate::exceptions::on_purpose;
use crate::{Module, WheelContext};

/// The wheel functions `error.*`.
pub static MODULE: Module = Module::new("error", "A failure on purpose.", &[&ERROR]);

/// Fails with an exception of a name, or returns an empty map without one.
#[function]
async fn error(_ctx: &WheelContext, name: Option<String>, #[default("")] message: String) -> Result<Map> {
    match name {
        None => Ok(Map::new()),
        Some(name) => Err(on_purpose(&name, &message)),
    }
}
