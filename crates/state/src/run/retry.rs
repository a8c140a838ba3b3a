//! `retry`: how often a state is tried, and how earlier attempts are reported.

use value::{Map, Value};

/// The settings of `retry`.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// The result that ends the attempts.
    pub until: bool,
    /// The largest number of attempts.
    pub attempts: i64,
    /// Seconds between attempts.
    pub interval: i64,
    /// The upper limit of a random addition, in seconds.
    pub splay: i64,
}

impl Default for Retry {
    fn default() -> Self {
        Retry { until: true, attempts: 2, interval: 30, splay: 0 }
    }
}

impl Retry {
    /// Parses the argument. An invalid value is replaced by its default with a warning.
    pub fn read(value: &Value) -> Self {
        match value {
            Value::Map(map) => Self::from_map(map),
            Value::Bool(true) => Retry::default(),
            Value::Bool(false) => Retry { attempts: 0, ..Retry::default() },
            _ => {
                tracing::warn!(
                    "State is set to retry, but retry: True or a valid dict for retry configuration was not found.  Using retry \
                     defaults"
                );
                Retry::default()
            }
        }
    }

    fn from_map(map: &Map) -> Self {
        let default = Retry::default();
        let wrong = |key: &str, default: Value| {
            if map.contains_key(key) {
                tracing::warn!("An invalid value was passed for the retry {key}, using default value '{default}'");
            }
        };
        let number = |key: &str, default: i64| match map.get(key).and_then(Value::as_i64) {
            Some(number) => number,
            None => {
                wrong(key, default.into());
                default
            }
        };
        let until = match map.get("until").and_then(Value::as_bool) {
            Some(until) => until,
            None => {
                wrong("until", default.until.into());
                default.until
            }
        };
        Retry {
            until,
            attempts: number("attempts", default.attempts),
            interval: number("interval", default.interval),
            splay: number("splay", default.splay),
        }
    }

    /// Returns whether a result ends the attempts.
    pub fn is_reached(&self, ret: &Map) -> bool {
        ret.get("result") == Some(&Value::Bool(self.until))
    }

    /// Returns what a test run reports.
    pub fn report_test(&self, ret: &mut Map) {
        let Retry { until, attempts, interval, splay } = self;
        let until = Value::Bool(*until);
        let comment = comment_of(ret);
        ret.insert(
            "comment",
            format!(
                "{comment}  The state would be retried every {interval} seconds (with a splay of up to {splay} seconds) a maximum \
                 of {attempts} times or until a result of {until} is returned"
            ),
        );
    }
}

/// Returns the comment as text, empty if there is none.
pub fn comment_of(ret: &Map) -> String {
    ret.get("comment").filter(|comment| comment.truthy()).map(Value::to_string).unwrap_or_default()
}

/// Prepends the report of an attempt to the next one. `waited` is in milliseconds.
pub fn merge_attempt(number: i64, earlier: &Map, later: &mut Map, waited: f64) {
    let part = |key: &str| earlier.get(key).map(Value::to_string).unwrap_or_default();
    let comment = format!(
        "Attempt {number}: Returned a result of \"{}\", with the following comment: \"{}\"\n{}",
        part("result"),
        part("comment"),
        comment_of(later)
    );
    later.insert("comment", comment);
    let took = |ret: &Map| ret.get("duration").and_then(Value::as_f64).unwrap_or_default();
    let sum = took(later) + took(earlier) + waited;
    later.insert("duration", sum);
    // The whole takes its start time from the first attempt.
    if number == 1
        && let Some(start) = earlier.get("start_time")
    {
        later.insert("start_time", start.clone());
    }
}

/// Appends the report of an attempt of a parallel state. As in Salt, its first call does not count as an attempt.
pub fn add_attempt(number: i64, earlier: &Map, later: &mut Map, waited: f64) {
    let result = later.get("result").map(Value::to_string).unwrap_or_default();
    let told = match comment_of(later) {
        comment if comment.is_empty() => comment,
        comment => {
            format!("Attempt {number}: Returned a result of \"{result}\", with the following comment: \"{comment}\"")
        }
    };
    let before = earlier.get("comment").map(Value::to_string).unwrap_or_default();
    later.insert("comment", format!("{before}\n{told}"));
    let took = |ret: &Map| ret.get("duration").and_then(Value::as_f64).unwrap_or_default();
    let sum = took(later) + took(earlier) + waited;
    later.insert("duration", sum);
    if let Some(start) = earlier.get("start_time") {
        later.insert("start_time", start.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::map;

    #[test]
    fn what_makes_no_sense_becomes_the_default() {
        let read = |value: Value| Retry::read(&value);
        assert_eq!(read(true.into()), Retry::default());
        assert_eq!(read(false.into()).attempts, 0);
        assert_eq!(read("often".into()), Retry::default());
        let given = map! { "attempts" => 5, "until" => false, "interval" => "x", "splay" => 3 };
        assert_eq!(read(given.into()), Retry { until: false, attempts: 5, interval: 30, splay: 3 });
    }

    #[test]
    fn attempts_are_told_of_in_their_order() {
        let first = map! { "result" => false, "comment" => "no", "duration" => 1.5, "start_time" => "then" };
        let mut last = map! { "result" => true, "comment" => "yes", "duration" => 2.0, "start_time" => "now" };
        merge_attempt(1, &first, &mut last, 1000.0);
        let text = "Attempt 1: Returned a result of \"False\", with the following comment: \"no\"\nyes";
        assert_eq!(last.get_str("comment"), Some(text));
        assert_eq!(last.get("duration"), Some(&1003.5.into()));
        assert_eq!(last.get_str("start_time"), Some("then"));
    }
}
