//! The answers of a Saltern master about connections and held jobs.

use std::time::Duration;

use value::Value;

/// The connected minions, as far as the master knows without asking them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alive {
    /// Minions whose connection is alive.
    pub up: Vec<String>,
    /// Minions without a connection.
    pub down: Vec<String>,
    /// Minions that the master cannot judge: they must be pinged.
    pub unknown: Vec<String>,
}

/// A minion that is not connected and did not get a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Away {
    /// The minion's id.
    pub id: String,
    /// The least time since it was connected.
    pub gone: Duration,
    /// True if it has been connected since the master started.
    pub seen: bool,
    /// How long it may still take to reconnect and fetch the job.
    pub wait: Duration,
}

impl Away {
    pub(crate) fn of(said: &Value) -> Option<Self> {
        let span = |name| Duration::try_from_secs_f64(said.get(name)?.as_f64()?).ok();
        Some(Away {
            id: said.get("id")?.as_str()?.to_owned(),
            gone: span("gone")?,
            seen: said.get("seen").is_some_and(Value::truthy),
            wait: span("wait")?,
        })
    }
}

/// The master's confirmation that it holds a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// Time until the hold expires.
    pub left: Duration,
    /// Expected minions that were not connected when the job was published.
    pub away: Vec<String>,
}

impl Held {
    /// Reads the field `held` of the master's answer.
    pub(crate) fn of(said: &Value) -> Option<Self> {
        Some(Held { left: seconds(said.get("left")?)?, away: texts(said.get("away")) })
    }
}

/// Returns the strings of a list.
pub(crate) fn texts(list: Option<&Value>) -> Vec<String> {
    list.and_then(Value::as_list).into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

pub(crate) fn seconds(value: &Value) -> Option<Duration> {
    Duration::try_from_secs_f64(value.as_f64()?).ok()
}
