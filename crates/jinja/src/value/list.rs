//! Lists: shared, changed in place.

use std::sync::{Arc, Mutex, MutexGuard};

use super::garbage::{Garbage, discard, is_plain};
use super::{Value, lock};

/// A Python list; a clone is the same list.
#[derive(Clone, Default)]
pub struct List(Arc<Inner>);

#[derive(Default)]
struct Inner(Mutex<Vec<Value>>);

impl Drop for Inner {
    fn drop(&mut self) {
        let items = self.0.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        // Lists of plain values, the common case, are dropped in place.
        if !items.iter().all(is_plain) {
            discard(Garbage::Values(std::mem::take(items)));
        }
    }
}

impl List {
    /// Creates a list of items.
    pub fn new(items: Vec<Value>) -> Self {
        List(Arc::new(Inner(Mutex::new(items))))
    }

    /// Locks the items. Run no template code while holding the lock: it may use this list and deadlock.
    pub fn lock(&self) -> MutexGuard<'_, Vec<Value>> {
        lock(&self.0.0)
    }

    /// Returns the items as they are now.
    pub fn to_vec(&self) -> Vec<Value> {
        self.lock().clone()
    }

    /// Returns the item at an index.
    pub fn get(&self, index: usize) -> Option<Value> {
        self.lock().get(index).cloned()
    }

    /// Returns how many items there are.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Returns whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Appends an item.
    pub fn push(&self, item: Value) {
        self.lock().push(item);
    }

    /// Returns whether both are the same list.
    pub fn is_same(&self, other: &List) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns a number that belongs to this list alone while it lives.
    pub fn id(&self) -> usize {
        Arc::as_ptr(&self.0) as *const u8 as usize
    }
}
