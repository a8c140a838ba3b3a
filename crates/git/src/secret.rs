//! Words that are never printed.

use std::fmt;

/// A password or passphrase. It shows itself to nobody but who asks for it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a word.
    pub fn new(word: impl Into<String>) -> Self {
        Secret(word.into())
    }

    /// Returns the word.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Says whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces the word in a text by stars.
    pub fn hide_in(&self, text: &str) -> String {
        if self.0.is_empty() { text.to_owned() } else { text.replace(&self.0, "***") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
