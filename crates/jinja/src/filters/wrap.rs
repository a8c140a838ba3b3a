//! `wordwrap`.

use std::sync::LazyLock;

use regex::Regex;

use super::integer;
use super::text::pattern;
use crate::error::{Error, ErrorKind};
use crate::python::text::{byte_of, char_count, split_lines};
use crate::python::truthy;
use crate::value::{CallArgs, Value};

/// The only characters that Python's textwrap treats as spaces.
const SPACE: &[char] = &['\t', '\n', '\x0b', '\x0c', '\r', ' '];

static WORD_PART: LazyLock<Regex> = LazyLock::new(|| pattern(r"^-{2,}"));

pub(super) fn wordwrap(call: &mut CallArgs) -> Result<Value, Error> {
    let yes = || Some(Value::Bool(true));
    let params = [
        ("s", None),
        ("width", Some(Value::Int(79))),
        ("break_long_words", yes()),
        ("wrapstring", Some(Value::None)),
        ("break_on_hyphens", yes()),
    ];
    let [value, width, break_long, wrapstring, hyphens] = call.bind("do_wordwrap", params)?;
    let state = &mut *call.state;
    let newline = state.env().syntax.newline_sequence.clone();
    let wrapstring = match &wrapstring {
        Value::None => newline,
        Value::Str(text) | Value::Markup(text) => text.to_string(),
        other => {
            let text = format!("'{}' object has no attribute 'join'", other.type_name());
            return Err(Error::new(ErrorKind::Attribute, text));
        }
    };
    let Some(text) = value.as_str() else {
        if let Value::Undefined(undefined) = &value {
            return Err(undefined.fail());
        }
        let text = format!("'{}' object has no attribute 'splitlines'", value.type_name());
        return Err(Error::new(ErrorKind::Attribute, text));
    };
    let width = integer(&width)?;
    let (break_long, hyphens) = (truthy(state, &break_long)?, truthy(state, &hyphens)?);
    let mut lines = Vec::new();
    for line in split_lines(text, false) {
        // Checked for each line, so that empty text passes with any width, as in Python.
        if width <= 0 {
            return Err(Error::value_error(format!("invalid width {width} (must be > 0)")));
        }
        lines.push(wrap(line, width as usize, break_long, hyphens).join(&wrapstring));
    }
    Ok(Value::str(lines.join(&wrapstring)))
}

fn is_space(char: char) -> bool {
    SPACE.contains(&char)
}

fn is_letter(char: char) -> bool {
    (char.is_alphanumeric() || char == '_') && !crate::python::text::is_decimal(char)
}

fn is_word_punctuation(char: char) -> bool {
    char.is_alphanumeric() || matches!(char, '_' | '!' | '"' | '\'' | '&' | '.' | ',' | '?')
}

/// Splits a line into words, spaces and, if `hyphens`, the parts of hyphenated words.
fn chunks(line: &str, hyphens: bool) -> Vec<String> {
    let mut chunks = Vec::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let len = if is_space(first) {
            rest.len() - rest.trim_start_matches(is_space).len()
        } else if hyphens {
            let before = line[..line.len() - rest.len()].chars().next_back();
            word_part(rest, before)
        } else {
            rest.find(is_space).unwrap_or(rest.len())
        };
        let (chunk, after) = rest.split_at(len.max(1));
        chunks.push(chunk.to_string());
        rest = after;
    }
    chunks
}

/// Returns the length in bytes of the next part that must not be broken.
fn word_part(rest: &str, before: Option<char>) -> usize {
    // A dash between words stands alone.
    if before.is_some_and(is_word_punctuation)
        && let Some(found) = WORD_PART.find(rest)
        && rest[found.end()..].chars().next().is_some_and(|char| char.is_alphanumeric() || char == '_')
    {
        return found.end();
    }
    let chars: Vec<(usize, char)> = rest.char_indices().collect();
    let at = |index: usize| chars.get(index).map(|(_, char)| *char);
    let byte = |index: usize| chars.get(index).map_or(rest.len(), |(byte, _)| *byte);
    // The pattern of Python's textwrap needs lookaround, which the regex crate does not have, so it is written out.
    for end in 1..=chars.len() {
        // The end of the word.
        if end == chars.len() || at(end).is_some_and(is_space) {
            return byte(end);
        }
        // Behind a hyphen between letters.
        if at(end) == Some('-') {
            let two_before = end >= 2 && at(end - 1).is_some_and(is_letter) && at(end - 2).is_some_and(is_letter);
            let split_before = end >= 3
                && at(end - 1).is_some_and(is_letter)
                && at(end - 2) == Some('-')
                && at(end - 3).is_some_and(is_letter);
            let after = at(end + 1).is_some_and(is_letter)
                && (at(end + 2).is_some_and(is_letter)
                    || (at(end + 2) == Some('-') && at(end + 3).is_some_and(is_letter)));
            if (two_before || split_before) && after {
                return byte(end + 1);
            }
        }
        // Before a dash.
        if at(end - 1).is_some_and(is_word_punctuation) && at(end) == Some('-') && at(end + 1) == Some('-') {
            let mut after = end;
            while at(after) == Some('-') {
                after += 1;
            }
            if at(after).is_some_and(|char| char.is_alphanumeric() || char == '_') {
                return byte(end);
            }
        }
    }
    rest.len()
}

fn wrap(line: &str, width: usize, break_long: bool, hyphens: bool) -> Vec<String> {
    let mut rest: Vec<String> = chunks(line, hyphens);
    rest.reverse();
    let mut lines: Vec<String> = Vec::new();
    let blank = |chunk: &str| chunk.chars().all(crate::python::text::is_space);
    while !rest.is_empty() {
        let mut current: Vec<String> = Vec::new();
        let mut len = 0;
        // Spaces at the start of the whole text are kept, those at a break are not.
        if !lines.is_empty() && rest.last().is_some_and(|chunk| blank(chunk)) {
            rest.pop();
        }
        while let Some(chunk) = rest.last() {
            let count = char_count(chunk);
            if len + count > width {
                break;
            }
            len += count;
            current.extend(rest.pop());
        }
        if let Some(chunk) = rest.last_mut().filter(|chunk| char_count(chunk) > width) {
            let room = if width < 1 { 1 } else { width - len };
            if break_long {
                let mut end = room;
                let chars: Vec<char> = chunk.chars().collect();
                if hyphens && chars.len() > room {
                    // A long word breaks after a hyphen in preference to the middle, but not after a leading hyphen,
                    // which would leave a part of nothing else.
                    let hyphen = chars[..room].iter().rposition(|char| *char == '-');
                    if let Some(hyphen) = hyphen.filter(|at| *at > 0 && chars[..*at].iter().any(|char| *char != '-')) {
                        end = hyphen + 1;
                    }
                }
                let at = byte_of(chunk, end);
                let taken: String = chunk.drain(..at).collect();
                current.push(taken);
            } else if current.is_empty() {
                current.extend(rest.pop());
            }
        }
        if current.last().is_some_and(|chunk| blank(chunk)) {
            current.pop();
        }
        if !current.is_empty() {
            lines.push(current.concat());
        }
    }
    lines
}
