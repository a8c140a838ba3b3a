//! Dictionaries: shared, changed in place, in the order of insertion; and the views of them.

use std::sync::{Arc, Mutex, MutexGuard};

use indexmap::IndexMap;

use super::garbage::{Garbage, discard, is_plain};
use super::key::StrKey;
use super::{Key, Str, Value, lock};

pub(crate) type Map = IndexMap<Key, Value, foldhash::fast::RandomState>;

struct Inner {
    ordered: bool,
    map: Mutex<Map>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let map = self.map.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        // Most dictionaries hold plain values only and skip the detour through the list of garbage.
        if !map.iter().all(|(key, value)| is_plain(key.value()) && is_plain(value)) {
            discard(Garbage::Map(std::mem::take(map)));
        }
    }
}

/// A Python dictionary; a clone is the same dictionary.
#[derive(Clone)]
pub struct Dict(Arc<Inner>);

impl Default for Dict {
    fn default() -> Self {
        Dict::new()
    }
}

impl Dict {
    /// Creates an empty dictionary.
    pub fn new() -> Self {
        Dict::from_map(Map::default())
    }

    /// Creates an empty `OrderedDict`, which prints and names its type differently.
    pub fn ordered() -> Self {
        Dict(Arc::new(Inner { ordered: true, map: Mutex::default() }))
    }

    /// Creates an empty dictionary with capacity for `entries`.
    pub fn with_capacity(entries: usize) -> Self {
        Dict::from_map(Map::with_capacity_and_hasher(entries, Default::default()))
    }

    pub(crate) fn from_map(map: Map) -> Self {
        Dict(Arc::new(Inner { ordered: false, map: Mutex::new(map) }))
    }

    /// Returns whether it is an `OrderedDict`.
    pub fn is_ordered(&self) -> bool {
        self.0.ordered
    }

    /// Returns `dict` or `OrderedDict`.
    pub fn type_name(&self) -> &'static str {
        if self.0.ordered { "OrderedDict" } else { "dict" }
    }

    /// Locks the entries. Run no template code while holding the lock: it may use this dictionary and deadlock.
    pub fn lock(&self) -> MutexGuard<'_, Map> {
        lock(&self.0.map)
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &Key) -> Option<Value> {
        self.lock().get(key).cloned()
    }

    /// Returns the value of a key that is text.
    pub fn get_str(&self, key: &str) -> Option<Value> {
        self.lock().get(&StrKey(key)).cloned()
    }

    /// Returns whether there is a key that is this text.
    pub fn contains_str(&self, key: &str) -> bool {
        self.lock().contains_key(&StrKey(key))
    }

    /// Sets the value of a key; an existing key keeps its position.
    pub fn insert(&self, key: Key, value: Value) -> Option<Value> {
        self.lock().insert(key, value)
    }

    /// Sets the value of a key that is text.
    pub fn insert_str(&self, key: impl Into<Str>, value: Value) -> Option<Value> {
        self.insert(Key::str(key), value)
    }

    /// Takes an entry out.
    pub fn remove(&self, key: &Key) -> Option<Value> {
        // The slower removal: the entries after the removed one must keep their order, as in Python.
        self.lock().shift_remove(key)
    }

    /// Returns the entries as they are now.
    pub fn entries(&self) -> Vec<(Value, Value)> {
        self.lock().iter().map(|(key, value)| (key.value().clone(), value.clone())).collect()
    }

    /// Returns the keys as they are now.
    pub fn keys(&self) -> Vec<Value> {
        self.lock().keys().map(|key| key.value().clone()).collect()
    }

    /// Returns the entry at an index.
    pub fn at(&self, index: usize) -> Option<(Value, Value)> {
        self.lock().get_index(index).map(|(key, value)| (key.value().clone(), value.clone()))
    }

    /// Returns how many entries there are.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Returns whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Returns another dictionary with the same entries.
    pub fn copy(&self) -> Dict {
        // A copy of an `OrderedDict` is one too.
        let map = self.lock().clone();
        Dict(Arc::new(Inner { ordered: self.0.ordered, map: Mutex::new(map) }))
    }

    /// Returns whether both are the same dictionary.
    pub fn is_same(&self, other: &Dict) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns a number that is unique to this dictionary while it lives, like Python's `id()`.
    pub fn id(&self) -> usize {
        Arc::as_ptr(&self.0) as *const u8 as usize
    }
}

/// The part of a dictionary that a view shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewKind {
    /// `keys()`.
    Keys,
    /// `values()`.
    Values,
    /// `items()`.
    Items,
}

/// A live view of a dictionary: it reflects later changes.
pub struct DictView {
    /// The dictionary.
    pub dict: Dict,
    /// Selects keys, values or items.
    pub kind: ViewKind,
}

impl DictView {
    /// Returns the name of the Python type.
    pub fn type_name(&self) -> &'static str {
        match (self.kind, self.dict.0.ordered) {
            (ViewKind::Keys, false) => "dict_keys",
            (ViewKind::Values, false) => "dict_values",
            (ViewKind::Items, false) => "dict_items",
            (ViewKind::Keys, true) => "odict_keys",
            (ViewKind::Values, true) => "odict_values",
            (ViewKind::Items, true) => "odict_items",
        }
    }

    /// Returns the entry at an index as the view shows it.
    pub fn at(&self, index: usize) -> Option<Value> {
        let map = self.dict.lock();
        let (key, value) = map.get_index(index)?;
        Some(match self.kind {
            ViewKind::Keys => key.value().clone(),
            ViewKind::Values => value.clone(),
            ViewKind::Items => Value::Tuple([key.value().clone(), value.clone()].into()),
        })
    }

    /// Returns all items as of now.
    pub fn to_vec(&self) -> Vec<Value> {
        let map = self.dict.lock();
        match self.kind {
            ViewKind::Keys => map.keys().map(|key| key.value().clone()).collect(),
            ViewKind::Values => map.values().cloned().collect(),
            ViewKind::Items => {
                map.iter().map(|(key, value)| Value::Tuple([key.value().clone(), value.clone()].into())).collect()
            }
        }
    }
}
