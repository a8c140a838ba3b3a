//! YAML as Salt parses and dumps it.
//!
//! [`load`] constructs the value that Salt's loader does: YAML 1.1 types, decimal numbers with leading zeros, timestamps as
//! strings, duplicate keys refused. Errors print as in PyYAML. [`dump`] writes what Salt's `safe_dump` writes. [`args`] parses a
//! command-line argument. Parsing and emitting are done by libyaml, behind one module.
//!
//! Limits, so that a hostile text is harmless: 256 MiB of text, 256 levels, and bounded growth through aliases.

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

/// PyYAML's name of a text that does not come from a file.
pub const UNNAMED: &str = "<unicode string>";

/// Parses the single document of a text. A text of only comments is [`Value::Null`].
///
/// Error messages contain the name: the path of the file, or [`UNNAMED`].
///
/// ```
/// use saltern_yaml::{UNNAMED, load};
/// let value = load("mode: 0644\nwhen: 2001-01-01", UNNAMED).unwrap();
/// assert_eq!(value.to_string(), "{'mode': 644, 'when': '2001-01-01'}");
/// ```
pub fn load(text: &str, name: &str) -> Result<Value, Error> {
    match compose::compose(text.as_bytes(), name)? {
        Some((graph, root)) => construct::construct(graph, root, name),
        // PyYAML returns None for a stream without a document.
        None => Ok(Value::Null),
    }
}

/// A value with the lines of its entries.
#[derive(Clone, Debug, Default)]
pub struct Marked {
    /// The value, as [`load`] returns it.
    pub value: Value,
    lines: HashMap<Vec<String>, u64>,
}

impl Marked {
    /// Returns the line, from one, of the entry at a path of up to three map keys.
    pub fn line(&self, path: &[&str]) -> Option<u64> {
        let path: Vec<String> = path.iter().map(|&key| key.to_owned()).collect();
        self.lines.get(&path).copied()
    }
}

/// The depth to which [`load_with_marks`] records lines.
const MARKED_DEPTH: usize = 3;

/// Parses a document like [`load`], and records the lines of its outer entries, for messages about them.
pub fn load_with_marks(text: &str, name: &str) -> Result<Marked, Error> {
    let Some((graph, root)) = compose::compose(text.as_bytes(), name)? else {
        return Ok(Marked::default());
    };
    let lines = construct::lines(&graph, root, MARKED_DEPTH);
    Ok(Marked { value: construct::construct(graph, root, name)?, lines })
}
