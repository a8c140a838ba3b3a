//! Jinja templates with the semantics of Python.
//!
//! Templates behave as they do in Jinja2 3.1 on Python 3.11: values are Python's (lists and dictionaries are shared and
//! changed in place, integers have any size, containers print as Python prints them), with the methods, operators and
//! error texts of Python, Jinja's filters, tests and statements, its scoping and its sandbox.
//!
//! ```
//! use std::sync::Arc;
//! use saltern_jinja::{Environment, Template, UndefinedKind, Value, Vars};
//!
//! let mut env = Environment::new();
//! env.undefined = UndefinedKind::Strict;
//! env.add_filter("shout", |call| {
//!     let [text] = call.bind("shout", [("text", None)])?;
//!     Ok(Value::from(call.state.str(&text)?.to_uppercase()))
//! });
//! let env = Arc::new(env);
//! let template = Template::compile(&env, Some("greeting"), "{% do names.append('b') %}{{ names|join(', ')|shout }}")?;
//! let mut vars = Vars::default();
//! vars.insert("names".into(), Value::list(vec![Value::from("a")]));
//! assert_eq!(template.render(vars)?, "A, B");
//! # Ok::<(), saltern_jinja::Error>(())
//! ```
//!
//! # The parts
//!
//! - [`Environment`]: options, filters, tests, globals, tags of the host and the [`Loader`]. It is put into an `Arc` once
//!   it is complete.
//! - [`Template`]: compiled once, rendered often, from many threads.
//! - [`Value`]: a Python object. Hosts pass data as plain values, functions with [`Value::function`], and objects with
//!   behaviour as an [`Object`].
//! - [`CallArgs`]: what a function, filter or test gets. [`CallArgs::bind`] distributes arguments as Python does;
//!   [`CallArgs::state`] is the rendering: [`State::variables`] for contextual functions, [`State::call`] to call back.
//! - [`Error`]: class, text and the lines of all templates on the way.
//! - [`Limits`]: steps, output, depth and sizes; no template makes the process panic or use unbounded memory.

mod compile;
mod env;
mod error;
mod filters;
mod globals;
mod loader;
mod methods;
pub mod python;
mod run;
mod syntax;
mod template;
mod tests;
pub mod value;

pub use env::{Environment, Finalize, Limits, TagKind, Vars};
pub use error::{Error, ErrorKind, Place};
pub use loader::{Loaded, Loader, MapLoader, Source};
pub use run::State;
pub use syntax::Syntax;
pub use template::{RenderOptions, Template};
pub use value::{
    CallArgs, Dict, Function, Iter, Key, Kwargs, List, Object, Set, Str, Undefined, UndefinedKind, Value, ValueIter,
};
