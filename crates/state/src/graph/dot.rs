//! Exports the graph in Graphviz format.

use super::Graph;
use crate::high::text_of;

impl Graph {
    /// Returns the chunks and their dependencies as a Graphviz `digraph`.
    pub fn to_dot(&self) -> String {
        let mut lines = vec!["digraph G {".to_owned()];
        for node in 0..self.dag.len() {
            let about = &self.dag[node];
            let label = match about.chunk {
                Some(chunk) => self.label(chunk),
                None => format!("Aggregate {}\", shape=box", about.state),
            };
            let end = if about.chunk.is_some() { "\"" } else { "" };
            lines.push(format!("  \"{}\" [label=\"{label}{end}];", about.tag));
        }
        for node in 0..self.dag.len() {
            for (next, kind) in self.dag.outgoing(node) {
                let (from, to) = (&self.dag[node].tag, &self.dag[next].tag);
                lines.push(format!("  \"{from}\" -> \"{to}\" [label=\"{}\"];", kind.word()));
            }
        }
        lines.push("}".to_owned());
        lines.join("\n")
    }

    fn label(&self, chunk: usize) -> String {
        let low = self.chunk(chunk);
        let (id, name) = (text_of(low, "__id__"), text_of(low, "name"));
        let more = if name == id { String::new() } else { format!("\\n({name})") };
        format!("{}.{}\\n{id}{more}", text_of(low, "state"), text_of(low, "fun"))
    }
}
