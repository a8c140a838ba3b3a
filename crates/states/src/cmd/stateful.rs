//! Commands that say themselves what they changed.

use exec::{Context, Error, Result};
use value::{Map, Value};

use crate::Ret;

/// The argument `stateful`.
pub(super) struct Stateful {
    /// True if the output says what changed.
    pub on: bool,
    /// The command for test mode.
    pub test_name: Option<Value>,
}

impl Stateful {
    /// Reads the argument: True, or a list whose first entry may have a `test_name`.
    pub fn read(value: &Value) -> Result<Self> {
        let Value::List(items) = value else {
            return Ok(Stateful { on: value == &Value::Bool(true), test_name: None });
        };
        // Only the first entry is read; Python fails on an empty list with this text.
        let first = items.first().ok_or_else(|| Error::Other("list index out of range".into()))?;
        Ok(Stateful { on: true, test_name: first.get("test_name").filter(|name| name.truthy()).cloned() })
    }

    /// Returns the command to run: in test mode that may be another one.
    pub fn command(&self, ctx: &Context, name: Value) -> Value {
        match &self.test_name {
            Some(other) if ctx.is_test() => other.clone(),
            _ => name,
        }
    }
}

const NOT_AN_OBJECT: &str = "script JSON output must be a JSON object (e.g., {})!";
const NEITHER: &str = "Failed parsing script output! Stdout must be JSON or a line of name=value pairs.";

/// The state line of a command.
struct StateLine {
    data: Map,
    is_json: bool,
    /// The number of letters of the output before the line that was read; without the last one when that is the only
    /// line, as in Salt.
    before: Option<usize>,
}

/// Sets the result of the state from the output of a command.
///
/// # Errors
/// When `changed` is neither yes nor no.
pub(super) fn reinterpreted(mut ret: Ret) -> Result<Ret> {
    let output = std::mem::take(&mut ret.changes);
    ret.comment = "".into();
    let text = output.get("stdout").filter(|text| text.truthy()).map(Value::to_string);
    let Some(text) = text else {
        if let Some(error) = output.get("stderr").filter(|error| error.truthy()) {
            ret.comment = error.clone();
        }
        return Ok(ret);
    };
    let said = match read(&text) {
        Ok(said) => said,
        Err(why) => {
            // Only this error keeps the output among the changes.
            if why == NEITHER {
                ret.changes = output;
            }
            return Ok(ret.fail(why));
        }
    };
    let StateLine { mut data, is_json, before } = said;
    // A command whose output lacks `changed` has changed nothing, whatever it printed.
    let changed = is_true(data.get("changed").unwrap_or(&"no".into()))?;
    if let Some(comment) = data.remove("comment") {
        ret.comment = comment;
    }
    if changed {
        // The fields that the command prints take precedence over measured ones, even over `pid` or `retcode`.
        for (key, value) in output.iter() {
            data.entry_or_insert_with(key.clone(), || value.clone());
        }
        let stdout = data.get("stdout").map(Value::to_string).unwrap_or_default();
        // Python slices with `[:-1]` when there is no line break, so the last letter goes and the
        // rest stays.
        let kept = before.unwrap_or_else(|| stdout.chars().count().saturating_sub(1));
        let stdout: String = if is_json { String::new() } else { stdout.chars().take(kept).collect() };
        data.insert("stdout", stdout);
        ret.changes = data;
    }
    Ok(ret)
}

fn read(text: &str) -> std::result::Result<StateLine, &'static str> {
    // JSON is tried first, since a document may well have `=` in it.
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        let data = value.into_map().ok_or(NOT_AN_OBJECT)?;
        return Ok(StateLine { data, is_json: true, before: None });
    }
    // The blanks at the end are ignored for finding the line, but stay part of it.
    let cut = text.trim_end().rfind('\n');
    let line = cut.map_or(text, |cut| &text[cut + 1..]);
    let words = python::shlex::split(line).map_err(|_| NEITHER)?;
    let mut data = Map::new();
    for word in words {
        // Two equals signs in a word are an error: Salt unpacks the split into exactly two parts.
        let (key, value) = word.split_once('=').filter(|(_, value)| !value.contains('=')).ok_or(NEITHER)?;
        data.insert(key, value);
    }
    Ok(StateLine { data, is_json: false, before: cut.map(|cut| text[..cut].chars().count()) })
}

fn is_true(value: &Value) -> Result<bool> {
    match value.to_string().to_lowercase().as_str() {
        "true" | "yes" | "1" if value.truthy() => Ok(true),
        "false" | "no" | "0" => Ok(false),
        _ => Err(Error::Other(format!("Failed parsing boolean value: {value}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::map;

    #[test]
    fn the_last_line_says_what_changed() {
        let ret = Ret::new("c").ok("run").changed(map! { "pid" => 1, "stdout" => "one\ntwo\nchanged=yes a='b c'" });
        let ret = reinterpreted(ret).unwrap();
        assert_eq!(ret.changes, map! { "changed" => "yes", "a" => "b c", "pid" => 1, "stdout" => "one\ntwo" });
        let ret = reinterpreted(Ret::new("c").changed(map! { "stdout" => "changed=maybe" }));
        assert!(ret.unwrap_err().to_string().contains("maybe"));
    }
}
