//! YAML files.

use exec::{Error, Result};
use value::Value;
use yaml::{Flow, Style, dump_with};

use super::Options;

const KNOWN: [&str; 5] = ["default_flow_style", "indent", "width", "sort_keys", "allow_unicode"];

/// Writes data without the last end of line; `plain` as the serializer `yaml`, else as `yamlex`.
pub fn write(data: &Value, options: &Options, plain: bool) -> Result<String> {
    options.only(&KNOWN)?;
    let flow = match options.given.get("default_flow_style") {
        None if plain => Flow::Block,
        // PyYAML's `None`: collections that hold only scalars go on one line.
        None | Some(Value::Null) => Flow::Leaves,
        Some(given) if given.truthy() => Flow::All,
        Some(_) => Flow::Block,
    };
    let number = |name: &str, default: i32| {
        let given = options.given.get(name).and_then(Value::as_i64);
        given.and_then(|number| i32::try_from(number).ok()).unwrap_or(default)
    };
    let style = Style {
        flow,
        sort_keys: options.flag("sort_keys", true),
        indent: number("indent", 2),
        width: number("width", 80),
        // Salt turns `allow_unicode` on if the file has a specific encoding, but only for the plain serializer.
        unicode: options.flag("allow_unicode", options.unicode && plain),
    };
    let text = dump_with(data, style).map_err(|error| Error::execution(error.to_string()))?;
    // PyYAML ends a document that is a bare scalar with `...`. Salt cuts that off.
    let text = text.strip_suffix("\n...\n").or_else(|| text.strip_suffix('\n')).unwrap_or(&text);
    Ok(text.to_owned())
}
