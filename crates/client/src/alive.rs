//! Asks a Saltern master which minions are connected.

use value::{Value, map};
use wire::Command;
use wire::loads::AwayMinions;

use crate::answers::{Alive, Away, texts};
use crate::local::{Error, LocalClient};

impl LocalClient {
    /// Returns the minions that are not connected and did not get a job. The list is empty if the master does not know
    /// them.
    ///
    /// # Errors
    /// If the master refuses, or does not answer.
    pub async fn away(&mut self, jid: &str) -> Result<Vec<Away>, Error> {
        let answer = match self.saltern_command(Command::Away, AwayMinions::new(jid).into_map(), "away").await {
            // One of Salt's masters, which does not know the command. The command then waits as it always did.
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
        let mut answer = match self.saltern_command(Command::Alive, load, "alive").await {
            Err(Error::CannotHold) => return Ok(None),
            answer => answer?,
        };
        let Some(alive) = answer.remove("alive").and_then(Value::into_map) else { return Ok(None) };
        let ids = |name| texts(alive.get(name));
        Ok(Some(Alive { up: ids("up"), down: ids("down"), unknown: ids("unknown") }))
    }
}
