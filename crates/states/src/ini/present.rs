//! `ini.options_present`.

use exec::{Context, Result, function};
use value::{Map, Value, map};

use super::{File, section_map, within};
use crate::Ret;

/// The arguments and the results so far.
struct Work<'a> {
    ctx: &'a Context,
    file: File,
    no_spaces: Value,
    strict: bool,
    /// The file before.
    before: Map,
    changes: Map,
    /// The comment of a test run.
    text: String,
    would_change: bool,
}

/// Sets options: a map of sections with their options, and of options above all sections. With ``strict`` all other
/// options and sections are removed.
#[function]
fn options_present(
    ctx: &Context,
    name: Value,
    sections: Option<Value>,
    #[default("=")] separator: Value,
    #[default(false)] strict: Value,
    encoding: Option<Value>,
    #[default(false)] no_spaces: Value,
) -> Result<Ret> {
    let sections = section_map(sections)?;
    let file = File { name: name.clone(), separator, encoding };
    let strict = strict.truthy();
    let before = if sections.is_empty() { Map::new() } else { file.content(ctx)? };
    let (changes, text) = (Map::new(), String::new());
    let mut work = Work { ctx, file, no_spaces, strict, before, changes, text, would_change: false };
    if sections.is_empty() {
        if !ctx.is_test() {
            work.changes = work.set(Map::new())?;
        }
    } else {
        work.apply(&sections)?;
    }
    Ok(work.finish(Ret::new(name)))
}

fn is_section(value: &Value) -> bool {
    matches!(value, Value::Map(_))
}

fn entries(map: &Map, sections: bool) -> Map {
    let chosen = map.iter().filter(|(_, value)| is_section(value) == sections);
    chosen.map(|(key, value)| (key.clone(), value.clone())).collect()
}

impl Work<'_> {
    fn apply(&mut self, wanted: &Map) -> Result<()> {
        let (options, sections) = (entries(wanted, false), entries(wanted, true));
        if self.ctx.is_test() {
            let before = entries(&self.before, false);
            self.compare(&options, &before, "");
        } else {
            self.changes = self.set(options.clone())?;
        }
        if self.strict {
            self.remove_others(&options, &sections)?;
        }
        for (section, body) in sections.iter() {
            self.section(section, body.as_map().cloned().unwrap_or_default())?;
        }
        Ok(())
    }

    fn set(&self, sections: Map) -> Result<Map> {
        let arguments = map! { "sections" => sections, "no_spaces" => self.no_spaces.clone() };
        Ok(self.file.call(self.ctx, "ini.set_option", arguments)?.into_map().unwrap_or_default())
    }

    fn say(&mut self, text: String) {
        self.text.push_str(&text);
        self.would_change = true;
    }

    /// Reports which options are as wanted.
    fn compare(&mut self, wanted: &Map, before: &Map, within: &str) {
        for (option, value) in wanted.iter() {
            let same = before.get_value(option).is_some_and(|old| old.to_string() == value.to_string());
            if same {
                self.text.push_str(&format!("Unchanged key {option}{within}.\n"));
            } else {
                self.say(format!("Changed key {option}{within}.\n"));
            }
        }
    }

    fn remove_option(&self, section: Value, option: &Value) -> Result<Value> {
        let arguments = map! { "section" => section, "option" => option.clone() };
        self.file.call(self.ctx, "ini.remove_option", arguments)
    }

    /// Takes away the options above all sections, and the sections, that are not wanted.
    fn remove_others(&mut self, options: &Map, sections: &Map) -> Result<()> {
        for (option, old) in entries(&self.before, false).iter().filter(|(key, _)| options.get_value(key).is_none()) {
            if self.ctx.is_test() {
                self.say(format!("Removed key {option}.\n"));
                continue;
            }
            self.remove_option(Value::Null, option)?;
            self.changes.insert(option.clone(), map! { "before" => old.clone(), "after" => () });
        }
        for (section, old) in entries(&self.before, true).iter().filter(|(key, _)| sections.get_value(key).is_none()) {
            if self.ctx.is_test() {
                self.say(format!("Removed section {section}.\n"));
                continue;
            }
            self.file.call(self.ctx, "ini.remove_section", map! { "section" => section.clone() })?;
            self.changes.insert(section.clone(), map! { "before" => old.clone(), "after" => () });
        }
        Ok(())
    }

    fn section(&mut self, section: &Value, body: Map) -> Result<()> {
        let before = self.before.get_value(section).and_then(Value::as_map).cloned().unwrap_or_default();
        let mut changes = Map::new();
        if self.strict {
            for (key, old) in before.iter().filter(|(key, _)| body.get_value(key).is_none()) {
                if self.ctx.is_test() {
                    self.say(format!("Deleted key {key}{}.\n", within(section)));
                    continue;
                }
                self.remove_option(section.clone(), key)?;
                changes.insert(key.clone(), map! { "before" => old.clone(), "after" => () });
            }
        }
        if self.ctx.is_test() {
            self.compare(&body, &before, &within(section));
            return Ok(());
        }
        let updated = self.set(map! { section.clone() => body })?;
        if let Some(Value::Map(updated)) = updated.get_value(section) {
            changes.update(updated.clone());
        }
        if !changes.is_empty() {
            self.changes.insert(section.clone(), changes);
        }
        Ok(())
    }

    fn finish(self, mut ret: Ret) -> Ret {
        if self.ctx.is_test() {
            return if self.would_change { ret.would(self.text) } else { ret.ok(self.text) };
        }
        if let Some(error) = self.changes.get("error") {
            return ret.fail(format!("Errors encountered. {error}"));
        }
        ret.changes = self.changes;
        ret.changes.retain(|_, body| body.truthy());
        let text = if ret.changes.is_empty() { "No anomaly detected" } else { "Changes take effect" };
        ret.ok(text)
    }
}
