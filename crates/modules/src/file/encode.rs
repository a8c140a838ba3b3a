//! Text as bytes in one of Python's encodings.

use exec::{Error, Result};

/// An encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8, with a mark at the beginning or without.
    Utf8 {
        /// With a mark.
        mark: bool,
    },
    /// The first 128 characters.
    Ascii,
    /// The first 256 characters.
    Latin1,
    /// Two bytes a character, with a mark or with a fixed order.
    Utf16 {
        /// With a mark.
        mark: bool,
        /// The high byte first.
        big: bool,
    },
    /// Four bytes a character, likewise.
    Utf32 {
        /// With a mark.
        mark: bool,
        /// The high byte first.
        big: bool,
    },
}

impl Encoding {
    /// Finds an encoding by one of Python's names for it.
    ///
    /// # Errors
    /// For those not supported.
    pub fn named(name: &str) -> Result<Self> {
        // Python ignores case, dashes and underscores in such names.
        let plain: String = name.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
        Ok(match plain.as_str() {
            "utf8" | "u8" | "utf" => Encoding::Utf8 { mark: false },
            "utf8sig" => Encoding::Utf8 { mark: true },
            "ascii" | "usascii" | "646" => Encoding::Ascii,
            "latin1" | "latin" | "iso88591" | "l1" | "cp819" | "8859" => Encoding::Latin1,
            // Without a byte order in the name Python writes a mark and uses the order of the machine.
            "utf16" | "u16" => Encoding::Utf16 { mark: true, big: false },
            "utf16le" => Encoding::Utf16 { mark: false, big: false },
            "utf16be" => Encoding::Utf16 { mark: false, big: true },
            "utf32" | "u32" => Encoding::Utf32 { mark: true, big: false },
            "utf32le" => Encoding::Utf32 { mark: false, big: false },
            "utf32be" => Encoding::Utf32 { mark: false, big: true },
            _ => return Err(Error::execution(format!("not supported: the encoding '{name}'"))),
        })
    }

    /// Returns the highest code point it can encode, and the name that error messages use.
    fn limit(self) -> Option<(u32, &'static str)> {
        match self {
            Encoding::Ascii => Some((127, "ascii")),
            Encoding::Latin1 => Some((255, "latin-1")),
            _ => None,
        }
    }

    /// Encodes text. A character that cannot be encoded is an error, or is treated according to `errors` (`ignore`,
    /// `replace`, `xmlcharrefreplace`, `backslashreplace`).
    ///
    /// # Errors
    /// Python's words for a character that cannot be encoded.
    pub fn encode(self, text: &str, errors: &str) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(text.len());
        match self {
            Encoding::Utf8 { mark: true } | Encoding::Utf16 { mark: true, .. } | Encoding::Utf32 { mark: true, .. } => {
                self.push('\u{feff}', &mut out);
            }
            _ => {}
        }
        for (place, c) in text.chars().enumerate() {
            match self.limit() {
                Some((limit, name)) if u32::from(c) > limit => {
                    self.strange(c, (place, name, limit), errors, &mut out)?
                }
                _ => self.push(c, &mut out),
            }
        }
        Ok(out)
    }

    fn push(self, c: char, out: &mut Vec<u8>) {
        match self {
            Encoding::Utf8 { .. } => out.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
            Encoding::Ascii | Encoding::Latin1 => out.push(u32::from(c) as u8),
            Encoding::Utf16 { big, .. } => c
                .encode_utf16(&mut [0; 2])
                .iter()
                .for_each(|unit| out.extend(if big { unit.to_be_bytes() } else { unit.to_le_bytes() })),
            Encoding::Utf32 { big, .. } => {
                let code = u32::from(c);
                out.extend(if big { code.to_be_bytes() } else { code.to_le_bytes() });
            }
        }
    }

    fn strange(self, c: char, at: (usize, &str, u32), errors: &str, out: &mut Vec<u8>) -> Result<()> {
        let (place, name, limit) = at;
        let code = u32::from(c);
        let escaped = match code {
            0..=0xff => format!("\\x{code:02x}"),
            0x100..=0xffff => format!("\\u{code:04x}"),
            _ => format!("\\U{code:08x}"),
        };
        match errors {
            "ignore" => {}
            // The names are those of Python's error handlers.
            "replace" => out.push(b'?'),
            "xmlcharrefreplace" => out.extend(format!("&#{code};").bytes()),
            "backslashreplace" => out.extend(escaped.bytes()),
            _ => {
                return Err(Error::Other(format!(
                    "'{name}' codec can't encode character '{escaped}' in position {place}: ordinal not in \
                     range({})",
                    limit + 1
                )));
            }
        }
        Ok(())
    }

    /// Makes text of bytes.
    ///
    /// # Errors
    /// For bytes that are not text in this encoding.
    pub fn decode(self, bytes: &[u8]) -> Result<String> {
        let wrong = || Error::Other("the content is not text in the given encoding".to_owned());
        match self {
            Encoding::Utf8 { mark } => {
                let text = std::str::from_utf8(bytes).map_err(|_| wrong())?;
                Ok(if mark { text.trim_start_matches('\u{feff}') } else { text }.to_owned())
            }
            Encoding::Ascii if !bytes.is_ascii() => Err(wrong()),
            Encoding::Ascii | Encoding::Latin1 => Ok(bytes.iter().map(|byte| char::from(*byte)).collect()),
            Encoding::Utf16 { mark, big } => {
                let big = if mark && bytes.starts_with(&[0xfe, 0xff]) { true } else { big };
                let units: Vec<u16> = bytes
                    .chunks(2)
                    .map(|pair| {
                        // A single byte at the end is completed; the mistake shows in the text and not as a panic.
                        let pair = [pair[0], *pair.get(1).unwrap_or(&0)];
                        if big { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }
                    })
                    .collect();
                let text = String::from_utf16(&units).map_err(|_| wrong())?;
                Ok(if mark { text.trim_start_matches('\u{feff}').to_owned() } else { text })
            }
            Encoding::Utf32 { mark, big } => {
                let big = if mark && bytes.starts_with(&[0, 0, 0xfe, 0xff]) { true } else { big };
                let chars = bytes.chunks(4).map(|four| {
                    // A rest of fewer bytes is not a character.
                    let four: [u8; 4] = four.try_into().ok()?;
                    char::from_u32(if big { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) })
                });
                let text = chars.collect::<Option<String>>().ok_or_else(wrong)?;
                Ok(if mark { text.trim_start_matches('\u{feff}').to_owned() } else { text })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_encoded_as_python_does() {
        let encode = |name: &str, errors: &str| Encoding::named(name).unwrap().encode("aé", errors);
        assert_eq!(encode("latin-1", "strict").unwrap(), b"a\xe9");
        // Python writes a byte order mark unless the name of the encoding contains the order.
        assert_eq!(encode("utf-16", "strict").unwrap(), b"\xff\xfea\0\xe9\0");
        assert_eq!(encode("UTF_16_BE", "strict").unwrap(), b"\0a\0\xe9");
        assert_eq!(encode("ascii", "replace").unwrap(), b"a?");
        assert_eq!(encode("ascii", "xmlcharrefreplace").unwrap(), b"a&#233;");
        let refused = encode("ascii", "strict").unwrap_err().to_string();
        assert_eq!(refused, "'ascii' codec can't encode character '\\xe9' in position 1: ordinal not in range(128)");
        assert!(Encoding::named("cp037").is_err());
    }

    #[test]
    fn text_is_decoded() {
        for name in ["utf-8", "latin-1", "utf-16", "utf-32", "utf-8-sig"] {
            let encoding = Encoding::named(name).unwrap();
            assert_eq!(encoding.decode(&encoding.encode("aé\n", "strict").unwrap()).unwrap(), "aé\n", "{name}");
        }
    }
}
