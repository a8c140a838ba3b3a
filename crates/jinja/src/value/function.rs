//! Callable values and their arguments.

use std::sync::Arc;

use super::{Str, Value};
use crate::error::Error;
use crate::run::State;

/// Keyword arguments in the order they were given.
pub type Kwargs = Vec<(Str, Value)>;

/// The arguments of a call, and the rendering it happens in.
pub struct CallArgs<'a> {
    /// The rendering: its environment, variables and limits.
    pub state: &'a mut State,
    /// The arguments by position.
    pub args: Vec<Value>,
    /// The arguments by name.
    pub kwargs: Kwargs,
}

/// A parameter of a function: its name and, if it may be left out, its default.
pub type Param = (&'static str, Option<Value>);

impl<'a> CallArgs<'a> {
    /// Creates arguments by position.
    pub fn new(state: &'a mut State, args: Vec<Value>) -> Self {
        CallArgs { state, args, kwargs: Vec::new() }
    }

    /// Distributes the arguments to named parameters, with Python's errors when they do not match.
    ///
    /// `function` is the name the errors give to the function. Parameters without a default are required.
    pub fn bind<const N: usize>(&mut self, function: &str, params: [Param; N]) -> Result<[Value; N], Error> {
        let given = self.args.len();
        if given > N {
            return Err(too_many(function, &params, given));
        }
        let mut bound: [Option<Value>; N] = std::array::from_fn(|_| None);
        for (slot, value) in bound.iter_mut().zip(self.args.drain(..)) {
            *slot = Some(value);
        }
        for (name, value) in self.kwargs.drain(..) {
            match params.iter().position(|(param, _)| *param == &*name) {
                Some(index) if bound[index].is_some() => {
                    return Err(Error::type_error(format!("{function}() got multiple values for argument '{name}'")));
                }
                Some(index) => bound[index] = Some(value),
                None => {
                    return Err(Error::type_error(format!("{function}() got an unexpected keyword argument '{name}'")));
                }
            }
        }
        // Surplus and unknown arguments are reported before missing ones: the order in which Python finds them.
        let absent: Vec<&str> = params
            .iter()
            .zip(&bound)
            .filter(|((_, default), value)| value.is_none() && default.is_none())
            .map(|((name, _), _)| *name)
            .collect();
        if !absent.is_empty() {
            return Err(missing(function, &absent));
        }
        let mut params = params.into_iter();
        Ok(bound.map(|value| {
            let (_, default) = params.next().unwrap_or(("", None));
            value.or(default).unwrap_or_default()
        }))
    }

    /// Fails, as Python's builtin functions do, when there are keyword arguments.
    pub fn no_kwargs(&self, function: &str) -> Result<(), Error> {
        if self.kwargs.is_empty() {
            return Ok(());
        }
        Err(Error::type_error(format!("{function}() takes no keyword arguments")))
    }

    /// Removes a keyword argument and returns it.
    pub fn take_kwarg(&mut self, name: &str) -> Option<Value> {
        let index = self.kwargs.iter().position(|(key, _)| &**key == name)?;
        Some(self.kwargs.remove(index).1)
    }
}

/// Returns 1 if the Python function has a hidden first argument (`self`, the environment or the context), which Python
/// counts in its messages.
fn hidden(function: &str) -> usize {
    const WITH_CONTEXT: &[&str] = &[
        "do_attr",
        "do_last",
        "do_max",
        "do_min",
        "do_random",
        "do_replace",
        "do_sort",
        "do_tojson",
        "do_truncate",
        "do_urlize",
        "do_wordwrap",
        "do_xmlattr",
        "sync_do_first",
        "sync_do_groupby",
        "sync_do_join",
        "sync_do_sum",
        "sync_do_unique",
        "test_filter",
        "test_test",
    ];
    usize::from(function.contains('.') || WITH_CONTEXT.contains(&function))
}

fn too_many(function: &str, params: &[Param], given: usize) -> Error {
    let hidden = hidden(function);
    // Python counts the hidden argument both in what it takes and in what was given.
    let (most, given) = (params.len() + hidden, given + hidden);
    let least = params.iter().filter(|(_, default)| default.is_none()).count() + hidden;
    let were = if given == 1 { "was" } else { "were" };
    let takes = if least == most { format!("{most}") } else { format!("from {least} to {most}") };
    let plural = if most == 1 { "" } else { "s" };
    Error::type_error(format!("{function}() takes {takes} positional argument{plural} but {given} {were} given"))
}

pub(crate) fn missing(function: &str, missing: &[&str]) -> Error {
    let quoted: Vec<String> = missing.iter().map(|name| format!("'{name}'")).collect();
    let names = match quoted.as_slice() {
        [one] => one.clone(),
        [first, second] => format!("{first} and {second}"),
        // Python writes the serial comma from three names on, but not between two.
        [head @ .., last] => format!("{}, and {last}", head.join(", ")),
        [] => String::new(),
    };
    let plural = if missing.len() == 1 { "" } else { "s" };
    let count = missing.len();
    Error::type_error(format!("{function}() missing {count} required positional argument{plural}: {names}"))
}

/// The code of a function.
pub type Native = Arc<dyn Fn(&mut CallArgs) -> Result<Value, Error> + Send + Sync>;

/// The kinds of callable objects that Python distinguishes when it prints them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FunctionKind {
    /// A function written in Python.
    Function,
    /// A function of the interpreter.
    Builtin,
    /// A method bound to an object of the interpreter, with the type of that object.
    Method(Str),
    /// A type, which makes objects when it is called.
    Type(Str),
}

/// A function, method or type.
pub struct Function {
    /// Its name.
    pub name: Str,
    /// The kind, as Python prints it.
    pub kind: FunctionKind,
    /// The code.
    pub call: Native,
}

impl Function {
    /// Creates a function of the host.
    pub fn new(name: &str, call: impl Fn(&mut CallArgs) -> Result<Value, Error> + Send + Sync + 'static) -> Self {
        Function { name: name.into(), kind: FunctionKind::Function, call: Arc::new(call) }
    }

    /// Creates a type: it prints as `<class '…'>`.
    pub fn class(
        name: &str,
        path: &str,
        call: impl Fn(&mut CallArgs) -> Result<Value, Error> + Send + Sync + 'static,
    ) -> Self {
        Function { name: name.into(), kind: FunctionKind::Type(path.into()), call: Arc::new(call) }
    }

    pub(crate) fn type_name(&self) -> &str {
        match self.kind {
            FunctionKind::Function => "function",
            FunctionKind::Builtin | FunctionKind::Method(_) => "builtin_function_or_method",
            FunctionKind::Type(_) => "type",
        }
    }

    pub(crate) fn repr(&self, address: usize) -> String {
        match &self.kind {
            FunctionKind::Function => format!("<function {} at {address:#x}>", self.name),
            FunctionKind::Builtin => format!("<built-in function {}>", self.name),
            FunctionKind::Method(of) => format!("<built-in method {} of {of} object at {address:#x}>", self.name),
            FunctionKind::Type(path) => format!("<class '{path}'>"),
        }
    }
}
