//! Python's operations on texts, times and numbers, where Salt's users see them.
//!
//! What Python does to the values of templates (`repr`, comparison, `%`) is in the crate `jinja`; `repr` of Salt's data is
//! `value::python`.

pub mod calendar;
pub mod dateutil;
pub mod ip;
pub mod json;
mod number;
pub mod random;
pub mod shlex;
pub mod strptime;
pub mod time;

pub use number::integer;

/// Splits a text into lines as `str.splitlines()` does, which accepts more separators than `\n`.
pub fn splitlines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut start = 0;
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        if !ends_line(letter) {
            continue;
        }
        lines.push(&text[start..at]);
        start = at + letter.len_utf8();
        if letter == '\r' && letters.peek().is_some_and(|(_, next)| *next == '\n') {
            letters.next();
            start += 1;
        }
    }
    if start < text.len() {
        lines.push(&text[start..]);
    }
    lines
}

/// Returns whether a character ends a line for `str.splitlines()`.
fn ends_line(letter: char) -> bool {
    matches!(letter, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Returns whether `str.isspace()` is true for a character.
pub fn is_space(letter: char) -> bool {
    letter.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&letter)
}

/// Takes white space away at both ends, as `str.strip()` does.
pub fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Reads a text as Python opens a text file: every end of line is `\n`.
pub fn universal_newlines(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains('\r') { text.replace("\r\n", "\n").replace('\r', "\n").into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_where_python_ends_them() {
        assert_eq!(splitlines("a\nb\r\nc\rd\n"), ["a", "b", "c", "d"]);
        assert_eq!(splitlines("a\u{2028}b\u{c}\n\n"), ["a", "b", "", ""]);
        assert_eq!(splitlines(""), Vec::<&str>::new());
        assert_eq!(universal_newlines("a\r\nb\rc\n"), "a\nb\nc\n");
        assert_eq!(strip("\u{1c} x\u{a0}"), "x");
    }
}
