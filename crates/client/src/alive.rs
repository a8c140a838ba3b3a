//! Asks a Saltern master which minions are connected.

use std::time::Duration;

use value::{Value, map};

use crate::held::texts;
use crate::local::{Error, LocalClient};

/// Which minions are connected, as far as the master knows without asking them.
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
    /// Whether it has been connected since the master started.
    pub seen: bool,
    /// How long it may still take to reconnect and fetch the job.
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
    /// Returns the minions that are not connected and did not get a job. The list is empty if the master cannot tell.
    ///
    /// # Errors
    /// If the master refuses, or does not answer.
    pub async fn away(&mut self, jid: &str) -> Result<Vec<Away>, Error> {
        let answer = match self.saltern_command("saltern_away", map! { "jid" => jid }, "away").await {
            Err(Error::CannotHold) => return Ok(Vec::new()),
            answer => answer?,
        };
        let away = answer.get("away").and_then(Value::as_list).unwrap_or_default();
        Ok(away.iter().filter_map(Away::of).collect())
    }

    /// Returns which minions of a target are connected, without asking them; `None` if they must be pinged.
    ///
    /// # Errors
    /// If the master refuses, or does not answer.
    pub async fn alive(&mut self, target: &Value, target_type: &str) -> Result<Option<Alive>, Error> {
        let load = map! { "tgt" => target.clone(), "tgt_type" => target_type };
        let mut answer = match self.saltern_command("saltern_alive", load, "alive").await {
            Err(Error::CannotHold) => return Ok(None),
            answer => answer?,
        };
        let Some(alive) = answer.remove("alive").and_then(Value::into_map) else { return Ok(None) };
        let ids = |name| texts(alive.get(name));
        Ok(Some(Alive { up: ids("up"), down: ids("down"), unknown: ids("unknown") }))
    }
}
