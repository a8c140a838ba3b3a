//! `file.keyvalue`.

use std::fs;

use exec::{Context, Result, function};
use modules::file::paths::expand_user;
use modules::text;
use value::{Map, Value, map};

use crate::Ret;

/// The settings and how they are looked for.
struct KeyValueEdit {
    settings: Vec<(String, Value)>,
    separator: String,
    append: bool,
    prepend: bool,
    count: i64,
    /// The characters that mark a comment. None means blanks.
    uncomment: Option<String>,
    key_ignore_case: bool,
    value_ignore_case: bool,
    prune: bool,
}

/// The new lines, and what changed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    content: Vec<String>,
    diff: Vec<String>,
    changes: usize,
    deletions: usize,
}

impl KeyValueEdit {
    fn folded(&self, text: &str) -> String {
        if self.key_ignore_case { text.to_lowercase() } else { text.to_owned() }
    }

    fn line(&self, key: &str, value: &Value) -> String {
        format!("{key}{}{value}\n", self.separator)
    }

    fn apply(&self, old: &[&str]) -> Outcome {
        let mut out = Outcome::default();
        // How often each key may still be set. Negative means without limit, and then the count
        // never reaches zero.
        let mut left: Vec<i64> = vec![self.count; self.settings.len()];
        let mut unmatched = Vec::new();
        for line in old {
            let stripped = match &self.uncomment {
                // Python's `lstrip(None)` strips blanks, so without `uncomment` an indented line
                // counts as uncommented.
                None => line.trim_start(),
                Some(signs) => line.trim_start_matches(|c| signs.contains(c)),
            };
            let probe = self.folded(stripped);
            // Lines of no known key are dropped from the file. The comparison is by prefix, so a
            // longer key that starts the same survives.
            if self.prune && !self.settings.iter().any(|(key, _)| probe.starts_with(&self.folded(key))) {
                unmatched.push(*line);
                continue;
            }
            let line = self.change(line, stripped, &mut left, &mut out);
            out.content.push(line);
        }
        self.add(&left, &mut out);
        for line in &unmatched {
            // Salt inserts deletions after the first line of the difference. That reverses their
            // order and can split a pair of - and +.
            let place = out.diff.len().min(1);
            out.diff.insert(place, format!("- {line}"));
        }
        out.deletions = unmatched.len();
        out
    }

    /// Returns the wanted line.
    fn change(&self, line: &str, stripped: &str, left: &mut [i64], out: &mut Outcome) -> String {
        let uncommented = line.len() > stripped.len();
        let mut result = line.to_owned();
        let Some((own_key, own_value)) = stripped.split_once(&*self.separator) else { return result };
        let mut own_value = own_value.to_owned();
        // No `break` after a match: with `key_ignore_case` two settings can match one line, and both are applied in
        // turn.
        for ((key, value), left) in self.settings.iter().zip(left) {
            if self.folded(own_key) != self.folded(key) {
                continue;
            }
            own_value = own_value.trim().to_owned();
            let mut wanted = value.to_string().trim().to_owned();
            if self.value_ignore_case {
                (own_value, wanted) = (own_value.to_lowercase(), wanted.to_lowercase());
            }
            let mut matches = own_value == wanted;
            let mut needs = false;
            // A commented line is turned into a setting only while the count lasts. Later ones stay
            // comments, whatever their value.
            if uncommented {
                needs = *left > 0;
                matches = matches || !needs;
            } else if *left == 0 {
                // The key was already set often enough, so further active lines are removed.
                needs = true;
            }
            if !matches || needs {
                out.diff.push(format!("- {result}"));
                result = String::new();
                if *left != 0 {
                    result = self.line(own_key, value);
                    out.diff.push(match value {
                        Value::Str(_) => format!("+ {result}"),
                        other => format!("+ {} (from {} type)\n", result.trim_end(), other.type_name()),
                    });
                }
                out.changes += 1;
            }
            if *left > 0 {
                *left -= 1;
            }
        }
        result
    }

    /// Adds the settings that are missing.
    fn add(&self, left: &[i64], out: &mut Outcome) {
        let missing: Vec<String> = (self.settings.iter().zip(left))
            .filter(|(_, left)| **left > 0)
            .map(|((key, value), _)| self.line(key, value))
            .collect();
        if missing.is_empty() {
            return;
        }
        if self.append {
            out.diff.push("- <EOF>\n".into());
            out.diff.extend(missing.iter().map(|line| format!("+ {line}")));
            out.diff.push("+ <EOF>\n".into());
        } else if self.prepend {
            out.diff.insert(0, "  <SOF>\n".into());
            for line in &missing {
                // Always at index 1, behind <SOF>: the lines come out in reverse order, and the
                // file gets them in that order, too.
                out.diff.insert(1, format!("+ {line}"));
            }
        } else {
            return;
        }
        out.changes += missing.len();
        if self.append {
            out.content.extend(missing);
        } else {
            out.content.splice(..0, missing.into_iter().rev());
        }
    }
}

/// Sets values of keys in a file with lines such as `key = value`.
#[function]
pub fn keyvalue(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] key: Value,
    #[default(Value::Null)] value: Value,
    #[default(Value::Null)] key_values: Value,
    #[default("=")] separator: String,
    #[default(false)] append_if_not_found: bool,
    #[default(false)] prepend_if_not_found: bool,
    #[default(false)] search_only: bool,
    #[default(true)] show_changes: bool,
    #[default(false)] ignore_if_missing: bool,
    #[default(1)] count: i64,
    uncomment: Option<String>,
    #[default(false)] key_ignore_case: bool,
    #[default(false)] value_ignore_case: bool,
    #[default(false)] create_if_missing: bool,
    #[default(false)] prune: bool,
) -> Result<Ret> {
    let _ = search_only;
    let name = expand_user(&name);
    let ret = Ret { result: None, ..Ret::new(name.as_str()) };
    if name.is_empty() {
        return Ok(ret.fail("Must provide name to file.keyvalue"));
    }
    let settings = match settings(key, value, key_values) {
        Ok(settings) => settings,
        Err(wrong) => return Ok(ret.fail(wrong)),
    };
    let mut append = append_if_not_found;
    let old = match fs::read(&name) {
        Ok(bytes) => text::Text::of(&bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && create_if_missing => {
            // A new file has no line to change, so everything has to be appended.
            append = true;
            text::Text::of(b"")
        }
        // Unreadable counts as missing, as in Salt.
        Err(_) => {
            let comment = format!("unable to open {name}");
            return Ok(if ignore_if_missing { ret.ok(comment) } else { ret.fail(comment) });
        }
    };
    let order = KeyValueEdit {
        settings: settings.into_iter().map(|(key, value)| (key.to_string(), value)).collect(),
        separator,
        append,
        prepend: prepend_if_not_found,
        count,
        uncomment,
        key_ignore_case,
        value_ignore_case,
        prune,
    };
    let outcome = order.apply(&text::plain_lines(&old.content));
    Ok(finish(ctx, ret, &name, outcome, show_changes, &old))
}

fn settings(key: Value, value: Value, key_values: Value) -> std::result::Result<Map, &'static str> {
    match (key.is_null() || value.is_null(), key_values) {
        (false, Value::Map(_)) => Err("file.keyvalue can not combine key_values with key and value"),
        (false, _) => Ok(map! { key.to_string() => value }),
        (true, Value::Map(map)) if !map.is_empty() => Ok(map),
        // The wording depends on whether `key_values` is empty, not on its type, as in Salt.
        (true, other) if !other.truthy() => Err("file.keyvalue key and value not supplied and key_values is empty"),
        (true, _) => Err("file.keyvalue key and value not supplied and key_values is not a dictionary"),
    }
}

fn finish(ctx: &Context, mut ret: Ret, name: &str, outcome: Outcome, show: bool, old: &text::Text) -> Ret {
    let Outcome { content, diff, changes, deletions } = outcome;
    if changes == 0 && deletions == 0 {
        return Ret { result: Some(true), ..ret };
    }
    if show {
        ret.changes.insert("diff", diff.concat());
    }
    if ctx.is_test() {
        let mut comment = format!("File {name} is set to be changed ({changes} lines modified, {deletions} deleted)");
        if show {
            // The carriage returns are Salt's; they overwrite the outputter's indentation on a
            // terminal.
            comment.push_str(&format!("\nPredicted diff:\n\r\t\t{}", diff.join("\r\t\t")));
        }
        return ret.would(comment);
    }
    match fs::write(name, old.bytes(&content.concat())) {
        Ok(()) => ret.ok(format!("Changed {changes}, deleted {deletions} lines")),
        Err(_) => ret.fail(format!("{name} not writable")),
    }
}
