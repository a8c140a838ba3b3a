//! `out` — data as the outputters print them.

use std::io::IsTerminal;

use exec::{Context, Error, KwArgs, Module, Result, function};
use outputters::{Place, Settings};
use value::{Map, Value};

/// The module.
pub static MODULE: Module =
    Module::new("out", "Data as the outputters print them.", &[&HTML_FORMAT, &OUT_FORMAT, &STRING_FORMAT]);

/// The arguments of `table`, which are options as well.
const TABLE: [&str; 11] = [
    "has_header",
    "row_delimiter",
    "delim",
    "justify",
    "separate_rows",
    "prefix",
    "suffix",
    "width",
    "rows_key",
    "labels_key",
    "title",
];

/// The arguments that all functions of this module share.
struct OutputArgs {
    data: Value,
    out: String,
    options: Map,
    kwargs: Map,
}

impl OutputArgs {
    fn new(ctx: &Context, data: Value, out: String, opts: Value, kwargs: &KwArgs) -> Result<Self> {
        let options = match opts {
            Value::Map(map) if !map.is_empty() => map,
            other if !other.truthy() => Map::clone(&ctx.opts),
            other => return Err(Error::Other(format!("'opts' is a map of options, not {other}"))),
        };
        Ok(OutputArgs { data, out, options, kwargs: kwargs.given() })
    }

    fn settings(&mut self) -> Settings {
        for name in TABLE {
            if let Some(value) = self.kwargs.get(name).filter(|value| value.truthy()) {
                self.options.insert(format!("out.table.{name}"), value.clone());
            }
        }
        // If the option says so, a daemon's output is coloured too.
        let colored = self.options.contains_key("color") || std::io::stdout().is_terminal();
        Settings::from_options(&self.options, colored)
    }

    fn place(&self) -> Place {
        let number = |name: &str| self.kwargs.get(name).and_then(Value::as_i64);
        let size = |number: i64| usize::try_from(number).unwrap_or(0);
        let preset = || self.options.get("nested_indent").and_then(Value::as_i64);
        let indent = number("nested_indent").filter(|indent| *indent != 0).or_else(preset);
        Place {
            retcode: number("_retcode").unwrap_or(0),
            indent: size(indent.unwrap_or(0)),
            level: size(number("indent_level").unwrap_or(1)),
        }
    }

    fn text(mut self) -> String {
        let (settings, place) = (self.settings(), self.place());
        outputters::format_at(&self.data, Some(&self.out), &settings, &place)
    }
}

/// Returns data as an outputter prints them, in colours if the outputter has some.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' out.out_format "{'key': 'value'}"
#[function]
fn out_format(
    ctx: &Context,
    data: Value,
    #[default("nested")] out: String,
    #[default(Value::Null)] opts: Value,
    kwargs: KwArgs,
) -> Result<String> {
    Ok(OutputArgs::new(ctx, data, out, opts, &kwargs)?.text())
}

/// Returns data as an outputter prints them, without colours.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' out.string_format "{'key': 'value'}" out=table
#[function]
fn string_format(
    ctx: &Context,
    data: Value,
    #[default("nested")] out: String,
    #[default(Value::Null)] opts: Value,
    kwargs: KwArgs,
) -> Result<String> {
    Ok(without_colors(&OutputArgs::new(ctx, data, out, opts, &kwargs)?.text()))
}

/// Returns data as an outputter prints them, for an HTML page: without colours, with blanks and line ends kept.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' out.html_format "{'key': 'value'}" out=yaml
#[function]
fn html_format(
    ctx: &Context,
    data: Value,
    #[default("nested")] out: String,
    #[default(Value::Null)] opts: Value,
    kwargs: KwArgs,
) -> Result<String> {
    let text = without_colors(&OutputArgs::new(ctx, data, out, opts, &kwargs)?.text());
    Ok(text.replace(' ', "&nbsp;").replace('\n', "<br />"))
}

/// Leaves out escape sequences up to their `m`; one that never ends stays.
fn without_colors(text: &str) -> String {
    let mut left = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('\x1b') {
        let Some(length) = rest[start..].find('m') else { break };
        left.push_str(&rest[..start]);
        rest = &rest[start + length + 1..];
    }
    left + rest
}
