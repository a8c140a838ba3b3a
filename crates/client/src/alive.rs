//! Asking a master of ours who is there.

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

impl LocalClient {
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
