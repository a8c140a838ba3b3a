//! The return of a run of states.

use value::Value;

/// What became of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// It failed.
    Failed,
    /// It would change something (`test=True`).
    WouldChange,
    /// It changed something.
    Changed,
    /// All was as it should be.
    Good,
}

impl Outcome {
    /// Returns how it looks, and its word.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Outcome::Failed => ("bad", "failed"),
            Outcome::WouldChange => ("warn", "would change"),
            Outcome::Changed => ("info", "changed"),
            Outcome::Good => ("ok", "ok"),
        }
    }

    /// Returns the sign in a cell of the matrix: colour alone does not tell.
    pub fn sign(self) -> &'static str {
        match self {
            Outcome::Failed => "✕",
            Outcome::WouldChange => "?",
            Outcome::Changed => "±",
            Outcome::Good => "✓",
        }
    }
}

/// A state of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct StateRow {
    /// The key in the return.
    pub key: String,
    /// The sls file; empty if the return does not name it.
    pub sls: String,
    /// The id in the sls file.
    pub id: String,
    /// The name.
    pub name: String,
    /// The module and the function.
    pub module: (String, String),
    /// True, false, or neither.
    pub result: Option<bool>,
    /// What it says.
    pub comment: String,
    /// What it changed.
    pub changes: Value,
    /// Its place in the run.
    pub place: i64,
    /// How long it took.
    pub milliseconds: Option<f64>,
}

impl StateRow {
    /// Returns the function as sls files write it.
    pub fn function(&self) -> String {
        format!("{}.{}", self.module.0, self.module.1)
    }

    /// Returns what names the state on all minions: its sls file, id and function. Names often have a part that differs.
    pub fn column(&self) -> (String, String, String) {
        (self.sls.clone(), self.id.clone(), self.function())
    }

    /// Returns the name of the state for people.
    pub fn named(&self) -> String {
        let (id, function) = (&self.id, self.function());
        if self.sls.is_empty() { format!("{id} ({function})") } else { format!("{id} ({function}) in {}", self.sls) }
    }

    /// Returns the changes as text, without what differs by chance, so that equal changes of minions are equal.
    pub fn changed(&self) -> String {
        let mut changes = self.changes.clone();
        if let Some(map) = changes.as_map_mut() {
            map.remove("pid");
        }
        super::text::readable(&changes)
    }

    /// Returns what became of it.
    pub fn outcome(&self) -> Outcome {
        match (self.result, self.changes.truthy()) {
            (Some(false), _) => Outcome::Failed,
            (None, _) => Outcome::WouldChange,
            (Some(true), true) => Outcome::Changed,
            (Some(true), false) => Outcome::Good,
        }
    }
}

/// Reads a return, in the order of the run. Returns `None` if it is not one of states.
pub fn read(value: &Value) -> Option<Vec<StateRow>> {
    let map = value.as_map().filter(|map| !map.is_empty())?;
    let mut rows = Vec::with_capacity(map.len());
    for (key, state) in map {
        rows.push(row(key.as_str()?, state)?);
    }
    rows.sort_by_key(|row: &StateRow| row.place);
    Some(rows)
}

fn row(key: &str, state: &Value) -> Option<StateRow> {
    let mut parts = key.split("_|-");
    let (module, id, name, function) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let text = |field: &str| state.get(field).and_then(Value::as_str).map(str::to_owned);
    let comment = match state.get("comment") {
        Some(Value::List(lines)) => lines.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    Some(StateRow {
        key: key.to_owned(),
        sls: text("__sls__").unwrap_or_default(),
        id: text("__id__").unwrap_or_else(|| id.to_owned()),
        name: text("name").unwrap_or_else(|| name.to_owned()),
        module: (module.to_owned(), function.to_owned()),
        result: state.get("result")?.as_bool(),
        comment,
        changes: state.get("changes").cloned().unwrap_or_default(),
        place: state.get("__run_num__").and_then(Value::as_i64).unwrap_or(i64::MAX),
        milliseconds: state.get("duration").and_then(Value::as_f64),
    })
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    #[test]
    fn only_returns_of_states_are_read_as_such() {
        for other in [
            Value::from(true),
            map! {}.into(),
            map! { "a" => 1 }.into(),
            list!["error"],
            map! { "a_|-b_|-c_|-d" => "no map" }.into(),
        ] {
            assert_eq!(read(&other), None);
        }
    }

    #[test]
    fn outcomes_are_told_apart() {
        let outcome = |result: Value, changes: Value| {
            let state = map! { "a_|-b_|-c_|-d" => map! { "result" => result, "changes" => changes, "comment" => list!["x", "y"] } };
            let rows = read(&state.into()).unwrap();
            assert_eq!(
                (rows[0].id.as_str(), rows[0].function().as_str(), rows[0].comment.as_str()),
                ("b", "a.d", "x\ny")
            );
            rows[0].outcome()
        };
        assert_eq!(outcome(false.into(), map! { "a" => 1, "pid" => 7 }.into()), Outcome::Failed);
        assert_eq!(outcome(Value::Null, map! {}.into()), Outcome::WouldChange);
        assert_eq!(outcome(true.into(), map! { "a" => 1 }.into()), Outcome::Changed);
        assert_eq!(outcome(true.into(), map! {}.into()), Outcome::Good);
    }
}
