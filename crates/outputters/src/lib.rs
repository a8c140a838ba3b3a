//! Outputters: format results for the screen.
//!
//! Each has its own file and returns what Salt's outputter of that name returns, byte for byte; the table test at the
//! end compares them with recorded output. [`display`] prints, to the screen or to `--out-file`.

mod color;
mod highstate;
mod json;
mod key;
mod nested;
mod newline_values_only;
mod no_return;
mod pprint;
mod settings;
mod table;
mod text;
mod txt;
mod yaml;

use std::borrow::Cow;
use std::io::Write;
use std::path::Path;

use ::value::{Map, Value, escape};

pub use color::Colors;
pub use settings::{Indent, Settings};

/// The outputters' names, as `--out` accepts them.
pub const NAMES: [&str; 14] = [
    "highstate",
    "json",
    "key",
    "nested",
    "newline_values_only",
    "no_return",
    "pprint",
    "progress",
    "quiet",
    "raw",
    "table",
    "text",
    "txt",
    "yaml",
];

/// The data does not have the shape that an outputter needs.
#[derive(Debug, thiserror::Error)]
#[error("the data have not the shape this outputter prints")]
pub struct WrongShape;

/// Formats a result.
///
/// `out` is the outputter that the function requests; `--out` overrides it, except that `--out=highstate` does not apply to
/// other results. Data that an outputter cannot print is printed by `nested`, and so is data for an unknown outputter. A return
/// code other than zero makes `nested` red.
pub fn format(data: &Value, out: Option<&str>, settings: &Settings, retcode: i64) -> String {
    format_at(data, out, settings, &Place { retcode, ..Place::default() })
}

/// The context of the text, which Salt's outputters get as arguments.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The return code of the function (`_retcode`).
    pub retcode: i64,
    /// The indentation of `nested` and `table` in blanks (`nested_indent`).
    pub indent: usize,
    /// The depth of `highstate` inside other results, from 1 (`indent_level`).
    pub level: usize,
}

impl Default for Place {
    fn default() -> Self {
        Place { retcode: 0, indent: 0, level: 1 }
    }
}

/// Like [`format`], for a part of another text.
pub fn format_at(data: &Value, out: Option<&str>, settings: &Settings, place: &Place) -> String {
    let name = settings.choose(out);
    // Programs read these formats, so not one byte may change.
    if is_exact(&name, data, settings) {
        let text = by_name(&name, data, settings, place);
        return text::trim_end(&text.unwrap_or_else(|WrongShape| shown_nested(data, settings, place))).to_owned();
    }
    // Escape characters are replaced before our own are added, other control characters afterwards: some of them end lines.
    let data = without_escapes(data, !settings.strip_colors);
    let text = by_name(&name, &data, settings, place);
    let text = text.unwrap_or_else(|WrongShape| nested::output(&data, settings, place.retcode, place.indent));
    escape::but_for_colours(text::trim_end(&text)).into_owned()
}

fn shown_nested(data: &Value, settings: &Settings, place: &Place) -> String {
    let data = without_escapes(data, !settings.strip_colors);
    escape::but_for_colours(&nested::output(&data, settings, place.retcode, place.indent)).into_owned()
}

/// Returns whether an outputter writes the data exactly.
///
/// `json`, `yaml`, `pprint` and `raw` escape control characters themselves. A bare string, which `raw` prints unquoted, is exact
/// unless it goes to a terminal.
fn is_exact(name: &str, data: &Value, settings: &Settings) -> bool {
    match name {
        "json" | "yaml" | "pprint" => true,
        "raw" => data.as_str().is_none() || !settings.terminal,
        _ => false,
    }
}

/// Returns the data with all escape characters replaced, except those of colours if they are wanted.
fn without_escapes(data: &Value, colours: bool) -> Cow<'_, Value> {
    if has_escapes(data) { Cow::Owned(replaced(data, colours)) } else { Cow::Borrowed(data) }
}

fn has_escapes(data: &Value) -> bool {
    match data {
        Value::Str(text) => text.contains('\x1b'),
        Value::Bytes(bytes) => bytes.contains(&0x1b),
        Value::List(items) => items.iter().any(has_escapes),
        Value::Map(map) => map.iter().any(|(key, value)| has_escapes(key) || has_escapes(value)),
        Value::Constant(_) => data.to_string().contains('\x1b'),
        _ => false,
    }
}

fn replaced(data: &Value, colours: bool) -> Value {
    match data {
        Value::Str(text) => escape::without_escapes(text, colours).into_owned().into(),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Value::bytes(escape::without_escapes(text, colours).into_owned()),
            Err(_) => data.clone(),
        },
        Value::List(items) => items.iter().map(|item| replaced(item, colours)).collect::<Vec<_>>().into(),
        Value::Map(map) => replaced_map(map, colours).into(),
        Value::Constant(_) => replaced(&data.to_string().into(), colours),
        other => other.clone(),
    }
}

/// Two keys that differ only in control characters both stay.
fn replaced_map(map: &Map, colours: bool) -> Map {
    let mut out = Map::new();
    for (key, value) in map {
        let mut key = replaced(key, colours);
        while out.get_value(&key).is_some() {
            // After the replacement two keys may look alike. A suffix keeps both results visible.
            key = format!("{key}?").into();
        }
        out.insert(key, replaced(value, colours));
    }
    out
}

fn by_name(name: &str, data: &Value, settings: &Settings, place: &Place) -> Result<String, WrongShape> {
    let nested = || nested::output(data, settings, place.retcode, place.indent);
    match name {
        "highstate" => highstate::output(data, settings, place.level),
        "json" => Ok(json::output(data, settings)),
        "key" => key::output(data, settings),
        "newline_values_only" => newline_values_only::output(data),
        "no_return" => Ok(no_return::output(data, settings)),
        "pprint" => Ok(pprint::output(data, settings)),
        // The bar itself is drawn while returns are gathered.
        "quiet" | "progress" => Ok(String::new()),
        "raw" => Ok(data.to_string()),
        "table" => table::output(data, settings, place.indent),
        "txt" | "text" => Ok(txt::output(data)),
        "yaml" => yaml::output(data, settings),
        "nested" => Ok(nested()),
        // Old minions request `grains`, which has long been `nested`.
        "grains" => Ok(nested()),
        _ => {
            tracing::error!("Invalid outputter {name} specified, fall back to nested");
            Ok(nested())
        }
    }
}

/// Prints a result to standard output, or appends it to the file of `--out-file`.
///
/// Fails if the file cannot be written. A closed pipe is not a failure.
pub fn display(data: &Value, out: Option<&str>, settings: &Settings, retcode: i64) -> std::io::Result<()> {
    print(&format(data, out, settings, retcode), settings)
}

/// Prints a formatted text in the place of [`display`]; nothing if it is empty.
pub fn print(text: &str, settings: &Settings) -> std::io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    let written = match &settings.output_file {
        Some(path) => append(path, text)
            .map_err(|error| std::io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
        None => write_line(text),
    };
    unread(written)
}

fn append(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = std::fs::File::options().create(true).append(true).open(path)?;
    writeln!(file, "{text}")
}

/// A reader that closes the pipe, such as `head`, is not an error.
fn unread(written: std::io::Result<()>) -> std::io::Result<()> {
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Writes a line to standard output, with a `?` for each control character.
pub fn print_line(text: &str) -> std::io::Result<()> {
    write_line(&escape::for_terminal(text))
}

fn write_line(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    unread(out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()))
}

/// Formats a value like Python's `pprint.pformat`.
pub fn pformat(data: &Value) -> String {
    pprint::pformat(data, 1)
}

#[cfg(test)]
mod tests {
    use base64::Engine;

    use super::*;

    /// Decodes the recorder's tags for types that JSON lacks.
    fn untag(value: Value) -> Value {
        match value {
            Value::List(items) => Value::List(items.into_iter().map(untag).collect()),
            Value::Map(map) => untag_map(map),
            other => other,
        }
    }

    fn untag_map(map: Map) -> Value {
        let Some((key, inner)) = map.iter().next() else { return map.into() };
        match key.as_str() {
            Some("$bytes") => {
                let text = inner.as_str().expect("text");
                Value::bytes(base64::engine::general_purpose::STANDARD.decode(text).expect("base64"))
            }
            Some("$int") => Value::from(inner.as_str().expect("text").parse::<::value::BigInt>().expect("digits")),
            Some("$float") => Value::Float(inner.as_str().expect("text").parse().expect("a float")),
            Some("$pairs") => {
                let pairs = inner.as_list().expect("a list").iter().map(|pair| {
                    let pair = pair.as_list().expect("a pair");
                    (untag(pair[0].clone()), untag(pair[1].clone()))
                });
                Value::Map(pairs.collect())
            }
            _ => Value::Map(map.into_iter().map(|(key, value)| (key, untag(value))).collect()),
        }
    }

    fn escaped_json(text: &str) -> String {
        let letter = |letter: char| match letter {
            _ if escape::is_command(letter) => format!("\\u{:04x}", letter as u32),
            _ => letter.to_string(),
        };
        text.chars().map(letter).collect()
    }

    fn check(recorded: &str) {
        let cases: Value = serde_json::from_str(recorded).expect("the record is JSON");
        let mut wrong = Vec::new();
        for case in cases.as_list().expect("a list of cases") {
            let mut options = case.get("opts").and_then(Value::as_map).expect("opts").clone();
            options.insert("force_color", case.get("color").expect("color").clone());
            let settings = Settings::from_options(&options, false);
            let data = untag(case.get("data").expect("data").clone());
            let out = case.get("out").and_then(Value::as_str);
            let retcode = case.get("retcode").and_then(Value::as_i64).unwrap_or(0);
            let expected = case.get("text").expect("text").as_str().unwrap_or("");
            // Salt replaces only the escape character, and not in keys; its JSON does not escape what ours does.
            let expected = match settings.choose(out).as_str() {
                "json" => escaped_json(expected),
                name if is_exact(name, &data, &settings) => expected.to_owned(),
                _ => escape::but_for_colours(expected).into_owned(),
            };
            // These two are in the data; Salt's own colours differ.
            let strips = settings.strip_colors && !is_exact(&settings.choose(out), &data, &settings);
            let expected = match strips {
                true => expected.replace("\x1b[31m", "?[31m").replace("\x1b[0m", "?[0m"),
                false => expected,
            };
            let found = format(&data, out, &settings, retcode);
            if found != expected {
                let name = case.get("name").expect("name");
                wrong.push(format!("{name} as {out:?} with {options:?}:\n{expected}\n-- but got --\n{found}\n"));
            }
        }
        let few: String = wrong.iter().take(12).map(String::as_str).collect();
        assert!(wrong.is_empty(), "{} differ from the real output:\n{few}", wrong.len());
    }

    const COMMANDS: [&str; 6] = ["\x1b[2J", "\x07", "\u{9b}31m", "\u{202e}", "\u{2066}", "\x7f"];

    /// Inserts control characters wherever an outputter prints text.
    fn hostile(command: &str) -> Vec<Value> {
        let text = |name: &str| format!("{name}{command}");
        let tag = text("file_|-a_|-b") + "_|-managed";
        let state = value::map! {
            "__run_num__" => 0, "result" => true, "comment" => text("comment"), "name" => text("b"),
            "__id__" => text("a"), "__sls__" => text("s"), "start_time" => text("t"), "duration" => text("1 ms"),
            "changes" => value::map! { text("key") => vec![Value::from(text("new"))] },
            "warnings" => vec![Value::from(text("warning"))], "data" => vec![Value::from(text("data"))],
        };
        vec![
            value::map! { text("web1") => text("text") }.into(),
            value::map! { "web1" => value::map! { text("key") => vec![Value::from(text("item"))] } }.into(),
            value::map! { "web1" => value::map! { tag => state } }.into(),
            value::map! { "web1" => vec![Value::from(text("error"))] }.into(),
            value::map! { "minions_pre" => vec![Value::from(text("id"))] }.into(),
            value::map! { "minions" => value::map! { text("id") => text("finger") } }.into(),
            value::map! { "web1" => value::map! { "rows" => vec![value::map! { text("h") => text("cell") }] } }.into(),
            value::map! { "web1" => Value::bytes(text("bytes")) }.into(),
            text("bare").into(),
        ]
    }

    #[test]
    fn no_outputter_prints_control_characters() {
        for command in COMMANDS {
            for data in hostile(command) {
                for out in NAMES {
                    let mut settings = Settings::from_options(&value::map! { "no_color" => true }, true);
                    settings.state_output_profile = true;
                    let text = format(&data, Some(out), &settings, 0);
                    assert!(!text.contains(escape::is_command), "{out}: {text:?}");
                }
            }
        }
    }

    #[test]
    fn machine_readable_formats_are_exact() {
        let settings = Settings::default();
        for command in COMMANDS {
            let data = Value::from(value::map! { "web1" => format!("a{command}b") });
            let json: Value = serde_json::from_str(&format(&data, Some("json"), &settings, 0)).unwrap();
            assert_eq!(json, data);
            let text = format(&data, Some("yaml"), &settings, 0);
            assert_eq!(::yaml::load(&text, "x").unwrap(), data, "{text}");
            let text = format!("a{command}b");
            assert_eq!(format(&text.as_str().into(), Some("raw"), &settings, 0), text);
        }
    }

    #[test]
    fn colours_pass_if_the_operator_wants_them() {
        let settings = Settings::from_options(&value::map! { "strip_colors" => false }, true);
        let text = format(&"\x1b[31mred\x1b[0m\x1b[2J".into(), Some("nested"), &settings, 0);
        assert!(text.contains("\x1b[31mred\x1b[0m?[2J"), "{text:?}");
    }

    #[test]
    fn every_outputter_prints_what_salt_prints() {
        check(include_str!("../testdata/recorded.json"));
    }

    #[test]
    fn outputters_of_older_releases_print_what_salt_prints() {
        check(include_str!("../testdata/recorded-3006.json"));
    }
}
