//! YAML as Salt reads and writes it.
//!
//! [`load`] makes the value Salt's loader makes: YAML 1.1 types, decimal numbers with leading zeros, timestamps as
//! text, duplicate keys refused. Errors print as PyYAML prints them. [`dump`] writes what Salt's `safe_dump` writes.
//! [`args`] reads an argument of the command line. The parsing itself is done by libyaml, behind one module.
//!
//! Limits, so that a hostile text harms nobody: 256 MiB of text, 256 levels, and a bounded growth through aliases.

pub mod args;
mod compose;
mod construct;
mod dump;
mod error;
mod libyaml;
mod resolve;

use std::collections::HashMap;

use value::Value;

pub use dump::{DumpError, Flow, Style, dump, dump_with};
pub use error::{Error, Kind, Mark, Report};

/// The name PyYAML gives to a text that does not come from a file.
pub const UNNAMED: &str = "<unicode string>";

/// Reads the single document of a text. Nothing but comments is [`Value::Null`].
///
/// The name stands in error messages: the path of the file, or [`UNNAMED`].
///
/// ```
/// use saltern_yaml::{UNNAMED, load};
/// let value = load("mode: 0644\nwhen: 2001-01-01", UNNAMED).unwrap();
/// assert_eq!(value.to_string(), "{'mode': 644, 'when': '2001-01-01'}");
/// ```
pub fn load(text: &str, name: &str) -> Result<Value, Error> {
    match compose::compose(text.as_bytes(), name)? {
        Some((graph, root)) => construct::construct(graph, root, name),
        None => Ok(Value::Null),
    }
}

/// A value with the lines where its entries stand.
#[derive(Clone, Debug, Default)]
pub struct Marked {
    /// The value, as [`load`] makes it.
    pub value: Value,
    lines: HashMap<Vec<String>, u64>,
}

impl Marked {
    /// Returns the line, from one, of the entry that a path of map keys leads to. Paths of up to three keys are known.
    pub fn line(&self, path: &[&str]) -> Option<u64> {
        let path: Vec<String> = path.iter().map(|&key| key.to_owned()).collect();
        self.lines.get(&path).copied()
    }
}

/// How deep [`load_with_marks`] notes lines.
const MARKED_DEPTH: usize = 3;

/// Reads a document as [`load`] does and keeps the lines of its outer entries, for messages about them.
pub fn load_with_marks(text: &str, name: &str) -> Result<Marked, Error> {
    let Some((graph, root)) = compose::compose(text.as_bytes(), name)? else {
        return Ok(Marked::default());
    };
    let lines = construct::lines(&graph, root, MARKED_DEPTH);
    Ok(Marked { value: construct::construct(graph, root, name)?, lines })
}
