//! The conditions under which a job starts.

use std::time::Duration;

use tokio::time::Instant;
use value::{Map, Value};

/// The field of a publication that only Saltern minions read. Notices consist of this field alone.
pub const FIELD: &str = "saltern";

/// The conditions under which a job starts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Terms {
    /// The latest time for the start.
    pub deadline: Option<Instant>,
    /// True if the minion must first confirm to the master that the job has arrived.
    pub receipt: bool,
    /// True if the minion has requested the job. Then it must not run again, whatever the options say.
    pub asked: bool,
}

impl Terms {
    /// Removes the conditions for Saltern minions from a publication, and returns them.
    pub fn take(load: &mut Map) -> Self {
        let Some(said) = load.remove(FIELD) else { return Terms::default() };
        Terms { deadline: deadline(&said), receipt: said.get("receipt").is_some_and(Value::truthy), asked: false }
    }

    /// Returns the conditions of a missed job that a master offers.
    pub fn of_missed(job: &Value) -> Self {
        let receipt = job.get("receipt").is_some_and(Value::truthy);
        Terms { deadline: deadline(job), receipt, asked: true }
    }

    /// Returns for how long a master may offer the job again.
    pub fn left(&self) -> Duration {
        self.deadline.map_or(Duration::ZERO, |deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Returns whether the deadline has passed.
    pub fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }
}

/// Reads the deadline. Masters send the remaining time, because clocks differ.
fn deadline(said: &Value) -> Option<Instant> {
    let left = Duration::try_from_secs_f64(said.get("left")?.as_f64()?).ok()?;
    Instant::now().checked_add(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::map;

    #[test]
    fn terms_are_taken_out_of_a_publication() {
        let mut load = map! { "jid" => "1", "saltern" => map! { "left" => 100.5, "receipt" => true } };
        let terms = Terms::take(&mut load);
        assert_eq!((load, terms.receipt, terms.is_over()), (map! { "jid" => "1" }, true, false));
        assert!((100..=100).contains(&terms.left().as_secs()), "{:?}", terms.left());
        assert!(Terms::take(&mut map! { "saltern" => map! { "left" => 0 } }).is_over());
        // `Duration` panics on negative numbers.
        let mut odd = map! { "saltern" => map! { "left" => -1.0 } };
        assert_eq!(Terms::take(&mut odd), Terms::default());
        assert!(!Terms::take(&mut map! {}).is_over());
    }
}
