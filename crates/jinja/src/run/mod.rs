//! Renders compiled templates.

mod context;
mod eval;
mod exec;
mod frame;
mod loops;
mod macros;
mod modules;
mod state;

pub(crate) use context::{Context, Scope};
pub use state::State;
pub(crate) use state::on_new_stack;

use std::sync::Arc;

use crate::env::Vars;
use crate::error::Error;
use crate::template::Template;

/// Renders a template with variables on top of the globals.
pub(crate) fn render(state: &mut State, template: &Template, vars: Vars) -> Result<String, Error> {
    let parent = Arc::new(Scope { vars, next: Some(state.globals()) });
    let context = Context::new(template, parent);
    state.note(&context);
    let mut out = String::new();
    exec::root(state, template, &context, &mut out)?;
    Ok(out)
}
