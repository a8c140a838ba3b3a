//! Python's pretty printer.

use super::text::char_count;
use super::{repr_str, sort_by_keys};
use crate::error::Error;
use crate::run::State;
use crate::value::Value;

const WIDTH: usize = 80;

/// Formats a value as `pprint.pformat`: on one line if it fits into 80 columns, else one entry per line, with the keys of
/// dictionaries sorted.
///
/// # Errors
/// For objects whose `repr` fails, and for nesting or output beyond the limits.
pub fn pformat(state: &mut State, value: &Value) -> Result<String, Error> {
    let mut printer = Printer { state, out: String::new(), active: Vec::new() };
    printer.print(value, 0, 0, 0)?;
    Ok(printer.out)
}

struct Printer<'a> {
    state: &'a mut State,
    out: String,
    active: Vec<usize>,
}

impl Printer<'_> {
    /// Prints a value on one line, dictionaries sorted.
    fn plain(&mut self, value: &Value) -> Result<String, Error> {
        match value {
            Value::Dict(dict) if dict.type_name() == "dict" && !dict.is_empty() => {
                if self.enter(dict.id()) {
                    return Ok(self.again(value));
                }
                let mut parts = Vec::new();
                for (key, value) in self.sorted(dict.entries())? {
                    parts.push(format!("{}: {}", self.plain(&key)?, self.plain(&value)?));
                }
                self.active.pop();
                Ok(format!("{{{}}}", parts.join(", ")))
            }
            Value::List(list) => {
                if self.enter(list.id()) {
                    return Ok(self.again(value));
                }
                let mut parts = Vec::new();
                for item in list.to_vec() {
                    parts.push(self.plain(&item)?);
                }
                self.active.pop();
                Ok(format!("[{}]", parts.join(", ")))
            }
            Value::Tuple(items) => {
                // A tuple cannot contain itself, so that only the depth is checked.
                if self.active.len() as u32 > super::MAX_DEPTH {
                    return Err(super::too_deep());
                }
                self.active.push(items.as_ptr() as usize);
                let mut parts = Vec::new();
                for item in items.iter() {
                    parts.push(self.plain(item)?);
                }
                self.active.pop();
                Ok(if parts.len() == 1 { format!("({},)", parts[0]) } else { format!("({})", parts.join(", ")) })
            }
            other => self.state.repr(other),
        }
    }

    fn enter(&mut self, id: usize) -> bool {
        // Nesting that is too deep prints like a cycle: the printer has no error for it.
        if self.active.contains(&id) || self.active.len() as u32 > super::MAX_DEPTH {
            return true;
        }
        self.active.push(id);
        false
    }

    fn again(&self, value: &Value) -> String {
        let id = match value {
            Value::Dict(dict) => dict.id(),
            Value::List(list) => list.id(),
            _ => 0,
        };
        format!("<Recursion on {} with id={id}>", value.type_name())
    }

    /// Sorts as Python's printer: by value, or by type and address what has no order.
    fn sorted(&mut self, entries: Vec<(Value, Value)>) -> Result<Vec<(Value, Value)>, Error> {
        let keyed = entries.iter().map(|(k, v)| (k.clone(), Value::tuple(vec![k.clone(), v.clone()]))).collect();
        let sorted = match sort_by_keys(self.state, keyed, false) {
            Ok(sorted) => sorted,
            // Python's `_safe_key` falls back to the names of the types. The addresses it also uses would make the
            // output random.
            Err(_) => {
                let mut entries = entries;
                entries.sort_by(|(a, _), (b, _)| a.type_name().cmp(b.type_name()));
                return Ok(entries);
            }
        };
        Ok(sorted
            .into_iter()
            .filter_map(|pair| match pair {
                Value::Tuple(pair) => Some((pair[0].clone(), pair[1].clone())),
                _ => None,
            })
            .collect())
    }

    fn print(&mut self, value: &Value, indent: usize, allowance: usize, level: usize) -> Result<(), Error> {
        self.state.check_size(self.out.len())?;
        let text = self.plain(value)?;
        // `allowance` is the space that the closing brackets around this value need on its last line.
        let room = (WIDTH as isize) - indent as isize - allowance as isize;
        if char_count(&text) as isize <= room {
            self.out.push_str(&text);
            return Ok(());
        }
        let level = level + 1;
        match value {
            Value::Dict(dict) if !dict.is_empty() => {
                if self.enter(dict.id()) {
                    self.out.push_str(&text);
                    return Ok(());
                }
                let entries = self.sorted(dict.entries())?;
                self.out.push('{');
                let last = entries.len() - 1;
                for (at, (key, value)) in entries.iter().enumerate() {
                    let key = self.plain(key)?;
                    self.out.push_str(&format!("{key}: "));
                    // The opening brace, the colon and the space.
                    let inner = indent + char_count(&key) + 3;
                    self.print(value, inner, if at == last { allowance + 1 } else { 1 }, level)?;
                    if at < last {
                        self.out.push_str(&format!(",\n{}", " ".repeat(indent + 1)));
                    }
                }
                self.out.push('}');
                self.active.pop();
            }
            Value::List(list) if !list.is_empty() => {
                if self.enter(list.id()) {
                    self.out.push_str(&text);
                    return Ok(());
                }
                self.out.push('[');
                self.items(&list.to_vec(), indent, allowance + 1, level)?;
                self.out.push(']');
                self.active.pop();
            }
            Value::Tuple(items) if !items.is_empty() => {
                let end = if items.len() == 1 { ",)" } else { ")" };
                self.out.push('(');
                self.active.push(items.as_ptr() as usize);
                self.items(items, indent, allowance + end.len(), level)?;
                self.active.pop();
                self.out.push_str(end);
            }
            Value::Str(whole) if !whole.is_empty() => self.string(whole, indent, allowance, level),
            _ => self.out.push_str(&text),
        }
        Ok(())
    }

    fn items(&mut self, items: &[Value], indent: usize, allowance: usize, level: usize) -> Result<(), Error> {
        let last = items.len() - 1;
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.out.push_str(&format!(",\n{}", " ".repeat(indent + 1)));
            }
            self.print(item, indent + 1, if at == last { allowance } else { 1 }, level)?;
        }
        Ok(())
    }

    /// Breaks a long text into several literals, at line ends and at spaces.
    fn string(&mut self, text: &str, indent: usize, allowance: usize, level: usize) {
        // Only a string that stands alone gets its own parentheses, which take a column on each side.
        let (indent, allowance) = if level == 1 { (indent + 1, allowance + 1) } else { (indent, allowance) };
        let lines = super::text::split_lines(text, true);
        let max = WIDTH as isize - indent as isize;
        let mut chunks: Vec<String> = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            let whole = repr_str(line);
            let room = if at + 1 == lines.len() { max - allowance as isize } else { max };
            if char_count(&whole) as isize <= room {
                chunks.push(whole);
                continue;
            }
            // Words with the space behind them.
            let words = words(line);
            let mut current = String::new();
            for (number, word) in words.iter().enumerate() {
                let candidate = format!("{current}{word}");
                let last = number + 1 == words.len() && at + 1 == lines.len();
                let room = if last { max - allowance as isize } else { max };
                if char_count(&repr_str(&candidate)) as isize > room {
                    if !current.is_empty() {
                        chunks.push(repr_str(&current));
                    }
                    current = word.to_string();
                } else {
                    current = candidate;
                }
            }
            if !current.is_empty() {
                chunks.push(repr_str(&current));
            }
        }
        // A string with nowhere to break overflows the line instead.
        if chunks.len() == 1 {
            self.out.push_str(&repr_str(text));
            return;
        }
        let joined = chunks.join(&format!("\n{}", " ".repeat(indent)));
        if level == 1 {
            self.out.push_str(&format!("({joined})"));
        } else {
            self.out.push_str(&joined);
        }
    }
}

/// Splits into words, each with the space that follows it.
fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let end = rest.find(super::text::is_space).unwrap_or(rest.len());
        let end = end + (rest[end..].len() - rest[end..].trim_start_matches(super::text::is_space).len());
        let (word, after) = rest.split_at(end);
        words.push(word);
        rest = after;
    }
    words
}
