//! Compiles templates: the root, then its blocks.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::code::{Code, Func, Op};
use super::frames::{Frame, FuncBuilder, Funcs};
use super::undeclared::{find_undeclared, walk};
use crate::env::Environment;
use crate::error::{Error, ErrorKind};
use crate::run::on_new_stack;
use crate::syntax::parse;
use crate::syntax::tree::{Stmt, StmtKind};
use crate::value::Str;

pub(super) struct Generator<'a> {
    pub env: &'a Environment,
    pub name: Option<Str>,
    pub funcs: Funcs,
    /// The line that Jinja would report for an error here.
    pub line: u32,
    pub has_known_extends: bool,
    pub extends_so_far: u32,
    /// The first `break` or `continue` outside of a loop. Jinja does not check for this: Python reports it when it
    /// compiles the code generated from the
    /// whole template.
    pub misplaced: Option<Error>,
    /// The names that the enclosing statements assign.
    pub assigned: Vec<BTreeSet<Str>>,
}

/// The reason why the compilation of a body ends early.
pub(super) enum Stop {
    Error(Error),
    Unreachable,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Error(error)
    }
}

/// Compiles a template's text.
pub(crate) fn compile(env: &Environment, name: Option<Str>, source: &str) -> Result<Code, Error> {
    let (body, deep) = parse(env, name.clone(), source)?;
    if deep {
        return on_new_stack(move || {
            let code = generate(env, name, &body);
            // Dropping a deep tree recurses, too, and needs the large stack.
            drop(body);
            code.map(|code| Code { deep, ..code })
        });
    }
    generate(env, name, &body)
}

fn generate(env: &Environment, name: Option<Str>, body: &[Stmt]) -> Result<Code, Error> {
    let mut generator = Generator {
        env,
        name: name.clone(),
        funcs: Funcs::default(),
        line: 1,
        has_known_extends: false,
        extends_so_far: 0,
        misplaced: None,
        assigned: Vec::new(),
    };
    // In Jinja's order, which decides which of several errors is reported: duplicate blocks, the root, the blocks,
    // misplaced `break`s.
    let blocks = generator.collect_blocks(body)?;
    let root = generator.root(body)?;
    let blocks = blocks
        .into_iter()
        .map(|block| Ok((block.name.clone(), generator.block(block)?)))
        .collect::<Result<_, Error>>()?;
    if let Some(error) = generator.misplaced {
        return Err(error);
    }
    Ok(Code { name, root, blocks, deep: false })
}

pub(super) struct BlockDef<'b> {
    name: Str,
    line: u32,
    body: &'b [Stmt],
}

impl Generator<'_> {
    pub fn fail<T>(&self, message: impl Into<String>, line: u32) -> Result<T, Error> {
        Err(Error::syntax(ErrorKind::TemplateAssertion, message, self.name.clone(), line))
    }

    fn collect_blocks<'b>(&self, body: &'b [Stmt]) -> Result<Vec<BlockDef<'b>>, Error> {
        let mut found: Vec<(Str, u32, *const Stmt)> = Vec::new();
        let mut twice = None;
        walk(body, &mut |statement| {
            if let StmtKind::Block { name, .. } = &statement.kind {
                if found.iter().any(|(have, ..)| have == name) {
                    twice.get_or_insert((name.clone(), statement.line));
                }
                found.push((name.clone(), statement.line, statement));
            }
        });
        if let Some((name, line)) = twice {
            return self.fail(format!("block {} defined twice", crate::python::repr_str(&name)), line);
        }
        let mut blocks = Vec::new();
        collect(body, &mut blocks);
        Ok(blocks)
    }

    fn finish(&mut self, location: &str, enter: Vec<super::code::Load>, body: Vec<Op>, line: u32) -> Func {
        let built = self.funcs.end();
        func(built, location, enter, body, line)
    }

    fn root(&mut self, body: &[Stmt]) -> Result<Arc<Func>, Error> {
        let mut has_extends = false;
        walk(body, &mut |statement| has_extends |= matches!(statement.kind, StmtKind::Extends(_)));
        let id = self.funcs.begin();
        let mut frame = Frame::root(id);
        let mut self_slot = None;
        if !find_undeclared(body, &["self"]).is_empty() {
            let ident = frame.symbols.borrow_mut().declare(&"self".into());
            self_slot = Some(self.funcs.local(&ident));
        }
        frame.symbols.borrow_mut().visit_all(body);
        frame.toplevel = true;
        frame.rootlevel = true;
        // Somewhere an `extends` may run, perhaps below a condition: text then depends on it.
        frame.output_check = has_extends;
        let line = self.line;
        let enter = self.funcs.enter(&frame);
        let ops = self.body(body, &frame)?;
        let mut func = self.finish("top-level template code", enter, ops, line);
        func.self_slot = self_slot;
        func.has_extends = has_extends;
        Ok(Arc::new(func))
    }

    fn block(&mut self, block: BlockDef) -> Result<Arc<Func>, Error> {
        self.line = block.line;
        let id = self.funcs.begin();
        let mut frame = Frame::root(id);
        frame.block_frame = true;
        let special = find_undeclared(block.body, &["self", "super"]);
        let mut slots = [None, None];
        for (slot, name) in slots.iter_mut().zip(["self", "super"]) {
            if special.contains(&name) {
                let ident = frame.symbols.borrow_mut().declare(&name.into());
                *slot = Some(self.funcs.local(&ident));
            }
        }
        frame.symbols.borrow_mut().visit_all(block.body);
        let enter = self.funcs.enter(&frame);
        let ops = self.body(block.body, &frame)?;
        let mut func = self.finish(&format!("block '{}'", block.name), enter, ops, block.line);
        [func.self_slot, func.super_slot] = slots;
        func.block = Some(block.name);
        Ok(Arc::new(func))
    }

    /// Compiles statements; what follows a second `extends` is dropped.
    pub fn body(&mut self, statements: &[Stmt], frame: &Frame) -> Result<Vec<Op>, Error> {
        let mut ops = Vec::with_capacity(statements.len());
        for statement in statements {
            match self.statement(statement, frame, &mut ops) {
                Ok(()) => {}
                // Jinja drops what follows, errors included.
                Err(Stop::Unreachable) => break,
                Err(Stop::Error(error)) => return Err(error),
            }
        }
        Ok(ops)
    }
}

pub(super) fn func(
    built: Option<FuncBuilder>,
    location: &str,
    enter: Vec<super::code::Load>,
    body: Vec<Op>,
    line: u32,
) -> Func {
    let (slots, captures) = built.map_or((0, Vec::new()), |built| (built.count, built.captures));
    Func {
        location: location.into(),
        slots,
        captures,
        enter,
        body,
        line,
        self_slot: None,
        super_slot: None,
        block: None,
        has_extends: false,
    }
}

fn collect<'b>(body: &'b [Stmt], blocks: &mut Vec<BlockDef<'b>>) {
    for statement in body {
        match &statement.kind {
            StmtKind::Block { name, body, .. } => {
                blocks.push(BlockDef { name: name.clone(), line: statement.line, body });
                collect(body, blocks);
            }
            StmtKind::For(node) => {
                collect(&node.body, blocks);
                collect(&node.or_else, blocks);
            }
            StmtKind::If(node) => {
                node.branches.iter().for_each(|(_, _, body)| collect(body, blocks));
                collect(&node.or_else, blocks);
            }
            StmtKind::AssignBlock(_, _, body)
            | StmtKind::With(_, _, body)
            | StmtKind::FilterBlock(_, body)
            | StmtKind::Scope(_, body) => collect(body, blocks),
            StmtKind::Macro(def) | StmtKind::CallBlock(def, _) => collect(&def.body, blocks),
            _ => {}
        }
    }
}
