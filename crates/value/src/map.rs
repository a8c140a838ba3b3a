//! The ordered map.

mod entries;

use std::hash::{Hash, Hasher};

use indexmap::Equivalent;

use crate::Value;
use entries::Entries;
pub use entries::{IntoIter, Iter, IterMut};

/// A dictionary in insertion order. Keys may be any value; nearly always they are text.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Map(Entries);

/// One part of each entry of a map: its keys or its values.
pub type Parts<'a> = std::iter::Map<Iter<'a>, fn((&'a Value, &'a Value)) -> &'a Value>;

/// A text key that is looked up without being copied.
struct TextKey<'a>(&'a str);

impl Hash for TextKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Equivalent<Value> for TextKey<'_> {
    fn equivalent(&self, key: &Value) -> bool {
        matches!(key, Value::Str(text) if text == self.0)
    }
}

impl Map {
    /// Returns an empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an empty map with capacity for `entries`.
    pub fn with_capacity(entries: usize) -> Self {
        Map(Entries::with_capacity(entries))
    }

    /// Returns whether it is an `OrderedDict` to Python, whose order is kept where other dictionaries are sorted.
    pub fn is_ordered(&self) -> bool {
        self.0.is_ordered()
    }

    /// Marks it as an `OrderedDict`.
    #[must_use]
    pub fn ordered(self) -> Self {
        Map(self.0.into_ordered())
    }

    /// Inserts a value and returns the previous one. An existing key keeps its position.
    pub fn insert(&mut self, key: impl Into<Value>, value: impl Into<Value>) -> Option<Value> {
        self.0.insert(key.into(), value.into())
    }

    /// Returns the value under a text key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(&TextKey(key))
    }

    /// Returns the value under a text key, for changes.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.0.get_mut(&TextKey(key))
    }

    /// Returns the value under any key.
    pub fn get_value(&self, key: &Value) -> Option<&Value> {
        self.0.get(key)
    }

    /// Returns the value under any key, for changes.
    pub fn get_value_mut(&mut self, key: &Value) -> Option<&mut Value> {
        self.0.get_mut(key)
    }

    /// Returns the value under the key, inserting one first if there is none.
    pub fn entry_or_insert_with(&mut self, key: impl Into<Value>, make: impl FnOnce() -> Value) -> &mut Value {
        self.0.get_or_insert_with(key.into(), make)
    }

    /// Returns the text under a key, if it is text.
    pub fn get_str(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }

    /// Returns whether there is an entry under a text key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Removes the entry under a text key and returns its value; the others keep their order.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.0.remove(&TextKey(key))
    }

    /// Removes the entry under any key and returns its value; the others keep their order.
    pub fn remove_value(&mut self, key: &Value) -> Option<Value> {
        self.0.remove(key)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over the entries in order.
    pub fn iter(&self) -> Iter<'_> {
        self.0.iter()
    }

    /// Iterates over the entries in order, with mutable values.
    pub fn iter_mut(&mut self) -> IterMut<'_> {
        self.0.iter_mut()
    }

    /// Iterates over the keys in order.
    pub fn keys(&self) -> Parts<'_> {
        self.iter().map(|(key, _)| key)
    }

    /// Iterates over the keys that are text, in order.
    pub fn text_keys(&self) -> impl Iterator<Item = &str> {
        self.keys().filter_map(Value::as_str)
    }

    /// Iterates over the values in order.
    pub fn values(&self) -> Parts<'_> {
        self.iter().map(|(_, value)| value)
    }

    /// Keeps only the entries for which `keep` returns true.
    pub fn retain(&mut self, keep: impl FnMut(&Value, &mut Value) -> bool) {
        self.0.retain(keep);
    }

    /// Removes all entries; the map is an ordinary one afterwards.
    pub fn clear(&mut self) {
        self.0 = Entries::default();
    }

    /// Sorts the entries with a comparison of their keys and values.
    pub fn sort_by(&mut self, compare: impl FnMut(&Value, &Value, &Value, &Value) -> std::cmp::Ordering) {
        self.0.sort_by(compare);
    }

    /// Inserts all entries of another map, as Python's `update` does.
    pub fn update(&mut self, other: Map) {
        self.extend(other);
    }
}

impl<K: Into<Value>, V: Into<Value>> Extend<(K, V)> for Map {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: Into<Value>, V: Into<Value>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Map::new();
        map.extend(entries);
        map
    }
}

impl IntoIterator for Map {
    type Item = (Value, Value);
    type IntoIter = IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Map {
    type Item = (&'a Value, &'a Value);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Value, map};

    #[test]
    fn a_known_key_keeps_its_place() {
        let mut map = map! { "a" => 1, "b" => 2 };
        assert_eq!(map.insert("a", 3), Some(Value::Int(1)));
        assert_eq!(map.text_keys().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn that_the_order_counts_is_kept_but_not_compared() {
        let mut map = map! { "a" => 1 }.ordered();
        map.insert("b", 2);
        assert!(map.clone().is_ordered());
        assert_eq!(map, map! { "a" => 1, "b" => 2 });
        map.clear();
        assert!(map.is_empty() && !crate::Map::new().is_ordered());
    }

    #[test]
    fn keys_need_not_be_text() {
        // In Python these two would be one key. Here they stay apart, because equality is structural.
        let map = map! { 1 => "one", true => "yes" };
        assert_eq!(map.get_value(&Value::Int(1)), Some(&Value::from("one")));
        assert_eq!(map.get("1"), None);
    }

    #[test]
    fn removing_keeps_the_order_of_the_rest() {
        let mut map = map! { "a" => 1, "b" => 2, "c" => 3 };
        map.remove("a");
        assert_eq!(map.text_keys().collect::<Vec<_>>(), ["b", "c"]);
    }
}
