//! `yaml`: block style with sorted keys, as PyYAML dumps it.

use ::value::{Value, escape};
use ::yaml::{Flow, Style};

use super::WrongShape;
use super::settings::{Indent, Settings};

/// Formats YAML.
pub fn output(data: &Value, settings: &Settings) -> Result<String, WrongShape> {
    let style = match settings.indent {
        Indent::Width(width) if width < 0 => Style { indent: 2, ..Style::from(Flow::All) },
        // The emitter accepts 2 to 9 and falls back to 2.
        Indent::Width(width @ 2..=9) => Style { indent: width as i32, ..Style::from(Flow::Block) },
        Indent::Unset | Indent::Width(_) => Style { indent: 2, ..Style::from(Flow::Block) },
        // PyYAML fails over these, and Salt falls back to `nested`.
        Indent::OneLine | Indent::Pretty => return Err(WrongShape),
    };
    let dump = |style| {
        ::yaml::dump_with(data, style).map_err(|error| {
            tracing::error!("{error}");
            WrongShape
        })
    };
    let text = dump(style)?;
    // YAML treats direction marks as printable; escaped they mean the same and do not control the terminal.
    if text.contains(escape::is_command) { dump(Style { unicode: false, ..style }) } else { Ok(text) }
}
