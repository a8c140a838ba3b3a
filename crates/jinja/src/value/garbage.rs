//! Takes containers apart without recursion: a list in a list in a list may be as deep as a template can make it.

use std::cell::RefCell;

use super::dict::Map;
use super::{Value, ValueIter};

pub(super) enum Garbage {
    Values(Vec<Value>),
    Map(Map),
    Walk(Box<dyn ValueIter>),
}

thread_local! {
    /// Containers waiting to be dropped; `None` when no drop is in progress.
    static WAITING: RefCell<Option<Vec<Garbage>>> = const { RefCell::new(None) };
}

/// Returns whether dropping the value cannot drop another container.
pub(super) fn is_plain(value: &Value) -> bool {
    matches!(
        value,
        Value::None
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::Str(_)
            | Value::Markup(_)
            | Value::Bytes(_)
            | Value::Big(_)
            | Value::Range(_)
    )
}

/// Drops the contents of a container: at once, or after the drop in progress.
pub(super) fn discard(garbage: Garbage) {
    let now = WAITING.try_with(|waiting| {
        let mut waiting = waiting.borrow_mut();
        match &mut *waiting {
            // A caller further up this thread's stack is already in the loop below and will drop it. Dropping it here
            // would recurse once per level of nesting, and a template can nest deeper than any stack.
            Some(list) => {
                list.push(garbage);
                None
            }
            none => {
                *none = Some(Vec::new());
                Some(garbage)
            }
        }
    });
    // The thread-local is gone while the thread ends; then the garbage was dropped, recursively, with the closure.
    let Ok(Some(mut garbage)) = now else { return };
    loop {
        match garbage {
            // The borrow must have ended here: dropping these values calls discard() again.
            Garbage::Values(values) => drop(values),
            Garbage::Map(map) => drop(map),
            Garbage::Walk(walk) => drop(walk),
        }
        let next = WAITING.try_with(|waiting| {
            let mut waiting = waiting.borrow_mut();
            let next = waiting.as_mut().and_then(Vec::pop);
            if next.is_none() {
                *waiting = None;
            }
            next
        });
        match next {
            Ok(Some(next)) => garbage = next,
            _ => return,
        }
    }
}
