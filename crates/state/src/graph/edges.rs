//! The edges of one node: a list while there are few, with an index when there are many.
//!
//! Most of the thousands of nodes have one or two edges, but a node that all others require has thousands.

use indexmap::IndexMap;

use crate::keywords::Kind;

/// The largest number of edges without an index.
const FEW: usize = 16;

/// Edges to other nodes. The edges to one node are adjacent, and nodes keep the order of their first edge.
#[derive(Debug)]
pub enum Edges {
    Few(Vec<(usize, Kind)>),
    Many(Box<IndexMap<usize, Vec<Kind>>>),
}

use Edges::{Few, Many};

impl Edges {
    /// Adds an edge. Returns whether it is new.
    pub fn add(&mut self, node: usize, kind: Kind) -> bool {
        match self {
            Few(row) => {
                if row.contains(&(node, kind)) {
                    return false;
                }
                let place = row.iter().rposition(|(known, _)| *known == node).map_or(row.len(), |last| last + 1);
                // Doubling the capacity would waste memory in thousands of nodes with one or two edges.
                row.reserve_exact(1);
                row.insert(place, (node, kind));
                if row.len() > FEW {
                    *self = Many(Box::new(index(row)));
                }
            }
            Many(index) => {
                let kinds = index.entry(node).or_default();
                if kinds.contains(&kind) {
                    return false;
                }
                kinds.push(kind);
            }
        }
        true
    }

    /// Returns all edges: node and kind.
    pub fn all(&self) -> Vec<(usize, Kind)> {
        match self {
            Few(row) => row.clone(),
            Many(index) => index.iter().flat_map(|(node, kinds)| kinds.iter().map(|kind| (*node, *kind))).collect(),
        }
    }

    /// Returns each node with the number of edges to it.
    pub fn counted(&self) -> Vec<(usize, usize)> {
        match self {
            Few(row) => row.chunk_by(|one, other| one.0 == other.0).map(|same| (same[0].0, same.len())).collect(),
            Many(index) => index.iter().map(|(node, kinds)| (*node, kinds.len())).collect(),
        }
    }
}

fn index(row: &[(usize, Kind)]) -> IndexMap<usize, Vec<Kind>> {
    let mut index: IndexMap<usize, Vec<Kind>> = IndexMap::new();
    for (node, kind) in row {
        index.entry(*node).or_default().push(*kind);
    }
    index
}

impl Default for Edges {
    fn default() -> Self {
        Few(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_to_one_node_stand_together_however_many_there_are() {
        let mut edges = Edges::default();
        for node in 0..40 {
            assert!(edges.add(node, Kind::Require));
            assert!(!edges.add(node, Kind::Require));
            assert!(edges.add(0, Kind::Watch) == (node == 0));
        }
        assert!(edges.add(20, Kind::Watch));
        assert_eq!(edges.all()[..3], [(0, Kind::Require), (0, Kind::Watch), (1, Kind::Require)]);
        assert_eq!(edges.all().len(), 42);
        assert_eq!(edges.counted()[20], (20, 2));
        assert_eq!(edges.counted().len(), 40);
    }

    #[test]
    fn a_few_edges_need_no_index() {
        let mut edges = Edges::default();
        for (node, kind) in [(7, Kind::Require), (5, Kind::Require), (7, Kind::Watch), (7, Kind::Watch)] {
            edges.add(node, kind);
        }
        assert!(matches!(edges, Few(_)));
        assert_eq!(edges.all(), [(7, Kind::Require), (7, Kind::Watch), (5, Kind::Require)]);
        assert_eq!(edges.counted(), [(7, 2), (5, 1)]);
    }
}
