//! Makes text from strangers in messages harmless.
//!
//! A message is often of several lines: a rendered SLS, what a command wrote, a traceback. Its lines stay lines, so that
//! people can read and copy them, but each after the first is indented: none can pass for a line of the log, which begins
//! with its time or its level. Ids and fields are single values and stay on one line, with `\n` for a line end. A log
//! server takes one line per message, since it stores each as a record. All other characters that command a terminal are
//! written in Python's way, `\x1b`; so the log keeps what was sent, and can be read with `tail`.

use std::borrow::Cow;
use std::fmt::Write as _;

use value::escape::{is_command, push_escaped};

use crate::level::Level;

/// Most bytes of an id or a field.
const FIELD: usize = 1024;

/// The maximum number of bytes of a message that users see by default. The output of a command fits.
const MESSAGE: usize = 64 << 10;

/// Most bytes of a message below `info`: rendered files.
const DEBUG_MESSAGE: usize = 1 << 20;

/// Before each line of a message but the first.
const CONTINUED: &str = "    ";

/// Returns an id or the value of a field on one line.
pub(crate) fn field(value: &str) -> String {
    message(value, FIELD, false).into_owned()
}

/// The longest message of a level, in bytes.
pub(crate) fn longest(level: Level) -> usize {
    if level < Level::INFO { DEBUG_MESSAGE } else { MESSAGE }
}

/// Returns a message for a place that takes several lines, or for one that takes one. At most `limit` bytes are written of it,
/// followed by the number of bytes left out.
pub(crate) fn message(text: &str, limit: usize, lines: bool) -> Cow<'_, str> {
    if text.len() <= limit && !text.contains(|letter| letter == '\n' || is_command(letter)) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len().min(limit) + 64);
    let mut letters = text.char_indices().peekable();
    while let Some((place, letter)) = letters.next() {
        let before = out.len();
        match letter {
            '\n' if lines => {
                out.push('\n');
                // Nothing follows a line end that is the last character.
                if letters.peek().is_some() {
                    out.push_str(CONTINUED);
                }
            }
            // `\r\n` is one line end.
            '\r' if lines && letters.peek().is_some_and(|(_, next)| *next == '\n') => {}
            '\t' if lines => out.push(letter),
            '\n' | '\t' => push_escaped(&mut out, letter),
            _ if is_command(letter) => push_escaped(&mut out, letter),
            _ => out.push(letter),
        }
        if out.len() > limit {
            out.truncate(before);
            let _ = write!(out, "... ({} bytes more)", text.len() - place);
            break;
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_message_stay_readable() {
        let sls = "rendered:\nweb:\n  pkg.installed:\r\n\t- name: nginx\n";
        let shown = message(sls, 1000, true);
        assert_eq!(shown, "rendered:\n    web:\n      pkg.installed:\n    \t- name: nginx\n");
        assert_eq!(message(sls, 1000, false), "rendered:\\nweb:\\n  pkg.installed:\\r\\n\\t- name: nginx\\n");
        assert!(matches!(message("plain", 1000, true), Cow::Borrowed("plain")));
    }

    #[test]
    fn rendered_files_may_be_longer_than_warnings() {
        let text = "x".repeat(200_000);
        assert_eq!(message(&text, longest(Level::DEBUG), true).len(), 200_000);
        assert!(message(&text, longest(Level::WARNING), true).ends_with("... (134464 bytes more)"));
    }

    #[test]
    fn what_is_escaped_counts_as_it_is_written() {
        for text in ["\x1b".repeat(1000), "\n".repeat(1000), "\u{202e}".repeat(1000), "é\x1b".repeat(500)] {
            for lines in [true, false] {
                let shown = message(&text, 100, lines);
                assert!((95..130).contains(&shown.len()) && shown.ends_with(" bytes more)"), "{shown}");
            }
        }
        assert_eq!(message("\x1b\x1b", 4, true), "\\x1b... (1 bytes more)");
    }
}
