//! `pprint`: the layout of Python's `pprint.pformat`.

use ::value::python::{repr, repr_str};
use ::value::{Bytes, Map, Value};

use super::settings::{Indent, Settings};
use super::text::{is_space, lines_with_ends, sorted};

/// The width of `pprint`.
const WIDTH: isize = 80;

/// Formats a value.
pub fn output(data: &Value, settings: &Settings) -> String {
    match settings.indent {
        Indent::Width(width) if width >= 0 => pformat(data, width as usize),
        _ => pformat(data, 1),
    }
}

/// Formats a value like `pprint.pformat(data, indent=…)`.
pub fn pformat(data: &Value, indent: usize) -> String {
    let mut printer = Printer { step: indent, out: String::new() };
    printer.value(data, Place { indent: 0, allowance: 0, level: 0 });
    printer.out
}

#[derive(Clone, Copy)]
struct Place {
    /// The column.
    indent: usize,
    /// The number of characters that must fit after the value.
    allowance: usize,
    /// The depth, 1 for the outermost.
    level: usize,
}

struct Printer {
    step: usize,
    out: String,
}

impl Printer {
    fn value(&mut self, value: &Value, place: Place) {
        let short = sorted_repr(value);
        let room = WIDTH - place.indent as isize - place.allowance as isize;
        let place = Place { level: place.level + 1, ..place };
        if width(&short) <= room {
            return self.out.push_str(&short);
        }
        match value {
            Value::Map(map) if !map.is_empty() => self.map(map, place),
            Value::List(items) if !items.is_empty() => self.list(items, place),
            Value::Str(text) if !text.is_empty() => self.text(text, place),
            // Up to four bytes are never broken.
            Value::Bytes(bytes) if bytes.len() > 4 => self.bytes(bytes, place),
            _ => self.out.push_str(&short),
        }
    }

    fn map(&mut self, map: &Map, place: Place) {
        self.open('{');
        let indent = place.indent + self.step;
        let entries = by_key(map);
        let last = entries.len() - 1;
        for (number, (key, value)) in entries.into_iter().enumerate() {
            let key = sorted_repr(key);
            self.out.push_str(&key);
            self.out.push_str(": ");
            // Room for the comma, or for all brackets that close after the last entry.
            let allowance = if number == last { place.allowance + 1 } else { 1 };
            let column = indent + key.chars().count() + 2;
            self.value(value, Place { indent: column, allowance, level: place.level });
            if number != last {
                self.next_line(indent);
            }
        }
        self.out.push('}');
    }

    fn list(&mut self, items: &[Value], place: Place) {
        self.open('[');
        let indent = place.indent + self.step;
        let last = items.len() - 1;
        for (number, item) in items.iter().enumerate() {
            let allowance = if number == last { place.allowance + 1 } else { 1 };
            self.value(item, Place { indent, allowance, level: place.level });
            if number != last {
                self.next_line(indent);
            }
        }
        self.out.push(']');
    }

    fn open(&mut self, bracket: char) {
        self.out.push(bracket);
        // The bracket itself takes the first column of the step.
        self.out.extend(std::iter::repeat_n(' ', self.step.saturating_sub(1)));
    }

    fn next_line(&mut self, indent: usize) {
        self.out.push_str(",\n");
        self.out.extend(std::iter::repeat_n(' ', indent));
    }

    fn text(&mut self, text: &str, place: Place) {
        // Only a string without a container around it gets parentheses, and they take a column at each end.
        let outermost = place.level == 1;
        let indent = place.indent + usize::from(outermost);
        let allowance = place.allowance + usize::from(outermost);
        let chunks = text_chunks(text, WIDTH - indent as isize, allowance as isize);
        if chunks.len() == 1 {
            return self.out.push_str(&chunks[0]);
        }
        self.chunks(chunks, indent, outermost);
    }

    fn bytes(&mut self, bytes: &Bytes, place: Place) {
        let outermost = place.level == 1;
        let indent = place.indent + usize::from(outermost);
        let allowance = place.allowance + usize::from(outermost);
        let chunks = byte_chunks(bytes, WIDTH - indent as isize, allowance as isize);
        self.chunks(chunks, indent, outermost);
    }

    fn chunks(&mut self, chunks: Vec<String>, indent: usize, brackets: bool) {
        if brackets {
            self.out.push('(');
        }
        let separator = format!("\n{:indent$}", "");
        self.out.push_str(&chunks.join(&separator));
        if brackets {
            self.out.push(')');
        }
    }
}

fn width(text: &str) -> isize {
    text.chars().count() as isize
}

/// Returns adjacent Python literals that form the string together, broken at line ends and blanks.
fn text_chunks(text: &str, room: isize, allowance: isize) -> Vec<String> {
    let lines = lines_with_ends(text);
    let mut chunks = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let last_line = number == lines.len() - 1;
        let whole = repr_str(line);
        let room_here = if last_line { room - allowance } else { room };
        if width(&whole) <= room_here {
            chunks.push(whole);
            continue;
        }
        let parts = words_with_blanks(line);
        let mut current = String::new();
        for (place, part) in parts.iter().enumerate() {
            let last_part = last_line && place == parts.len() - 1;
            let room_here = if last_part { room - allowance } else { room };
            let candidate = format!("{current}{part}");
            if width(&repr_str(&candidate)) <= room_here {
                current = candidate;
                continue;
            }
            if !current.is_empty() {
                chunks.push(repr_str(&current));
            }
            current = (*part).to_owned();
        }
        if !current.is_empty() {
            chunks.push(repr_str(&current));
        }
    }
    chunks
}

fn words_with_blanks(line: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut in_blanks = false;
    for (place, letter) in line.char_indices() {
        if in_blanks && !is_space(letter) {
            parts.push(&line[start..place]);
            start = place;
        }
        in_blanks = is_space(letter);
    }
    parts.push(&line[start..]);
    parts
}

fn byte_chunks(bytes: &Bytes, room: isize, allowance: isize) -> Vec<String> {
    let literal = |from: usize, to: usize| repr(&Value::bytes(bytes.slice(from..to)));
    // Python breaks bytes at every fourth, and reserves room for the brackets only at this position.
    let last = bytes.len() / 4 * 4;
    let (mut start, mut end, mut room) = (0, 0, room);
    let mut chunks = Vec::new();
    for place in (0..bytes.len()).step_by(4) {
        let next = (place + 4).min(bytes.len());
        if place == last {
            room -= allowance;
        }
        if width(&literal(start, next)) > room {
            if end > start {
                chunks.push(literal(start, end));
            }
            start = place;
        }
        end = next;
    }
    chunks.push(literal(start, end));
    chunks
}

/// Formats `repr` with the keys of maps in order.
fn sorted_repr(value: &Value) -> String {
    match value {
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(sorted_repr).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let entry = |(key, value): (&Value, &Value)| format!("{}: {}", sorted_repr(key), sorted_repr(value));
            let entries: Vec<String> = by_key(map).into_iter().map(entry).collect();
            format!("{{{}}}", entries.join(", "))
        }
        other => repr(other),
    }
}

/// Keys that cannot be compared are ordered by the names of their types.
fn by_key(map: &Map) -> Vec<(&Value, &Value)> {
    sorted(map).unwrap_or_else(|_| {
        let mut entries: Vec<(&Value, &Value)> = map.iter().collect();
        entries.sort_by(|(a, _), (b, _)| a.type_name().cmp(b.type_name()).then_with(|| within_type(a, b)));
        entries
    })
}

fn within_type(a: &Value, b: &Value) -> std::cmp::Ordering {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.partial_cmp(&b).unwrap_or(std::cmp::Ordering::Equal),
        _ => a.as_bytes().cmp(&b.as_bytes()),
    }
}
