//! Detects circular requisites.

use value::Map;

use super::Graph;
use crate::high::text_of;
use crate::keywords::Kind;

/// A node on the current path: the node, its edges, and the index of the next edge to follow.
struct Step {
    node: usize,
    edges: Vec<(usize, Kind)>,
    next: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Seen {
    Not,
    OnTheWay,
    Done,
}

impl Graph {
    /// Returns a description of the first cycle, or an empty text if there is none.
    pub(super) fn cycle_text(&self) -> String {
        let edges = self.cycle().into_iter().filter_map(|(from, to, kind)| {
            let (before, after) = (&self.chunks[self.dag[from].chunk?], &self.chunks[self.dag[to].chunk?]);
            // A `prereq` becomes a `require` in the other direction; the message shows what the user wrote.
            let shown = if kind == Kind::Require && !after.contains_key("require") { Kind::Prereq } else { kind };
            Some(format!("({}, '{}', {})", chunk_text(after), shown.word(), chunk_text(before)))
        });
        edges.collect::<Vec<_>>().join(", ")
    }

    /// Returns the edges of the first cycle, in order.
    fn cycle(&self) -> Vec<(usize, usize, Kind)> {
        let mut seen = vec![Seen::Not; self.dag.len()];
        for start in 0..self.dag.len() {
            if seen[start] != Seen::Not {
                continue;
            }
            // A depth-first search with its own stack: chains of requisites may have thousands of states, too many for
            // recursion.
            let mut way = vec![self.step(start, &mut seen)];
            while let Some(last) = way.last_mut() {
                let Some((to, _)) = last.edges.get(last.next).copied() else {
                    seen[last.node] = Seen::Done;
                    way.pop();
                    continue;
                };
                last.next += 1;
                match seen[to] {
                    Seen::Not => way.push(self.step(to, &mut seen)),
                    Seen::OnTheWay => return circle(&way, to),
                    Seen::Done => {}
                }
            }
        }
        Vec::new()
    }

    fn step(&self, node: usize, seen: &mut [Seen]) -> Step {
        seen[node] = Seen::OnTheWay;
        Step { node, edges: self.dag.outgoing(node), next: 0 }
    }
}

/// Returns the edges from a node on the current path to the end of the path and back to the node.
fn circle(way: &[Step], begin: usize) -> Vec<(usize, usize, Kind)> {
    let from = way.iter().position(|step| step.node == begin).unwrap_or_default();
    let edges = way[from..].iter().map(|step| {
        let (to, kind) = step.edges[step.next - 1];
        (step.node, to, kind)
    });
    edges.collect()
}

fn chunk_text(low: &Map) -> String {
    let mut shown = value::map! { "SLS" => text_of(low, "__sls__"), "ID" => text_of(low, "__id__") };
    if low.get("name") != low.get("__id__") {
        shown.insert("NAME", text_of(low, "name"));
    }
    value::python::repr_map(&shown)
}
