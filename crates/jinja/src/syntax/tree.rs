//! The tree of a template.

use crate::python::{BinOp, CmpOp};
use crate::value::{Str, Value};

/// An expression and the line Jinja gives it.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub line: u32,
    pub kind: ExprKind,
}

#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    Const(Value),
    /// Text between tags.
    Data(Str),
    Name(Str),
    /// `name.attr` as a target of an assignment.
    NamespaceRef(Str, Str),
    Tuple(Vec<Expr>),
    List(Vec<Expr>),
    Dict(Vec<(Expr, Expr)>),
    Attr(Box<Expr>, Str),
    Item(Box<Expr>, Box<Expr>),
    Slice(Option<Box<Expr>>, Option<Box<Expr>>, Option<Box<Expr>>),
    Call(Box<Expr>, Args),
    /// The filtered expression is none inside `filter` and `set` blocks.
    Filter(Option<Box<Expr>>, Str, Args),
    Test(Box<Expr>, Str, Args),
    Binary(BinOp, Box<Expr>, Box<Expr>),
    Compare(Box<Expr>, Vec<(CmpOp, Expr)>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Not(Box<Expr>),
    Neg(Box<Expr>),
    Pos(Box<Expr>),
    Concat(Vec<Expr>),
    /// The condition, the value if true, and the value if false.
    Cond(Box<Expr>, Box<Expr>, Option<Box<Expr>>),
}

/// The arguments of a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Args {
    pub args: Vec<Expr>,
    pub kwargs: Vec<(Str, Expr)>,
    pub dyn_args: Option<Box<Expr>>,
    pub dyn_kwargs: Option<Box<Expr>>,
}

/// A statement and its line.
#[derive(Clone, Debug)]
pub(crate) struct Stmt {
    pub line: u32,
    pub kind: StmtKind,
}

#[derive(Clone, Debug)]
pub(crate) struct For {
    pub target: Expr,
    pub iter: Expr,
    pub test: Option<Expr>,
    pub body: Vec<Stmt>,
    pub or_else: Vec<Stmt>,
    pub recursive: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct If {
    /// Conditions, their lines and what they guard.
    pub branches: Vec<(u32, Expr, Vec<Stmt>)>,
    pub or_else: Vec<Stmt>,
}

#[derive(Clone, Debug)]
pub(crate) struct MacroDef {
    /// None for the body of a `call` block.
    pub name: Option<Str>,
    pub params: Vec<Str>,
    /// The defaults of the last parameters.
    pub defaults: Vec<Expr>,
    pub body: Vec<Stmt>,
}

#[derive(Clone, Debug)]
pub(crate) enum StmtKind {
    Output(Vec<Expr>),
    For(Box<For>),
    If(Box<If>),
    Assign(Expr, Expr),
    AssignBlock(Expr, Option<Expr>, Vec<Stmt>),
    With(Vec<Expr>, Vec<Expr>, Vec<Stmt>),
    Macro(Box<MacroDef>),
    CallBlock(Box<MacroDef>, Expr),
    FilterBlock(Expr, Vec<Stmt>),
    Block {
        name: Str,
        body: Vec<Stmt>,
        scoped: bool,
        required: bool,
    },
    Extends(Expr),
    Include {
        template: Expr,
        ignore_missing: bool,
        with_context: bool,
    },
    Import {
        template: Expr,
        target: Str,
        with_context: bool,
    },
    FromImport {
        template: Expr,
        names: Vec<(Str, Str)>,
        with_context: bool,
    },
    Do(Expr),
    Break,
    Continue,
    /// Statements in a separate scope (`autoescape`).
    Scope(Expr, Vec<Stmt>),
}
