//! Finds special names (`loop`, `caller`, `self` …) that statements use without setting them first.

use super::symbols::children;
use crate::syntax::tree::{Expr, ExprKind, MacroDef, Stmt, StmtKind};
use crate::value::Str;

struct Search<'a> {
    wanted: Vec<&'a str>,
    found: Vec<&'a str>,
}

/// Returns those of the names that are used before they are set, in the order the tree is walked.
pub(crate) fn find_undeclared<'a>(statements: &[Stmt], names: &[&'a str]) -> Vec<&'a str> {
    let mut search = Search { wanted: names.to_vec(), found: Vec::new() };
    search.all(statements);
    search.found
}

impl Search<'_> {
    fn all(&mut self, statements: &[Stmt]) {
        statements.iter().for_each(|statement| self.statement(statement));
    }

    fn statement(&mut self, statement: &Stmt) {
        match &statement.kind {
            StmtKind::Output(parts) => self.exprs(parts),
            StmtKind::For(node) => {
                // The order is that of Jinja's tree, not that of evaluation: the target comes before the iterated
                // expression.
                self.target(&node.target);
                self.expr(&node.iter);
                self.all(&node.body);
                self.all(&node.or_else);
                node.test.iter().for_each(|test| self.expr(test));
            }
            StmtKind::If(node) => {
                for (_, test, body) in &node.branches {
                    self.expr(test);
                    self.all(body);
                }
                self.all(&node.or_else);
            }
            StmtKind::Assign(target, value) => {
                self.target(target);
                self.expr(value);
            }
            StmtKind::AssignBlock(target, filter, body) => {
                self.target(target);
                filter.iter().for_each(|filter| self.expr(filter));
                self.all(body);
            }
            StmtKind::With(targets, values, body) => {
                targets.iter().for_each(|target| self.target(target));
                self.exprs(values);
                self.all(body);
            }
            StmtKind::Macro(def) => self.definition(def),
            StmtKind::CallBlock(def, call) => {
                self.expr(call);
                self.definition(def);
            }
            StmtKind::FilterBlock(filter, body) => {
                self.all(body);
                self.expr(filter);
            }
            StmtKind::Extends(template)
            | StmtKind::Include { template, .. }
            | StmtKind::Import { template, .. }
            | StmtKind::FromImport { template, .. }
            | StmtKind::Do(template) => self.expr(template),
            StmtKind::Scope(option, body) => {
                self.expr(option);
                self.all(body);
            }
            StmtKind::Block { .. } | StmtKind::Break | StmtKind::Continue => {}
        }
    }

    fn definition(&mut self, def: &MacroDef) {
        def.params.iter().for_each(|param| self.set(param));
        self.exprs(&def.defaults);
        self.all(&def.body);
    }

    fn exprs(&mut self, exprs: &[Expr]) {
        exprs.iter().for_each(|expr| self.expr(expr));
    }

    fn expr(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Name(name) => {
                if let Some(name) = self.wanted.iter().find(|wanted| **wanted == &**name)
                    && !self.found.contains(name)
                {
                    self.found.push(name);
                }
            }
            _ => children(expr, &mut |child| self.expr(child)),
        }
    }

    fn target(&mut self, target: &Expr) {
        match &target.kind {
            ExprKind::Name(name) => self.set(name),
            ExprKind::Tuple(items) => items.iter().for_each(|item| self.target(item)),
            _ => {}
        }
    }

    fn set(&mut self, name: &Str) {
        // From here on the name means the variable that was set.
        self.wanted.retain(|wanted| *wanted != &**name);
    }
}

/// Walks all statements below and including these.
pub(crate) fn walk(statements: &[Stmt], visit: &mut dyn FnMut(&Stmt)) {
    for statement in statements {
        visit(statement);
        match &statement.kind {
            StmtKind::For(node) => {
                walk(&node.body, visit);
                walk(&node.or_else, visit);
            }
            StmtKind::If(node) => {
                node.branches.iter().for_each(|(_, _, body)| walk(body, visit));
                walk(&node.or_else, visit);
            }
            StmtKind::AssignBlock(_, _, body)
            | StmtKind::With(_, _, body)
            | StmtKind::FilterBlock(_, body)
            | StmtKind::Scope(_, body)
            | StmtKind::Block { body, .. } => walk(body, visit),
            StmtKind::Macro(def) | StmtKind::CallBlock(def, _) => walk(&def.body, visit),
            _ => {}
        }
    }
}
