//! `ini`: options in files with sections.

mod present;

use exec::{Context, Error, Module, Result, function};
use value::{Map, Value, map};

use crate::Ret;
use crate::support::call_with_kwargs;
use present::OPTIONS_PRESENT;

/// The module.
pub static MODULE: Module = Module::new(
    "ini",
    "Options in files with sections.",
    &[&OPTIONS_ABSENT, &OPTIONS_PRESENT, &SECTIONS_ABSENT, &SECTIONS_PRESENT],
);

/// A file and how it is written.
#[derive(Clone)]
struct File {
    name: Value,
    separator: Value,
    encoding: Option<Value>,
}

impl File {
    /// Calls an `ini` function on it.
    fn call(&self, ctx: &Context, fun: &str, more: Map) -> Result<Value> {
        let mut arguments = map! {
            "file_name" => self.name.clone(), "separator" => self.separator.clone(), "encoding" => self.encoding.clone(),
        };
        arguments.update(more);
        call_with_kwargs(ctx, fun, arguments)
    }

    fn content(&self, ctx: &Context) -> Result<Map> {
        Ok(self.call(ctx, "ini.get_ini", Map::new())?.into_map().unwrap_or_default())
    }
}

/// ` in section x`, or nothing above all sections.
fn within(section: &Value) -> String {
    if section.truthy() { format!(" in section {section}") } else { String::new() }
}

/// The names Python's `for` goes through.
fn names(sections: &Value) -> Result<Vec<Value>> {
    match sections {
        Value::Null => Ok(Vec::new()),
        Value::List(items) => Ok(items.clone()),
        Value::Map(map) => Ok(map.keys().cloned().collect()),
        Value::Str(text) => Ok(text.chars().map(|letter| letter.to_string().into()).collect()),
        other => Err(Error::Other(format!("'{}' object is not iterable", other.type_name()))),
    }
}

fn section_map(sections: Option<Value>) -> Result<Map> {
    match sections.filter(Value::truthy) {
        None => Ok(Map::new()),
        Some(Value::Map(map)) => Ok(map),
        Some(other) => Err(Error::Other(format!("sections must be a map, not a {}", other.type_name()))),
    }
}

/// Removes options: a map of sections, each with a list of option names.
#[function]
fn options_absent(
    ctx: &Context,
    name: Value,
    sections: Option<Value>,
    #[default("=")] separator: Value,
    encoding: Option<Value>,
) -> Result<Ret> {
    let file = File { name: name.clone(), separator, encoding };
    let sections = section_map(sections)?;
    if ctx.is_test() {
        return would_remove(ctx, &file, &sections);
    }
    let mut ret = Ret::new(name).ok("No anomaly detected");
    for (section, keys) in sections.iter() {
        for key in names(keys)? {
            let arguments = map! { "section" => section.clone(), "option" => key.clone() };
            let gone = file.call(ctx, "ini.remove_option", arguments)?;
            if !gone.truthy() {
                continue;
            }
            if matches!(keys, Value::List(_)) {
                let inner = ret.changes.entry_or_insert_with(section.clone(), || Map::new().into());
                if let Value::Map(inner) = inner {
                    inner.insert(key, gone);
                }
            } else {
                ret.changes.insert(section.clone(), gone);
            }
            ret.comment = "Changes take effect".into();
        }
    }
    Ok(ret)
}

fn would_remove(ctx: &Context, file: &File, sections: &Map) -> Result<Ret> {
    let mut text = String::new();
    let mut changes = false;
    for (section, keys) in sections.iter() {
        let Value::List(keys) = keys else {
            let arguments = map! { "section" => (), "option" => section.clone() };
            if file.call(ctx, "ini.get_option", arguments)?.truthy() {
                text.push_str(&format!("Deleted key {section}.\n"));
                changes = true;
            } else {
                text.push_str(&format!("Key {section} does not exist.\n"));
            }
            continue;
        };
        let current = file.content(ctx)?;
        let current = current.get_value(section).and_then(Value::as_map);
        for key in keys {
            if current.and_then(|current| current.get_value(key)).is_some_and(Value::truthy) {
                text.push_str(&format!("Deleted key {key}{}.\n", within(section)));
                changes = true;
            } else {
                text.push_str(&format!("Key {key}{} does not exist.\n", within(section)));
            }
        }
    }
    Ok(announced(file, text, changes))
}

/// Finishes a test run. Without changes it is a success.
fn announced(file: &File, text: String, changes: bool) -> Ret {
    let text = if text.is_empty() { "No changes detected.".to_owned() } else { text };
    let ret = Ret::new(file.name.clone());
    if changes { ret.would(text) } else { ret.ok(text) }
}

/// Makes sure that these sections exist; they are made without options.
#[function]
fn sections_present(
    ctx: &Context,
    name: Value,
    sections: Option<Value>,
    #[default("=")] separator: Value,
    encoding: Option<Value>,
) -> Result<Ret> {
    let file = File { name: name.clone(), separator, encoding };
    let sections = names(&sections.unwrap_or_default())?;
    let content = file.content(ctx)?;
    if ctx.is_test() {
        let mut text = String::new();
        let mut changes = false;
        for section in &sections {
            if content.get_value(section).is_some() {
                text.push_str(&format!("Section unchanged {section}.\n"));
            } else {
                text.push_str(&format!("Created new section {section}.\n"));
                changes = true;
            }
        }
        return Ok(announced(&file, text, changes));
    }
    let wanted: Map = sections.into_iter().map(|section| (section, Map::new())).collect();
    let changes = file.call(ctx, "ini.set_option", map! { "sections" => wanted })?;
    let changes = changes.into_map().unwrap_or_default();
    let text = if changes.is_empty() { "No anomaly detected" } else { "Changes take effect" };
    Ok(Ret::new(name).changed(changes).ok(text))
}

/// Removes sections with all their options.
#[function]
fn sections_absent(
    ctx: &Context,
    name: Value,
    sections: Option<Value>,
    #[default("=")] separator: Value,
    encoding: Option<Value>,
) -> Result<Ret> {
    let file = File { name: name.clone(), separator, encoding };
    let sections = names(&sections.unwrap_or_default())?;
    if ctx.is_test() {
        let content = file.content(ctx)?;
        let mut text = String::new();
        let mut changes = false;
        for section in &sections {
            if content.get_value(section).is_some() {
                text.push_str(&format!("Deleted section {section}.\n"));
                changes = true;
            } else {
                text.push_str(&format!("Section {section} does not exist.\n"));
            }
        }
        return Ok(announced(&file, text, changes));
    }
    let mut ret = Ret::new(name).ok("No anomaly detected");
    for section in sections {
        let gone = file.call(ctx, "ini.remove_section", map! { "section" => section.clone() })?;
        if gone.truthy() {
            ret.changes.insert(section, gone);
            ret.comment = "Changes take effect".into();
        }
    }
    Ok(ret)
}
