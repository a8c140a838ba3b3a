//! The input of a rendering.

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
    /// Additional names for templates, which hide the predefined ones.
    pub context: Option<&'a Map>,
    /// True if encrypted parts write line breaks as `\n` (pillar from a command line).
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
    /// Additional names, which hide the predefined ones (`salt`, `grains`, `pillar`, `opts`, `saltenv`). If `sls` is
    /// among them, the names derived from it are defined too (`slspath`, `tpldir`, …).
    pub context: Option<&'a Map>,
}
