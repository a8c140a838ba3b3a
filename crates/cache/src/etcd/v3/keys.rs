//! The keys of banks and values.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};

use crate::Place;

/// The keys below a prefix.
pub(super) struct Keys {
    /// With a slash at its beginning, and none at its end.
    prefix: String,
}

impl Keys {
    /// Takes the prefix without slashes at its ends.
    pub(super) fn new(prefix: &str) -> Self {
        Keys { prefix: format!("/{prefix}") }
    }

    /// Returns a request about the key of a value.
    pub(super) fn of(&self, place: &Place) -> Json {
        json!({"key": STANDARD.encode(format!("{}/{}/{}", self.prefix, place.bank, place.key))})
    }

    /// Returns a request about all keys in a bank and in those below it, and in none whose name only begins like this one's.
    pub(super) fn below(&self, bank: &str) -> Json {
        // The character after the slash.
        let [first, end] = ['/', '0'].map(|last| STANDARD.encode(format!("{}/{bank}{last}", self.prefix)));
        json!({"key": first, "range_end": end})
    }

    /// Returns what a key is in a bank: the key of a value, or the first name of a bank below; `None` if it is not in it.
    pub(super) fn name(&self, bank: &str, key: &[u8]) -> Option<String> {
        let inside = std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix)?.strip_prefix('/')?;
        let name = inside.strip_prefix(bank)?.strip_prefix('/')?.split('/').next()?;
        Some(name.to_owned()).filter(|name| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(request: &Json, name: &str) -> String {
        String::from_utf8(STANDARD.decode(request[name].as_str().unwrap()).unwrap()).unwrap()
    }

    #[test]
    fn keys_are_those_of_salt() {
        let keys = Keys::new("salt_cache");
        assert_eq!(text(&keys.of(&Place::new("grains", "minion-1")), "key"), "/salt_cache/grains/minion-1");
        let below = keys.below("minions/web1");
        assert_eq!(text(&below, "key"), "/salt_cache/minions/web1/");
        assert_eq!(text(&below, "range_end"), "/salt_cache/minions/web10");
    }

    #[test]
    fn a_bank_has_keys_and_banks_below_it() {
        let keys = Keys::new("a/b");
        let name = |key: &str| keys.name("minions", key.as_bytes());
        assert_eq!(name("/a/b/minions/web1"), Some("web1".into()));
        assert_eq!(name("/a/b/minions/web1/data"), Some("web1".into()));
        for other in ["/a/b/minions", "/a/b/minions/", "/a/b/minionsx/y", "/a/minions/web1", "minions/web1"] {
            assert_eq!(name(other), None, "{other}");
        }
        assert_eq!(keys.name("minions", b"/a/b/minions/\xff"), None);
    }
}
