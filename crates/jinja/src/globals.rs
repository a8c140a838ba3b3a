//! Jinja's globals: `range`, `dict`, `namespace`, `cycler`, `joiner`, `lipsum`.

use std::sync::{Arc, Mutex};

use crate::env::Environment;
use crate::error::{Error, ErrorKind};
use crate::methods::dicts::update_from;
use crate::python::repr;
use crate::run::State;
use crate::value::{CallArgs, Dict, Function, Object, Range, Str, Tuple, Value, lock};

/// The longest range that Jinja's sandbox allows.
const MAX_RANGE: usize = 100_000;

/// Adds Jinja's globals to an environment.
pub(crate) fn install(env: &mut Environment) {
    let mut add = |name: &str, function: Function| {
        env.globals.insert(name.into(), Value::Function(Arc::new(function)));
    };
    // Error messages show the name of the sandbox's function, not `range`.
    add("range", Function::new("safe_range", range));
    add("dict", Function::class("dict", "dict", |call| make_dict(call, "dict")));
    add(
        "namespace",
        Function::class("Namespace", "jinja2.utils.Namespace", |call| {
            let Value::Dict(attributes) = make_dict(call, "dict")? else { return Ok(Value::None) };
            Ok(Value::object(Namespace { attributes }))
        }),
    );
    add(
        "cycler",
        Function::class("Cycler", "jinja2.utils.Cycler", |call| {
            if call.args.is_empty() {
                return Err(Error::new(ErrorKind::PythonRuntime, "at least one item has to be provided"));
            }
            Ok(Value::object(Cycler { items: Tuple::from(std::mem::take(&mut call.args)), at: Arc::default() }))
        }),
    );
    add(
        "joiner",
        Function::class("Joiner", "jinja2.utils.Joiner", |call| {
            let [sep] = call.bind("Joiner.__init__", [("sep", Some(Value::str(", ")))])?;
            Ok(Value::object(Joiner { sep: [sep].into(), used: Mutex::new(false) }))
        }),
    );
    // No known template uses it. COMPATIBILITY.md lists it among the things that templates cannot do.
    add("lipsum", Function::new("generate_lorem_ipsum", |_| Err(Error::runtime("not supported: lipsum"))));
}

fn make_dict(call: &mut CallArgs, name: &str) -> Result<Value, Error> {
    let given = call.args.len();
    if given > 1 {
        return Err(Error::type_error(format!("{name} expected at most 1 argument, got {given}")));
    }
    let dict = Dict::new();
    let kwargs = std::mem::take(&mut call.kwargs);
    update_from(call.state, &dict, call.args.first(), kwargs)?;
    Ok(Value::Dict(dict))
}

fn range(call: &mut CallArgs) -> Result<Value, Error> {
    if !call.kwargs.is_empty() {
        let name = &call.kwargs[0].0;
        return Err(Error::type_error(format!("safe_range() got an unexpected keyword argument '{name}'")));
    }
    let given = call.args.len();
    let mut numbers = [0i64, 0, 1];
    if given == 0 {
        return Err(Error::type_error("range expected at least 1 argument, got 0"));
    }
    if given > 3 {
        return Err(Error::type_error(format!("range expected at most 3 arguments, got {given}")));
    }
    // A single argument is the end, not the start.
    let offset = usize::from(given == 1);
    for (at, value) in call.args.iter().enumerate() {
        numbers[at + offset] = match value {
            // A bound beyond 64 bits always exceeds the sandbox's range, so that no separate error is needed.
            Value::Big(_) => return Err(too_big()),
            other => other.as_i64().ok_or_else(|| {
                let name = other.type_name();
                Error::type_error(format!("'{name}' object cannot be interpreted as an integer"))
            })?,
        };
    }
    let [start, stop, step] = numbers;
    if step == 0 {
        return Err(Error::value_error("range() arg 3 must not be zero"));
    }
    let range = Range { start, stop, step };
    // Checked before anything iterates: `range(10**9)` must not cost a step of the budget.
    if call.state.env().sandbox && range.len() > MAX_RANGE {
        return Err(too_big());
    }
    Ok(Value::Range(Arc::new(range)))
}

fn too_big() -> Error {
    let text = format!("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({MAX_RANGE}).");
    Error::new(ErrorKind::Overflow, text)
}

/// The only object whose attributes a template may set; it carries values out of a loop's scope.
pub(crate) struct Namespace {
    attributes: Dict,
}

impl Namespace {
    pub(crate) fn set(&self, name: &Str, value: Value) {
        self.attributes.insert_str(name.clone(), value);
    }
}

impl Object for Namespace {
    fn type_name(&self) -> &str {
        "Namespace"
    }

    fn module(&self) -> Option<&str> {
        Some("jinja2.utils")
    }

    fn get_attr(&self, _: &mut State, name: &str) -> Result<Option<Value>, Error> {
        Ok(self.attributes.get_str(name))
    }

    fn repr(&self, state: &mut State) -> Result<Option<String>, Error> {
        let attributes = repr(state, &Value::Dict(self.attributes.clone()))?;
        Ok(Some(format!("<Namespace {attributes}>")))
    }
}

struct Cycler {
    items: Tuple,
    at: Arc<Mutex<usize>>,
}

impl Object for Cycler {
    fn type_name(&self) -> &str {
        "Cycler"
    }

    fn module(&self) -> Option<&str> {
        Some("jinja2.utils")
    }

    fn get_attr(&self, _: &mut State, name: &str) -> Result<Option<Value>, Error> {
        let at = self.at.clone();
        Ok(Some(match name {
            "current" => self.items[*lock(&at)].clone(),
            "items" => Value::Tuple(self.items.clone()),
            "pos" => Value::from(*lock(&at)),
            "next" => {
                let items = self.items.clone();
                Value::function("next", move |call| {
                    call.bind("Cycler.next", [])?;
                    let mut at = lock(&at);
                    let item = items[*at].clone();
                    *at = (*at + 1) % items.len();
                    Ok(item)
                })
            }
            "reset" => Value::function("reset", move |call| {
                call.bind("Cycler.reset", [])?;
                *lock(&at) = 0;
                Ok(Value::None)
            }),
            _ => return Ok(None),
        }))
    }
}

struct Joiner {
    sep: Tuple,
    used: Mutex<bool>,
}

impl Object for Joiner {
    fn type_name(&self) -> &str {
        "Joiner"
    }

    fn module(&self) -> Option<&str> {
        Some("jinja2.utils")
    }

    fn get_attr(&self, _: &mut State, name: &str) -> Result<Option<Value>, Error> {
        Ok(match name {
            "sep" => Some(self.sep[0].clone()),
            "used" => Some(Value::Bool(*lock(&self.used))),
            _ => None,
        })
    }

    fn is_callable(&self) -> bool {
        true
    }

    fn call(&self, call: &mut CallArgs) -> Result<Value, Error> {
        call.bind("Joiner.__call__", [])?;
        let used = std::mem::replace(&mut *lock(&self.used), true);
        Ok(if used { self.sep[0].clone() } else { Value::str("") })
    }
}
