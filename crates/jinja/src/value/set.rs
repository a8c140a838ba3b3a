//! Sets: shared, changed in place, in the order of insertion.

use std::sync::{Arc, Mutex, MutexGuard};

use indexmap::IndexSet;

use super::{Key, Value, lock};

pub(crate) type Items = IndexSet<Key, foldhash::fast::RandomState>;

/// A Python set; a clone is the same set.
#[derive(Clone, Default)]
pub struct Set(Arc<Mutex<Items>>);

impl Set {
    /// Creates a set of keys.
    pub fn new(items: impl IntoIterator<Item = Key>) -> Self {
        Set(Arc::new(Mutex::new(items.into_iter().collect())))
    }

    /// Locks the items. Run no template code while holding the lock: it may use this set and deadlock.
    pub fn lock(&self) -> MutexGuard<'_, Items> {
        lock(&self.0)
    }

    /// Returns the items as they are now.
    pub fn to_vec(&self) -> Vec<Value> {
        self.lock().iter().map(|key| key.value().clone()).collect()
    }

    /// Returns how many items there are.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Returns whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Returns whether both are the same set.
    pub fn is_same(&self, other: &Set) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns a number that is unique to this set while it lives, like Python's `id()`.
    pub fn id(&self) -> usize {
        Arc::as_ptr(&self.0) as *const u8 as usize
    }
}
