//! A directed graph with several kinds of edges between two nodes.

use std::ops::{Index, IndexMut};

use super::edges::Edges;
use crate::keywords::Kind;

/// A chunk, the test run of a chunk, or a group of chunks that are aggregated.
#[derive(Debug)]
pub struct Node {
    pub tag: String,
    /// The chunk; `None` for a group.
    pub chunk: Option<usize>,
    pub state: String,
    pub allow_aggregate: bool,
    /// The group this node belongs to.
    pub aggregate: Option<usize>,
    /// The nodes of a group.
    pub members: Vec<usize>,
    /// The nodes that run later, and why.
    pub(super) out: Edges,
    /// The nodes that run earlier, and why.
    pub(super) into: Edges,
}

impl Node {
    pub fn new(tag: String) -> Self {
        Node {
            tag,
            chunk: None,
            state: String::new(),
            allow_aggregate: false,
            aggregate: None,
            members: Vec::new(),
            out: Edges::default(),
            into: Edges::default(),
        }
    }
}

#[derive(Debug, Default)]
pub struct Digraph(Vec<Node>);

impl Digraph {
    pub fn add(&mut self, node: Node) -> usize {
        self.0.push(node);
        self.0.len() - 1
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds an edge. Two nodes have at most one edge of each kind.
    pub fn connect(&mut self, from: usize, to: usize, kind: Kind) {
        if self.0[from].out.add(to, kind) {
            self.0[to].into.add(from, kind);
        }
    }

    /// Returns the incoming edges: node and kind.
    pub fn incoming(&self, node: usize) -> Vec<(usize, Kind)> {
        self.0[node].into.all()
    }

    /// Returns the outgoing edges: node and kind.
    pub fn outgoing(&self, node: usize) -> Vec<(usize, Kind)> {
        self.0[node].out.all()
    }

    /// Returns the successors with the number of edges to each.
    pub fn next(&self, node: usize) -> impl Iterator<Item = (usize, usize)> {
        self.0[node].out.counted().into_iter()
    }

    /// Returns whether one node can be reached from another.
    pub fn reaches(&self, from: usize, to: usize) -> bool {
        let mut seen = vec![false; self.0.len()];
        // An explicit stack, because chains may be thousands of nodes long.
        let mut stack = vec![from];
        while let Some(node) = stack.pop() {
            if node == to {
                return true;
            }
            if !std::mem::replace(&mut seen[node], true) {
                stack.extend(self.next(node).map(|(next, _)| next).filter(|next| !seen[*next]));
            }
        }
        false
    }

    /// Copies all edges of one node to another.
    pub fn copy_edges(&mut self, from: usize, to: usize) {
        for (other, kind) in self.incoming(from) {
            self.connect(other, to, kind);
        }
        for (other, kind) in self.outgoing(from) {
            self.connect(to, other, kind);
        }
    }
}

impl Index<usize> for Digraph {
    type Output = Node;

    fn index(&self, node: usize) -> &Node {
        &self.0[node]
    }
}

impl IndexMut<usize> for Digraph {
    fn index_mut(&mut self, node: usize) -> &mut Node {
        &mut self.0[node]
    }
}
