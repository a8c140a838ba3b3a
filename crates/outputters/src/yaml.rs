//! `yaml`: block style, keys sorted, as PyYAML dumps it.

use ::value::{Value, shown};
use ::yaml::{Flow, Style};

use super::Unfit;
use super::settings::{Indent, Settings};

/// Returns the YAML text.
pub fn output(data: &Value, settings: &Settings) -> Result<String, Unfit> {
    let style = match settings.indent {
        Indent::Width(width) if width < 0 => Style { indent: 2, ..Style::from(Flow::All) },
        // The emitter takes 2 to 9 and falls back to 2.
        Indent::Width(width @ 2..=9) => Style { indent: width as i32, ..Style::from(Flow::Block) },
        Indent::Unset | Indent::Width(_) => Style { indent: 2, ..Style::from(Flow::Block) },
        Indent::OneLine | Indent::Pretty => return Err(Unfit),
    };
    let dump = |style| {
        ::yaml::dump_with(data, style).map_err(|error| {
            tracing::error!("{error}");
            Unfit
        })
    };
    let text = dump(style)?;
    // YAML counts the marks of writing direction as printable; escaped they mean the same and command no terminal.
    if text.contains(shown::is_command) { dump(Style { unicode: false, ..style }) } else { Ok(text) }
}
