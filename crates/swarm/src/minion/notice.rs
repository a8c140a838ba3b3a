//! What a master of ours tells its minions beside jobs.

use std::time::Duration;

use value::{Map, Value};

/// The field only minions of ours read.
const OURS: &str = "saltern";

/// The longest time a master may ask its minions to spread over.
const LONGEST: f64 = 60.0;

/// A word that is no job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Word {
    /// It stops. Minions come back within this time.
    Goodbye(Duration),
    /// It has new keys. Minions sign in within this time.
    Rotated(Duration),
    /// Nothing that concerns a minion.
    Other,
}

impl Word {
    /// Reads a publication that is no job.
    pub(super) fn of(load: &Map) -> Option<Self> {
        let said = load.get(OURS).filter(|_| !load.contains_key("jid"))?;
        let is = |name: &str| said.get(name).is_some_and(Value::truthy);
        let spread = said.get("spread").and_then(Value::as_f64).unwrap_or(0.0).clamp(0.0, LONGEST);
        let spread = Duration::try_from_secs_f64(spread).unwrap_or_default();
        match (is("goodbye"), is("rotated")) {
            (true, _) => Some(Word::Goodbye(spread)),
            (_, true) => Some(Word::Rotated(spread)),
            _ => Some(Word::Other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::map;

    #[test]
    fn words_are_told_from_jobs() {
        let said = |said: Map| Word::of(&map! { "saltern" => said });
        assert_eq!(said(map! { "goodbye" => true, "spread" => 2.5 }), Some(Word::Goodbye(Duration::from_millis(2500))));
        assert_eq!(said(map! { "rotated" => true, "spread" => 900 }), Some(Word::Rotated(Duration::from_secs(60))));
        assert_eq!(said(map! { "renewed" => true }), Some(Word::Other));
        assert_eq!(Word::of(&map! { "saltern" => map! { "goodbye" => true }, "jid" => "1" }), None);
        assert_eq!(Word::of(&map! { "jid" => "1" }), None);
    }
}
