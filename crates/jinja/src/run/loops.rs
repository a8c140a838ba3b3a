//! `for` loops and the `loop` variable.

use std::sync::{Arc, Mutex};

use super::exec::{Flow, body, store};
use super::frame::{Captured, Frame};
use super::state::State;
use crate::compile::{ForOp, Func, LoopCore, TestCode};
use crate::error::{Error, ErrorKind};
use crate::python::{self, equal, iterate};
use crate::value::{CallArgs, Function, FunctionKind, Object, Undefined, Value, ValueIter, VecIter, lock};

/// Runs a `for` statement.
pub(super) fn for_loop(state: &mut State, frame: &mut Frame, op: &ForOp, out: &mut String) -> Result<Flow, Error> {
    let items = frame.eval(state, &op.iter)?;
    match &op.recursive {
        None => {
            run(state, frame, &op.core, &items, None, 0, out)?;
        }
        Some(func) => {
            let recurse = Arc::new(Recurse {
                core: op.core.clone(),
                func: func.clone(),
                captured: frame.capture(func),
                template: frame.template.clone(),
                context: frame.context.clone(),
            });
            // Jinja compiles a recursive loop to a function that returns text, so that its output is buffered here,
            // too.
            let text = recurse.call(state, &items, 0)?;
            frame.line = op.line;
            state.wrote(text.len())?;
            out.push_str(&text);
        }
    }
    Ok(Flow::Next)
}

/// A recursive loop, which `loop(items)` calls again for nested items.
struct Recurse {
    core: Arc<LoopCore>,
    func: Arc<Func>,
    captured: Captured,
    template: crate::template::Template,
    context: Arc<super::Context>,
}

impl Recurse {
    fn call(self: &Arc<Self>, state: &mut State, items: &Value, depth: usize) -> Result<String, Error> {
        state.deeper(|state| {
            let mut frame = Frame::new(&self.func, &self.template, &self.context, &self.captured);
            let mut out = String::new();
            let before = frame.activate(state);
            let result = run(state, &mut frame, &self.core, items, Some(self.clone()), depth, &mut out);
            (state.context, state.loop_vars) = before;
            result.map_err(|error| error.at(&self.template.code.name, frame.line, &self.func.location))?;
            Ok(out)
        })
    }
}

fn run(
    state: &mut State,
    frame: &mut Frame,
    core: &Arc<LoopCore>,
    items: &Value,
    recurse: Option<Arc<Recurse>>,
    depth: usize,
    out: &mut String,
) -> Result<(), Error> {
    frame.line = core.line;
    if let Some(slot) = core.loop_slot {
        // A second run of the same statement must not show the `loop` of the first.
        frame.clear(slot);
    }
    let filtered;
    let (mut walk, iterable) = match &core.test {
        None => (iterate(state, items)?, Some(items.clone())),
        Some(test) => {
            // Filtering is lazy: the condition is evaluated as the loop asks for each item.
            filtered = Filtered::new(frame, test, items.clone());
            (Box::new(filtered) as Box<dyn ValueIter>, None)
        }
    };
    // As in Jinja, `else` also runs if no round reached its end, for example if `continue` or `break` left each of
    // them.
    let mut empty = true;
    let outer = frame.current_loop.replace(core.clone());
    match core.loop_slot {
        None => {
            while let Some(item) = walk.next(state)? {
                match step(state, frame, core, item, None, out)? {
                    Flow::Next => empty = false,
                    Flow::Continue => {}
                    Flow::Break => break,
                }
                frame.line = core.line;
            }
        }
        Some(_) => {
            let context = Arc::new(LoopContext::new(walk, iterable, recurse, depth));
            while let Some(item) = context.advance(state)? {
                match step(state, frame, core, item, Some(&context), out)? {
                    Flow::Next => empty = false,
                    Flow::Continue => {}
                    Flow::Break => break,
                }
                frame.line = core.line;
            }
        }
    }
    frame.current_loop = outer;
    frame.leave(&core.leave);
    if empty && !core.or_else.is_empty() {
        frame.enter(&core.else_enter);
        body(state, frame, &core.or_else, out)?;
        frame.leave(&core.else_leave);
    }
    Ok(())
}

/// Runs the body for one item.
fn step(
    state: &mut State,
    frame: &mut Frame,
    core: &LoopCore,
    item: Value,
    context: Option<&Arc<LoopContext>>,
    out: &mut String,
) -> Result<Flow, Error> {
    state.spend(1)?;
    store(state, frame, &core.target, item)?;
    if let (Some(slot), Some(context)) = (core.loop_slot, context) {
        frame.set(slot, Value::Object(context.clone()));
    }
    frame.enter(&core.enter);
    body(state, frame, &core.body, out)
}

/// A generator of the items that pass the loop's condition.
struct Filtered {
    items: Value,
    walk: Option<Box<dyn ValueIter>>,
    frame: Frame,
    code: Arc<TestCode>,
}

impl Filtered {
    fn new(outer: &mut Frame, code: &Arc<TestCode>, items: Value) -> Self {
        let captured = outer.capture(&code.func);
        let frame = Frame::new(&code.func, &outer.template, &outer.context, &captured);
        Filtered { items, walk: None, frame, code: code.clone() }
    }

    fn find(&mut self, state: &mut State) -> Result<Option<Value>, Error> {
        let walk = match &mut self.walk {
            Some(walk) => walk,
            none => {
                // Inside the generator, as in Jinja: what the condition refers to is looked up when the first item is
                // fetched.
                self.frame.enter(&self.code.func.enter);
                none.insert(iterate(state, &self.items)?)
            }
        };
        while let Some(item) = walk.next(state)? {
            state.spend(1)?;
            store(state, &mut self.frame, &self.code.target, item.clone())?;
            if self.frame.truth(state, &self.code.test)? {
                return Ok(Some(rebuilt(&self.frame, &self.code.target, item)));
            }
        }
        Ok(None)
    }
}

/// Rebuilds the item from the loop's targets, as Jinja's generator yields them: several names give a tuple, whatever
/// was unpacked.
fn rebuilt(frame: &Frame, target: &crate::compile::Target, item: Value) -> Value {
    match target {
        crate::compile::Target::Tuple(parts) => {
            let values = parts.iter().map(|part| rebuilt(frame, part, Value::None)).collect();
            Value::tuple(values)
        }
        crate::compile::Target::Slot(slot) => frame.get(*slot).unwrap_or(item),
        crate::compile::Target::Namespace(..) => item,
    }
}

impl ValueIter for Filtered {
    fn next(&mut self, state: &mut State) -> Result<Option<Value>, Error> {
        self.find(state).map_err(|error| error.at(&self.frame.template.code.name, self.code.line, &"template".into()))
    }
}

#[derive(Default)]
struct Progress {
    walk: Option<Box<dyn ValueIter>>,
    started: bool,
    index0: usize,
    length: Option<usize>,
    after: Option<Value>,
    current: Option<Value>,
    before: Option<Value>,
    changed: Option<Value>,
}

/// The `loop` variable.
struct LoopContext {
    iterable: Option<Value>,
    recurse: Option<Arc<Recurse>>,
    depth0: usize,
    progress: Mutex<Progress>,
}

impl LoopContext {
    fn new(walk: Box<dyn ValueIter>, iterable: Option<Value>, recurse: Option<Arc<Recurse>>, depth0: usize) -> Self {
        let progress = Progress { walk: Some(walk), ..Progress::default() };
        LoopContext { iterable, recurse, depth0, progress: Mutex::new(progress) }
    }

    fn pull(&self, state: &mut State) -> Result<Option<Value>, Error> {
        // Taken out: iterating may run template code that asks this very loop for its length.
        let Some(mut walk) = lock(&self.progress).walk.take() else { return Ok(None) };
        let next = walk.next(state);
        let mut progress = lock(&self.progress);
        // That code may have replaced the iterator by the rest it collected.
        if matches!(next, Ok(Some(_))) && progress.walk.is_none() {
            progress.walk = Some(walk);
        }
        next
    }

    fn advance(&self, state: &mut State) -> Result<Option<Value>, Error> {
        // `loop.last` and `loop.nextitem` have already fetched this item.
        let ahead = lock(&self.progress).after.take();
        let next = match ahead {
            Some(value) => Some(value),
            None => self.pull(state)?,
        };
        if let Some(value) = &next {
            let mut progress = lock(&self.progress);
            progress.index0 = if progress.started { progress.index0 + 1 } else { 0 };
            progress.started = true;
            progress.before = progress.current.replace(value.clone());
        }
        Ok(next)
    }

    fn peek(&self, state: &mut State) -> Result<Option<Value>, Error> {
        let ahead = lock(&self.progress).after.clone();
        if ahead.is_some() {
            return Ok(ahead);
        }
        let next = self.pull(state)?;
        lock(&self.progress).after = next.clone();
        Ok(next)
    }

    fn length(&self, state: &mut State) -> Result<usize, Error> {
        if let Some(length) = lock(&self.progress).length {
            return Ok(length);
        }
        let counted = match &self.iterable {
            Some(iterable) => match python::len(state, iterable) {
                Ok(length) => Some(length),
                // A generator has no length. Jinja collects the rest of it to count, and then loops over what it
                // collected.
                Err(error) if *error.kind() == ErrorKind::Type => None,
                Err(error) => return Err(error),
            },
            None => None,
        };
        let length = match counted {
            Some(length) => length,
            None => {
                let mut rest = Vec::new();
                while let Some(item) = self.pull(state)? {
                    state.spend(1)?;
                    rest.push(item);
                }
                let mut progress = lock(&self.progress);
                // The current item and the one read ahead are no longer in the iterator.
                let length = rest.len() + progress.index0 + 1 + usize::from(progress.after.is_some());
                progress.walk = Some(Box::new(VecIter::new(rest)));
                length
            }
        };
        lock(&self.progress).length = Some(length);
        Ok(length)
    }
}

impl Object for LoopContext {
    fn type_name(&self) -> &str {
        "LoopContext"
    }

    fn module(&self) -> Option<&str> {
        Some("jinja2.runtime")
    }

    fn get_attr(&self, state: &mut State, name: &str) -> Result<Option<Value>, Error> {
        let index0 = lock(&self.progress).index0;
        let kind = state.env().undefined;
        Ok(Some(match name {
            "index" => Value::from(index0 + 1),
            "index0" => Value::from(index0),
            "first" => Value::Bool(index0 == 0),
            "last" => Value::Bool(self.peek(state)?.is_none()),
            "length" => Value::from(self.length(state)?),
            "revindex" => Value::Int(self.length(state)? as i64 - index0 as i64),
            "revindex0" => Value::Int(self.length(state)? as i64 - index0 as i64 - 1),
            "depth" => Value::from(self.depth0 + 1),
            "depth0" => Value::from(self.depth0),
            "previtem" => {
                let before = lock(&self.progress).before.clone();
                match before {
                    Some(value) if index0 > 0 => value,
                    _ => Undefined::hint(kind, "there is no previous item", Value::None),
                }
            }
            "nextitem" => match self.peek(state)? {
                Some(value) => value,
                None => Undefined::hint(kind, "there is no next item", Value::None),
            },
            "cycle" => bound("cycle", move |call| {
                if call.args.is_empty() {
                    return Err(Error::type_error("no items for cycling given"));
                }
                Ok(call.args[index0 % call.args.len()].clone())
            }),
            // Handled where the attribute is evaluated, because it needs the shared reference.
            "changed" => return Ok(None),
            _ => return Ok(None),
        }))
    }

    fn is_callable(&self) -> bool {
        true
    }

    fn call(&self, args: &mut CallArgs) -> Result<Value, Error> {
        let [items] = args.bind("LoopContext.__call__", [("iterable", None)])?;
        match &self.recurse {
            Some(recurse) => Ok(Value::str(recurse.call(args.state, &items, self.depth0 + 1)?)),
            None => Err(Error::type_error("The loop must have the 'recursive' marker to be called recursively.")),
        }
    }

    fn len(&self, state: &mut State) -> Result<Option<usize>, Error> {
        self.length(state).map(Some)
    }

    fn repr(&self, state: &mut State) -> Result<Option<String>, Error> {
        let length = self.length(state)?;
        Ok(Some(format!("<LoopContext {}/{length}>", lock(&self.progress).index0 + 1)))
    }
}

/// `loop.changed(…)`: returns whether the arguments differ from those of the last call.
pub(super) fn changed(context: &Value, call: &mut CallArgs) -> Result<Value, Error> {
    let Some(context) = context.downcast::<LoopContext>() else { return Ok(Value::None) };
    let value = Value::tuple(std::mem::take(&mut call.args));
    let before = lock(&context.progress).changed.clone();
    let same = match &before {
        Some(before) => equal(call.state, before, &value)?,
        None => false,
    };
    if !same {
        lock(&context.progress).changed = Some(value);
    }
    Ok(Value::Bool(!same))
}

pub(super) fn is_loop(value: &Value) -> bool {
    value.downcast::<LoopContext>().is_some()
}

fn bound(name: &str, call: impl Fn(&mut CallArgs) -> Result<Value, Error> + Send + Sync + 'static) -> Value {
    let mut function = Function::new(name, call);
    function.kind = FunctionKind::Function;
    Value::Function(Arc::new(function))
}
