//! The chunks of a run and their dependencies: which runs before which, and why.

mod cycle;
mod digraph;
mod dot;
mod edges;
mod order;

use std::collections::HashMap;
use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};
use targeting::fnmatch;
use value::{Map, Value};

use crate::keywords::Kind;
use crate::tag;
use digraph::{Digraph, Node};

/// Chunks and their dependencies. A chunk is identified by its index in the list of all chunks, which never changes.
#[derive(Debug, Default)]
pub struct Graph {
    chunks: Vec<Arc<Map>>,
    dag: Digraph,
    /// Nodes by state (or the word `id`), and then by id or name.
    by_name: HashMap<String, IndexMap<String, Vec<usize>>>,
    by_sls: IndexMap<String, IndexSet<usize>>,
    by_tag: HashMap<String, usize>,
}

impl Graph {
    /// Returns a chunk.
    pub fn chunk(&self, index: usize) -> &Map {
        &self.chunks[index]
    }

    /// Returns a chunk for modification.
    pub fn chunk_mut(&mut self, index: usize) -> &mut Map {
        Arc::make_mut(&mut self.chunks[index])
    }

    /// Returns a shared reference to a chunk as it is now. Later changes make a copy.
    pub fn shared(&self, index: usize) -> Arc<Map> {
        Arc::clone(&self.chunks[index])
    }

    /// Replaces a chunk.
    pub fn set_chunk(&mut self, index: usize, low: Map) {
        self.chunks[index] = Arc::new(low);
    }

    /// Returns whether there are no chunks.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Adds a chunk. If several chunks have the same tag, the last one wins.
    pub fn add_chunk(&mut self, low: Map, allow_aggregate: bool) -> usize {
        let index = self.chunks.len();
        let tag = tag::of(&low);
        let text = |key: &str| low.get(key).and_then(Value::as_str).map(str::to_owned);
        let (state, name, id) = (text("state"), text("name"), text("__id__"));
        // Results are kept by tag, so two chunks with the same tag could not be distinguished: they share a node, as in
        // Salt.
        let known = self.by_tag.get(&tag).copied();
        let node = match known {
            Some(node) => {
                self.dag[node].chunk = Some(index);
                self.dag[node].allow_aggregate = allow_aggregate;
                node
            }
            None => {
                let state = state.clone().unwrap_or_default();
                let node = self.dag.add(Node { chunk: Some(index), state, allow_aggregate, ..Node::new(tag.clone()) });
                self.by_tag.insert(tag, node);
                node
            }
        };
        let word = Some("id".to_owned());
        // A requisite refers to a state by its id or its name, and may omit the state module.
        for (state, name) in [(&state, &name), (&state, &id), (&word, &id), (&word, &name)] {
            if let (Some(state), Some(name)) = (state, name) {
                self.note_name(state, name, node, known.is_none());
            }
        }
        let included = low.get("__sls_included_from__").and_then(Value::as_list).unwrap_or_default();
        for sls in
            low.get("__sls__").into_iter().chain(included).filter_map(Value::as_str).filter(|sls| !sls.is_empty())
        {
            self.by_sls.entry(sls.to_owned()).or_default().insert(node);
        }
        self.chunks.push(Arc::new(low));
        index
    }

    /// Records a name by which requisites refer to a node. A node that was just created can only be the last of the
    /// list.
    fn note_name(&mut self, state: &str, name: &str, node: usize, new: bool) {
        if !self.by_name.contains_key(state) {
            self.by_name.insert(state.to_owned(), IndexMap::new());
        }
        let Some(names) = self.by_name.get_mut(state) else { return };
        match names.get_mut(name) {
            Some(nodes) if nodes.last() == Some(&node) || (!new && nodes.contains(&node)) => {}
            Some(nodes) => nodes.push(node),
            None => drop(names.insert(name.to_owned(), vec![node])),
        }
    }

    /// Adds the edges for all requisites of a chunk.
    ///
    /// # Errors
    /// The message about the first requisite that is malformed or refers to nothing.
    pub fn add_requisites(&mut self, index: usize, disabled: &[String]) -> Result<(), String> {
        for kind in Kind::TIES {
            let Some(references) = self.chunks[index].get(kind.word()).filter(|references| references.truthy()) else {
                continue;
            };
            if disabled.iter().any(|word| word == kind.word()) {
                tracing::warn!("The {} requisite has been disabled, Ignoring.", kind.word());
                continue;
            }
            let references = match references {
                Value::List(references) => references.clone(),
                _ => return Err(self.malformed(index, kind, "must be formed as a list")),
            };
            for reference in references {
                self.add_reference(index, kind, &reference)?;
            }
        }
        Ok(())
    }

    fn add_reference(&mut self, index: usize, kind: Kind, reference: &Value) -> Result<(), String> {
        let (key, wanted) = match reference {
            Value::Str(id) => ("id", Some(id.as_str())),
            Value::Map(map) => match map.iter().next() {
                // As in Salt, a reference without a value is ignored.
                Some((Value::Str(_), Value::Null)) => return Ok(()),
                // A reference may be written like a declaration, `pkg.installed`; only the module counts.
                Some((Value::Str(key), wanted)) => (key.split('.').next().unwrap_or(key), wanted.as_str()),
                _ => return Err(self.malformed(index, kind, "must name a state and an id")),
            },
            _ => return Err(self.malformed(index, kind, "must name a state and an id")),
        };
        let Some(wanted) = wanted else {
            return Err(self.malformed(index, kind, &format!("{key}] must have a string as the value")));
        };
        let (found, nodes) = self.find(key, wanted);
        if !found {
            let low = &self.chunks[index];
            return Err(format!(
                "Referenced state does not exist for requisite [{}: ({key}: {wanted})] in state [{}] in SLS [{}]",
                kind.word(),
                crate::high::text_of(low, "name"),
                sls_of(low),
            ));
        }
        let node = self.by_tag[&tag::of(&self.chunks[index])];
        let tried = self.chunks[index].get("__prereq__").is_some_and(Value::truthy);
        for other in nodes {
            self.tie(node, tried, kind, other);
        }
        Ok(())
    }

    /// Returns the message for a malformed requisite. `why` may close the bracket itself after the key.
    fn malformed(&self, index: usize, kind: Kind, why: &str) -> String {
        let low = &self.chunks[index];
        let place = format!("in state [{}] in SLS [{}]", crate::high::text_of(low, "name"), sls_of(low));
        match why.split_once("] ") {
            Some((key, why)) => format!("Requisite [{}: {key}] {place} {why}", kind.word()),
            None => format!("Requisite [{}] {place} {why}", kind.word()),
        }
    }

    /// Returns the nodes a reference names, and whether the reference counts as found.
    fn find(&self, key: &str, wanted: &str) -> (bool, Vec<usize>) {
        let pattern = wanted.contains(['*', '?', '[', ']']);
        match (key, pattern) {
            ("sls", true) => {
                let files = self.by_sls.iter().filter(|(sls, _)| fnmatch(sls, wanted));
                // As in Salt, a pattern of files counts as found even if none matches: files without states leave no
                // trace here.
                (true, files.flat_map(|(_, nodes)| nodes.iter().copied()).collect())
            }
            ("sls", false) => match self.by_sls.get(wanted) {
                Some(nodes) => (true, nodes.iter().copied().collect()),
                None => (false, Vec::new()),
            },
            (_, true) => {
                let names = self.by_name.get(key).into_iter().flatten().filter(|(name, _)| fnmatch(name, wanted));
                let nodes: Vec<usize> = names.flat_map(|(_, nodes)| nodes.iter().copied()).collect();
                (!nodes.is_empty(), nodes)
            }
            (_, false) => match self.by_name.get(key).and_then(|names| names.get(wanted)) {
                Some(nodes) => (true, nodes.to_vec()),
                None => (false, Vec::new()),
            },
        }
    }

    fn tie(&mut self, node: usize, tried: bool, kind: Kind, other: usize) {
        if kind == Kind::Prereq {
            self.tie_prereq(node, other);
            return;
        }
        if tried {
            let trial = self.trial_of(node);
            self.dag.connect(other, trial, kind);
        }
        self.dag.connect(other, node, kind);
    }

    /// `node` runs before `other` if a test run of `other` predicts changes. The test run is a separate node with all
    /// dependencies of `other`.
    fn tie_prereq(&mut self, node: usize, other: usize) {
        if let Some(chunk) = self.dag[node].chunk {
            self.chunk_mut(chunk).insert("__prerequiring__", true);
        }
        if let Some(chunk) = self.dag[other].chunk {
            self.chunk_mut(chunk).insert("__prereq__", true);
        }
        let existed = self.by_tag.contains_key(&trial_tag(&self.dag[other].tag));
        let trial = self.trial_of(other);
        // Only the requisites known by now. Requisites of `other` that are resolved later reach its test run through
        // `tie`.
        if !existed {
            for (dependency, kind) in self.dag.incoming(other) {
                if kind != Kind::Prereq {
                    self.dag.connect(dependency, trial, kind);
                }
            }
        }
        // First the test run of `other`, then the state with the `prereq`, then the real run of `other`.
        self.dag.connect(trial, node, Kind::Prereq);
        self.dag.connect(node, other, Kind::Require);
        // Chains of test runs follow their dependencies.
        if let Some(own) = self.by_tag.get(&trial_tag(&self.dag[node].tag)).copied() {
            self.dag.connect(trial, own, Kind::Prereq);
        }
    }

    /// Returns the node for the test run of a chunk. Creates it if there is none yet.
    fn trial_of(&mut self, node: usize) -> usize {
        let tag = trial_tag(&self.dag[node].tag);
        if let Some(trial) = self.by_tag.get(&tag) {
            return *trial;
        }
        let (chunk, state) = (self.dag[node].chunk, self.dag[node].state.clone());
        let trial = self.dag.add(Node { chunk, state, ..Node::new(tag.clone()) });
        self.by_tag.insert(tag, trial);
        trial
    }

    /// Frees the index of names when all requisites have been resolved.
    pub fn forget_names(&mut self) {
        self.by_name = HashMap::new();
        self.by_sls = IndexMap::new();
    }

    /// Returns the dependencies of a chunk: kinds and chunks.
    pub fn dependencies(&self, index: usize) -> Vec<(Kind, usize)> {
        self.dependencies_of(&self.chunks[index])
    }

    /// Returns the dependencies of a chunk that may have changed since it was added.
    pub fn dependencies_of(&self, low: &Map) -> Vec<(Kind, usize)> {
        // While the flag is set, the chunk stands for its test run, which has its own dependencies.
        let mut tag = tag::of(low);
        if low.get("__prereq__").is_some_and(Value::truthy) {
            tag = trial_tag(&tag);
        }
        let Some(node) = self.by_tag.get(&tag) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for (other, kind) in self.dag.incoming(*node) {
            match self.dag[other].chunk {
                Some(chunk) => found.push((kind, chunk)),
                None => {
                    let members = &self.dag[other].members;
                    found.extend(members.iter().filter_map(|member| Some((kind, self.dag[*member].chunk?))));
                }
            }
        }
        found
    }

    /// Returns the chunks that may be aggregated with this one, including itself; empty if there are none.
    pub fn aggregated_with(&self, index: usize) -> Vec<usize> {
        let node = self.by_tag.get(&tag::of(&self.chunks[index]));
        let Some(group) = node.and_then(|node| self.dag[*node].aggregate) else {
            return Vec::new();
        };
        self.dag[group].members.iter().filter_map(|member| self.dag[*member].chunk).collect()
    }
}

/// Returns the SLS file of a chunk as Salt's messages show it.
fn sls_of(low: &Map) -> String {
    low.get("__sls__").map_or_else(|| "None".to_owned(), Value::to_string)
}

fn trial_tag(tag: &str) -> String {
    format!("{tag}_|-__prereq_test__")
}
