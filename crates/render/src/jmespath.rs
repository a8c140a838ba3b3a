//! JMESPath, the language of the filter `json_query`, with the results and messages of its library for Python.
//!
//! Works on the objects of templates as they are: maps keep their order, integers have any size, and what is found is the
//! object itself, not a copy.

mod eval;
mod functions;
mod lexer;
mod parser;
#[cfg(test)]
mod tests;
mod tree;

use jinja::{Error, State, Value};

/// Longer expressions are parsed and evaluated on a separate stack.
const SHORT: usize = 200;

/// Searches a value.
///
/// # Errors
/// When the expression cannot be parsed, a function does not exist or refuses its arguments, or something undefined is
/// used.
pub fn search(state: &mut State, expression: &str, data: &Value) -> Result<Value, Error> {
    let run = |state: &mut State| {
        let tree = parser::parse(state, expression)?;
        eval::visit(state, &tree, data)
    };
    if expression.len() > SHORT { state.on_new_stack(run) } else { run(state) }
}
