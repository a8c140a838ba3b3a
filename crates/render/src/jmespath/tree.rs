//! The syntax tree of an expression.

use std::sync::Arc;

use jinja::Value;

use super::lexer::Kind;

/// A part of an expression, applied to a value.
#[derive(Debug)]
pub(super) enum Node {
    /// The value itself.
    Current,
    Field(Value),
    Literal(Value),
    Index(Value),
    Slice([Option<Value>; 3]),
    /// Evaluated in order, each on the result of the one before.
    Chain(Vec<Tree>),
    /// The second is evaluated on each item of the first.
    Projection(Tree, Tree),
    /// Like `Projection`, on the values of a map.
    Values(Tree, Tree),
    /// Like `Projection`, on the items for which the third is true.
    Filter(Tree, Tree, Tree),
    Flatten(Tree),
    Compare(Kind, Tree, Tree),
    /// The first that counts as true, or the last.
    Or(Vec<Tree>),
    /// The first that counts as false, or the last.
    And(Vec<Tree>),
    Not(Tree),
    List(Vec<Tree>),
    Map(Vec<(Value, Tree)>),
    Call(Value, Vec<Tree>),
    /// An expression as an argument (`&name`).
    Expression(Tree),
}

/// A node with its shape for the grammar and its depth.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) node: Arc<Node>,
    pub(super) shape: Shape,
    pub(super) depth: u32,
}

/// The shape of a left operand, on which the grammar depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Name,
    /// Names joined by dots: another one is appended.
    Path,
    /// An expression with indexes: another index or slice is appended.
    Indexed,
    Piped,
    Either,
    Both,
    Other,
}

impl Tree {
    pub(super) fn new(node: Node) -> Self {
        let depth = 1 + below(&node);
        Tree { node: Arc::new(node), shape: Shape::Other, depth }
    }

    pub(super) fn shaped(node: Node, shape: Shape) -> Self {
        Tree { shape, ..Tree::new(node) }
    }

    pub(super) fn current() -> Self {
        Tree::new(Node::Current)
    }

    /// Appends a part; parts of the same shape become one node.
    pub(super) fn join(self, next: Tree, shape: Shape) -> Self {
        let mut parts = if self.shape == shape { self.parts() } else { vec![self] };
        parts.push(next);
        let node = match shape {
            Shape::Either => Node::Or(parts),
            Shape::Both => Node::And(parts),
            _ => Node::Chain(parts),
        };
        Tree::shaped(node, shape)
    }

    fn parts(self) -> Vec<Tree> {
        let Tree { node, shape, depth } = self;
        match Arc::try_unwrap(node) {
            Ok(Node::Chain(parts) | Node::Or(parts) | Node::And(parts)) => parts,
            Ok(other) => vec![Tree::shaped(other, shape)],
            Err(node) => vec![Tree { node, shape, depth }],
        }
    }
}

fn below(node: &Node) -> u32 {
    let deepest = |trees: &mut dyn Iterator<Item = &Tree>| trees.map(|tree| tree.depth).max().unwrap_or_default();
    match node {
        Node::Current | Node::Field(_) | Node::Literal(_) | Node::Index(_) | Node::Slice(_) => 0,
        Node::Flatten(one) | Node::Not(one) | Node::Expression(one) => one.depth,
        Node::Projection(a, b) | Node::Values(a, b) | Node::Compare(_, a, b) => a.depth.max(b.depth),
        Node::Filter(a, b, c) => a.depth.max(b.depth).max(c.depth),
        Node::Chain(trees) | Node::Or(trees) | Node::And(trees) | Node::List(trees) | Node::Call(_, trees) => {
            deepest(&mut trees.iter())
        }
        Node::Map(entries) => deepest(&mut entries.iter().map(|(_, tree)| tree)),
    }
}
