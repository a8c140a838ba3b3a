//! Compiles statements.

use std::sync::Arc;

use super::code::*;
use super::expressions::namespace_names;
use super::frames::Frame;
use super::generate::{Generator, Stop, func};
use super::undeclared::{find_undeclared, walk};
use crate::error::{Error, ErrorKind};
use crate::syntax::tree::{Expr, ExprKind, For, MacroDef, Stmt, StmtKind};
use crate::value::{Str, Value};

impl Generator<'_> {
    /// Notes that the next line of code belongs to a line of the template.
    fn mark(&mut self, line: u32) -> u32 {
        self.line = line;
        line
    }

    pub fn statement(&mut self, statement: &Stmt, frame: &Frame, ops: &mut Vec<Op>) -> Result<(), Stop> {
        let line = statement.line;
        let kind = match &statement.kind {
            StmtKind::Output(parts) => return Ok(self.output(parts, frame, ops)?),
            StmtKind::If(node) => {
                let soft = frame.soft();
                let mut branches = Vec::with_capacity(node.branches.len());
                for (line, test, body) in &node.branches {
                    self.mark(*line);
                    let test = self.expr(test, &soft)?;
                    branches.push((*line, test, self.body(body, &soft)?));
                }
                OpKind::If(branches, self.body(&node.or_else, &soft)?)
            }
            StmtKind::For(node) => self.for_loop(node, line, frame)?,
            StmtKind::Assign(target, value) => return Ok(self.assign(target, value, line, frame, ops)?),
            StmtKind::AssignBlock(target, filter, body) => {
                self.assign_block(target, filter.as_ref(), body, line, frame)?
            }
            StmtKind::With(targets, values, body) => {
                let line = self.line;
                let op = self.with(targets, values, body, frame)?;
                ops.push(Op { line, kind: op });
                return Ok(());
            }
            StmtKind::Macro(def) => {
                let code = self.macro_code(def, line, frame)?;
                let name = def.name.clone().unwrap_or_else(|| "".into());
                let slot = self.funcs.name(frame, &name);
                OpKind::Macro { def: Arc::new(code), slot, context: frame.toplevel.then_some(name) }
            }
            StmtKind::CallBlock(def, call) => {
                let code = self.macro_code(def, line, frame)?;
                self.mark(line);
                let call = self.expr(call, frame)?;
                OpKind::CallBlock(Arc::new(code), call)
            }
            StmtKind::FilterBlock(filter, body) => {
                ops.push(self.filter_block(filter, body, line, frame)?);
                return Ok(());
            }
            StmtKind::Block { name, scoped, required, .. } => {
                if frame.toplevel && self.has_known_extends {
                    return Ok(());
                }
                let unless_parent = frame.toplevel && self.extends_so_far > 0;
                let scoped = scoped.then(|| self.funcs.visible(frame));
                OpKind::Block { name: name.clone(), scoped, required: *required, unless_parent }
            }
            StmtKind::Extends(template) => return self.extends(template, line, frame, ops),
            StmtKind::Include { template, ignore_missing, with_context } => {
                self.mark(line);
                let list = match &template.kind {
                    ExprKind::Const(Value::Str(_)) => Some(false),
                    ExprKind::Tuple(_) | ExprKind::List(_) => Some(true),
                    _ => None,
                };
                let template = self.expr(template, frame)?;
                let context = with_context.then(|| self.funcs.visible(frame));
                OpKind::Include { template, ignore_missing: *ignore_missing, context, list }
            }
            StmtKind::Import { template, target, with_context } => {
                self.mark(line);
                let slot = self.funcs.name(frame, target);
                let template = self.expr(template, frame)?;
                let context = with_context.then(|| self.funcs.visible(frame));
                OpKind::Import { template, slot, context, export: frame.toplevel.then(|| target.clone()) }
            }
            StmtKind::FromImport { template, names, with_context } => {
                self.mark(line);
                let template = self.expr(template, frame)?;
                let context = with_context.then(|| self.funcs.visible(frame));
                let names = names
                    .iter()
                    .map(|(name, alias)| (name.clone(), alias.clone(), self.funcs.name(frame, alias)))
                    .collect();
                OpKind::FromImport { template, names, context, toplevel: frame.toplevel }
            }
            StmtKind::Do(node) => {
                self.mark(line);
                OpKind::Do(self.expr(node, frame)?)
            }
            StmtKind::Scope(option, body) => {
                ops.push(self.scope(option, body, frame)?);
                return Ok(());
            }
            StmtKind::Break => {
                self.leave_loop("'break' outside loop", line);
                OpKind::Break
            }
            StmtKind::Continue => {
                self.leave_loop("'continue' not properly in loop", line);
                OpKind::Continue
            }
        };
        ops.push(Op { line, kind });
        Ok(())
    }

    fn filter_block(&mut self, filter: &Expr, body: &[Stmt], line: u32, frame: &Frame) -> Result<Op, Stop> {
        let inner = frame.inner(self.funcs.current());
        inner.symbols.borrow_mut().visit_all(body);
        inner.symbols.borrow_mut().visit_expr(filter);
        let enter = self.funcs.enter(&inner);
        let entry = self.line;
        let body = self.body(body, &inner)?;
        self.mark(line);
        let filter = self.expr(filter, &inner)?;
        let leave = self.funcs.leave(&inner);
        Ok(Op { line: entry, kind: OpKind::FilterBlock { enter, body, filter, line, leave } })
    }

    fn scope(&mut self, option: &Expr, body: &[Stmt], frame: &Frame) -> Result<Op, Stop> {
        let inner = frame.inner(self.funcs.current());
        inner.symbols.borrow_mut().visit_expr(option);
        inner.symbols.borrow_mut().visit_all(body);
        let enter = self.funcs.enter(&inner);
        let entry = self.line;
        let option = self.expr(option, &inner)?;
        let body = self.body(body, &inner)?;
        let leave = self.funcs.leave(&inner);
        Ok(Op { line: entry, kind: OpKind::Scope { option, enter, body, leave } })
    }

    /// Records `message` when `break` or `continue` is outside a loop.
    ///
    /// Python reports this only after the whole template has compiled, so an error further down comes first.
    fn leave_loop(&mut self, message: &str, line: u32) {
        self.mark(line);
        if !self.funcs.in_loop() {
            let kind = ErrorKind::Other("SyntaxError".into());
            let error = Error::syntax(kind, message, self.name.clone(), line);
            self.misplaced.get_or_insert(error);
        }
    }

    fn output(&mut self, parts: &[Expr], frame: &Frame, ops: &mut Vec<Op>) -> Result<(), Error> {
        if frame.output_check && self.has_known_extends {
            return Ok(());
        }
        let mut compiled: Vec<Part> = Vec::with_capacity(parts.len());
        let line = self.line;
        for part in parts {
            match &part.kind {
                ExprKind::Data(text) => compiled.push(Part::Text(text.clone())),
                // Jinja makes text of a literal when it compiles; the line of the preceding part continues.
                ExprKind::Const(_) => compiled.push(Part::Value(part.line, self.expr(part, frame)?)),
                _ => {
                    self.mark(part.line);
                    compiled.push(Part::Value(part.line, self.expr(part, frame)?));
                }
            }
        }
        ops.push(Op { line, kind: OpKind::Output(compiled, frame.output_check) });
        Ok(())
    }

    /// Ends the tracking of names and returns those that belong to the context.
    fn context_names(&mut self, frame: &Frame) -> Vec<(Str, Slot)> {
        let names = self.assigned.pop().unwrap_or_default();
        if !frame.toplevel || frame.loop_frame || frame.block_frame {
            return Vec::new();
        }
        names.into_iter().map(|name| (name.clone(), self.funcs.name(frame, &name))).collect()
    }

    fn assign(
        &mut self,
        target: &Expr,
        value: &Expr,
        line: u32,
        frame: &Frame,
        ops: &mut Vec<Op>,
    ) -> Result<(), Error> {
        self.assigned.push(Default::default());
        let mut names = Vec::new();
        namespace_names(target, &mut names);
        let check_line = self.line;
        let namespaces = names.iter().map(|name| self.funcs.name(frame, name)).collect();
        self.mark(line);
        let target = self.target(target, frame);
        let value = self.expr(value, frame)?;
        let context = self.context_names(frame);
        let op = AssignOp { target, value, namespaces, check_line, context };
        ops.push(Op { line, kind: OpKind::Assign(Box::new(op)) });
        Ok(())
    }

    fn assign_block(
        &mut self,
        target: &Expr,
        filter: Option<&Expr>,
        body: &[Stmt],
        line: u32,
        frame: &Frame,
    ) -> Result<OpKind, Error> {
        self.assigned.push(Default::default());
        let mut inner = frame.inner(self.funcs.current());
        inner.output_check = false;
        inner.symbols.borrow_mut().visit_all(body);
        let enter = self.funcs.enter(&inner);
        let body = self.body(body, &inner)?;
        self.mark(line);
        let target = self.target(target, frame);
        // Names that only the filter uses are unknown to the scope; they are looked up in the context.
        if let Some(filter) = filter {
            inner.symbols.borrow_mut().visit_expr(filter);
        }
        let filter = filter.map(|filter| self.expr(filter, &inner)).transpose()?;
        let context = self.context_names(frame);
        let leave = self.funcs.leave(&inner);
        Ok(OpKind::AssignBlock(Box::new(AssignBlockOp { target, enter, body, filter, line, leave, context })))
    }

    fn with(&mut self, targets: &[Expr], values: &[Expr], body: &[Stmt], frame: &Frame) -> Result<OpKind, Error> {
        let inner = frame.inner(self.funcs.current());
        for target in targets {
            inner.symbols.borrow_mut().visit_target(target, true);
        }
        inner.symbols.borrow_mut().visit_all(body);
        let enter = self.funcs.enter(&inner);
        let mut assigned = Vec::with_capacity(targets.len());
        for (target, value) in targets.iter().zip(values) {
            let target = self.target(target, &inner);
            assigned.push((target, self.expr(value, frame)?));
        }
        let body = self.body(body, &inner)?;
        let leave = self.funcs.leave(&inner);
        Ok(OpKind::With(Box::new(WithOp { enter, values: assigned, body, leave })))
    }

    fn extends(&mut self, template: &Expr, line: u32, frame: &Frame, ops: &mut Vec<Op>) -> Result<(), Stop> {
        if !frame.toplevel {
            return Err(Stop::Error(
                self.fail::<()>("cannot use extend from a non top-level scope", line)
                    .err()
                    .unwrap_or_else(|| Error::runtime("cannot use extend from a non top-level scope")),
            ));
        }
        let again = self.extends_so_far > 0;
        if again && self.has_known_extends {
            ops.push(Op { line: self.line, kind: OpKind::ExtendedTwice });
            return Err(Stop::Unreachable);
        }
        self.mark(line);
        let template = self.expr(template, frame)?;
        if frame.rootlevel {
            self.has_known_extends = true;
        }
        self.extends_so_far += 1;
        ops.push(Op { line, kind: OpKind::Extends { template, fail: again.then_some(true) } });
        Ok(())
    }

    fn macro_code(&mut self, def: &MacroDef, line: u32, frame: &Frame) -> Result<MacroCode, Error> {
        let id = self.funcs.begin();
        let mut inner = frame.inner(id);
        inner.output_check = false;
        let analyze = |inner: &Frame| {
            let mut symbols = inner.symbols.borrow_mut();
            def.params.iter().for_each(|param| {
                symbols.declare(param);
            });
            def.defaults.iter().for_each(|default| symbols.visit_expr(default));
            symbols.visit_all(&def.body);
        };
        analyze(&inner);
        let used = find_undeclared(&def.body, &["caller", "kwargs", "varargs"]);
        let explicit = def.params.iter().position(|param| &**param == "caller");
        let mut special = [None, None, None];
        for (slot, name) in special.iter_mut().zip(["caller", "kwargs", "varargs"]) {
            if !used.contains(&name) {
                continue;
            }
            if name == "caller"
                && let Some(index) = explicit
            {
                if index + def.defaults.len() < def.params.len() {
                    self.funcs.end();
                    return self.fail(
                        "When defining macros or call blocks the special \"caller\" argument must be omitted or be \
                         given a default.",
                        line,
                    );
                }
                let ident = inner.symbols.borrow().find(name).map(|(ident, _)| ident);
                *slot = ident.map(|ident| self.funcs.local(&ident));
            } else if !def.params.iter().any(|param| &**param == name) {
                let ident = inner.symbols.borrow_mut().declare(&name.into());
                *slot = Some(self.funcs.local(&ident));
            }
        }
        analyze(&inner);
        self.mark(line);
        let was_in_loop = self.funcs.set_in_loop(false);
        let enter = self.funcs.enter(&inner);
        let first_default = def.params.len() - def.defaults.len();
        let mut params = Vec::with_capacity(def.params.len());
        for (index, param) in def.params.iter().enumerate() {
            let slot = self.funcs.name(&inner, param);
            let default = index.checked_sub(first_default).and_then(|index| def.defaults.get(index));
            let default = default.map(|default| self.expr(default, &inner)).transpose()?;
            params.push((param.clone(), slot, default));
        }
        let tracked = std::mem::take(&mut self.assigned);
        let body = self.body(&def.body, &inner)?;
        self.assigned = tracked;
        self.funcs.set_in_loop(was_in_loop);
        let built = self.funcs.end();
        let code = func(built, "template", enter, body, line);
        let [caller, kwargs, varargs] = special;
        Ok(MacroCode { name: def.name.clone(), func: Arc::new(code), params, caller, kwargs, varargs })
    }

    fn for_loop(&mut self, node: &For, line: u32, frame: &Frame) -> Result<OpKind, Error> {
        let mut scoped = false;
        let mut loop_set = set_line(&node.target);
        let mut visit = |statement: &Stmt| {
            scoped |= matches!(statement.kind, StmtKind::Block { scoped: true, .. });
            loop_set = loop_set.or_else(|| sets_loop(statement));
        };
        walk(&node.body, &mut visit);
        walk(&node.or_else, &mut visit);
        let extended = node.recursive || scoped || !find_undeclared(&node.body, &["loop"]).is_empty();
        let iter = if node.recursive { None } else { Some(()) };
        let outer = self.funcs.current();
        let id = if node.recursive { self.funcs.begin() } else { outer };
        let mut loop_frame = frame.inner(id);
        loop_frame.loop_frame = true;
        let mut loop_slot = None;
        if extended {
            let ident = loop_frame.symbols.borrow_mut().declare(&"loop".into());
            loop_slot = Some(self.funcs.local(&ident));
        }
        loop_frame.symbols.borrow_mut().visit_target(&node.target, true);
        loop_frame.symbols.borrow_mut().visit_all(&node.body);
        let else_frame = frame.inner(id);
        else_frame.symbols.borrow_mut().visit_all(&node.or_else);

        let test = node.test.as_ref().map(|test| self.loop_test(node, test, frame)).transpose()?;
        if let Some(line) = loop_set {
            return self.fail("Can't assign to special loop variable in for-loop target", line);
        }
        self.mark(line);
        self.assigned.push(Default::default());
        let target = self.target(&node.target, &loop_frame);
        self.assigned.pop();
        let iter_ex = match iter {
            Some(()) => Some(self.expr(&node.iter, frame)?),
            None => None,
        };
        let was_in_loop = self.funcs.set_in_loop(true);
        let enter = self.funcs.enter(&loop_frame);
        let body = self.body(&node.body, &loop_frame)?;
        self.funcs.set_in_loop(if node.recursive { false } else { was_in_loop });
        let leave = self.funcs.leave(&loop_frame);
        let else_enter = self.funcs.enter(&else_frame);
        let or_else = self.body(&node.or_else, &else_frame)?;
        let else_leave = self.funcs.leave(&else_frame);
        let vars = self.loop_vars(&node.body, &loop_frame);
        let core =
            LoopCore { line, target, test, loop_slot, enter, body, leave, else_enter, or_else, else_leave, vars };
        let mut recursive = None;
        if node.recursive {
            let built = self.funcs.end();
            recursive = Some(Arc::new(func(built, "template", Vec::new(), Vec::new(), line)));
        }
        let iter = match iter_ex {
            Some(iter) => iter,
            None => {
                self.mark(line);
                self.expr(&node.iter, frame)?
            }
        };
        if let Some(names) = self.assigned.last_mut() {
            let stores = loop_frame.symbols.borrow().stores.clone();
            names.retain(|name| !stores.contains(name));
        }
        Ok(OpKind::For(Box::new(ForOp { iter, core: Arc::new(core), recursive, line })))
    }

    fn loop_vars(&mut self, body: &[Stmt], frame: &Frame) -> Vec<(Str, Slot)> {
        let mut names: Vec<Str> = Vec::new();
        for statement in body {
            if let StmtKind::Assign(Expr { kind: ExprKind::Name(name), .. }, _) = &statement.kind
                && !names.contains(name)
            {
                names.push(name.clone());
            }
        }
        names.into_iter().map(|name| (name.clone(), self.funcs.name(frame, &name))).collect()
    }

    fn loop_test(&mut self, node: &For, test: &Expr, frame: &Frame) -> Result<Arc<TestCode>, Error> {
        let id = self.funcs.begin();
        let test_frame = frame.inner(id);
        test_frame.symbols.borrow_mut().visit_target(&node.target, true);
        test_frame.symbols.borrow_mut().visit_expr(test);
        self.mark(test.line);
        let enter = self.funcs.enter(&test_frame);
        self.assigned.push(Default::default());
        let target = self.target(&node.target, &test_frame);
        self.assigned.pop();
        let test_ex = self.expr(test, &test_frame)?;
        let built = self.funcs.end();
        let code = func(built, "template", enter, Vec::new(), test.line);
        Ok(Arc::new(TestCode { func: Arc::new(code), target, test: test_ex, line: test.line }))
    }
}

fn set_line(target: &Expr) -> Option<u32> {
    match &target.kind {
        ExprKind::Name(name) if &**name == "loop" => Some(target.line),
        ExprKind::Tuple(items) => items.iter().find_map(set_line),
        _ => None,
    }
}

/// The line on which a statement sets `loop`.
fn sets_loop(statement: &Stmt) -> Option<u32> {
    match &statement.kind {
        StmtKind::Assign(target, _) | StmtKind::AssignBlock(target, ..) => set_line(target),
        StmtKind::For(node) => set_line(&node.target),
        _ => None,
    }
}
