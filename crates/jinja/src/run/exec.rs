//! Runs statements.

use std::sync::Arc;

use super::context::Context;
use super::frame::Frame;
use super::macros::{BlockReference, Macro, TemplateReference};
use super::modules;
use super::state::State;
use crate::compile::{AssignBlockOp, AssignOp, Ex, Func, MacroCode, Op, OpKind, Part, Slot, Target, WithOp};
use crate::error::{Error, ErrorKind};
use crate::python::{self, str_of, truthy};
use crate::template::Template;
use crate::value::{Str, UndefinedKind, Value, lock};

/// The outcome of a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    Break,
    Continue,
}

/// Runs a template from its first line, and the template it extends.
pub(super) fn root(
    state: &mut State,
    template: &Template,
    context: &Arc<Context>,
    out: &mut String,
) -> Result<(), Error> {
    let func = template.code.root.clone();
    if template.code.deep {
        return state.deeper(|state| state.on_new_stack(|state| run_func(state, &func, template, context, out)));
    }
    state.deeper(|state| run_func(state, &func, template, context, out))
}

/// Runs the root or a block of a template.
fn run_func(
    state: &mut State,
    func: &Arc<Func>,
    template: &Template,
    context: &Arc<Context>,
    out: &mut String,
) -> Result<(), Error> {
    let mut frame = Frame::new(func, template, context, &[]);
    if let Some(slot) = func.self_slot {
        frame.set(slot, Value::object(TemplateReference { context: context.clone() }));
    }
    if let (Some(slot), Some(block)) = (func.super_slot, &func.block) {
        let parent = super_block(state, context, block, func);
        frame.set(slot, parent);
    }
    let before = frame.activate(state);
    let result = run_body(state, func, &mut frame, out);
    (state.context, state.loop_vars) = before;
    result.map_err(|error| error.at(&frame.template.code.name, frame.line, &func.location))
}

fn run_body(state: &mut State, func: &Func, frame: &mut Frame, out: &mut String) -> Result<(), Error> {
    frame.enter(&func.enter);
    body(state, frame, &func.body, out)?;
    if let Some(parent) = frame.parent_template.clone() {
        let context = frame.context.clone();
        root(state, &parent, &context, out)?;
    }
    Ok(())
}

fn super_block(state: &mut State, context: &Arc<Context>, block: &Str, func: &Arc<Func>) -> Value {
    let found = {
        let blocks = lock(&context.blocks);
        blocks.get(block).and_then(|stack| {
            let at = stack.iter().position(|(template, at)| Arc::ptr_eq(&template.code.blocks[*at].1, func))?;
            (at + 1 < stack.len()).then_some(at + 1)
        })
    };
    match found {
        Some(depth) => Value::object(BlockReference { name: block.clone(), context: context.clone(), depth }),
        None => no_parent_block(state, block),
    }
}

pub(super) fn no_parent_block(state: &State, block: &str) -> Value {
    let hint = format!("there is no parent block called {}.", python::repr_str(block));
    crate::value::Undefined::hint(state.env().undefined, hint, Value::str("super"))
}

/// Runs one block of the stack of blocks with a name.
pub(super) fn block(
    state: &mut State,
    context: &Arc<Context>,
    name: &str,
    depth: usize,
    out: &mut String,
) -> Result<(), Error> {
    let found = lock(&context.blocks).get(name).and_then(|stack| stack.get(depth).cloned());
    let Some((template, index)) = found else {
        return Err(Error::new(ErrorKind::Key, python::repr_str(name)));
    };
    let func = template.code.blocks[index].1.clone();
    state.deeper(|state| run_func(state, &func, &template, context, out))
}

/// Runs statements in order.
pub(super) fn body(state: &mut State, frame: &mut Frame, ops: &[Op], out: &mut String) -> Result<Flow, Error> {
    for op in ops {
        let flow = statement(state, frame, op, out)?;
        if flow != Flow::Next {
            return Ok(flow);
        }
    }
    Ok(Flow::Next)
}

fn write(state: &mut State, out: &mut String, text: &str) -> Result<(), Error> {
    state.wrote(text.len())?;
    out.push_str(text);
    Ok(())
}

fn statement(state: &mut State, frame: &mut Frame, op: &Op, out: &mut String) -> Result<Flow, Error> {
    state.spend(1)?;
    frame.line = op.line;
    match &op.kind {
        OpKind::Output(parts, unless_parent) => {
            if !unless_parent || frame.parent_template.is_none() {
                output(state, frame, parts, out)?;
            }
        }
        OpKind::If(branches, or_else) => return branch(state, frame, branches, or_else, out),
        OpKind::For(op) => return super::loops::for_loop(state, frame, op, out),
        OpKind::Assign(op) => assign(state, frame, op)?,
        OpKind::AssignBlock(op) => return assign_block(state, frame, op),
        OpKind::With(op) => return with(state, frame, op, out),
        OpKind::Macro { def, slot, context } => define_macro(state, frame, def, *slot, context.as_ref()),
        OpKind::CallBlock(def, call) => {
            let caller = Value::object(Macro::new(def.clone(), frame));
            let value = frame.call_with_caller(state, call, caller)?;
            print(state, frame, &value, out)?;
        }
        OpKind::FilterBlock { enter, body: inner, filter, line, leave } => {
            frame.enter(enter);
            let mut text = String::new();
            let flow = body(state, frame, inner, &mut text)?;
            if flow != Flow::Next {
                return Ok(flow);
            }
            frame.line = *line;
            let value = frame.filter_captured(state, text, filter)?;
            print_raw(state, &value, out)?;
            frame.leave(leave);
        }
        OpKind::Block { name, scoped, required, unless_parent } => {
            if !unless_parent || frame.parent_template.is_none() {
                inherited_block(state, frame, name, scoped.as_deref(), *required, out)?;
            }
        }
        OpKind::Extends { template, fail } => {
            if fail.is_some() && frame.parent_template.is_some() {
                return Err(Error::runtime("extended multiple times"));
            }
            extend(state, frame, template)?;
        }
        OpKind::ExtendedTwice => return Err(Error::runtime("extended multiple times")),
        OpKind::Include { template, ignore_missing, context, list } => {
            let name = frame.eval(state, template)?;
            modules::include(state, frame, &name, *ignore_missing, context.as_deref(), *list, out)?;
        }
        OpKind::Import { template, slot, context, export } => {
            let name = frame.eval(state, template)?;
            let module = Value::Object(modules::import(state, frame, &name, context.as_deref())?);
            bind_import(frame, *slot, export.as_ref(), module);
        }
        OpKind::FromImport { template, names, context, toplevel } => {
            let name = frame.eval(state, template)?;
            let module = modules::import(state, frame, &name, context.as_deref())?;
            for (name, alias, slot) in names {
                let value = module.export(state, frame, name);
                bind_import(frame, *slot, toplevel.then_some(alias), value);
            }
        }
        OpKind::Do(value) => {
            frame.eval(state, value)?;
        }
        OpKind::Scope { option, enter, body: inner, leave } => {
            frame.enter(enter);
            let before = frame.autoescape;
            let value = frame.eval(state, option)?;
            frame.autoescape = truthy(state, &value)?;
            let flow = body(state, frame, inner, out);
            frame.autoescape = before;
            frame.leave(leave);
            return flow;
        }
        OpKind::Break => return Ok(Flow::Break),
        OpKind::Continue => return Ok(Flow::Continue),
    }
    Ok(Flow::Next)
}

/// Runs the body of the first branch whose test is true, or else `or_else`.
fn branch(
    state: &mut State,
    frame: &mut Frame,
    branches: &[(u32, Ex, Vec<Op>)],
    or_else: &[Op],
    out: &mut String,
) -> Result<Flow, Error> {
    for (line, test, then) in branches {
        frame.line = *line;
        if frame.truth(state, test)? {
            return body(state, frame, then, out);
        }
    }
    body(state, frame, or_else, out)
}

/// `{% with %}`: the targets are visible in the body only.
fn with(state: &mut State, frame: &mut Frame, op: &WithOp, out: &mut String) -> Result<Flow, Error> {
    frame.enter(&op.enter);
    for (target, value) in &op.values {
        let value = frame.eval(state, value)?;
        store(state, frame, target, value)?;
    }
    let flow = body(state, frame, &op.body, out)?;
    frame.leave(&op.leave);
    Ok(flow)
}

/// `{% macro %}`; `exported` is the name under which templates that import this one see the macro.
fn define_macro(state: &mut State, frame: &mut Frame, def: &Arc<MacroCode>, slot: Slot, exported: Option<&Str>) {
    let made = Macro::new(def.clone(), frame);
    made.shared().for_each(|cell| state.note_shared(cell));
    let value = Value::object(made);
    frame.set(slot, value.clone());
    if let Some(name) = exported {
        frame.context.set(name, value, true);
    }
}

/// `{% block %}`: prints what the last template in the chain of `extends` has put there.
fn inherited_block(
    state: &mut State,
    frame: &Frame,
    name: &Str,
    scoped: Option<&[(Str, Slot)]>,
    required: bool,
    out: &mut String,
) -> Result<(), Error> {
    if required && lock(&frame.context.blocks).get(name).is_none_or(|stack| stack.len() <= 1) {
        return Err(Error::runtime(format!("Required block {} not found", python::repr_str(name))));
    }
    let mut context = frame.context.clone();
    if let Some(vars) = scoped {
        context = context.derived(frame.dump(vars));
        state.note(&context);
    }
    block(state, &context, name, 0, out)
}

/// `{% extends %}`: loads the parent and appends its blocks, which `super()` reaches.
fn extend(state: &mut State, frame: &mut Frame, template: &Ex) -> Result<(), Error> {
    let name = frame.eval(state, template)?;
    let parent = modules::get_template(state, frame, &name)?;
    let mut blocks = lock(&frame.context.blocks);
    for (index, (name, _)) in parent.code.blocks.iter().enumerate() {
        blocks.entry(name.clone()).or_default().push((parent.clone(), index));
    }
    drop(blocks);
    frame.parent_template = Some(parent);
    Ok(())
}

/// Binds an imported name. At the top level the whole template sees it, but as in Jinja it is not exported again.
fn bind_import(frame: &mut Frame, slot: Slot, toplevel_name: Option<&Str>, value: Value) {
    frame.set(slot, value.clone());
    if let Some(name) = toplevel_name {
        frame.context.set(name, value, false);
        frame.context.unexport(name);
    }
}

fn output(state: &mut State, frame: &mut Frame, parts: &[Part], out: &mut String) -> Result<(), Error> {
    for part in parts {
        match part {
            Part::Text(text) => write(state, out, text)?,
            Part::Value(line, value) => {
                frame.line = *line;
                let value = frame.eval(state, value)?;
                print(state, frame, &value, out)?;
            }
        }
    }
    Ok(())
}

/// Prints a value as the environment wants it.
fn print(state: &mut State, frame: &Frame, value: &Value, out: &mut String) -> Result<(), Error> {
    if let Some(finalize) = state.env().finalize.clone()
        && !matches!(value, Value::Str(_) | Value::Markup(_) | Value::Int(_))
        && let Some(text) = finalize(state, value)?
    {
        return write(state, out, &text);
    }
    if frame.autoescape {
        let text = crate::filters::escape(state, value)?;
        return write(state, out, &text);
    }
    print_raw(state, value, out)
}

fn print_raw(state: &mut State, value: &Value, out: &mut String) -> Result<(), Error> {
    match value {
        Value::Str(text) | Value::Markup(text) => write(state, out, text),
        Value::Undefined(undefined) if undefined.kind != UndefinedKind::Strict => Ok(()),
        other => {
            let text = str_of(state, other, None)?;
            write(state, out, &text)
        }
    }
}

/// Assigns a value.
pub(super) fn store(state: &mut State, frame: &mut Frame, target: &Target, value: Value) -> Result<(), Error> {
    match target {
        Target::Slot(slot) => frame.set(*slot, value),
        Target::Tuple(targets) => {
            let values = python::unpack(state, &value, targets.len())?;
            for (target, value) in targets.iter().zip(values) {
                store(state, frame, target, value)?;
            }
        }
        Target::Namespace(slot, name) => {
            let Some(namespace) = frame.get(*slot) else { return Err(not_a_namespace()) };
            match namespace.downcast::<crate::globals::Namespace>() {
                Some(namespace) => namespace.set(name, value),
                None => return Err(not_a_namespace()),
            }
        }
    }
    Ok(())
}

fn not_a_namespace() -> Error {
    Error::runtime("cannot assign attribute on non-namespace object")
}

fn assign(state: &mut State, frame: &mut Frame, op: &AssignOp) -> Result<(), Error> {
    for slot in &op.namespaces {
        let is_namespace =
            frame.get(*slot).is_some_and(|value| value.downcast::<crate::globals::Namespace>().is_some());
        if !is_namespace {
            frame.line = op.check_line;
            return Err(not_a_namespace());
        }
    }
    let value = frame.eval(state, &op.value)?;
    store(state, frame, &op.target, value)?;
    export(frame, &op.context);
    Ok(())
}

fn export(frame: &mut Frame, names: &[(Str, usize)]) {
    for (name, slot) in names {
        if let Some(value) = frame.get(*slot) {
            frame.context.set(name, value, true);
        }
    }
}

fn assign_block(state: &mut State, frame: &mut Frame, op: &AssignBlockOp) -> Result<Flow, Error> {
    frame.enter(&op.enter);
    let mut text = String::new();
    let flow = body(state, frame, &op.body, &mut text)?;
    if flow != Flow::Next {
        return Ok(flow);
    }
    frame.line = op.line;
    let value = match &op.filter {
        Some(filter) => frame.filter_captured(state, text, filter)?,
        None => Value::str(text),
    };
    store(state, frame, &op.target, value)?;
    export(frame, &op.context);
    frame.leave(&op.leave);
    Ok(Flow::Next)
}
