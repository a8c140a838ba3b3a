//! What a person decides about a key over all that masters decided.

use share::{Key, State};
use wire::MinionId;

/// What a person decides about the key of a minion.
pub struct Settlement {
    pub id: MinionId,
    pub key: Key,
    pub state: State,
    pub fingerprint: Option<String>,
    pub user: String,
}

impl Settlement {
    /// Reads what is typed.
    pub fn new(id: &str, state: &str, fingerprint: Option<String>, user: String) -> Result<Settlement, String> {
        let id = MinionId::new(id).map_err(|error| error.to_string())?;
        let key = Key::new(id.as_str()).ok_or_else(|| format!("{id} is too long"))?;
        let state = match state {
            "accepted" => State::Accepted,
            "rejected" => State::Rejected,
            "deleted" => State::Deleted,
            other => return Err(format!("a key can be accepted, rejected or deleted, and not {other:?}")),
        };
        Ok(Settlement { id, key, state, fingerprint, user })
    }
}
