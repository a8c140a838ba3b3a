//! Compiles expressions.

use super::code::{ArgsEx, Ex, NamedCall, Target};
use super::frames::Frame;
use super::generate::Generator;
use crate::error::{Error, ErrorKind};
use crate::python::repr_str;
use crate::syntax::tree::{Args, Expr, ExprKind};
use crate::value::{Str, Value};

impl Generator<'_> {
    pub fn expr(&mut self, expr: &Expr, frame: &Frame) -> Result<Ex, Error> {
        Ok(match &expr.kind {
            ExprKind::Const(value) => Ex::Const(value.clone()),
            ExprKind::Data(text) => Ex::Const(Value::Str(text.clone())),
            ExprKind::Name(name) => Ex::Var(self.funcs.name(frame, name), name.clone()),
            ExprKind::NamespaceRef(name, attr) => {
                let slot = self.funcs.name(frame, name);
                Ex::Attr(Box::new(Ex::Var(slot, name.clone())), attr.clone())
            }
            ExprKind::Tuple(items) => Ex::Tuple(self.exprs(items, frame)?),
            ExprKind::List(items) => Ex::List(self.exprs(items, frame)?),
            ExprKind::Concat(items) => Ex::Concat(self.exprs(items, frame)?),
            ExprKind::Dict(items) => Ex::Dict(
                items
                    .iter()
                    .map(|(key, value)| Ok((self.expr(key, frame)?, self.expr(value, frame)?)))
                    .collect::<Result<_, Error>>()?,
            ),
            ExprKind::Attr(node, name) => Ex::Attr(self.boxed(node, frame)?, name.clone()),
            ExprKind::Item(node, index) => match &index.kind {
                ExprKind::Slice(start, stop, step) => {
                    let node = self.expr(node, frame)?;
                    let [start, stop, step] = [start, stop, step].map(|part| self.optional(part.as_deref(), frame));
                    Ex::Slice(Box::new((node, [start?, stop?, step?])))
                }
                _ => Ex::Item(self.boxed(node, frame)?, self.boxed(index, frame)?),
            },
            // Among other indexes a slice is not an expression to Python.
            ExprKind::Slice(..) => {
                let kind = ErrorKind::Other("SyntaxError".into());
                return Err(Error::syntax(kind, "invalid syntax", self.name.clone(), expr.line));
            }
            ExprKind::Call(node, args) => Ex::Call(Box::new((self.expr(node, frame)?, self.args(args, frame)?))),
            ExprKind::Filter(node, name, args) => {
                let call = self.env.filters.get(name).cloned();
                if call.is_none() && !frame.soft {
                    return self.fail(format!("No filter named {}.", repr_str(name)), expr.line);
                }
                let node = match node {
                    Some(node) => self.expr(node, frame)?,
                    None => Ex::Captured,
                };
                let args = self.args(args, frame)?;
                Ex::Filter(Box::new((node, NamedCall { name: name.clone(), call, args })))
            }
            ExprKind::Test(node, name, args) => {
                let call = self.env.tests.get(name).cloned();
                if call.is_none() && !frame.soft {
                    return self.fail(format!("No test named {}.", repr_str(name)), expr.line);
                }
                let node = self.expr(node, frame)?;
                let args = self.args(args, frame)?;
                Ex::Test(Box::new((node, NamedCall { name: name.clone(), call, args })))
            }
            ExprKind::Binary(op, left, right) => Ex::Binary(*op, self.pair(left, right, frame)?),
            ExprKind::Compare(first, others) => {
                let first = self.expr(first, frame)?;
                let others = others
                    .iter()
                    .map(|(op, other)| Ok((*op, self.expr(other, frame)?)))
                    .collect::<Result<_, Error>>()?;
                Ex::Compare(Box::new((first, others)))
            }
            // Jinja computes constants first, and never evaluates the side that a constant short-circuits.
            ExprKind::And(left, _) if constant_truth(left) == Some(false) => self.expr(left, frame)?,
            ExprKind::And(left, right) => Ex::And(self.pair(left, right, frame)?),
            ExprKind::Or(left, _) if constant_truth(left) == Some(true) => self.expr(left, frame)?,
            ExprKind::Or(left, right) => Ex::Or(self.pair(left, right, frame)?),
            ExprKind::Not(node) => Ex::Not(self.boxed(node, frame)?),
            ExprKind::Neg(node) => Ex::Neg(self.boxed(node, frame)?),
            ExprKind::Pos(node) => Ex::Pos(self.boxed(node, frame)?),
            ExprKind::Cond(test, first, other) => {
                // Either branch may name a filter that does not exist, as long as it is not chosen.
                let frame = frame.soft();
                let first = self.expr(first, &frame)?;
                let test = self.expr(test, &frame)?;
                let other = self.optional(other.as_deref(), &frame)?;
                Ex::Cond(Box::new((test, first, other)), expr.line)
            }
        })
    }

    fn boxed(&mut self, expr: &Expr, frame: &Frame) -> Result<Box<Ex>, Error> {
        Ok(Box::new(self.expr(expr, frame)?))
    }

    fn pair(&mut self, left: &Expr, right: &Expr, frame: &Frame) -> Result<Box<(Ex, Ex)>, Error> {
        Ok(Box::new((self.expr(left, frame)?, self.expr(right, frame)?)))
    }

    fn optional(&mut self, expr: Option<&Expr>, frame: &Frame) -> Result<Option<Ex>, Error> {
        expr.map(|expr| self.expr(expr, frame)).transpose()
    }

    fn exprs(&mut self, exprs: &[Expr], frame: &Frame) -> Result<Vec<Ex>, Error> {
        exprs.iter().map(|expr| self.expr(expr, frame)).collect()
    }

    fn args(&mut self, args: &Args, frame: &Frame) -> Result<ArgsEx, Error> {
        let kwargs: Vec<(Str, Ex)> = args
            .kwargs
            .iter()
            .map(|(name, value)| Ok((name.clone(), self.expr(value, frame)?)))
            .collect::<Result<_, Error>>()?;
        Ok(ArgsEx {
            args: self.exprs(&args.args, frame)?,
            kwargs,
            dyn_args: self.optional(args.dyn_args.as_deref(), frame)?,
            dyn_kwargs: self.optional(args.dyn_kwargs.as_deref(), frame)?,
        })
    }

    /// Compiles the target of an assignment and records its names for the context.
    pub fn target(&mut self, target: &Expr, frame: &Frame) -> Target {
        match &target.kind {
            ExprKind::Tuple(items) => Target::Tuple(items.iter().map(|item| self.target(item, frame)).collect()),
            ExprKind::NamespaceRef(name, attr) => Target::Namespace(self.funcs.name(frame, name), attr.clone()),
            ExprKind::Name(name) => {
                // Only here does Jinja track assignments: they may have to reach the context.
                if (frame.toplevel || frame.loop_frame || frame.block_frame)
                    && let Some(names) = self.assigned.last_mut()
                {
                    names.insert(name.clone());
                }
                Target::Slot(self.funcs.name(frame, name))
            }
            _ => Target::Tuple(Vec::new()),
        }
    }
}

/// Collects the names of namespaces in a target, each once.
pub(super) fn namespace_names(target: &Expr, names: &mut Vec<Str>) {
    match &target.kind {
        ExprKind::Tuple(items) => items.iter().for_each(|item| namespace_names(item, names)),
        ExprKind::NamespaceRef(name, _) if !names.contains(name) => names.push(name.clone()),
        _ => {}
    }
}

/// Returns the truth of a literal; `None` for everything else.
fn constant_truth(expr: &Expr) -> Option<bool> {
    match &expr.kind {
        ExprKind::Const(value) => match value {
            Value::None => Some(false),
            Value::Bool(truth) => Some(*truth),
            Value::Int(number) => Some(*number != 0),
            Value::Float(number) => Some(*number != 0.0),
            Value::Str(text) => Some(!text.is_empty()),
            _ => None,
        },
        ExprKind::List(items) | ExprKind::Tuple(items) if items.is_empty() => Some(false),
        ExprKind::Dict(entries) if entries.is_empty() => Some(false),
        ExprKind::Not(node) => constant_truth(node).map(|truth| !truth),
        _ => None,
    }
}
