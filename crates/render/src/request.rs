//! What is rendered.

use std::path::Path;

use value::Map;

/// An SLS file, or another text that names its renderers.
#[derive(Clone, Copy, Default)]
pub struct Request<'a> {
    /// The text.
    pub text: &'a str,
    /// The file it comes from, if it comes from one: a file of nothing but white space is an empty map, and ends of lines
    /// count as Python reads them.
    pub path: Option<&'a Path>,
    /// The name of the SLS (`web.server`); empty when there is none.
    pub sls: &'a str,
    /// The environment that imports and includes of templates are read from.
    pub saltenv: &'a str,
    /// The renderers for a text that names none; `None` is the option `renderer`.
    pub default: Option<&'a str>,
    /// Further names for templates, which hide those that are always there.
    pub context: Option<&'a Map>,
    /// Whether encrypted parts write line breaks as `\n` (pillar from a command line).
    pub translate_newlines: bool,
}

/// A text for one template engine.
#[derive(Clone, Copy, Default)]
pub struct Template<'a> {
    /// The text.
    pub text: &'a str,
    /// The file it comes from, if it comes from one.
    pub path: Option<&'a Path>,
    /// The name of the engine; only `jinja` is here.
    pub engine: &'a str,
    /// The environment that imports and includes are read from; empty when there is none.
    pub saltenv: &'a str,
    /// Further names, which hide those that are always there (`salt`, `grains`, `pillar`, `opts`, `saltenv`). With a name `sls`
    /// among them, the names that follow from it are there too (`slspath`, `tpldir`, …).
    pub context: Option<&'a Map>,
}
