//! The result of a state.

use value::{Map, Value, map};

/// The result of a state. It begins as a failure without changes and comments, as in Salt.
#[derive(Clone, Debug, PartialEq)]
pub struct Ret {
    /// The name of the state.
    pub name: Value,
    /// Done, failed, or nothing: something would be done.
    pub result: Option<bool>,
    /// The changes.
    pub changes: Map,
    /// The comment, a text or a list of texts.
    pub comment: Value,
    /// Additional entries (`warnings`, `pchanges`, …).
    pub more: Map,
}

impl Ret {
    /// A state of this name, failed so far.
    pub fn new(name: impl Into<Value>) -> Self {
        Ret { name: name.into(), result: Some(false), changes: Map::new(), comment: "".into(), more: Map::new() }
    }

    /// The same, done.
    pub fn ok(self, comment: impl Into<Value>) -> Self {
        Ret { result: Some(true), comment: comment.into(), ..self }
    }

    /// The same, failed.
    pub fn fail(self, comment: impl Into<Value>) -> Self {
        Ret { result: Some(false), comment: comment.into(), ..self }
    }

    /// The same, to be done when it is not a test.
    pub fn would(self, comment: impl Into<Value>) -> Self {
        Ret { result: None, comment: comment.into(), ..self }
    }

    /// Reads what a state function returned.
    pub fn from_value(value: Value) -> Self {
        let mut map = value.into_map().unwrap_or_default();
        let mut take = |key: &str| map.remove(key);
        let (name, result, changes, comment) = (take("name"), take("result"), take("changes"), take("comment"));
        Ret {
            name: name.unwrap_or_default(),
            result: result.and_then(|result| result.as_bool()),
            changes: changes.and_then(Value::into_map).unwrap_or_default(),
            comment: comment.unwrap_or_default(),
            more: map,
        }
    }

    /// The same, with what changed.
    pub fn changed(self, changes: Map) -> Self {
        Ret { changes, ..self }
    }
}

impl From<Ret> for Value {
    fn from(ret: Ret) -> Value {
        let Ret { name, result, changes, comment, more } = ret;
        let mut map =
            map! { "name" => name, "changes" => changes, "result" => Value::from(result), "comment" => comment };
        map.update(more);
        map.into()
    }
}
