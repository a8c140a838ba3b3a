//! Strings that are never printed.

use std::fmt;

/// A password or passphrase. `Debug` does not show it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a string.
    pub fn new(word: impl Into<String>) -> Self {
        Secret(word.into())
    }

    /// Returns the string.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces the string in a text by asterisks.
    pub fn hide_in(&self, text: &str) -> String {
        // Replacing an empty string would put asterisks between all letters.
        if self.0.is_empty() { text.to_owned() } else { text.replace(&self.0, "***") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
