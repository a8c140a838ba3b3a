//! Tuples.

use std::ops::Deref;
use std::sync::Arc;

use super::Value;
use super::garbage::{Garbage, discard, is_plain};

struct Inner(Vec<Value>);

/// A Python tuple; a clone is the same tuple.
#[derive(Clone)]
pub struct Tuple(Arc<Inner>);

impl Drop for Inner {
    fn drop(&mut self) {
        if !self.0.iter().all(is_plain) {
            discard(Garbage::Values(std::mem::take(&mut self.0)));
        }
    }
}

impl Tuple {
    /// Returns whether both are the same tuple.
    pub fn is_same(&self, other: &Tuple) -> bool {
        // Python has only one empty tuple.
        Arc::ptr_eq(&self.0, &other.0) || (self.0.0.is_empty() && other.0.0.is_empty())
    }
}

impl Deref for Tuple {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        &self.0.0
    }
}

impl From<Vec<Value>> for Tuple {
    fn from(items: Vec<Value>) -> Self {
        Tuple(Arc::new(Inner(items)))
    }
}

impl<const N: usize> From<[Value; N]> for Tuple {
    fn from(items: [Value; N]) -> Self {
        Tuple(Arc::new(Inner(items.into())))
    }
}
