//! Keys of records: which thing of its class a record is about.

use std::borrow::Borrow;
use std::fmt;

use crate::Node;

/// The key of a record within its class: a minion id, a job id, or several such parts with `/` between them.
///
/// Neither minion ids nor job ids contain `/`. `Debug` does not show the key, because the key of a token is the token.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Box<str>);

impl Key {
    /// The maximum length of a key in bytes.
    pub const MAX_LEN: usize = 512;

    /// Returns the text as a key; `None` if it is empty or too long.
    pub fn new(text: &str) -> Option<Key> {
        (!text.is_empty() && text.len() <= Key::MAX_LEN).then(|| Key(text.into()))
    }

    /// Returns the key of a member.
    pub fn of_node(node: Node) -> Key {
        Key(format!("{node:?}").into())
    }

    /// Returns the key of parts, such as job id and minion id; `None` if they are too long together.
    pub fn of_parts(first: &str, second: &str) -> Option<Key> {
        Key::new(&format!("{first}/{second}"))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the two parts of a key that has two.
    pub fn parts(&self) -> Option<(&str, &str)> {
        self.0.split_once('/')
    }

    /// Returns the node of the key of a member.
    pub fn node(&self) -> Option<Node> {
        let mut node = [0; 8];
        hex::decode_to_slice(self.0.as_bytes(), &mut node).ok()?;
        Some(Node(node))
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_parts_and_bounds() {
        let node = Node([0xab; 8]);
        assert_eq!(Key::of_node(node).node(), Some(node));
        let key = Key::of_parts("20260101000000000000", "web1").unwrap();
        assert_eq!(key.parts(), Some(("20260101000000000000", "web1")));
        assert_eq!(key.node(), None);
        assert_eq!(Key::new(""), None);
        assert_eq!(Key::new(&"x".repeat(513)), None);
    }

    #[test]
    fn debug_output_does_not_show_tokens() {
        assert!(!format!("{:?}", Key::new("5ec7e7").unwrap()).contains("5ec7e7"));
    }
}
