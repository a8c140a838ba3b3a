//! Compiled code: a tree whose variables are slots of the enclosing function.

use std::sync::Arc;

use crate::python::{BinOp, CmpOp};
use crate::value::{Native, Str, Value};

/// A place for a variable in a function.
pub(crate) type Slot = usize;

/// A compiled template.
pub(crate) struct Code {
    pub name: Option<Str>,
    pub root: Arc<Func>,
    pub blocks: Vec<(Str, Arc<Func>)>,
    /// True if its expressions are so deep that they need a large stack.
    pub deep: bool,
}

/// A function: the template itself, a block, a macro, a recursive loop or the condition of a loop.
pub(crate) struct Func {
    /// Its name in tracebacks.
    pub location: Str,
    pub slots: usize,
    /// Variables shared with the enclosing function: the slot there and the slot here.
    pub captures: Vec<(Slot, Slot)>,
    pub enter: Vec<Load>,
    pub body: Vec<Op>,
    /// The line before the first statement.
    pub line: u32,
    /// The slot of `self`.
    pub self_slot: Option<Slot>,
    /// The slot of `super`, in a block.
    pub super_slot: Option<Slot>,
    /// The block's name.
    pub block: Option<Str>,
    /// True if a parent template may follow.
    pub has_extends: bool,
}

/// The initialization of a variable when its scope is entered.
pub(crate) struct Load {
    pub slot: Slot,
    pub kind: LoadKind,
}

pub(crate) enum LoadKind {
    Resolve(Str),
    Alias(Slot),
    Undefined,
}

pub(crate) enum Part {
    Text(Str),
    Value(u32, Ex),
}

/// The target of an assignment.
pub(crate) enum Target {
    Slot(Slot),
    Tuple(Vec<Target>),
    /// An attribute of a namespace.
    Namespace(Slot, Str),
}

pub(crate) struct Op {
    pub line: u32,
    pub kind: OpKind,
}

pub(crate) enum OpKind {
    /// Text and values; the flag suppresses them once there is a parent template.
    Output(Vec<Part>, bool),
    If(Vec<(u32, Ex, Vec<Op>)>, Vec<Op>),
    For(Box<ForOp>),
    Assign(Box<AssignOp>),
    AssignBlock(Box<AssignBlockOp>),
    With(Box<WithOp>),
    Macro {
        def: Arc<MacroCode>,
        slot: Slot,
        context: Option<Str>,
    },
    CallBlock(Arc<MacroCode>, Ex),
    FilterBlock {
        enter: Vec<Load>,
        body: Vec<Op>,
        filter: Ex,
        line: u32,
        leave: Vec<Slot>,
    },
    Block {
        name: Str,
        scoped: Option<Vec<(Str, Slot)>>,
        required: bool,
        unless_parent: bool,
    },
    Extends {
        template: Ex,
        fail: Option<bool>,
    },
    ExtendedTwice,
    Include {
        template: Ex,
        ignore_missing: bool,
        context: Option<Vec<(Str, Slot)>>,
        list: Option<bool>,
    },
    Import {
        template: Ex,
        slot: Slot,
        context: Option<Vec<(Str, Slot)>>,
        export: Option<Str>,
    },
    FromImport {
        template: Ex,
        names: Vec<(Str, Str, Slot)>,
        context: Option<Vec<(Str, Slot)>>,
        toplevel: bool,
    },
    Do(Ex),
    Scope {
        option: Ex,
        enter: Vec<Load>,
        body: Vec<Op>,
        leave: Vec<Slot>,
    },
    Break,
    Continue,
}

pub(crate) struct AssignOp {
    pub target: Target,
    pub value: Ex,
    /// Slots that must hold namespaces, and the line to report.
    pub namespaces: Vec<Slot>,
    pub check_line: u32,
    /// Variables of the context that change with it.
    pub context: Vec<(Str, Slot)>,
}

pub(crate) struct AssignBlockOp {
    pub target: Target,
    pub enter: Vec<Load>,
    pub body: Vec<Op>,
    pub filter: Option<Ex>,
    pub line: u32,
    pub leave: Vec<Slot>,
    pub context: Vec<(Str, Slot)>,
}

pub(crate) struct WithOp {
    pub enter: Vec<Load>,
    pub values: Vec<(Target, Ex)>,
    pub body: Vec<Op>,
    pub leave: Vec<Slot>,
}

pub(crate) struct ForOp {
    pub iter: Ex,
    pub core: Arc<LoopCore>,
    /// The function that runs the loop, if it is recursive.
    pub recursive: Option<Arc<Func>>,
    /// The line of the output after a recursive call of a loop.
    pub line: u32,
}

pub(crate) struct LoopCore {
    pub line: u32,
    pub target: Target,
    pub test: Option<Arc<TestCode>>,
    pub loop_slot: Option<Slot>,
    pub enter: Vec<Load>,
    pub body: Vec<Op>,
    pub leave: Vec<Slot>,
    pub else_enter: Vec<Load>,
    pub or_else: Vec<Op>,
    pub else_leave: Vec<Slot>,
    /// Variables set in the body, for functions that use the context.
    pub vars: Vec<(Str, Slot)>,
}

pub(crate) struct TestCode {
    pub func: Arc<Func>,
    pub target: Target,
    pub test: Ex,
    pub line: u32,
}

pub(crate) struct MacroCode {
    pub name: Option<Str>,
    pub func: Arc<Func>,
    pub params: Vec<(Str, Slot, Option<Ex>)>,
    pub caller: Option<Slot>,
    pub kwargs: Option<Slot>,
    pub varargs: Option<Slot>,
}

/// The arguments of a call.
#[derive(Default)]
pub(crate) struct ArgsEx {
    pub args: Vec<Ex>,
    pub kwargs: Vec<(Str, Ex)>,
    pub dyn_args: Option<Ex>,
    pub dyn_kwargs: Option<Ex>,
}

pub(crate) struct NamedCall {
    pub name: Str,
    /// `None` if the environment does not know it: an error when it is called.
    pub call: Option<Native>,
    pub args: ArgsEx,
}

pub(crate) enum Ex {
    Const(Value),
    Var(Slot, Str),
    /// The captured text of a `filter` or `set` block.
    Captured,
    Tuple(Vec<Ex>),
    List(Vec<Ex>),
    Dict(Vec<(Ex, Ex)>),
    Attr(Box<Ex>, Str),
    Item(Box<Ex>, Box<Ex>),
    /// The object, then start, stop and step.
    Slice(Box<(Ex, [Option<Ex>; 3])>),
    Call(Box<(Ex, ArgsEx)>),
    Filter(Box<(Ex, NamedCall)>),
    Test(Box<(Ex, NamedCall)>),
    Binary(BinOp, Box<(Ex, Ex)>),
    Compare(Box<(Ex, Vec<(CmpOp, Ex)>)>),
    And(Box<(Ex, Ex)>),
    Or(Box<(Ex, Ex)>),
    Not(Box<Ex>),
    Neg(Box<Ex>),
    Pos(Box<Ex>),
    Concat(Vec<Ex>),
    /// The condition, the value if true, the value if false, and the line for the message without an else.
    Cond(Box<(Ex, Ex, Option<Ex>)>, u32),
}
