//! Python's string functions, where they differ from Rust's.

use ::value::{Map, Value};

use super::WrongShape;

/// Splits a text at every line end that Python knows (`str.splitlines`), without the ends.
pub fn lines(text: &str) -> Vec<&str> {
    lines_with_ends(text).into_iter().map(|line| line.trim_end_matches(ends_line)).collect()
}

/// Like `lines`, each with its end.
pub fn lines_with_ends(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut start = 0;
    let mut letters = text.char_indices().peekable();
    while let Some((place, letter)) = letters.next() {
        if !ends_line(letter) {
            continue;
        }
        let mut end = place + letter.len_utf8();
        // Together they are one line end.
        if letter == '\r' && letters.next_if(|(_, next)| *next == '\n').is_some() {
            end += 1;
        }
        lines.push(&text[start..end]);
        start = end;
    }
    if start < text.len() {
        lines.push(&text[start..]);
    }
    lines
}

fn ends_line(letter: char) -> bool {
    matches!(letter, '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Returns Python's `str.isspace`.
pub fn is_space(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, '\x1c'..='\x1f')
}

/// Removes what Python treats as white space at the end.
pub fn trim_end(text: &str) -> &str {
    text.trim_end_matches(is_space)
}

/// Removes what Python treats as white space at both ends.
pub fn trim(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Sorts the entries by key as Python's `sorted` does; `None` if the keys cannot be compared.
pub fn sorted(map: &Map) -> Result<Vec<(&Value, &Value)>, WrongShape> {
    let mut entries: Vec<(&Value, &Value)> = map.iter().collect();
    let texts = entries.iter().all(|(key, _)| key.as_str().is_some());
    let numbers = entries.iter().all(|(key, _)| key.as_f64().is_some());
    if texts {
        entries.sort_by(|(a, _), (b, _)| a.as_str().cmp(&b.as_str()));
    } else if numbers {
        entries.sort_by(|(a, _), (b, _)| a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(std::cmp::Ordering::Equal));
    // A single key is never compared.
    } else if entries.len() > 1 {
        return Err(WrongShape);
    }
    Ok(entries)
}

/// Wraps a text as Python's `textwrap.fill` does, with the same indentation before every line.
pub fn fill(text: &str, width: usize, indent: usize) -> String {
    let blank = " ".repeat(indent);
    let room = width - indent;
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for chunk in chunks(text) {
        let mut chunk = chunk;
        let used = line.chars().count();
        if used + chunk.chars().count() > room {
            lines.push(std::mem::take(&mut line));
            while chunk.chars().count() > room {
                let cut = chunk.char_indices().nth(room).map_or(chunk.len(), |(place, _)| place);
                lines.push(chunk[..cut].to_owned());
                chunk = chunk[cut..].to_owned();
            }
        }
        if !(line.is_empty() && chunk == " " && !lines.is_empty()) {
            line.push_str(&chunk);
        }
    }
    lines.push(line);
    let lines = lines.iter().map(|line| line.trim_end()).filter(|line| !line.is_empty());
    lines.map(|line| format!("{blank}{line}")).collect::<Vec<_>>().join("\n")
}

/// Returns words, the blanks between them, and the parts of words with hyphens.
fn chunks(text: &str) -> Vec<String> {
    let mut chunks: Vec<String> = Vec::new();
    for (place, word) in text.split(char::is_whitespace).enumerate() {
        if place > 0 {
            match chunks.last_mut() {
                Some(last) if is_blank(last) => last.push(' '),
                _ => chunks.push(" ".to_owned()),
            }
        }
        push_parts(&mut chunks, word);
    }
    chunks
}

fn is_blank(text: &str) -> bool {
    text.chars().all(|letter| letter == ' ')
}

fn push_parts(chunks: &mut Vec<String>, word: &str) {
    let letters: Vec<char> = word.chars().collect();
    let mut part = String::new();
    for (place, letter) in letters.iter().enumerate() {
        part.push(*letter);
        let before = place.checked_sub(1).map(|place| letters[place]);
        let after = letters.get(place + 1);
        // `textwrap` breaks `pre-built` after the hyphen, but not `-x` or `1-2`.
        let breaks =
            *letter == '-' && before.is_some_and(char::is_alphanumeric) && after.is_some_and(|c| c.is_alphabetic());
        if breaks {
            chunks.push(std::mem::take(&mut part));
        }
    }
    if !part.is_empty() {
        chunks.push(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_where_python_ends_them() {
        assert_eq!(lines("a\r\nb\rc\n\nd\u{2028}e\x0bf"), ["a", "b", "c", "", "d", "e", "f"]);
        assert_eq!(lines(""), Vec::<&str>::new());
        assert_eq!(lines("a\n"), ["a"]);
        assert_eq!(lines_with_ends("a\r\nb"), ["a\r\n", "b"]);
    }

    #[test]
    fn text_is_wrapped_at_blanks_and_hyphens() {
        assert_eq!(fill("one two three-four", 14, 2), "  one two\n  three-four");
        assert_eq!(fill("abcdefghijkl", 7, 2), "  abcde\n  fghij\n  kl");
        assert_eq!(fill("one two three-four", 16, 2), "  one two three-\n  four");
    }
}
