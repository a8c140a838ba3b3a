//! Data that the functions of one run share.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Data that the functions of one run share: Salt's `__context__`, with a type in place of a key. It lives as
/// long as the job, or the run of states.
#[derive(Default)]
pub struct Memo(Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl Memo {
    /// Returns the entry of this type, and creates it by `Default` if there is none. An entry that changes needs its
    /// own lock.
    pub fn get<T: Any + Send + Sync + Default>(&self) -> Arc<T> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Created under the lock: two functions that ask at the same time get the same entry.
        let entry = entries.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default())).clone();
        entry.downcast().expect("the entry is found under its own type")
    }

    /// Removes the entry of this type.
    pub fn forget<T: Any>(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&TypeId::of::<T>());
    }
}

impl std::fmt::Debug for Memo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        write!(f, "Memo({} entries)", entries.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn an_entry_is_shared_until_it_is_forgotten() {
        let memo = Memo::default();
        memo.get::<AtomicU32>().store(7, Ordering::Relaxed);
        assert_eq!(memo.get::<AtomicU32>().load(Ordering::Relaxed), 7);
        memo.forget::<AtomicU32>();
        assert_eq!(memo.get::<AtomicU32>().load(Ordering::Relaxed), 0);
    }
}
