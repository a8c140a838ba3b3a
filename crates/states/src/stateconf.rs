//! `stateconf`: settings of an SLS file that the renderer of that name reads. Nothing is done.

use exec::{KwArgs, Module, Result, function};

use crate::Ret;

/// The module.
pub static MODULE: Module =
    Module::new("stateconf", "Settings of files for the renderer stateconf.", &[&CONTEXT, &SET]);

fn nothing(name: String) -> Ret {
    Ret { result: Some(true), ..Ret::new(name) }
}

/// Holds settings.
#[function]
fn context(name: String, kwargs: KwArgs) -> Result<Ret> {
    let _ = kwargs;
    Ok(nothing(name))
}

/// Holds settings.
#[function]
fn set(name: String, kwargs: KwArgs) -> Result<Ret> {
    let _ = kwargs;
    Ok(nothing(name))
}
