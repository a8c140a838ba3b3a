//! Decides which scope a name belongs to, by the rules of Jinja's `idtracking.py`.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use indexmap::IndexMap;

use crate::syntax::tree::{Args, Expr, ExprKind, Stmt, StmtKind};
use crate::value::Str;

/// A variable of a scope: its level and its name.
pub(crate) type Ident = (u32, Str);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SymbolLoad {
    Parameter,
    Resolve(Str),
    Alias(Ident),
    Undefined,
}

/// The names of one scope.
#[derive(Clone)]
pub(crate) struct Symbols {
    pub level: u32,
    pub parent: Option<Rc<RefCell<Symbols>>>,
    /// The function that the scope belongs to.
    pub func: usize,
    pub refs: IndexMap<Str, Ident>,
    pub loads: IndexMap<Ident, SymbolLoad>,
    pub stores: BTreeSet<Str>,
}

impl Symbols {
    pub fn new(parent: Option<Rc<RefCell<Symbols>>>, func: usize) -> Self {
        let level = parent.as_ref().map_or(0, |parent| parent.borrow().level + 1);
        Symbols { level, parent, func, refs: IndexMap::new(), loads: IndexMap::new(), stores: BTreeSet::new() }
    }

    fn define(&mut self, name: &Str, load: SymbolLoad) -> Ident {
        let ident = (self.level, name.clone());
        self.refs.insert(name.clone(), ident.clone());
        self.loads.insert(ident.clone(), load);
        ident
    }

    /// Returns the variable that a name refers to here, and the function that owns it.
    pub fn find(&self, name: &str) -> Option<(Ident, usize)> {
        if let Some(ident) = self.refs.get(name) {
            return Some((ident.clone(), self.func));
        }
        self.parent.as_ref().and_then(|parent| parent.borrow().find(name))
    }

    fn parent_ref(&self, name: &str) -> Option<Ident> {
        self.parent.as_ref().and_then(|parent| parent.borrow().find(name)).map(|(ident, _)| ident)
    }

    pub fn store(&mut self, name: &Str) {
        self.stores.insert(name.clone());
        if !self.refs.contains_key(name) {
            // A name set here is a new variable. It starts with the outer value, so that reading before setting works,
            // but the outer variable never changes: this is why a `set` in a loop is lost after it.
            let load = self.parent_ref(name).map_or(SymbolLoad::Undefined, SymbolLoad::Alias);
            self.define(name, load);
        }
    }

    pub fn declare(&mut self, name: &Str) -> Ident {
        self.stores.insert(name.clone());
        self.define(name, SymbolLoad::Parameter)
    }

    pub fn load(&mut self, name: &Str) {
        if self.find(name).is_none() {
            self.define(name, SymbolLoad::Resolve(name.clone()));
        }
    }

    fn merge_branches(&mut self, branches: [Symbols; 3]) {
        let mut stores: BTreeSet<Str> = branches.iter().flat_map(|branch| branch.stores.iter().cloned()).collect();
        // Names that were set before the `if` keep their load.
        stores.retain(|name| !self.stores.contains(name));
        for branch in branches {
            self.refs.extend(branch.refs);
            self.loads.extend(branch.loads);
            self.stores.extend(branch.stores);
        }
        for name in stores {
            let Some((target, _)) = self.find(&name) else { continue };
            // A name that only some branches set must show the outer value or the context's if none of them ran.
            let load = self.parent_ref(&name).map_or_else(|| SymbolLoad::Resolve(name.clone()), SymbolLoad::Alias);
            self.loads.insert(target, load);
        }
    }

    /// Returns all names set here and around, each with the variable it means here.
    pub fn all_stores(&self) -> Vec<Str> {
        let mut names: Vec<Str> = self.stores.iter().cloned().collect();
        let mut node = self.parent.clone();
        while let Some(symbols) = node {
            let symbols = symbols.borrow();
            for name in &symbols.stores {
                if !names.contains(name) {
                    // Inner scopes first: they hide outer variables of the same name.
                    names.push(name.clone());
                }
            }
            let next = symbols.parent.clone();
            drop(symbols);
            node = next;
        }
        names
    }

    pub fn visit_all(&mut self, statements: &[Stmt]) {
        statements.iter().for_each(|statement| self.visit(statement));
    }

    fn visit(&mut self, statement: &Stmt) {
        match &statement.kind {
            StmtKind::Output(parts) => parts.iter().for_each(|part| self.visit_expr(part)),
            StmtKind::If(node) => {
                let Some(((_, test, body), others)) = node.branches.split_first() else { return };
                self.visit_expr(test);
                let body = self.branch(|symbols| symbols.visit_all(body));
                let elif = self.branch(|symbols| {
                    for (_, test, body) in others {
                        symbols.visit_expr(test);
                        let body = symbols.branch(|inner| inner.visit_all(body));
                        let empty = symbols.clone();
                        // In Jinja's tree each `elif` is a separate `if`, without further branches.
                        symbols.merge_branches([body, empty.clone(), empty]);
                    }
                });
                let or_else = self.branch(|symbols| symbols.visit_all(&node.or_else));
                self.merge_branches([body, elif, or_else]);
            }
            StmtKind::Macro(def) => {
                if let Some(name) = &def.name {
                    self.store(name);
                }
            }
            StmtKind::Import { template, target, .. } => {
                self.visit_expr(template);
                self.store(target);
            }
            StmtKind::FromImport { template, names, .. } => {
                self.visit_expr(template);
                names.iter().for_each(|(_, alias)| self.store(alias));
            }
            StmtKind::Assign(target, value) => {
                self.visit_expr(value);
                self.visit_target(target, false);
            }
            StmtKind::AssignBlock(target, ..) => self.visit_target(target, false),
            // The analysis stops at statements with separate scopes. Only their expressions belong to this one.
            StmtKind::For(node) => self.visit_expr(&node.iter),
            StmtKind::CallBlock(_, call) => self.visit_expr(call),
            StmtKind::FilterBlock(filter, _) => self.visit_expr(filter),
            StmtKind::With(_, values, _) => values.iter().for_each(|value| self.visit_expr(value)),
            StmtKind::Extends(template) | StmtKind::Include { template, .. } | StmtKind::Do(template) => {
                self.visit_expr(template);
            }
            StmtKind::Block { .. } | StmtKind::Scope(..) | StmtKind::Break | StmtKind::Continue => {}
        }
    }

    fn branch(&self, visit: impl FnOnce(&mut Symbols)) -> Symbols {
        let mut symbols = self.clone();
        visit(&mut symbols);
        symbols
    }

    /// Records the names that a target sets: as parameters if they are always set when the scope is entered.
    pub fn visit_target(&mut self, target: &Expr, parameter: bool) {
        match &target.kind {
            ExprKind::Name(name) if parameter => {
                self.declare(name);
            }
            ExprKind::Name(name) => self.store(name),
            ExprKind::NamespaceRef(name, _) => self.load(name),
            ExprKind::Tuple(items) => items.iter().for_each(|item| self.visit_target(item, parameter)),
            _ => {}
        }
    }

    pub fn visit_expr(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Name(name) => self.load(name),
            _ => children(expr, &mut |child| self.visit_expr(child)),
        }
    }
}

/// Visits the parts of an expression in order.
pub(crate) fn children(expr: &Expr, visit: &mut dyn FnMut(&Expr)) {
    match &expr.kind {
        ExprKind::Const(_) | ExprKind::Data(_) | ExprKind::Name(_) | ExprKind::NamespaceRef(..) => {}
        ExprKind::Tuple(items) | ExprKind::List(items) | ExprKind::Concat(items) => items.iter().for_each(visit),
        ExprKind::Dict(items) => items.iter().for_each(|(key, value)| {
            visit(key);
            visit(value);
        }),
        ExprKind::Attr(node, _) | ExprKind::Not(node) | ExprKind::Neg(node) | ExprKind::Pos(node) => visit(node),
        ExprKind::Item(node, index) => {
            visit(node);
            visit(index);
        }
        ExprKind::Slice(start, stop, step) => [start, stop, step].into_iter().flatten().for_each(|part| visit(part)),
        ExprKind::Call(node, args) | ExprKind::Test(node, _, args) => {
            visit(node);
            visit_args(args, visit);
        }
        ExprKind::Filter(node, _, args) => {
            node.iter().for_each(|node| visit(node));
            visit_args(args, visit);
        }
        ExprKind::Binary(_, left, right) | ExprKind::And(left, right) | ExprKind::Or(left, right) => {
            visit(left);
            visit(right);
        }
        ExprKind::Compare(first, others) => {
            visit(first);
            others.iter().for_each(|(_, other)| visit(other));
        }
        ExprKind::Cond(test, first, other) => {
            visit(test);
            visit(first);
            other.iter().for_each(|other| visit(other));
        }
    }
}

fn visit_args(args: &Args, visit: &mut dyn FnMut(&Expr)) {
    args.args.iter().for_each(&mut *visit);
    args.kwargs.iter().for_each(|(_, value)| visit(value));
    args.dyn_args.iter().for_each(|value| visit(value));
    args.dyn_kwargs.iter().for_each(|value| visit(value));
}
