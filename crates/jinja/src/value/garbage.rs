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
    /// What is still to be dropped, while something is being dropped.
    static WAITING: RefCell<Option<Vec<Garbage>>> = const { RefCell::new(None) };
}

/// Tells whether dropping a value drops nothing else.
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

/// Drops what a container held; later, if another container is just being dropped.
pub(super) fn discard(garbage: Garbage) {
    let now = WAITING.try_with(|waiting| {
        let mut waiting = waiting.borrow_mut();
        match &mut *waiting {
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
    let Ok(Some(mut garbage)) = now else { return };
    loop {
        match garbage {
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
