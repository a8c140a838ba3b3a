//! Notices of a Saltern master to its minions, which are not jobs.

use std::time::Duration;

use value::{Map, Value};

/// The field that only Saltern minions read.
const OURS: &str = "saltern";

/// The maximum time that a master may let its minions spread over.
const LONGEST: f64 = 60.0;

/// A notice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Notice {
    /// The master stops. Minions return within this time.
    Goodbye(Duration),
    /// The master has new keys. Minions sign in within this time.
    Rotated(Duration),
    /// Nothing that concerns a minion.
    Other,
}

impl Notice {
    /// Parses a publication that is not a job.
    pub(super) fn parse(load: &Map) -> Option<Self> {
        // A job always has a `jid`. A job with a stray field of this name must still run.
        let said = load.get(OURS).filter(|_| !load.contains_key("jid"))?;
        let is = |name: &str| said.get(name).is_some_and(Value::truthy);
        // Bounded, since a wrong or hostile value would silence the whole swarm; `clamp` keeps NaN, which
        // `try_from_secs_f64` then rejects.
        let spread = said.get("spread").and_then(Value::as_f64).unwrap_or(0.0).clamp(0.0, LONGEST);
        let spread = Duration::try_from_secs_f64(spread).unwrap_or_default();
        match (is("goodbye"), is("rotated")) {
            (true, _) => Some(Notice::Goodbye(spread)),
            (_, true) => Some(Notice::Rotated(spread)),
            _ => Some(Notice::Other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::map;

    #[test]
    fn notices_are_distinguished_from_jobs() {
        let said = |said: Map| Notice::parse(&map! { "saltern" => said });
        assert_eq!(
            said(map! { "goodbye" => true, "spread" => 2.5 }),
            Some(Notice::Goodbye(Duration::from_millis(2500)))
        );
        assert_eq!(said(map! { "rotated" => true, "spread" => 900 }), Some(Notice::Rotated(Duration::from_secs(60))));
        assert_eq!(said(map! { "renewed" => true }), Some(Notice::Other));
        assert_eq!(Notice::parse(&map! { "saltern" => map! { "goodbye" => true }, "jid" => "1" }), None);
        assert_eq!(Notice::parse(&map! { "jid" => "1" }), None);
    }
}
