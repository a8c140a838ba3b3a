//! Python's `pprint.pformat()`.

use jinja::{Error, State, Value};

/// The width texts are broken at.
const WIDTH: usize = 80;

const MAX_DEPTH: usize = 200;

/// Writes a value: on one line when it fits, else one entry per line, with the keys of dictionaries sorted.
pub fn format(state: &mut State, value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    Printer { state, out: &mut out }.value(value, 0, 0, 1)?;
    Ok(out)
}

struct Printer<'a> {
    state: &'a mut State,
    out: &'a mut String,
}

fn width(text: &str) -> usize {
    text.chars().count()
}

impl Printer<'_> {
    fn value(&mut self, value: &Value, indent: usize, allowance: usize, level: usize) -> Result<(), Error> {
        if level > MAX_DEPTH {
            return Err(Error::new(jinja::ErrorKind::Recursion, "maximum recursion depth exceeded"));
        }
        // Tried at every level, which takes quadratic time in the depth. MAX_DEPTH bounds it.
        let line = self.line(value, level)?;
        if width(&line) <= WIDTH.saturating_sub(indent + allowance) {
            self.out.push_str(&line);
            return Ok(());
        }
        match value {
            Value::Dict(dict) if !dict.is_empty() => self.dict(value, indent, allowance, level),
            Value::List(items) => self.items("[", &items.to_vec(), "]", indent, allowance, level),
            Value::Tuple(items) => {
                let close = if items.len() == 1 { ",)" } else { ")" };
                self.items("(", items, close, indent, allowance, level)
            }
            Value::Str(text) | Value::Markup(text) if !text.is_empty() => {
                self.text(text, indent, allowance, level);
                Ok(())
            }
            _ => {
                self.out.push_str(&line);
                Ok(())
            }
        }
    }

    /// The whole on one line, keys sorted at every level.
    fn line(&mut self, value: &Value, level: usize) -> Result<String, Error> {
        if level > MAX_DEPTH {
            return Err(Error::new(jinja::ErrorKind::Recursion, "maximum recursion depth exceeded"));
        }
        let mut joined = |items: &[Value]| -> Result<String, Error> {
            let parts = items.iter().map(|item| self.line(item, level + 1)).collect::<Result<Vec<_>, _>>()?;
            Ok(parts.join(", "))
        };
        Ok(match value {
            Value::List(items) => format!("[{}]", joined(&items.to_vec())?),
            Value::Tuple(items) if items.len() == 1 => format!("({},)", joined(items)?),
            Value::Tuple(items) => format!("({})", joined(items)?),
            Value::Dict(_) => {
                let mut parts = Vec::new();
                for (key, value) in self.sorted(value)? {
                    let key = self.line(&key, level + 1)?;
                    parts.push(format!("{key}: {}", self.line(&value, level + 1)?));
                }
                format!("{{{}}}", parts.join(", "))
            }
            other => jinja::python::repr(self.state, other)?,
        })
    }

    /// The entries by key; keys that cannot be compared by the name of their type.
    fn sorted(&mut self, value: &Value) -> Result<Vec<(Value, Value)>, Error> {
        let mut entries = value.as_dict().map(jinja::Dict::entries).unwrap_or_default();
        let state = &mut *self.state;
        entries.sort_by(|(a, _), (b, _)| {
            let less = |state: &mut State, a: &Value, b: &Value| {
                jinja::python::less_than(state, a, b).unwrap_or_else(|_| a.type_name() < b.type_name())
            };
            match (less(state, a, b), less(state, b, a)) {
                (true, false) => std::cmp::Ordering::Less,
                (false, true) => std::cmp::Ordering::Greater,
                _ => std::cmp::Ordering::Equal,
            }
        });
        Ok(entries)
    }

    fn dict(&mut self, value: &Value, indent: usize, allowance: usize, level: usize) -> Result<(), Error> {
        self.out.push('{');
        let entries = self.sorted(value)?;
        let last = entries.len() - 1;
        for (place, (key, value)) in entries.iter().enumerate() {
            let key = self.line(key, level + 1)?;
            self.out.push_str(&format!("{key}: "));
            let behind = if place == last { allowance + 1 } else { 1 };
            self.value(value, indent + 1 + width(&key) + 2, behind, level + 1)?;
            if place < last {
                self.out.push_str(&format!(",\n{}", " ".repeat(indent + 1)));
            }
        }
        self.out.push('}');
        Ok(())
    }

    fn items(
        &mut self,
        open: &str,
        items: &[Value],
        close: &str,
        indent: usize,
        allowance: usize,
        level: usize,
    ) -> Result<(), Error> {
        self.out.push_str(open);
        for (place, item) in items.iter().enumerate() {
            let behind = if place + 1 == items.len() { allowance + width(close) } else { 1 };
            self.value(item, indent + 1, behind, level + 1)?;
            if place + 1 < items.len() {
                self.out.push_str(&format!(",\n{}", " ".repeat(indent + 1)));
            }
        }
        self.out.push_str(close);
        Ok(())
    }

    /// A long text: in pieces, broken between words.
    fn text(&mut self, text: &str, indent: usize, allowance: usize, level: usize) {
        // Outermost, and nowhere else, the pieces get brackets around.
        let (indent, allowance) = if level == 1 { (indent + 1, allowance + 1) } else { (indent, allowance) };
        let most = WIDTH.saturating_sub(indent);
        let mut pieces: Vec<String> = Vec::new();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        for (place, line) in lines.iter().enumerate() {
            let last_line = place + 1 == lines.len();
            let whole = value::python::repr_str(line);
            if width(&whole) <= if last_line { most.saturating_sub(allowance) } else { most } {
                pieces.push(whole);
                continue;
            }
            let parts = words(line);
            let mut current = String::new();
            for (at, part) in parts.iter().enumerate() {
                let candidate = format!("{current}{part}");
                let room = if at + 1 == parts.len() && last_line { most.saturating_sub(allowance) } else { most };
                if width(&value::python::repr_str(&candidate)) > room {
                    if !current.is_empty() {
                        pieces.push(value::python::repr_str(&current));
                    }
                    current = (*part).to_owned();
                } else {
                    current = candidate;
                }
            }
            if !current.is_empty() {
                pieces.push(value::python::repr_str(&current));
            }
        }
        if let [single] = pieces.as_slice() {
            self.out.push_str(single);
            return;
        }
        let joined = pieces.join(&format!("\n{}", " ".repeat(indent)));
        self.out.push_str(&if level == 1 { format!("({joined})") } else { joined });
    }
}

/// Splits into words, each with the white space that follows it.
fn words(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut in_space = false;
    for (at, letter) in text.char_indices() {
        let space = python::is_space(letter);
        if in_space && !space {
            parts.push(&text[start..at]);
            start = at;
        }
        in_space = space;
    }
    if start < text.len() {
        parts.push(&text[start..]);
    }
    parts
}
