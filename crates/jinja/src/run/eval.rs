//! Evaluates expressions.

use std::sync::Arc;

use super::frame::Frame;
use super::state::State;
use crate::compile::{ArgsEx, Ex, NamedCall};
use crate::error::{Error, ErrorKind};
use crate::methods;
use crate::python::{self, CmpOp, truthy};
use crate::value::{Dict, Key, Kwargs, Str, Undefined, UndefinedKind, Value};

/// Python's errors name the function that passes the arguments on.
const CALLER: &str = "jinja2.sandbox.SandboxedEnvironment.call()";

impl Frame {
    pub(super) fn truth(&mut self, state: &mut State, ex: &Ex) -> Result<bool, Error> {
        match ex {
            Ex::Not(inner) => Ok(!self.truth(state, inner)?),
            // Where only the truth counts, the operands need not be kept.
            Ex::And(pair) => Ok(self.truth(state, &pair.0)? && self.truth(state, &pair.1)?),
            Ex::Or(pair) => Ok(self.truth(state, &pair.0)? || self.truth(state, &pair.1)?),
            _ => match self.eval(state, ex)? {
                Value::Bool(flag) => Ok(flag),
                value => truthy(state, &value),
            },
        }
    }

    pub(super) fn eval(&mut self, state: &mut State, ex: &Ex) -> Result<Value, Error> {
        match ex {
            Ex::Const(value) => Ok(value.clone()),
            Ex::Var(slot, name) => {
                Ok(self.get(*slot).unwrap_or_else(|| Undefined::variable(state.env().undefined, name)))
            }
            Ex::Captured => Ok(self.captured.take().unwrap_or_default()),
            Ex::Attr(node, name) => {
                // A variable that is not shared is looked into without taking another reference to it.
                if let Ex::Var(slot, _) = &**node
                    && let Some(Value::Dict(dict)) = self.peek(*slot)
                    && !methods::is_dict_method(name)
                    && let Some(found) = dict.get_str(name)
                {
                    return Ok(found);
                }
                let object = self.eval(state, node)?;
                self.attr(state, &object, name)
            }
            Ex::Item(node, index) => {
                let object = self.eval(state, node)?;
                let index = self.eval(state, index)?;
                python::get_item(state, &object, &index)
            }
            Ex::Call(call) => self.call(state, &call.0, &call.1, None),
            Ex::Filter(filter) => self.filter(state, &filter.0, &filter.1),
            Ex::Test(test) => self.test(state, &test.0, &test.1),
            Ex::Tuple(items) => Ok(Value::tuple(self.all(state, items)?)),
            Ex::List(items) => Ok(Value::list(self.all(state, items)?)),
            Ex::Dict(items) => self.dict(state, items),
            Ex::Binary(op, pair) => {
                let left = self.eval(state, &pair.0)?;
                let right = self.eval(state, &pair.1)?;
                python::binary(state, *op, &left, &right)
            }
            Ex::Compare(compare) => self.compare(state, &compare.0, &compare.1),
            Ex::And(pair) => {
                let left = self.eval(state, &pair.0)?;
                if truthy(state, &left)? { self.eval(state, &pair.1) } else { Ok(left) }
            }
            Ex::Or(pair) => {
                let left = self.eval(state, &pair.0)?;
                if truthy(state, &left)? { Ok(left) } else { self.eval(state, &pair.1) }
            }
            Ex::Not(inner) => Ok(Value::Bool(!self.truth(state, inner)?)),
            Ex::Concat(parts) => self.concat(state, parts),
            Ex::Cond(cond, line) => {
                if self.truth(state, &cond.0)? {
                    return self.eval(state, &cond.1);
                }
                match &cond.2 {
                    Some(other) => self.eval(state, other),
                    None => Ok(self.no_else(*line)),
                }
            }
            Ex::Slice(slice) => {
                let object = self.eval(state, &slice.0)?;
                let mut bounds = [Value::None, Value::None, Value::None];
                for (bound, part) in bounds.iter_mut().zip(&slice.1) {
                    if let Some(part) = part {
                        *bound = self.eval(state, part)?;
                    }
                }
                let [start, stop, step] = bounds;
                python::slice(&object, &start, &stop, &step)
            }
            Ex::Neg(inner) => {
                let value = self.eval(state, inner)?;
                python::negate(&value)
            }
            Ex::Pos(inner) => {
                let value = self.eval(state, inner)?;
                python::positive(&value)
            }
        }
    }

    fn attr(&self, state: &mut State, object: &Value, name: &Str) -> Result<Value, Error> {
        // `changed` must keep the loop alive, and an object cannot hand out a reference to itself.
        if &**name == "changed" && super::loops::is_loop(object) {
            let context = object.clone();
            return Ok(Value::function("changed", move |call| super::loops::changed(&context, call)));
        }
        python::get_attr(state, object, name)
    }

    fn no_else(&self, line: u32) -> Value {
        let mut position = format!("line {line}");
        if let Some(name) = &self.template.code.name {
            position.push_str(&format!(" in {}", python::repr_str(name)));
        }
        let hint =
            format!("the inline if-expression on {position} evaluated to false and no else section was defined.");
        // Jinja uses the lenient class here even in a strict environment, so that `{{ x if y }}` may print nothing.
        Undefined::hint(UndefinedKind::Lenient, hint, Value::None)
    }

    fn all(&mut self, state: &mut State, items: &[Ex]) -> Result<Vec<Value>, Error> {
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            values.push(self.eval(state, item)?);
        }
        Ok(values)
    }

    fn dict(&mut self, state: &mut State, items: &[(Ex, Ex)]) -> Result<Value, Error> {
        // All keys and values are evaluated before the first key is hashed, as Python does.
        let mut entries = Vec::with_capacity(items.len());
        for (key, value) in items {
            let key = self.eval(state, key)?;
            entries.push((key, self.eval(state, value)?));
        }
        let dict = Dict::with_capacity(entries.len());
        for (key, value) in entries {
            dict.insert(Key::new(key)?, value);
        }
        Ok(Value::Dict(dict))
    }

    fn compare(&mut self, state: &mut State, first: &Ex, others: &[(CmpOp, Ex)]) -> Result<Value, Error> {
        let mut left = self.eval(state, first)?;
        for (op, other) in others {
            let right = self.eval(state, other)?;
            if !python::compare(state, *op, &left, &right)? {
                return Ok(Value::Bool(false));
            }
            left = right;
        }
        Ok(Value::Bool(true))
    }

    fn concat(&mut self, state: &mut State, parts: &[Ex]) -> Result<Value, Error> {
        let values = self.all(state, parts)?;
        let mut text = String::new();
        // One safe part makes the result safe, so that all others must be escaped.
        if self.autoescape && values.iter().any(|value| matches!(value, Value::Markup(_))) {
            for value in &values {
                text.push_str(&crate::filters::escape(state, value)?);
            }
            return Ok(Value::markup(text));
        }
        for value in &values {
            match value {
                Value::Str(part) | Value::Markup(part) => text.push_str(part),
                other => text.push_str(&state.str(other)?),
            }
            // A loop of `{% set x = x ~ x %}` doubles the text each time.
            state.check_size(text.len())?;
        }
        Ok(Value::str(text))
    }

    /// Evaluates the arguments of a call; `first` goes before them.
    fn arguments(
        &mut self,
        state: &mut State,
        first: Option<Value>,
        args: &ArgsEx,
    ) -> Result<(Vec<Value>, Kwargs), Error> {
        let mut values = Vec::with_capacity(args.args.len() + usize::from(first.is_some()));
        values.extend(first);
        for arg in &args.args {
            values.push(self.eval(state, arg)?);
        }
        if args.kwargs.is_empty() && args.dyn_args.is_none() && args.dyn_kwargs.is_none() {
            return Ok((values, Vec::new()));
        }
        if let Some(more) = &args.dyn_args {
            let more = self.eval(state, more)?;
            match python::to_vec(state, &more) {
                Ok(more) => values.extend(more),
                Err(error) if *error.kind() == ErrorKind::Type && error.places().is_empty() => {
                    let name = more.type_name();
                    return Err(Error::type_error(format!("Value after * must be an iterable, not {name}")));
                }
                Err(error) => return Err(error),
            }
        }
        // Python evaluates the arguments in the order in which they stand: `*args` before the keywords, `**kwargs`
        // last.
        let mut kwargs: Kwargs = Vec::with_capacity(args.kwargs.len());
        for (name, value) in &args.kwargs {
            let value = self.eval(state, value)?;
            kwargs.push((name.clone(), value));
        }
        if let Some(more) = &args.dyn_kwargs {
            let more = self.eval(state, more)?;
            spread(state, &more, &mut kwargs)?;
        }
        Ok((values, kwargs))
    }

    fn call(&mut self, state: &mut State, callee: &Ex, args: &ArgsEx, caller: Option<Value>) -> Result<Value, Error> {
        state.spend(1)?;
        // A method of one of Python's types is called without making a bound method first.
        if let Ex::Attr(node, name) = callee {
            let object = self.eval(state, node)?;
            if let Some(method) = methods::find(&object, name) {
                let (args, mut kwargs) = self.arguments(state, None, args)?;
                kwargs.extend(caller.map(|caller| ("caller".into(), caller)));
                let call = crate::value::CallArgs { state, args, kwargs };
                return methods::call(method, &object, name, call);
            }
            let callee = self.attr(state, &object, name)?;
            return self.call_value(state, &callee, args, caller);
        }
        let callee = self.eval(state, callee)?;
        self.call_value(state, &callee, args, caller)
    }

    fn call_value(
        &mut self,
        state: &mut State,
        callee: &Value,
        args: &ArgsEx,
        caller: Option<Value>,
    ) -> Result<Value, Error> {
        let (args, mut kwargs) = self.arguments(state, None, args)?;
        kwargs.extend(caller.map(|caller| ("caller".into(), caller)));
        // Jinja hands variables that a loop sets to functions that read the context, such as Salt's
        // `show_full_context()`.
        if let Some(core) = self.current_loop.as_ref().filter(|core| !core.vars.is_empty()) {
            state.loop_vars = self.dump(&core.vars);
        }
        match state.call(callee, args, kwargs) {
            // Jinja compiles templates to generators, which this exception must not leave.
            Err(error) if *error.kind() == ErrorKind::StopIteration => {
                let hint = "value was undefined because a callable raised a StopIteration exception";
                Ok(Undefined::hint(state.env().undefined, hint, Value::None))
            }
            other => other,
        }
    }

    /// Calls with a block as `caller`.
    pub(super) fn call_with_caller(&mut self, state: &mut State, ex: &Ex, caller: Value) -> Result<Value, Error> {
        match ex {
            Ex::Call(call) => self.call(state, &call.0, &call.1, Some(caller)),
            other => self.eval(state, other),
        }
    }

    fn filter(&mut self, state: &mut State, node: &Ex, filter: &NamedCall) -> Result<Value, Error> {
        let first = self.eval(state, node)?;
        let (args, kwargs) = self.arguments(state, Some(first), &filter.args)?;
        let Some(native) = &filter.call else {
            // The compiler reports unknown filters, except below a condition: there the template may never use it.
            return Err(Error::runtime(format!("No filter named {} found.", python::repr_str(&filter.name))));
        };
        state.call_native(native, args, kwargs)
    }

    fn test(&mut self, state: &mut State, node: &Ex, test: &NamedCall) -> Result<Value, Error> {
        let first = self.eval(state, node)?;
        let (args, kwargs) = self.arguments(state, Some(first), &test.args)?;
        let Some(native) = &test.call else {
            return Err(Error::runtime(format!("No test named {} found.", python::repr_str(&test.name))));
        };
        state.call_native(native, args, kwargs)
    }

    /// Filters the text of a block.
    pub(super) fn filter_captured(&mut self, state: &mut State, text: String, filter: &Ex) -> Result<Value, Error> {
        self.captured = Some(Value::str(text));
        self.eval(state, filter)
    }
}

/// Adds the entries of a mapping to keyword arguments.
fn spread(state: &mut State, more: &Value, kwargs: &mut Kwargs) -> Result<(), Error> {
    let entries = match more {
        Value::Dict(dict) => dict.entries(),
        Value::Object(object) if object.is_mapping() => {
            let mut entries = Vec::new();
            for key in python::to_vec(state, more)? {
                let value = python::get_item_raw(state, more, &key)?;
                entries.push((key, value));
            }
            entries
        }
        other => {
            let name = other.type_name();
            return Err(Error::type_error(format!("{CALLER} argument after ** must be a mapping, not {name}")));
        }
    };
    for (key, value) in entries {
        let Value::Str(name) = key else { return Err(Error::type_error("keywords must be strings")) };
        if kwargs.iter().any(|(have, _)| *have == name) {
            let text = format!("{CALLER} got multiple values for keyword argument '{name}'");
            return Err(Error::type_error(text));
        }
        kwargs.push((Arc::clone(&name), value));
    }
    Ok(())
}
