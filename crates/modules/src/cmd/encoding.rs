//! Decodes the output of a command.

use exec::{Error, Result};

/// An encoding the argument `output_encoding` can name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8, the default.
    #[default]
    Utf8,
    /// ISO 8859-1.
    Latin1,
    /// Windows code page 1252.
    Cp1252,
    /// UTF-16, by its byte order mark, little endian without one.
    Utf16,
}

/// The characters that code page 1252 has where ISO 8859-1 has control characters.
// U+FFFD replaces the five bytes that the code page leaves undefined.
const CP1252: [char; 32] = [
    '\u{20ac}', '\u{fffd}', '\u{201a}', '\u{0192}', '\u{201e}', '\u{2026}', '\u{2020}', '\u{2021}', '\u{02c6}',
    '\u{2030}', '\u{0160}', '\u{2039}', '\u{0152}', '\u{fffd}', '\u{017d}', '\u{fffd}', '\u{fffd}', '\u{2018}',
    '\u{2019}', '\u{201c}', '\u{201d}', '\u{2022}', '\u{2013}', '\u{2014}', '\u{02dc}', '\u{2122}', '\u{0161}',
    '\u{203a}', '\u{0153}', '\u{fffd}', '\u{017e}', '\u{0178}',
];

impl Encoding {
    /// Returns the encoding of this name.
    ///
    /// # Errors
    /// For an encoding we cannot read.
    pub fn named(name: Option<&str>) -> Result<Self> {
        let Some(name) = name else { return Ok(Encoding::Utf8) };
        match name.to_ascii_lowercase().replace(['-', '_'], "").as_str() {
            "utf8" | "ascii" | "usascii" => Ok(Encoding::Utf8),
            "latin1" | "iso88591" | "l1" => Ok(Encoding::Latin1),
            "cp1252" | "windows1252" => Ok(Encoding::Cp1252),
            "utf16" | "utf16le" => Ok(Encoding::Utf16),
            _ => Err(Error::execution(format!(
                "output_encoding '{name}' is not supported; known are utf-8, ascii, latin-1, cp1252 and utf-16"
            ))),
        }
    }

    /// Decodes bytes; invalid ones become replacement characters.
    pub fn decode(self, bytes: Vec<u8>) -> String {
        match self {
            Encoding::Utf8 => match String::from_utf8(bytes) {
                Ok(text) => text,
                Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
            },
            Encoding::Latin1 => bytes.into_iter().map(char::from).collect(),
            Encoding::Cp1252 => bytes.into_iter().map(cp1252).collect(),
            Encoding::Utf16 => utf16(&bytes),
        }
    }
}

fn cp1252(byte: u8) -> char {
    match byte {
        0x80..=0x9f => CP1252[usize::from(byte - 0x80)],
        other => char::from(other),
    }
}

fn utf16(bytes: &[u8]) -> String {
    let (bytes, big_endian) = match bytes {
        [0xfe, 0xff, rest @ ..] => (rest, true),
        [0xff, 0xfe, rest @ ..] => (rest, false),
        other => (other, false),
    };
    let read = |pair: [u8; 2]| if big_endian { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) };
    // A single byte at the end is completed to something that is not a letter, rather than dropped.
    let units: Vec<u16> = bytes.chunks(2).map(|pair| read([pair[0], *pair.get(1).unwrap_or(&0xff)])).collect();
    String::from_utf16_lossy(&units)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_any_kind_become_text() {
        for (name, bytes, text) in [
            (None, &b"a\xff\xfeb"[..], "a\u{fffd}\u{fffd}b"),
            (Some("UTF-8"), "é".as_bytes(), "é"),
            (Some("latin-1"), b"\xe9\x80", "é\u{80}"),
            (Some("cp1252"), b"\x80\x93x\x94", "€“x”"),
            (Some("utf-16"), b"\xff\xfea\0\xe9\0", "aé"),
        ] {
            assert_eq!(Encoding::named(name).unwrap().decode(bytes.to_vec()), text);
        }
        let refused = Encoding::named(Some("koi8-r")).unwrap_err().to_string();
        assert!(refused.starts_with("output_encoding 'koi8-r' is not supported"));
    }
}
