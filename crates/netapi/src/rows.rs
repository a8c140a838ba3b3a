//! What the questions about the fleet are answered with.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use value::Value;

/// A part of a list, and where the next part begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// The cursor of the next page; `None` at the end. A page may have fewer items than were asked for, and a next page.
    pub next: Option<String>,
}

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Minions still run it, or may.
    Running,
    /// It has ended, and minions have failed or have not returned.
    Failed,
    /// All minions have returned, and none has failed.
    Done,
}

/// The minions of a job in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Minions that are to return.
    pub expected: u64,
    /// Minions that have returned, those that failed included.
    pub returned: u64,
    /// Minions that have returned a failure.
    pub failed: u64,
    /// Minions that have not returned, and run it or may still begin.
    pub running: u64,
    /// Minions that have not returned, and of which nothing is known.
    pub silent: u64,
}

/// A job without its returns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobHead {
    /// The job id.
    pub jid: String,
    /// The function, or a list of them.
    pub fun: Value,
    /// The arguments.
    pub arg: Value,
    /// The target.
    pub tgt: Value,
    /// The type of the target.
    pub tgt_type: String,
    /// The user who published it.
    pub user: String,
    /// When it began.
    pub start: Option<String>,
    /// When the last return came, if it has ended and that is known.
    pub end: Option<String>,
    /// How far it is.
    pub state: JobState,
    /// Its minions.
    pub counts: Counts,
}

/// The return of a minion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReturnRow {
    /// The minion.
    pub id: String,
    /// What the function returned.
    #[serde(rename = "return")]
    pub returned: Value,
    /// The return code.
    pub retcode: Value,
    /// False if the minion failed.
    pub success: bool,
    /// The outputter that the minion asked for.
    pub out: Option<String>,
    /// The size of a large return, of which only the beginning is here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// The minions of a job that have not returned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Unfinished {
    /// They run it, or may still begin.
    pub running: Vec<String>,
    /// Nothing is known of them.
    pub silent: Vec<String>,
}

/// How a minion is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It is connected to a master of the set.
    Up,
    /// Its key is accepted, and it is not connected.
    Down,
    /// Its key waits for a decision.
    Pending,
    /// Its key was rejected.
    Rejected,
    /// Its key was denied, because the master has another one of this id.
    Denied,
}

/// The last highstate of a minion that the master has seen since its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Highstate {
    /// The job.
    pub jid: String,
    /// When its return came.
    pub time: String,
    /// States in all.
    pub total: u64,
    /// States that have failed.
    pub failed: u64,
    /// States that have changed something.
    pub changed: u64,
}

/// A minion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MinionRow {
    /// The id.
    pub id: String,
    /// How it is.
    pub status: Status,
    /// The names of the masters to which it is connected.
    pub masters: Vec<String>,
    /// When it was connected last, as far as this master knows since its start; now for a minion that is up.
    pub last_seen: Option<String>,
    /// The version of its program, from its cached grains.
    pub version: Option<String>,
    /// Its operating system, from its cached grains.
    pub os: Option<String>,
    /// Its last highstate.
    pub highstate: Option<Highstate>,
}

/// The key of a minion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyRow {
    /// The id of the minion.
    pub id: String,
    /// `pending`, `accepted`, `rejected` or `denied`.
    pub state: String,
    /// The fingerprint; `None` if the file of the key cannot be read.
    pub fingerprint: Option<String>,
}

/// A master of the set, or somebody who called one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MasterRow {
    /// The name.
    pub name: Option<String>,
    /// `here`, `linked` or `away`; of strangers `waiting`, `refused`, `away` or `no answer`.
    pub state: String,
    /// Its number in the set.
    pub node: Option<String>,
    /// `master`, `witness` or `reader`.
    pub role: Option<String>,
    /// The minions that are connected to it.
    pub minions: Option<u64>,
    /// Since when it is in this state.
    pub since: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// When the copies of both were equal last.
    pub compared: Option<String>,
    /// Where it is.
    pub addresses: Vec<String>,
    /// From where it called.
    pub address: Option<String>,
    /// Why it is away or refused.
    pub reason: Option<String>,
    /// How long its answers take.
    pub rtt_ms: Option<f64>,
    /// By how much its clock is ahead.
    pub clock_ms: Option<f64>,
    /// The bytes that wait for it.
    pub queue_bytes: Option<u64>,
    /// The messages to it that were lost.
    pub dropped: Option<u64>,
}

/// The masters of the set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Masters {
    /// The name of the set; `None` if this master shares nothing.
    pub cluster_id: Option<String>,
    /// The members.
    pub masters: Vec<MasterRow>,
    /// Those that are no members.
    pub others: Vec<MasterRow>,
    /// What was decided about keys: `decided`, `conflicts`, and `lost` keys.
    pub keys: Value,
    /// Who does what the set does once.
    pub once: Value,
}

/// A kind of files or options that masters should have alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriftRow {
    /// The kind, such as `pillar`.
    pub kind: String,
    /// `differs`, `same` or `unknown`.
    pub state: String,
    /// The masters on which it differs from this one.
    pub on: Vec<String>,
    /// Since when.
    pub since: Option<String>,
}

/// A path or an option in which masters differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The path, or the name of the option.
    pub name: String,
    /// What is different, by master.
    pub on: Value,
}

/// In what masters differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// The kinds. Empty in an answer about one kind.
    pub kinds: Vec<DriftRow>,
    /// What differs, in an answer about one kind.
    pub entries: Vec<Entry>,
    /// There is more that differs than is listed.
    pub more: bool,
    /// The masters that this one was compared with.
    pub compared_with: Vec<String>,
    /// The masters that have not answered.
    pub not_compared: Vec<String>,
}

/// The entries that grant a user something.
#[derive(Debug, Deserialize)]
pub struct Granted {
    pub list: Vec<Value>,
}

/// An entry that grants a user something.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Grant {
    /// As it is in the configuration.
    pub entry: Value,
    /// What it means.
    pub text: String,
}

impl Grant {
    /// Says what an entry means.
    pub fn of(entry: Value) -> Self {
        Grant { text: in_words(&entry), entry }
    }
}

/// Who a user is, and what they may do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Whoami {
    /// The name.
    pub user: String,
    /// The backend.
    pub eauth: String,
    /// The groups at the login.
    pub groups: Vec<String>,
    /// When the session ends at the latest.
    pub expires: String,
    /// True if the user sees the events of everybody.
    pub all_events: bool,
    /// What they may do.
    pub grants: Vec<Grant>,
}

/// The minions that a job would reach.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Preview {
    /// The number of minions that the target means and the user may know of.
    pub count: u64,
    /// The first of them.
    pub minions: Vec<String>,
    /// The number of those that are not connected.
    pub away_count: u64,
    /// The first of those.
    pub away: Vec<String>,
    /// True if the master would publish the job. `None` without a function.
    pub allowed: Option<bool>,
    /// The number of minions on which the user may not call the function.
    pub refused_count: u64,
    /// The first of those.
    pub refused: Vec<String>,
    /// The entries that grant it, and on how many minions each.
    pub granted_by: Vec<GrantedBy>,
}

/// An entry that grants a job on some minions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GrantedBy {
    /// The entry.
    pub entry: Value,
    /// The number of minions.
    pub count: u64,
}

/// Writes a time as RFC 3339.
pub fn time(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time).unwrap_or(jiff::Timestamp::MAX).to_string()
}

/// Says what an entry of a list grants.
fn in_words(entry: &Value) -> String {
    let functions = |conditions: &Value| match conditions {
        Value::List(items) => items.iter().map(condition).collect::<Vec<_>>().join(", "),
        one => condition(one),
    };
    match entry {
        Value::Str(text) => match text.as_str() {
            "@runner" | "@runners" => "all runners".to_owned(),
            "@wheel" | "@wheels" => "all wheel functions".to_owned(),
            "@events" => "the events of everybody".to_owned(),
            ".*" => "all functions on all minions".to_owned(),
            text => match text.strip_prefix('@') {
                Some(module) => format!("all runners and wheel functions of {module}"),
                None => format!("functions that begin with the pattern {text}, on all minions"),
            },
        },
        Value::Map(map) if map.len() == 1 => {
            let (target, conditions) = map.iter().next().unwrap_or((&Value::Null, &Value::Null));
            let functions = functions(conditions);
            match target.as_str().and_then(|target| target.strip_prefix('@')) {
                Some("runner" | "runners") => format!("the runners {functions}"),
                Some("wheel" | "wheels") => format!("the wheel functions {functions}"),
                Some(module) => format!("of the runners and wheel functions of {module}: {functions}"),
                None => format!("on {target}: {functions}"),
            }
        }
        _ => "nothing".to_owned(),
    }
}

fn condition(condition: &Value) -> String {
    match condition {
        Value::Str(text) if text == ".*" => "all functions".to_owned(),
        Value::Str(text) => text.clone(),
        Value::Map(map) => {
            let names: Vec<String> = map.keys().map(|name| format!("{name} with certain arguments")).collect();
            names.join(", ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    #[test]
    fn entries_are_said_in_words() {
        for (entry, expected) in [
            (Value::from(".*"), "all functions on all minions"),
            ("test.*".into(), "functions that begin with the pattern test.*, on all minions"),
            ("@runner".into(), "all runners"),
            ("@jobs".into(), "all runners and wheel functions of jobs"),
            (map! { "web*" => list!["test.ping", "pkg.*"] }.into(), "on web*: test.ping, pkg.*"),
            (map! { "web*" => ".*" }.into(), "on web*: all functions"),
            (map! { "@runner" => list!["jobs.*"] }.into(), "the runners jobs.*"),
            (map! { "@key" => list!["list_all"] }.into(), "of the runners and wheel functions of key: list_all"),
            (
                map! { "*" => list![map! { "cmd.run" => map! { "args" => list!["ls"] } }] }.into(),
                "on *: cmd.run with certain arguments",
            ),
            (Value::Null, "nothing"),
        ] {
            assert_eq!(in_words(&entry), expected);
        }
    }

    #[test]
    fn times_are_written_for_programs() {
        assert_eq!(time(SystemTime::UNIX_EPOCH), "1970-01-01T00:00:00Z");
    }
}
