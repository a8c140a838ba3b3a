//! The renderer `json`.

use value::{Map, Value};

use crate::Error;

/// Parses JSON after an optional line of renderers. An empty text is an empty map.
pub fn render(text: &str) -> Result<Value, Error> {
    let text = match text.starts_with("#!") {
        // Without a line break Salt uses the whole text.
        true => text.split_once('\n').map_or(text, |(_, rest)| rest),
        false => text,
    };
    if python::strip(text).is_empty() {
        return Ok(Map::new().into());
    }
    python::json::loads(text).map_err(Error::new)
}
