//! Asking a master of ours who is there.

use std::time::Duration;

use value::{Value, map};

use crate::held::texts;
use crate::local::{Error, LocalClient};

/// What a master knows of minions without asking them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alive {
    /// Their connections answer.
    pub up: Vec<String>,
    /// They have none.
    pub down: Vec<String>,
    /// They have to be asked.
    pub unknown: Vec<String>,
}

/// A minion that has no connection and did not get a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Away {
    /// Its id.
    pub id: String,
    /// For how long it has been away, at least.
    pub gone: Duration,
    /// Whether it was there since the master started.
    pub seen: bool,
    /// How long it may still take to come back and fetch the job.
    pub wait: Duration,
}

impl Away {
    fn of(said: &Value) -> Option<Self> {
        let span = |name| Duration::try_from_secs_f64(said.get(name)?.as_f64()?).ok();
        Some(Away {
            id: said.get("id")?.as_str()?.to_owned(),
            gone: span("gone")?,
            seen: said.get("seen").is_some_and(Value::truthy),
            wait: span("wait")?,
        })
    }
}

impl LocalClient {
    /// Returns the minions that have no connection and did not get a job; none when the master cannot tell.
    ///
    /// # Errors
    /// When the master refuses, or does not answer.
    pub async fn away(&mut self, jid: &str) -> Result<Vec<Away>, Error> {
        let answer = match self.own_command("saltern_away", map! { "jid" => jid }, "away").await {
            Err(Error::HoldsNothing) => return Ok(Vec::new()),
            answer => answer?,
        };
        let away = answer.get("away").and_then(Value::as_list).unwrap_or_default();
        Ok(away.iter().filter_map(Away::of).collect())
    }

    /// Returns what the master knows of the minions a target means, without asking them; `None` when they have to be asked.
    ///
    /// # Errors
    /// When the master refuses, or does not answer.
    pub async fn alive(&mut self, target: &Value, target_type: &str) -> Result<Option<Alive>, Error> {
        let load = map! { "tgt" => target.clone(), "tgt_type" => target_type };
        let mut answer = match self.own_command("saltern_alive", load, "alive").await {
            Err(Error::HoldsNothing) => return Ok(None),
            answer => answer?,
        };
        let Some(alive) = answer.remove("alive").and_then(Value::into_map) else { return Ok(None) };
        let ids = |name| texts(alive.get(name));
        Ok(Some(Alive { up: ids("up"), down: ids("down"), unknown: ids("unknown") }))
    }
}
