//! Functions and modules as entries of a table.

use std::future::Future;
use std::pin::Pin;

use value::{Map, Value};

use crate::{Error, FromArg, KwArgs, Result, VarArgs};

/// The future of an asynchronous function's result.
pub type CallFuture<'a> = Pin<Box<dyn Future<Output = Result<Value>> + Send + 'a>>;

/// A module: a Salt name with functions. Runners and wheel modules differ in the context their functions get.
pub struct Module<C: 'static> {
    /// The name it is called by, such as `cmd`.
    pub name: &'static str,
    /// The documentation: a line with its purpose, then details.
    pub doc: &'static str,
    /// Its functions, in alphabetical order.
    pub functions: &'static [&'static Function<C>],
    /// Returns an error with the reason if the module does not work on a machine with these grains (Salt's
    /// `__virtual__`).
    pub virtual_: fn(&Map) -> std::result::Result<(), String>,
    /// Salt's name for this one of several modules of one name (`aptpkg` of `pkg`), which the option `providers` uses.
    pub provider: Option<&'static str>,
}

impl<C> Clone for Module<C> {
    fn clone(&self) -> Self {
        Module { ..*self }
    }
}

impl<C> Module<C> {
    /// Returns a module that works on every machine.
    pub const fn new(name: &'static str, doc: &'static str, functions: &'static [&'static Function<C>]) -> Self {
        Module { name, doc, functions, virtual_: |_| Ok(()), provider: None }
    }

    /// Restricts the module to machines on which the test passes.
    pub const fn only_if(mut self, test: fn(&Map) -> std::result::Result<(), String>) -> Self {
        self.virtual_ = test;
        self
    }

    /// Marks the module as one of several of its name.
    pub const fn provided_by(mut self, name: &'static str) -> Self {
        self.provider = Some(name);
        self
    }

    /// Returns the function of this name within the module.
    pub fn function(&self, name: &str) -> Option<&'static Function<C>> {
        self.functions.iter().find(|function| function.name == name).copied()
    }
}

/// An execution function; the `#[function]` attribute makes these.
pub struct Function<C: 'static> {
    /// The name within its module.
    pub name: &'static str,
    /// The documentation, as `sys.doc` shows it.
    pub doc: &'static str,
    /// The named parameters, in order.
    pub params: &'static [Param],
    /// The name of the parameter that takes the remaining positional arguments.
    pub varargs: Option<&'static str>,
    /// The name of the parameter that takes the remaining keyword arguments.
    pub kwargs: Option<&'static str>,
    /// The outputter the result wants, if not the usual one.
    pub out: Option<&'static str>,
    /// The implementation.
    pub body: Body<C>,
}

/// The implementation of a function: almost all are plain Rust functions on a thread of their job.
pub enum Body<C: 'static> {
    /// A plain function. What it waits for, it waits for on its thread.
    Plain(fn(&C, Bound) -> Result<Value>),
    /// A function that mostly waits, and needs no thread in the meantime. A simulated minion can wait only with these.
    Async(for<'a> fn(&'a C, Bound) -> CallFuture<'a>),
}

impl<C> Clone for Body<C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Body<C> {}

impl<C> Function<C> {
    /// Calls the function from asynchronous code. A plain one blocks the caller's thread.
    ///
    /// # Errors
    /// Those of the function.
    pub async fn call_async(&self, ctx: &C, bound: Bound) -> Result<Value> {
        match self.body {
            Body::Plain(call) => call(ctx, bound),
            Body::Async(call) => call(ctx, bound).await,
        }
    }
}

/// A named parameter.
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// Returns the default; `None` if the parameter is required.
    pub default: Option<fn() -> Value>,
    /// True if it can only be given by name (it follows `*args`).
    pub keyword_only: bool,
}

/// Arguments in the order of the parameters, ready for a call.
#[derive(Debug, Default)]
pub struct Bound {
    /// One entry per parameter.
    pub values: std::collections::VecDeque<Value>,
    /// The values for `*args`.
    pub varargs: Vec<Value>,
    /// The values for `**kwargs`.
    pub kwargs: Map,
}

impl Bound {
    /// Takes the next parameter's value in the type the function wants. Used by the attribute.
    pub fn take<T: FromArg>(&mut self, name: &str) -> Result<T> {
        // The generated code takes all values in the order of the parameters.
        let value = self.values.pop_front().unwrap_or_default();
        T::from_arg(value).map_err(|expected| Error::Invocation(format!("argument '{name}' must be {expected}")))
    }

    /// Takes the next parameter's value as text. `None` means the default: states and templates pass it for arguments
    /// that were not given. Used by the attribute.
    pub fn take_text(&mut self, name: &str, default: impl FnOnce() -> Value) -> Result<String> {
        if let Some(value) = self.values.front_mut().filter(|value| value.is_null()) {
            *value = default();
        }
        self.take(name)
    }

    /// Takes the remaining positional arguments.
    pub fn take_varargs(&mut self) -> VarArgs {
        VarArgs(std::mem::take(&mut self.varargs))
    }

    /// Takes the remaining keyword arguments.
    pub fn take_kwargs(&mut self) -> KwArgs {
        KwArgs(std::mem::take(&mut self.kwargs))
    }
}
