//! `json`: like Python's `json.dumps`, one object per result.

use ::value::Value;
use python::json::{Style, dumps};

use super::settings::{Indent, Settings};

/// Formats JSON; `{}` for data without a JSON form.
pub fn output(data: &Value, settings: &Settings) -> String {
    let (indent, sort) = match settings.indent {
        Indent::Unset => (Some(4), false),
        Indent::Pretty => (Some(4), true),
        Indent::OneLine => (None, false),
        // Negative: one line.
        Indent::Width(width) => (usize::try_from(width).ok(), false),
    };
    let style = Style {
        indent: indent.map(|width| " ".repeat(width)),
        sort_keys: sort,
        foreign_as_repr: true,
        escape_terminal_commands: true,
        ..Style::default()
    };
    // As in Salt, for keys that `json.dumps` refuses.
    dumps(data, &style).unwrap_or_else(|_| "{}".into())
}
