//! The storage of a map: a few entries are a row that is searched linearly, many have an index.
//!
//! States, chunks and results are thousands of maps with a handful of entries. An index for each of them would take
//! more memory than the entries, and hashing a key takes longer than comparing it with a few others.

use std::hash::Hash;

use indexmap::{Equivalent, IndexMap};

use crate::Value;

/// The largest number of entries without an index.
const FEW: usize = 16;

/// The entries of a map, in order.
#[derive(Clone)]
pub(super) enum Entries {
    Few(Vec<(Value, Value)>),
    Many(Box<IndexMap<Value, Value>>),
    /// An `OrderedDict` of Python. They are rare, so that all have an index.
    Ordered(Box<IndexMap<Value, Value>>),
}

use Entries::{Few, Many, Ordered};

impl Entries {
    pub(super) fn with_capacity(entries: usize) -> Self {
        match entries {
            0..=FEW => Few(Vec::with_capacity(entries)),
            _ => Many(Box::new(IndexMap::with_capacity(entries))),
        }
    }

    pub(super) fn is_ordered(&self) -> bool {
        matches!(self, Ordered(_))
    }

    pub(super) fn into_ordered(self) -> Self {
        match self {
            Few(row) => Ordered(Box::new(row.into_iter().collect())),
            Many(index) | Ordered(index) => Ordered(index),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Few(row) => row.len(),
            Many(index) | Ordered(index) => index.len(),
        }
    }

    pub(super) fn get<Q: Hash + Equivalent<Value> + ?Sized>(&self, key: &Q) -> Option<&Value> {
        match self {
            Few(row) => row.iter().find(|(known, _)| key.equivalent(known)).map(|(_, value)| value),
            Many(index) | Ordered(index) => index.get(key),
        }
    }

    pub(super) fn get_mut<Q: Hash + Equivalent<Value> + ?Sized>(&mut self, key: &Q) -> Option<&mut Value> {
        match self {
            Few(row) => row.iter_mut().find(|(known, _)| key.equivalent(known)).map(|(_, value)| value),
            Many(index) | Ordered(index) => index.get_mut(key),
        }
    }

    pub(super) fn insert(&mut self, key: Value, value: Value) -> Option<Value> {
        if let Some(known) = self.get_mut(&key) {
            return Some(std::mem::replace(known, value));
        }
        self.push(key, value);
        None
    }

    pub(super) fn get_or_insert_with(&mut self, key: Value, make: impl FnOnce() -> Value) -> &mut Value {
        match self {
            Many(index) | Ordered(index) => index.entry(key).or_insert_with(make),
            Few(row) => {
                // By position: a reference to the entry could not be returned while the row may still grow.
                let known = row.iter().position(|(known, _)| *known == key);
                let place = known.unwrap_or(row.len());
                if known.is_none() {
                    self.push(key, make());
                }
                self.at_mut(place)
            }
        }
    }

    /// Removes an entry; the others keep their order.
    pub(super) fn remove<Q: Hash + Equivalent<Value> + ?Sized>(&mut self, key: &Q) -> Option<Value> {
        match self {
            Few(row) => {
                let place = row.iter().position(|(known, _)| key.equivalent(known))?;
                Some(row.remove(place).1)
            }
            Many(index) | Ordered(index) => index.shift_remove(key),
        }
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(&Value, &mut Value) -> bool) {
        match self {
            Few(row) => row.retain_mut(|(key, value)| keep(key, value)),
            Many(index) | Ordered(index) => index.retain(keep),
        }
    }

    /// Sorts; equal entries keep their order.
    pub(super) fn sort_by(&mut self, mut compare: impl FnMut(&Value, &Value, &Value, &Value) -> std::cmp::Ordering) {
        match self {
            Few(row) => row.sort_by(|one, other| compare(&one.0, &one.1, &other.0, &other.1)),
            Many(index) | Ordered(index) => index.sort_by(compare),
        }
    }

    pub(super) fn iter(&self) -> Iter<'_> {
        match self {
            Few(row) => Iter::Few(row.iter()),
            Many(index) | Ordered(index) => Iter::Many(index.iter()),
        }
    }

    pub(super) fn iter_mut(&mut self) -> IterMut<'_> {
        match self {
            Few(row) => IterMut::Few(row.iter_mut()),
            Many(index) | Ordered(index) => IterMut::Many(index.iter_mut()),
        }
    }

    /// Adds an entry whose key is new.
    fn push(&mut self, key: Value, value: Value) {
        match self {
            Many(index) | Ordered(index) => drop(index.insert(key, value)),
            Few(row) if row.len() < FEW => {
                if row.len() == row.capacity() {
                    // A map with one entry is the most frequent one: it gets room for that one.
                    row.reserve_exact(row.len().clamp(1, 4));
                }
                row.push((key, value));
            }
            Few(row) => {
                // A map that has outgrown the row mostly keeps growing. It never becomes a row again, so that maps near
                // the limit do not switch back and forth.
                let mut index = IndexMap::with_capacity(2 * FEW);
                index.extend(std::mem::take(row));
                index.insert(key, value);
                *self = Many(Box::new(index));
            }
        }
    }

    fn at_mut(&mut self, place: usize) -> &mut Value {
        match self {
            Few(row) => &mut row[place].1,
            Many(index) | Ordered(index) => &mut index[place],
        }
    }
}

impl Default for Entries {
    fn default() -> Self {
        Few(Vec::new())
    }
}

/// Maps are equal if their entries are, in any order, as in Python.
impl PartialEq for Entries {
    fn eq(&self, other: &Self) -> bool {
        // Same size and no missing entry: no second pass is needed, because keys are unique.
        self.len() == other.len() && self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

impl Eq for Entries {}

impl IntoIterator for Entries {
    type Item = (Value, Value);
    type IntoIter = IntoIter;

    fn into_iter(self) -> IntoIter {
        match self {
            Few(row) => IntoIter::Few(row.into_iter()),
            Many(index) | Ordered(index) => IntoIter::Many(index.into_iter()),
        }
    }
}

/// The entries of a map, in order.
#[derive(Clone)]
pub enum Iter<'a> {
    /// Of a map without an index.
    Few(std::slice::Iter<'a, (Value, Value)>),
    /// Of a map with an index.
    Many(indexmap::map::Iter<'a, Value, Value>),
}

/// The entries of a map, in order, with mutable values.
pub enum IterMut<'a> {
    /// Of a map without an index.
    Few(std::slice::IterMut<'a, (Value, Value)>),
    /// Of a map with an index.
    Many(indexmap::map::IterMut<'a, Value, Value>),
}

/// The owned entries of a map, in order.
pub enum IntoIter {
    /// Of a map without an index.
    Few(std::vec::IntoIter<(Value, Value)>),
    /// Of a map with an index.
    Many(indexmap::map::IntoIter<Value, Value>),
}

/// Implements an iterator over either kind of entries.
macro_rules! iterator {
    ($name:ty, $item:ty, $few:expr) => {
        impl<'a> Iterator for $name {
            type Item = $item;

            fn next(&mut self) -> Option<$item> {
                match self {
                    Self::Few(row) => row.next().map($few),
                    Self::Many(index) => index.next(),
                }
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                match self {
                    Self::Few(row) => row.size_hint(),
                    Self::Many(index) => index.size_hint(),
                }
            }
        }

        impl<'a> DoubleEndedIterator for $name {
            fn next_back(&mut self) -> Option<$item> {
                match self {
                    Self::Few(row) => row.next_back().map($few),
                    Self::Many(index) => index.next_back(),
                }
            }
        }

        impl<'a> ExactSizeIterator for $name {}
    };
}

iterator!(Iter<'a>, (&'a Value, &'a Value), |(key, value)| (key, value));
iterator!(IterMut<'a>, (&'a Value, &'a mut Value), |(key, value)| (&*key, value));

impl Iterator for IntoIter {
    type Item = (Value, Value);

    fn next(&mut self) -> Option<(Value, Value)> {
        match self {
            Self::Few(row) => row.next(),
            Self::Many(index) => index.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::Few(row) => row.size_hint(),
            Self::Many(index) => index.size_hint(),
        }
    }
}

impl DoubleEndedIterator for IntoIter {
    fn next_back(&mut self) -> Option<(Value, Value)> {
        match self {
            Self::Few(row) => row.next_back(),
            Self::Many(index) => index.next_back(),
        }
    }
}

impl ExactSizeIterator for IntoIter {}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use crate::{Map, Value};

    /// Does the same to maps below, at and above the size at which they get an index, and to a list of pairs.
    #[test]
    fn maps_of_all_sizes_behave_as_rows_of_entries() {
        for size in [0, 1, 2, 5, 15, 16, 17, 18, 40] {
            let mut map = Map::new();
            let mut row: Vec<(Value, Value)> = Vec::new();
            for number in 0..size {
                assert_eq!(map.insert(format!("key{number}"), number), None);
                row.push((format!("key{number}").into(), number.into()));
            }
            assert_eq!(map.len(), row.len());
            assert_eq!(map.clone().into_iter().collect::<Vec<_>>(), row);
            assert!(map.iter().rev().eq(row.iter().rev().map(|(key, value)| (key, value))));
            if size > 2 {
                assert_eq!(map.insert("key1", "new"), Some(Value::Int(1)));
                row[1].1 = "new".into();
                assert_eq!(map.remove("key0"), Some(Value::Int(0)));
                row.remove(0);
                *map.entry_or_insert_with("key2", || Value::Null) = "changed".into();
                row[1].1 = "changed".into();
            }
            map.entry_or_insert_with("last", || Value::Bool(true));
            row.push(("last".into(), true.into()));
            map.retain(|key, _| key.as_str() != Some("key3"));
            row.retain(|(key, _)| key.as_str() != Some("key3"));
            assert_eq!(map.clone().into_iter().collect::<Vec<_>>(), row);
            map.sort_by(|one, _, other, _| other.to_string().cmp(&one.to_string()));
            row.sort_by_key(|(key, _)| std::cmp::Reverse(key.to_string()));
            assert_eq!(map.into_iter().collect::<Vec<_>>(), row);
        }
    }

    #[test]
    fn equality_knows_neither_order_nor_how_entries_are_kept() {
        let many: Map = (0..40).map(|number| (number, number)).collect();
        let mut few = many.clone();
        few.retain(|key, _| key.as_i64() < Some(3));
        let row: Map = (0..3).rev().map(|number| (number, number)).collect();
        assert_eq!(few, row);
        assert_eq!(row, few);
        assert_ne!(few, (0..4).map(|number| (number, number)).collect::<Map>());
    }

    #[test]
    fn keys_equal_only_their_like() {
        let map: Map =
            // Python would keep one entry for the first two.
            [(Value::Int(1), "one"), (Value::Bool(true), "yes"), (Value::from("1"), "text")].into_iter().collect();
        let found: HashMap<&str, &Value> = [("int", Value::Int(1)), ("bool", true.into()), ("text", "1".into())]
            .iter()
            .map(|(kind, key)| (*kind, map.get_value(key).unwrap()))
            .collect();
        assert_eq!(found["int"], &Value::from("one"));
        assert_eq!(found["bool"], &Value::from("yes"));
        assert_eq!(found["text"], &Value::from("text"));
    }
}
