//! `file.prepend`.

use exec::{Context, KwArgs, Result, VarArgs, function};
use modules::file::paths::expand_user;
use modules::file::replace::found;
use modules::file::{content, difflib};
use modules::text;
use value::Value;

use super::append::{Ready, TextToAdd, loose_pattern};
use super::common::{Sources, note_diff, read_text, text_difference};
use crate::Ret;

/// Puts text before the first line of a file if the file does not contain it, or with `header` if it is not at the top.
#[function]
pub fn prepend(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] text: Value,
    #[default(false)] makedirs: Value,
    #[default(Value::Null)] source: Value,
    #[default(Value::Null)] source_hash: Value,
    #[default("jinja")] template: String,
    #[default(Value::Null)] sources: Value,
    #[default(Value::Null)] source_hashes: Value,
    #[default(Value::Null)] defaults: Value,
    #[default(Value::Null)] context: Value,
    #[default(Value::Null)] header: Value,
    #[default(true)] show_changes: bool,
) -> Result<Ret> {
    let order = TextToAdd { function: "prepend", text, makedirs, template, defaults, context };
    let header = header.truthy();
    let sources = Sources { source, source_hash, sources, source_hashes };
    let ready = match order.prepare(ctx, &expand_user(&name), &sources)? {
        Ok(ready) => ready,
        Err(ret) => return Ok(*ret),
    };
    let Ready { name, mut ret, texts } = ready;
    let before = read_text(&name)?;
    let old = text::lines_with_ends(&before);
    let mut lines: Vec<String> = Vec::new();
    for chunk in texts.unwrap_or_default() {
        // With `header` the text has to stand at the top, so finding it elsewhere proves nothing.
        if !header && found(&name, &loose_pattern(&chunk), modules::file::pattern::MULTILINE, false)? {
            continue;
        }
        lines.extend(text::lines(&chunk).into_iter().map(str::to_owned));
    }
    let shown = |old: &[&str], new: &[&str]| text_difference(&name, difflib::unified(old, new), show_changes);
    if ctx.is_test() {
        if lines.is_empty() {
            return Ok(ret.ok(format!("File {name} is in correct state")));
        }
        let ended: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
        let new: Vec<&str> = ended.iter().map(String::as_str).chain(old.iter().copied()).collect();
        note_diff(&mut ret.changes, shown(&old, &new));
        return Ok(ret.would(format!("File {name} is set to be updated")));
    }
    // In test mode Salt skips the `header` comparison below, so it announces a change even if the
    // header is in place.
    let mut count = lines.len();
    // Only as many lines as the new text has are compared.
    let head: Vec<&str> = text::lines(&before).into_iter().take(count).collect();
    if header && head == lines {
        count = 0;
    } else {
        let args = lines.into_iter().map(Value::from).collect();
        content::prepend(ctx, name.clone(), VarArgs(args), KwArgs::default())?;
    }
    let after = read_text(&name)?;
    let new = text::lines_with_ends(&after);
    if old != new {
        note_diff(&mut ret.changes, shown(&old, &new));
    }
    Ok(ret.ok(match count {
        0 => format!("File {name} is in correct state"),
        count => format!("Prepended {count} lines"),
    }))
}
