//! Macros and references to blocks.

use std::sync::Arc;

use super::context::Context;
use super::exec;
use super::frame::{Captured, Cell, Frame};
use super::state::State;
use crate::compile::MacroCode;
use crate::error::{Error, ErrorKind};
use crate::python::repr_str;
use crate::template::Template;
use crate::value::{CallArgs, Dict, Key, Object, Str, Undefined, Value, lock};

/// A macro with the variables around its definition.
pub(super) struct Macro {
    code: Arc<MacroCode>,
    captured: Captured,
    template: Template,
    context: Arc<Context>,
}

impl Macro {
    pub fn new(code: Arc<MacroCode>, frame: &mut Frame) -> Self {
        let captured = frame.capture(&code.func);
        Macro { code, captured, template: frame.template.clone(), context: frame.context.clone() }
    }

    /// The variables it shares with the code around its definition.
    pub fn shared(&self) -> impl Iterator<Item = &Cell> {
        self.captured.iter().map(|(_, cell)| cell)
    }

    fn printed_name(&self) -> String {
        self.code.name.as_deref().map_or_else(|| "None".to_string(), repr_str)
    }

    /// Binds the arguments to the macro's parameters, with Jinja's errors.
    fn bind(&self, frame: &mut Frame, args: &mut CallArgs) -> Result<(), Error> {
        let params = &self.code.params;
        let count = params.len();
        let mut given = std::mem::take(&mut args.args).into_iter();
        let mut found_caller = false;
        for (at, (name, slot, _)) in params.iter().enumerate() {
            match given.next() {
                Some(value) => {
                    frame.set(*slot, value);
                    // When all parameters got positional values, Jinja takes an explicit `caller` among them for given.
                    found_caller |= at + 1 == count && params.iter().any(|(name, ..)| &**name == "caller");
                }
                None => {
                    found_caller |= &**name == "caller";
                    if let Some(value) = args.take_kwarg(name) {
                        frame.set(*slot, value);
                    }
                }
            }
        }
        let rest: Vec<Value> = given.collect();
        if let Some(slot) = self.code.caller
            && !found_caller
        {
            // Jinja cannot distinguish `caller=none` from no caller.
            let caller = args.take_kwarg("caller").filter(|caller| !caller.is_none());
            let kind = args.state.env().undefined;
            let caller = caller.unwrap_or_else(|| Undefined::hint(kind, "No caller defined", Value::str("caller")));
            frame.set(slot, caller);
        }
        if let Some(slot) = self.code.kwargs {
            let kwargs = Dict::new();
            for (name, value) in args.kwargs.drain(..) {
                kwargs.insert(Key::str(name), value);
            }
            frame.set(slot, Value::Dict(kwargs));
        } else if let Some((name, _)) = args.kwargs.first() {
            // A `{% call %}` block whose macro also got `caller=` by hand.
            let text = if args.kwargs.iter().any(|(name, _)| &**name == "caller") {
                format!(
                    "macro {} was invoked with two values for the special caller argument. This is most likely a bug.",
                    self.printed_name()
                )
            } else {
                format!("macro {} takes no keyword argument {}", self.printed_name(), repr_str(name))
            };
            return Err(Error::type_error(text));
        }
        if let Some(slot) = self.code.varargs {
            frame.set(slot, Value::tuple(rest));
        } else if !rest.is_empty() {
            let text = format!("macro {} takes not more than {count} argument(s)", self.printed_name());
            return Err(Error::type_error(text));
        }
        Ok(())
    }

    fn run(&self, frame: &mut Frame, state: &mut State) -> Result<String, Error> {
        frame.enter(&self.code.func.enter);
        for (name, slot, default) in &self.code.params {
            // Defaults are evaluated at each call, after the arguments are bound: a default may use the parameters
            // before it.
            if frame.get(*slot).is_some() {
                continue;
            }
            let value = match default {
                Some(default) => frame.eval(state, default)?,
                None => {
                    let hint = format!("parameter {} was not provided", repr_str(name));
                    Undefined::hint(state.env().undefined, hint, Value::Str(name.clone()))
                }
            };
            frame.set(*slot, value);
        }
        let mut out = String::new();
        exec::body(state, frame, &self.code.func.body, &mut out)?;
        Ok(out)
    }
}

impl Object for Macro {
    fn type_name(&self) -> &str {
        "Macro"
    }

    fn module(&self) -> Option<&str> {
        Some("jinja2.runtime")
    }

    fn get_attr(&self, _: &mut State, name: &str) -> Result<Option<Value>, Error> {
        let code = &self.code;
        Ok(Some(match name {
            "name" => code.name.clone().map_or(Value::None, Value::Str),
            "arguments" => Value::tuple(code.params.iter().map(|(name, ..)| Value::Str(name.clone())).collect()),
            "catch_kwargs" => Value::Bool(code.kwargs.is_some()),
            "catch_varargs" => Value::Bool(code.varargs.is_some()),
            "caller" => Value::Bool(code.caller.is_some()),
            "explicit_caller" => Value::Bool(code.params.iter().any(|(name, ..)| &**name == "caller")),
            _ => return Ok(None),
        }))
    }

    fn is_callable(&self) -> bool {
        true
    }

    fn call(&self, args: &mut CallArgs) -> Result<Value, Error> {
        let mut frame = Frame::new(&self.code.func, &self.template, &self.context, &self.captured);
        self.bind(&mut frame, args)?;
        let state = &mut *args.state;
        let before = frame.activate(state);
        let result = self.run(&mut frame, state);
        (state.context, state.loop_vars) = before;
        let text = result.map_err(|error| error.at(&self.template.code.name, frame.line, &self.code.func.location))?;
        // The macro has escaped what it printed; escaping its result again would show the entities.
        Ok(if frame.autoescape { Value::markup(text) } else { Value::str(text) })
    }

    fn repr(&self, _: &mut State) -> Result<Option<String>, Error> {
        // The body of a `{% call %}` block has no name.
        let name = self.code.name.as_deref().map_or_else(|| "anonymous".to_string(), repr_str);
        Ok(Some(format!("<Macro {name}>")))
    }
}

/// `self` in a template: its blocks by name.
pub(super) struct TemplateReference {
    pub context: Arc<Context>,
}

impl Object for TemplateReference {
    fn type_name(&self) -> &str {
        "TemplateReference"
    }

    fn module(&self) -> Option<&str> {
        Some("jinja2.runtime")
    }

    fn has_items(&self) -> bool {
        true
    }

    fn get_item(&self, _: &mut State, key: &Value) -> Result<Option<Value>, Error> {
        let Some(name) = key.as_shared_str() else { return Ok(None) };
        let known = lock(&self.context.blocks).contains_key(name);
        let reference = || BlockReference { name: name.clone(), context: self.context.clone(), depth: 0 };
        Ok(known.then(|| Value::object(reference())))
    }

    fn repr(&self, _: &mut State) -> Result<Option<String>, Error> {
        let name = self.context.name.as_deref().map_or_else(|| "None".to_string(), repr_str);
        Ok(Some(format!("<TemplateReference {name}>")))
    }
}

/// A block at a depth of its stack; calling it returns its text.
pub(super) struct BlockReference {
    pub name: Str,
    pub context: Arc<Context>,
    pub depth: usize,
}

impl Object for BlockReference {
    fn type_name(&self) -> &str {
        "BlockReference"
    }

    fn module(&self) -> Option<&str> {
        Some("jinja2.runtime")
    }

    fn get_attr(&self, state: &mut State, name: &str) -> Result<Option<Value>, Error> {
        Ok(match name {
            "name" => Some(Value::Str(self.name.clone())),
            "super" => {
                let depth = self.depth + 1;
                let count = lock(&self.context.blocks).get(&self.name).map_or(0, Vec::len);
                Some(if depth < count {
                    Value::object(BlockReference { name: self.name.clone(), context: self.context.clone(), depth })
                } else {
                    exec::no_parent_block(state, &self.name)
                })
            }
            _ => None,
        })
    }

    fn is_callable(&self) -> bool {
        true
    }

    fn call(&self, args: &mut CallArgs) -> Result<Value, Error> {
        if !args.args.is_empty() || !args.kwargs.is_empty() {
            let count = args.args.len() + 1;
            let text = format!("BlockReference.__call__() takes 1 positional argument but {count} were given");
            return Err(Error::new(ErrorKind::Type, text));
        }
        let mut out = String::new();
        exec::block(args.state, &self.context, &self.name, self.depth, &mut out)?;
        Ok(Value::str(out))
    }
}
