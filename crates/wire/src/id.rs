//! Minion ids, which become file names on the master and so must be harmless.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use value::Value;

/// The longest accepted id in bytes: with the ending `.p` it still is a legal file name.
pub const MAX_LEN: usize = 253;

/// The id of a minion that may be used as a file name and shown in a terminal.
///
/// Salt refuses the empty text and anything that leaves its directory: `/`, `\`, NUL, `.` and `..`. Refused here as
/// well: ids over [`MAX_LEN`] bytes (no file could be made), a leading dot (hidden from key lists, and where Salt keeps
/// files of its own), control characters, and what makes one id look like another: invisible and direction-changing
/// characters, blanks at the ends, white space other than the blank.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MinionId(Box<str>);

/// An error: the text is not a minion id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidId {
    /// The text is empty.
    #[error("minion id is empty")]
    Empty,
    /// The id is not text at all.
    #[error("minion id is not a text but a {0}")]
    NotText(&'static str),
    /// The text has this many bytes, more than [`MAX_LEN`].
    #[error("minion id of {0} bytes is longer than {MAX_LEN}")]
    TooLong(usize),
    /// The text begins with a dot.
    #[error("minion id {0:?} begins with a dot")]
    LeadingDot(String),
    /// The text begins or ends with a blank.
    #[error("minion id {0:?} begins or ends with a blank")]
    Blank(String),
    /// A character is not allowed.
    #[error("minion id {id:?} contains the character {character:?}")]
    Character {
        /// The refused text.
        id: String,
        /// The first offending character.
        character: char,
    },
}

impl MinionId {
    /// Checks a text and returns it as an id.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidId> {
        let text = text.into();
        check(&text)?;
        Ok(MinionId(text.into_boxed_str()))
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn check(text: &str) -> Result<(), InvalidId> {
    if text.is_empty() {
        return Err(InvalidId::Empty);
    }
    // Before the characters are examined: a stranger's id may have megabytes.
    if text.len() > MAX_LEN {
        return Err(InvalidId::TooLong(text.len()));
    }
    // Before the leading dot, so that the error of `../x` names the slash.
    if let Some(character) = text.chars().find(|character| !is_allowed_character(*character)) {
        return Err(InvalidId::Character { id: text.to_owned(), character });
    }
    if text.starts_with('.') {
        return Err(InvalidId::LeadingDot(text.to_owned()));
    }
    if text.starts_with(' ') || text.ends_with(' ') {
        return Err(InvalidId::Blank(text.to_owned()));
    }
    Ok(())
}

fn is_allowed_character(character: char) -> bool {
    // Control characters could rewrite the terminal of an operator who lists the keys. Salt accepts them.
    let is_odd_space = character != ' ' && character.is_whitespace();
    !matches!(character, '/' | '\\') && !character.is_control() && !is_odd_space && !invisible(character)
}

/// Invisible characters: joiners, direction marks, separators of lines, byte order marks, tags.
fn invisible(character: char) -> bool {
    matches!(
        character as u32,
        // A table instead of the Unicode categories, because fillers such as U+3164 count as letters there.
        0xad | 0x34f | 0x61c | 0x115f..=0x1160 | 0x17b4..=0x17b5 | 0x180b..=0x180f | 0x200b..=0x200f
            | 0x2028..=0x202e | 0x2060..=0x206f | 0x3164 | 0xfe00..=0xfe0f | 0xfeff | 0xffa0 | 0xfff0..=0xfffb
            | 0xe0000..=0xe0fff
    )
}

impl fmt::Display for MinionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for MinionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MinionId({})", self.0)
    }
}

impl FromStr for MinionId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        MinionId::new(text)
    }
}

impl TryFrom<&str> for MinionId {
    type Error = InvalidId;

    fn try_from(text: &str) -> Result<Self, InvalidId> {
        MinionId::new(text)
    }
}

impl TryFrom<String> for MinionId {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        MinionId::new(text)
    }
}

impl TryFrom<&Value> for MinionId {
    type Error = InvalidId;

    fn try_from(value: &Value) -> Result<Self, InvalidId> {
        match value {
            Value::Str(text) => MinionId::new(text.as_str()),
            other => Err(InvalidId::NotText(other.type_name())),
        }
    }
}

impl AsRef<str> for MinionId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl AsRef<std::path::Path> for MinionId {
    fn as_ref(&self) -> &std::path::Path {
        self.0.as_ref().as_ref()
    }
}

impl Borrow<str> for MinionId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for MinionId {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl PartialEq<&str> for MinionId {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
    }
}

impl From<MinionId> for Value {
    fn from(id: MinionId) -> Self {
        Value::Str(id.0.into_string())
    }
}

impl From<&MinionId> for Value {
    fn from(id: &MinionId) -> Self {
        Value::from(id.as_str())
    }
}

impl From<MinionId> for String {
    fn from(id: MinionId) -> Self {
        id.0.into_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_ids_are_accepted() {
        // Unusual but harmless: Salt accepts all of these.
        for id in ["web1", "db-02.example.com", "élément", "a b", "x".repeat(253).as_str(), "10.0.0.1", "host_é~*"] {
            assert_eq!(MinionId::new(id).map(|id| id.to_string()), Ok(id.to_owned()));
        }
    }

    #[test]
    fn hostile_ids_are_refused() {
        let long = "x".repeat(10_000);
        for id in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "/etc/passwd",
            "a\\b",
            "a\0b",
            "\0",
            ".key_cache",
            &long,
            "a\nb",
            "web1\r",
            "\u{202e}1bew",
            "web\u{200b}1",
            "web1\u{feff}",
            "a\u{7f}",
            "\u{1b}[31m",
            "a\u{2028}b",
            "\u{e0041}",
            " web1",
            "web1 ",
            " ",
            "web\u{a0}1",
            "web\u{3000}1",
        ] {
            assert!(MinionId::new(id).is_err(), "{id:?}");
        }
        assert_eq!(MinionId::try_from(&Value::Int(7)), Err(InvalidId::NotText("int")));
    }
}
