//! Foreign text on a terminal or in a log: replaces characters that control a terminal, or make text look different
//! from what it is.
//!
//! Two forms: [`for_terminal`] puts a `?` for each such character, as Salt's outputters do for the escape character;
//! [`escaped`] writes the character in Python's way (`\x1b`), so that a log keeps what was sent.

use std::borrow::Cow;
use std::fmt::Write;

/// Returns whether a character controls a terminal or changes the order in which the text around it is shown.
///
/// Those are the controls of ASCII (but the line feed and the tab), DEL, the C1 controls, the separators of lines and
/// paragraphs, and the embeddings, overrides and isolates of writing direction. Marks and joiners, which Hebrew, Arabic
/// and Indian texts need, are none of them.
pub fn is_command(letter: char) -> bool {
    match letter {
        '\n' | '\t' => false,
        '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        _ => letter.is_control(),
    }
}

/// Returns whether a text may contain such characters. Checks only bytes, so that most texts need no further check.
fn may_hold_commands(text: &str) -> bool {
    text.bytes().any(|byte| (byte < 0x20 && byte != b'\n' && byte != b'\t') || matches!(byte, 0x7f | 0xc2 | 0xe2))
}

/// Returns the text with a `?` for each character that controls a terminal. Windows line ends stay.
///
/// ```
/// use saltern_value::escape::for_terminal;
/// assert_eq!(for_terminal("a\x1b[2Jb\u{202e}\n\tc\r\n"), "a?[2Jb?\n\tc\r\n");
/// ```
pub fn for_terminal(text: &str) -> Cow<'_, str> {
    replaced(text, false)
}

/// Like [`for_terminal`], but escape characters stay: for text that Saltern itself has coloured.
pub fn but_for_colours(text: &str) -> Cow<'_, str> {
    replaced(text, true)
}

fn replaced(text: &str, escapes: bool) -> Cow<'_, str> {
    if !may_hold_commands(text) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let stays = !is_command(letter)
            || (escapes && letter == '\x1b')
            // A carriage return before a line feed ends a line. Any other would let the following text overwrite the
            // line.
            || (letter == '\r' && letters.peek().is_none_or(|next| *next == '\n'));
        out.push(if stays { letter } else { '?' });
    }
    out.into()
}

/// Returns the text with a `?` for each escape character; with `colours`, those of colours (`ESC [ 31 m`) stay.
pub fn without_escapes(text: &str, colours: bool) -> Cow<'_, str> {
    if !text.contains('\x1b') {
        return text.into();
    }
    let mut parts = text.split('\x1b');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push(if colours && begins_with_colour(part) { '\x1b' } else { '?' });
        out.push_str(part);
    }
    out.into()
}

fn begins_with_colour(text: &str) -> bool {
    let Some(numbers) = text.strip_prefix('[') else { return false };
    let rest = numbers.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ';');
    // Only sequences that end in `m` set colours. A long run of numbers is none that a program writes.
    rest.starts_with('m') && numbers.len() - rest.len() <= 32
}

/// Returns the text on one line, with each character that controls a terminal escaped as in Python: `\n`, `\x1b`,
/// `\u202e`.
pub fn escaped(text: &str) -> Cow<'_, str> {
    // A log has one line per message, so that line feeds are escaped, too: a message cannot forge the next line.
    let plain = |letter: char| !is_command(letter) && !matches!(letter, '\n' | '\t');
    if text.chars().all(plain) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if plain(letter) { out.push(letter) } else { push_escaped(&mut out, letter) }
    }
    out.into()
}

/// Returns JSON with each such character escaped. They occur only inside strings, so that the meaning is the same.
pub fn in_json(json: &str) -> Cow<'_, str> {
    if !json.contains(is_command) {
        return json.into();
    }
    let mut out = String::with_capacity(json.len() + 16);
    for letter in json.chars() {
        if is_command(letter) {
            let _ = write!(out, "\\u{:04x}", letter as u32);
        } else {
            out.push(letter);
        }
    }
    out.into()
}

/// Appends a character in Python's escaped form.
pub fn push_escaped(out: &mut String, letter: char) {
    let _ = match letter as u32 {
        0x0a => write!(out, "\\n"),
        0x0d => write!(out, "\\r"),
        0x09 => write!(out, "\\t"),
        small @ ..=0xff => write!(out, "\\x{small:02x}"),
        middle @ ..=0xffff => write!(out, "\\u{middle:04x}"),
        large => write!(out, "\\U{large:08x}"),
    };
}

/// Returns at most `limit` bytes of the text, followed by the number of bytes left out.
///
/// ```
/// use saltern_value::escape::brief;
/// assert_eq!(brief("short", 10), "short");
/// assert_eq!(brief("a text that is too long", 6), "a text... (17 bytes more)");
/// ```
pub fn brief(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return text.into();
    }
    // Cutting inside a character would panic.
    let end = text.floor_char_boundary(limit);
    format!("{}... ({} bytes more)", &text[..end], text.len() - end).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_terminals_are_replaced() {
        for command in
            ["\x1b", "\x00", "\x07", "\x08", "\x0b", "\x7f", "\u{9b}", "\u{85}", "\u{202e}", "\u{2066}", "\u{2028}"]
        {
            assert_eq!(for_terminal(&format!("a{command}b")), "a?b", "{command:?}");
        }
        assert_eq!(for_terminal("a\rb"), "a?b");
        // Other scripts and typographic signs must pass unchanged.
        for text in ["plain", "a\tb\nc\r\n", "zażółć 日本語 \u{1f600}", "\u{5d0}\u{200f}", "naïve — “so”"]
        {
            assert_eq!(for_terminal(text), text);
            assert!(!escaped(text.trim_end()).contains("\\u"), "{text}");
        }
        assert_eq!(but_for_colours("\x1b[31m\x07"), "\x1b[31m?");
    }

    #[test]
    fn colours_are_told_from_other_sequences() {
        // Clearing the screen and setting the window title are not colours.
        assert_eq!(without_escapes("\x1b[31mred\x1b[0m \x1b[2J\x1b]0;t\x07", true), "\x1b[31mred\x1b[0m ?[2J?]0;t\x07");
        assert_eq!(without_escapes("\x1b[31mred", false), "?[31mred");
    }

    #[test]
    fn escapes_are_those_of_python() {
        assert_eq!(escaped("a\nb\r\x1b\u{9b}\u{202e}"), "a\\nb\\r\\x1b\\x9b\\u202e");
        assert!(matches!(escaped("plain é"), Cow::Borrowed(_)));
        assert_eq!(in_json("{\"a\": \"\u{9b}x\u{202e}\"}\n"), "{\"a\": \"\\u009bx\\u202e\"}\n");
        assert_eq!(brief("ééé", 3), "é... (4 bytes more)");
    }
}
