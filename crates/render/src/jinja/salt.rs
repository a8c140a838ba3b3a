//! The object `salt`: execution functions in templates.

use std::sync::Arc;

use jinja::value::Object;
use jinja::{CallArgs, Dict, Error, ErrorKind, State, Value, ValueIter};

use super::session::Session;
use crate::convert;

/// `salt`: functions by their full name, and modules as attributes.
pub(super) struct Functions(Arc<Session>);

/// `salt.cmd`.
struct Module {
    session: Arc<Session>,
    name: String,
}

/// `salt['cmd.run']`.
struct Function {
    session: Arc<Session>,
    name: String,
}

impl Functions {
    pub fn new(session: &Arc<Session>) -> Self {
        Functions(Arc::clone(session))
    }

    fn function(&self, name: &str) -> Option<Value> {
        function(&self.0, name)
    }

    fn names(&self) -> Vec<String> {
        let registry = self.0.ctx.agent.registry();
        let functions = registry.functions().filter(|(module, _)| registry.permits(module));
        functions.map(|(module, function)| format!("{module}.{}", function.name)).collect()
    }
}

fn function(session: &Arc<Session>, name: &str) -> Option<Value> {
    let registry = session.ctx.agent.registry();
    // The whitelist of modules holds in templates as well: `salt['cmd.run']` must not escape it.
    if registry.find_permitted(name).is_err() {
        let hint = registry.python_hint(name);
        if !hint.is_empty() {
            tracing::error!("a template calls a function that is not there:{hint}");
        }
        return None;
    }
    Some(Value::object(Function { session: Arc::clone(session), name: name.to_owned() }))
}

impl Object for Functions {
    fn type_name(&self) -> &str {
        "AliasedLoader"
    }

    fn module(&self) -> Option<&str> {
        Some("salt.utils.templates")
    }

    fn get_attr(&self, _state: &mut State, name: &str) -> Result<Option<Value>, Error> {
        let registry = self.0.ctx.agent.registry();
        // The same for `salt.cmd.run`: attributes of the loader are a second way to the same functions.
        if registry.permits(name) && registry.modules().any(|module| module.name == name) {
            let module = Module { session: Arc::clone(&self.0), name: name.to_owned() };
            return Ok(Some(Value::object(module)));
        }
        let session = Arc::clone(&self.0);
        Ok(match name {
            // After the modules: a module called `get` would hide the method, as in Python.
            "get" => Some(Value::function("get", move |call| {
                let [key, default] = call.bind("get", [("key", None), ("default", Some(Value::None))])?;
                Ok(key.as_str().and_then(|name| function(&session, name)).unwrap_or(default))
            })),
            "keys" => {
                let names = self.names();
                Some(Value::function("keys", move |_| {
                    Ok(Value::list(names.iter().map(|n| Value::str(n.as_str())).collect()))
                }))
            }
            _ => None,
        })
    }

    fn get_item(&self, _state: &mut State, key: &Value) -> Result<Option<Value>, Error> {
        Ok(key.as_str().and_then(|name| self.function(name)))
    }

    fn contains(&self, _state: &mut State, value: &Value) -> Result<Option<bool>, Error> {
        Ok(Some(value.as_str().is_some_and(|name| self.function(name).is_some())))
    }

    fn iterate(&self, _state: &mut State) -> Result<Option<Box<dyn ValueIter>>, Error> {
        Ok(Some(Box::new(Names(self.names().into_iter()))))
    }

    fn has_items(&self) -> bool {
        true
    }
}

struct Names(std::vec::IntoIter<String>);

impl ValueIter for Names {
    fn next(&mut self, _state: &mut State) -> Result<Option<Value>, Error> {
        Ok(self.0.next().map(Value::from))
    }
}

impl Object for Module {
    fn type_name(&self) -> &str {
        "LoadedMod"
    }

    fn module(&self) -> Option<&str> {
        Some("salt.loader.lazy")
    }

    fn get_attr(&self, _state: &mut State, name: &str) -> Result<Option<Value>, Error> {
        Ok(function(&self.session, &format!("{}.{name}", self.name)))
    }

    fn repr(&self, _state: &mut State) -> Result<Option<String>, Error> {
        Ok(Some(format!("<LoadedMod module='salt.loaded.{}'>", self.name)))
    }
}

impl Object for Function {
    fn type_name(&self) -> &str {
        "LoadedFunc"
    }

    fn module(&self) -> Option<&str> {
        Some("salt.loader.lazy")
    }

    fn is_callable(&self) -> bool {
        true
    }

    fn call(&self, args: &mut CallArgs) -> Result<Value, Error> {
        run(&self.session, &self.name, args)
    }

    fn repr(&self, _state: &mut State) -> Result<Option<String>, Error> {
        Ok(Some(format!("<LoadedFunc name='{}'>", self.name)))
    }
}

/// Calls an execution function with the arguments of a call in a template.
pub(crate) fn call(args: &mut CallArgs, name: &str) -> Result<Value, Error> {
    let session = Session::of(args.state).ok_or_else(|| Error::runtime(format!("'{name}' is not available.")))?;
    run(&session, name, args)
}

/// Functions that change the map they are given and return it.
const IN_PLACE: [&str; 3] = ["defaults.merge", "defaults.update", "slsutil.update"];

/// Returns the dictionary that the function changes in place, if it does.
fn changed(name: &str, args: &CallArgs) -> Option<Dict> {
    if !IN_PLACE.contains(&name) {
        return None;
    }
    let named = |wanted: &str| args.kwargs.iter().find(|(name, _)| &**name == wanted).map(|(_, value)| value);
    // Both functions of `defaults` have `in_place` in the fourth place.
    let in_place = args.args.get(3).filter(|_| name != "slsutil.update").or_else(|| named("in_place"));
    // Only `false` itself; all three functions change in place by default.
    if matches!(in_place, Some(Value::Bool(false))) {
        return None;
    }
    args.args.first().or_else(|| named("dest")).and_then(Value::as_dict).cloned()
}

/// Adds `unmask=True` to calls of functions that would otherwise mask the pillar: templates see its real values.
fn seeing_pillar(session: &Session, name: &str, mut call: exec::Call) -> exec::Call {
    let registry = session.ctx.agent.registry();
    let place = registry.find(name).ok().and_then(|function| {
        let place = function.params.iter().position(|param| param.name == "unmask")?;
        Some(if function.params[place].keyword_only { usize::MAX } else { place })
    });
    // An argument by position already decides it.
    if place.is_some_and(|place| place >= call.args.len()) && !call.kwargs.contains_key("unmask") {
        call.kwargs.insert("unmask", true);
    }
    call
}

/// Returns what a plain `pillar.get` finds, as the shared object: a template that changes it changes it for later
/// templates.
fn of_pillar(session: &Session, name: &str, args: &CallArgs) -> Option<Value> {
    let plain =
        name == "pillar.get" && args.args.len() <= 2 && args.kwargs.iter().all(|(name, _)| &**name == "default");
    let key = args.args.first().filter(|_| plain)?.as_str()?;
    let found = key.split(':').try_fold(session.pillar.clone(), |place, part| place.as_dict()?.get_str(part))?;
    matches!(found, Value::Dict(_) | Value::List(_)).then_some(found)
}

/// Functions that return their default unchanged, even when it is undefined.
const LOOK_UPS: [&str; 4] = ["config.get", "config.option", "environ.get", "grains.get"];

/// The placeholder for an undefined default during such a call.
const UNDEFINED: &str = "\0undefined";

/// Replaces an undefined default by the placeholder and returns it.
fn undefined_default(name: &str, args: &mut CallArgs) -> Option<Value> {
    if !LOOK_UPS.contains(&name) {
        return None;
    }
    let default = match args.args.get_mut(1) {
        Some(second) => second,
        None => args.kwargs.iter_mut().find(|(name, _)| &**name == "default").map(|(_, value)| value)?,
    };
    matches!(default, Value::Undefined(_)).then(|| std::mem::replace(default, Value::from(UNDEFINED)))
}

fn run(session: &Session, name: &str, args: &mut CallArgs) -> Result<Value, Error> {
    session.ctx.unless_killed();
    if let Some(value) = of_pillar(session, name, args) {
        return Ok(value);
    }
    let changed = changed(name, args);
    let undefined = undefined_default(name, args);
    let call = seeing_pillar(session, name, convert::arguments(args)?);
    // Deep templates run on threads of the engine, which belong to no runtime.
    let _inside = session.runtime.as_ref().map(tokio::runtime::Handle::enter);
    let result = session.ctx.call_permitted(name, call);
    match (result, changed) {
        (Ok(value), _) if value.as_str() == Some(UNDEFINED) => Ok(undefined.unwrap_or_else(|| convert::seen(&value))),
        (Ok(value::Value::Map(map)), Some(dict)) => {
            let new = convert::seen_map(&map).entries();
            // The very dictionary of the template is refilled, because other variables may refer to it.
            dict.lock().clear();
            for (key, value) in new {
                dict.insert(jinja::Key::new(key)?, value);
            }
            Ok(Value::Dict(dict))
        }
        (Ok(value), _) => Ok(convert::seen(&value)),
        (Err(error), _) => Err(failure(&error)),
    }
}

/// Converts an error of a function to the exception that Salt raises.
fn failure(error: &exec::Error) -> Error {
    let text = error.to_string();
    match error {
        exec::Error::Execution(_) | exec::Error::Detailed { .. } => Error::other("CommandExecutionError", text),
        exec::Error::Invocation(_) => Error::other("SaltInvocationError", text),
        exec::Error::CommandNotFound(_) => Error::other("CommandNotFoundError", text),
        exec::Error::Arguments(_) => Error::type_error(text),
        exec::Error::NotAvailable(_) => Error::new(ErrorKind::Key, text),
        exec::Error::Terminated => Error::other("SaltSystemExit", text),
        exec::Error::Other(_) => Error::other("Exception", text),
    }
}
