//! Composes events into a graph of nodes: resolves tags and follows aliases.

use std::collections::HashMap;

use crate::error::{Error, Kind, Mark, Report};
use crate::libyaml::{EventData, Parser};
use crate::resolve;

/// The maximum nesting of lists and maps, in a text and after aliases are followed. Flow maps take quadratic time in their depth,
/// and everything that walks a value afterwards recurses.
pub(crate) const MAX_DEPTH: usize = 256;

/// The index of a node in its [`Graph`].
pub(crate) type Id = usize;

/// A node with its tag and its position.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) tag: Tag,
    pub(crate) data: Data,
    pub(crate) start: Mark,
}

/// Nearly all tags are one of the known ones.
pub(crate) type Tag = std::borrow::Cow<'static, str>;

/// The content of a node.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    Scalar(String),
    Sequence(Vec<Id>),
    Mapping(Vec<(Id, Id)>),
}

impl Data {
    /// Returns PyYAML's word for this type of node.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Data::Scalar(_) => "scalar",
            Data::Sequence(_) => "sequence",
            Data::Mapping(_) => "mapping",
        }
    }

    /// Returns the length of the text of a scalar, in bytes.
    pub(crate) fn text_len(&self) -> usize {
        match self {
            Data::Scalar(text) => text.len(),
            Data::Sequence(_) | Data::Mapping(_) => 0,
        }
    }
}

/// All nodes of a document. An alias refers to the same [`Id`] again.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
}

/// Parses the single document of a text; `None` if there is none.
pub(crate) fn compose(text: &[u8], name: &str) -> Result<Option<(Graph, Id)>, Error> {
    let parser = Parser::new(text, name)?;
    let mut composer =
        Composer { parser, name, graph: Graph::default(), anchors: HashMap::new(), open: Vec::new(), root: None };
    composer.parser.next()?;
    // Only comments, or nothing at all.
    if let EventData::StreamEnd = composer.parser.next()?.data {
        return Ok(None);
    }
    let root = composer.document()?;
    composer.parser.next()?;
    let after = composer.parser.next()?;
    if matches!(after.data, EventData::StreamEnd) {
        return Ok(Some((composer.graph, root)));
    }
    let first = composer.graph.nodes[root].start;
    let context = "expected a single document in the stream";
    Err(composer.error_after(context, first, "but found another document", after.start))
}

struct Composer<'a> {
    parser: Parser<'a>,
    name: &'a str,
    graph: Graph,
    anchors: HashMap<String, Id>,
    /// Open lists and maps, outermost first.
    open: Vec<Open>,
    root: Option<Id>,
}

/// A list or map whose children are still being read; a map alternates between keys and values.
struct Open {
    id: Id,
    children: Vec<Id>,
}

impl Composer<'_> {
    /// Reads events up to the end of the outermost node.
    fn document(&mut self) -> Result<Id, Error> {
        loop {
            self.step()?;
            if let (Some(root), true) = (self.root, self.open.is_empty()) {
                return Ok(root);
            }
        }
    }

    fn step(&mut self) -> Result<(), Error> {
        let event = self.parser.next()?;
        let start = event.start;
        match event.data {
            EventData::Alias { anchor } => {
                let id = self.alias(&anchor, start)?;
                self.attach(id);
            }
            EventData::Scalar { anchor, tag, value, plain_implicit } => {
                let tag = match tag {
                    Some(tag) if tag != "!" => Tag::from(tag),
                    // Only plain scalars have an implicit type: `"1"` is text. The tag `!` alone does not change that.
                    _ if plain_implicit => resolve::plain(&value).into(),
                    _ => resolve::STR.into(),
                };
                self.add(anchor, Node { tag, data: Data::Scalar(value), start })?;
            }
            EventData::SequenceStart { anchor, tag } => {
                let tag = container_tag(tag, resolve::SEQ);
                self.enter(anchor, Node { tag, data: Data::Sequence(Vec::new()), start })?;
            }
            EventData::MappingStart { anchor, tag } => {
                let tag = container_tag(tag, resolve::MAP);
                self.enter(anchor, Node { tag, data: Data::Mapping(Vec::new()), start })?;
            }
            EventData::SequenceEnd | EventData::MappingEnd => self.leave(),
            // The parser never sends the others inside a document.
            _ => return Err(Error::bare(Kind::Parser, self.name, "unexpected event".into(), Some(start))),
        }
        Ok(())
    }

    fn alias(&self, anchor: &str, start: Mark) -> Result<Id, Error> {
        let unknown = || Error::bare(Kind::Composer, self.name, "found undefined alias".into(), Some(start));
        self.anchors.get(anchor).copied().ok_or_else(unknown)
    }

    /// Registers a node and its anchor before its children, so that these may refer to it.
    fn add(&mut self, anchor: Option<String>, node: Node) -> Result<Id, Error> {
        let id = self.graph.nodes.len();
        if let Some(anchor) = anchor {
            // YAML 1.1 allows reusing an anchor, but PyYAML's composer refuses it.
            if let Some(&first) = self.anchors.get(&anchor) {
                let context = "found duplicate anchor; first occurrence";
                let first = self.graph.nodes[first].start;
                return Err(self.error_after(context, first, "second occurrence", node.start));
            }
            self.anchors.insert(anchor, id);
        }
        self.graph.nodes.push(node);
        self.attach(id);
        Ok(id)
    }

    fn attach(&mut self, id: Id) {
        match self.open.last_mut() {
            Some(parent) => parent.children.push(id),
            None => self.root = Some(id),
        }
    }

    fn enter(&mut self, anchor: Option<String>, node: Node) -> Result<(), Error> {
        // Checked while composing: deeper nesting must not even be built.
        if self.open.len() >= MAX_DEPTH {
            let problem = format!("lists and maps are nested deeper than {MAX_DEPTH} levels");
            return Err(Error::bare(Kind::Limit, self.name, problem, Some(node.start)));
        }
        let id = self.add(anchor, node)?;
        self.open.push(Open { id, children: Vec::new() });
        Ok(())
    }

    fn leave(&mut self) {
        let Some(Open { id, children }) = self.open.pop() else { return };
        self.graph.nodes[id].data = match self.graph.nodes[id].data {
            // The parser guarantees pairs: it emits an empty scalar for a missing value.
            Data::Mapping(_) => Data::Mapping(children.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()),
            _ => Data::Sequence(children),
        };
    }

    fn error_after(&self, context: &str, before: Mark, problem: &str, mark: Mark) -> Error {
        Error::from(Report {
            kind: Kind::Composer,
            name: self.name.to_owned(),
            context: Some(context.to_owned()),
            context_mark: Some(before),
            problem: problem.to_owned(),
            problem_mark: Some(mark),
        })
    }
}

fn container_tag(tag: Option<String>, default: &'static str) -> Tag {
    match tag {
        Some(tag) if tag != "!" => Tag::from(tag),
        _ => default.into(),
    }
}
