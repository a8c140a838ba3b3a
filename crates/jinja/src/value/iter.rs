//! Iterators and generators.

use std::sync::{Arc, Mutex};

use super::garbage::{Garbage, discard};
use super::{Dict, DictView, List, Range, Str, Value, lock};
use crate::error::Error;
use crate::run::State;

/// A source of values, one after the other.
pub trait ValueIter: Send {
    /// Returns the next value, or `None` at the end.
    fn next(&mut self, state: &mut State) -> Result<Option<Value>, Error>;
}

enum Walk {
    Ready(Box<dyn ValueIter>),
    Running,
    Done,
}

struct Inner {
    type_name: &'static str,
    /// The function's name in a generator's `repr`.
    name: &'static str,
    walk: Mutex<Walk>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let walk = self.walk.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Walk::Ready(walk) = std::mem::replace(walk, Walk::Done) {
            discard(Garbage::Walk(walk));
        }
    }
}

/// An iterator as a value. It can be consumed once; all clones share its position.
#[derive(Clone)]
pub struct Iter(Arc<Inner>);

impl Iter {
    /// Creates an iterator of a Python type (`zip`, `map`, `list_reverseiterator`).
    pub fn new(type_name: &'static str, walk: impl ValueIter + 'static) -> Self {
        Iter(Arc::new(Inner { type_name, name: type_name, walk: Mutex::new(Walk::Ready(Box::new(walk))) }))
    }

    /// Creates a generator of a function.
    pub fn generator(name: &'static str, walk: impl ValueIter + 'static) -> Self {
        Iter(Arc::new(Inner { type_name: "generator", name, walk: Mutex::new(Walk::Ready(Box::new(walk))) }))
    }

    /// Returns the next value; `None` at the end and on every later call.
    pub fn next(&self, state: &mut State) -> Result<Option<Value>, Error> {
        // Taken out so that the lock is free while the iterator runs template code. An iterator that reaches itself
        // this way finds `Running` and fails as a Python generator does, instead of deadlocking.
        let taken = std::mem::replace(&mut *lock(&self.0.walk), Walk::Running);
        let mut walk = match taken {
            Walk::Ready(walk) => walk,
            Walk::Done => {
                *lock(&self.0.walk) = Walk::Done;
                return Ok(None);
            }
            Walk::Running => return Err(Error::value_error("generator already executing")),
        };
        // Lazy filters stack up: `x|map(…)|map(…)` repeated in a loop builds a chain that only a depth limit ends.
        let next = state.deeper(|state| walk.next(state));
        // A generator that raised an error is finished, too.
        *lock(&self.0.walk) = if matches!(next, Ok(Some(_))) { Walk::Ready(walk) } else { Walk::Done };
        next
    }

    /// Returns the name of the Python type.
    pub fn type_name(&self) -> &'static str {
        self.0.type_name
    }

    pub(crate) fn repr(&self) -> String {
        if self.0.type_name == "generator" {
            format!("<generator object {} at {:#x}>", self.0.name, self.id())
        } else {
            format!("<{} object at {:#x}>", self.0.type_name, self.id())
        }
    }

    /// Returns whether both are the same iterator.
    pub fn is_same(&self, other: &Iter) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns a number that is unique to this iterator while it lives, like Python's `id()`.
    pub fn id(&self) -> usize {
        Arc::as_ptr(&self.0) as *const u8 as usize
    }
}

impl ValueIter for Iter {
    fn next(&mut self, state: &mut State) -> Result<Option<Value>, Error> {
        Iter::next(self, state)
    }
}

/// Walks a list as it is at each step.
pub(crate) struct ListIter {
    pub list: List,
    pub next: usize,
}

impl ValueIter for ListIter {
    fn next(&mut self, _: &mut State) -> Result<Option<Value>, Error> {
        // A list may grow while it is iterated, and Python then visits the new items.
        let item = self.list.get(self.next);
        self.next += usize::from(item.is_some());
        Ok(item)
    }
}

/// Iterates values it owns.
pub(crate) struct VecIter(pub std::vec::IntoIter<Value>);

impl VecIter {
    pub(crate) fn new(items: Vec<Value>) -> Self {
        VecIter(items.into_iter())
    }
}

impl ValueIter for VecIter {
    fn next(&mut self, _: &mut State) -> Result<Option<Value>, Error> {
        Ok(self.0.next())
    }
}

/// Iterates over a view of a dictionary, which must not grow or shrink during that.
pub(crate) struct DictIter {
    pub view: DictView,
    pub next: usize,
    pub len: usize,
}

impl DictIter {
    pub(crate) fn new(dict: &Dict, kind: super::ViewKind) -> Self {
        DictIter { view: DictView { dict: dict.clone(), kind }, next: 0, len: dict.len() }
    }
}

impl ValueIter for DictIter {
    fn next(&mut self, _: &mut State) -> Result<Option<Value>, Error> {
        // Python compares only sizes, so that replacing a value or swapping one key for another stays allowed.
        if self.view.dict.len() != self.len {
            let text = "dictionary changed size during iteration";
            return Err(Error::new(crate::ErrorKind::PythonRuntime, text));
        }
        let item = self.view.at(self.next);
        self.next += 1;
        Ok(item)
    }
}

/// Walks a range.
pub(crate) struct RangeIter {
    pub range: Range,
    pub next: usize,
}

impl ValueIter for RangeIter {
    fn next(&mut self, _: &mut State) -> Result<Option<Value>, Error> {
        if self.next >= self.range.len() {
            return Ok(None);
        }
        self.next += 1;
        Ok(Some(Value::Int(self.range.at(self.next - 1))))
    }
}

/// Walks the characters of a text.
pub(crate) struct StrIter {
    pub text: Str,
    pub next: usize,
}

impl ValueIter for StrIter {
    fn next(&mut self, _: &mut State) -> Result<Option<Value>, Error> {
        let Some(char) = self.text[self.next..].chars().next() else { return Ok(None) };
        self.next += char.len_utf8();
        Ok(Some(Value::str(char.encode_utf8(&mut [0; 4]) as &str)))
    }
}

/// Walks what a closure gives.
pub(crate) struct FnIter<F>(pub F);

impl<F: FnMut(&mut State) -> Result<Option<Value>, Error> + Send> ValueIter for FnIter<F> {
    fn next(&mut self, state: &mut State) -> Result<Option<Value>, Error> {
        (self.0)(state)
    }
}
