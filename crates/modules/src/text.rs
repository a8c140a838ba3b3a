//! Text as Python sees it: what a binary file is, where lines end, how bytes become text.

use std::fs::File;
use std::io::Read;

/// The number of bytes of a file that decide whether it is text.
const SAMPLE: u64 = 512;

/// Returns whether bytes look binary: a zero byte, or more than 30 % bytes that text does not have.
pub fn is_binary(data: &[u8]) -> bool {
    if data.is_empty() {
        return false;
    }
    if data.contains(&0) {
        return true;
    }
    // A letter that is cut off at the end of the sample is not a mistake.
    let decodes = std::str::from_utf8(data).map_or_else(|error| error.error_len().is_none(), |_| true);
    let strange = |byte: &&u8| {
        // The set is Salt's: printable ASCII and the control characters that texts have.
        let plain = (32..127).contains(*byte) || b"\n\r\t\x0c\x08".contains(byte);
        !(plain || decodes && (128..255).contains(*byte))
    };
    data.iter().filter(strange).count() * 10 > data.len() * 3
}

/// Returns whether a file looks like text; one that cannot be read does not.
pub fn is_text(path: &str) -> bool {
    let mut sample = Vec::new();
    let read = File::open(path).and_then(|file| file.take(SAMPLE).read_to_end(&mut sample));
    read.is_ok() && !is_binary(&sample)
}

/// The number of bytes of a template that decide whether it is binary.
const TEMPLATE_SAMPLE: u64 = 2048;

/// Returns whether a file is not UTF-8 and looks like no text, so that it cannot be a template.
pub fn is_binary_file(path: &str) -> bool {
    let mut sample = Vec::new();
    let read = File::open(path).and_then(|file| file.take(TEMPLATE_SAMPLE).read_to_end(&mut sample));
    read.is_ok() && std::str::from_utf8(&sample).is_err() && is_binary(&sample)
}

/// Makes text of bytes: UTF-8, or where it is none Latin-1, in which every byte is a character.
pub fn decode(bytes: &[u8]) -> String {
    std::str::from_utf8(bytes)
        .map_or_else(|_| bytes.iter().map(|byte| char::from(*byte)).collect(), std::borrow::ToOwned::to_owned)
}

/// Returns Python's message for bytes that are not valid UTF-8.
pub fn decode_error(bytes: &[u8]) -> Option<String> {
    let error = std::str::from_utf8(bytes).err()?;
    let place = error.valid_up_to();
    let byte = bytes.get(place).copied().unwrap_or_default();
    let reason = match (error.error_len(), byte) {
        // Python names the reason by the byte; 0xc0 and 0xc1 could only begin overlong forms.
        (_, 0x80..=0xc1 | 0xf5..) => "invalid start byte",
        (None, _) => "unexpected end of data",
        (Some(_), _) => "invalid continuation byte",
    };
    Some(format!("'utf-8' codec can't decode byte 0x{byte:02x} in position {place}: {reason}"))
}

/// Splits after each `\n`, as reading a file line by line does, and decodes each line.
pub fn decoded_lines(bytes: &[u8]) -> Vec<String> {
    bytes.split_inclusive(|byte| *byte == b'\n').map(decode).collect()
}

/// Splits bytes into lines as Python's `bytes.splitlines(True)`.
pub fn byte_lines(bytes: &[u8]) -> Vec<&[u8]> {
    let (mut lines, mut start, mut at) = (Vec::new(), 0, 0);
    while at < bytes.len() {
        let length = match bytes[at] {
            // Both signs together are one end.
            b'\r' if bytes.get(at + 1) == Some(&b'\n') => 2,
            b'\r' | b'\n' => 1,
            _ => 0,
        };
        at += length.max(1);
        if length > 0 {
            lines.push(&bytes[start..at]);
            start = at;
        }
    }
    if start < bytes.len() {
        lines.push(&bytes[start..]);
    }
    lines
}

/// Returns whether a character ends a line for Python's `str.splitlines`.
fn ends_line(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\x0b' | '\x0c' | '\x1c' | '\x1d' | '\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Splits text into lines with their ends, as Python's `str.splitlines(True)`.
pub fn lines_with_ends(text: &str) -> Vec<&str> {
    let (mut lines, mut start) = (Vec::new(), 0);
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if !ends_line(c) {
            continue;
        }
        let mut end = at + c.len_utf8();
        if c == '\r' && chars.next_if(|(_, next)| *next == '\n').is_some() {
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

/// The same without the ends.
pub fn lines<'a>(text: &'a str) -> Vec<&'a str> {
    let bare = |line: &'a str| line.strip_suffix("\r\n").or_else(|| line.strip_suffix(ends_line)).unwrap_or(line);
    lines_with_ends(text).into_iter().map(bare).collect()
}

/// Splits text after `\n`, `\r` and `\r\n`, as reading a file in Python's text mode without translation does.
pub fn plain_lines(text: &str) -> Vec<&str> {
    let lines = byte_lines(text.as_bytes());
    let mut start = 0;
    let cut = lines.iter().map(|line| {
        let end = start + line.len();
        let line = &text[start..end];
        start = end;
        line
    });
    cut.collect()
}

/// Text, and the encoding it had in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The text.
    pub content: String,
    latin: bool,
}

impl Text {
    /// Makes text of bytes, which [`Text::bytes`] undoes.
    pub fn of(bytes: &[u8]) -> Self {
        Text { content: decode(bytes), latin: std::str::from_utf8(bytes).is_err() }
    }

    /// Encodes another text like this one. Characters that Latin-1 lacks stay UTF-8.
    pub fn bytes(&self, text: &str) -> Vec<u8> {
        if !self.latin {
            return text.as_bytes().to_vec();
        }
        let mut out = Vec::with_capacity(text.len());
        for c in text.chars() {
            match u8::try_from(u32::from(c)) {
                Ok(byte) => out.push(byte),
                // The user's text may have letters that Latin-1 lacks; losing them would be worse than mixing.
                Err(_) => out.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        out
    }

    /// Converts text of the user, which is UTF-8, so that it can be compared with this one.
    pub fn fit(&self, text: &str) -> String {
        // Each byte becomes a letter, as the bytes of the file did, so the two can be compared.
        if self.latin { text.bytes().map(char::from).collect() } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_is_told_from_text() {
        assert!(!is_binary(b""));
        assert!(!is_binary("grüße\n".as_bytes()));
        assert!(is_binary(b"a\0b"));
        assert!(is_binary(b"\x01\x02\x03a"));
        assert!(is_binary(b"\xff\xfe\xfda\n"));
    }

    #[test]
    fn lines_end_where_python_ends_them() {
        // Python's `str.splitlines` ends a line at a form feed and at U+2028, `bytes.splitlines` does not.
        assert_eq!(lines("a\r\nb\x0cc\u{2028}\n"), ["a", "b", "c", ""]);
        assert_eq!(lines("a\n\nb"), ["a", "", "b"]);
        assert_eq!(lines_with_ends("a\r\rb\r\n"), ["a\r", "\r", "b\r\n"]);
        assert_eq!(byte_lines(b"a\r\nb\x0cc\rd"), [&b"a\r\n"[..], b"b\x0cc\r", b"d"]);
        assert_eq!(decode(b"\xe9"), "é");
    }
}
