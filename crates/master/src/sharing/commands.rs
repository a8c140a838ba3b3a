//! What programs on this host ask and tell a master that shares: the runner `saltern`.
//!
//! `masters` lists who is in the set, `membership` takes masters in and out, `decisions` shows what was decided about keys,
//! `settle` decides over it, and `times` reads and writes times as people do.

mod decisions;
mod masters;
mod membership;
mod settle;
mod times;

use std::time::SystemTime;

use share::Change;
use tokio::sync::{mpsc, oneshot};
use value::{Map, Value};
use wire::MinionId;

pub use decisions::Wanted;
use settle::Settlement;

use super::worker::{LostKeys, Work, Worker};

/// What is asked.
pub enum Command {
    /// The members and what they have in common.
    Masters,
    /// Keys about which members decided differently.
    Conflicts,
    /// Decisions about keys and members.
    Decisions(Wanted),
    /// Decides about a key over all that members decided.
    Settle(Settlement),
    /// Decides over the decisions of a member, or shows what that would do.
    Undo { wanted: Wanted, user: Option<String> },
    /// A user is about to change the files of keys.
    Announce { ids: Vec<MinionId>, user: String },
    /// Masters that wait to be accepted.
    Waiting,
    /// A master that waits becomes a member.
    Accept { name: Option<String>, fingerprint: Option<String>, user: String },
    /// A member leaves the set for good.
    Remove { name: String, user: String },
    /// Lost key files are written again.
    RestoreKeys,
    /// Lost key files are deletions.
    AdoptKeys,
}

impl Command {
    /// Reads a request.
    pub fn of(load: &Map, user: &str, now: SystemTime) -> Result<Command, String> {
        let text = |name: &str| load.get(name).filter(|value| **value != Value::Null).map(Value::to_string);
        let needed = |name: &'static str| text(name).ok_or_else(|| format!("{name} is missing"));
        let user = || user.to_owned();
        match load.get_str("what").unwrap_or_default() {
            "masters" => Ok(Command::Masters),
            "conflicts" => Ok(Command::Conflicts),
            "decisions" => Wanted::of(load, now).map(Command::Decisions),
            "settle" => {
                let (id, state) = (needed("name")?, needed("state")?);
                Settlement::new(&id, &state, text("fingerprint"), user()).map(Command::Settle)
            }
            "undo" => {
                let wanted = Wanted::of(load, now)?;
                match wanted.by.is_some() && wanted.since.is_some() {
                    true => Ok(Command::Undo { wanted, user: load.get("yes").is_some_and(Value::truthy).then(user) }),
                    false => Err("by and since are needed: whose decisions, and from when on".to_owned()),
                }
            }
            "announce" => {
                let ids = load.get("ids").and_then(Value::as_list).unwrap_or_default().iter();
                let ids = ids.filter_map(|id| MinionId::new(id.as_str()?).ok()).collect();
                // A wheel function runs for the user who asked for it.
                Ok(Command::Announce { ids, user: text("for").filter(|user| !user.is_empty()).unwrap_or_else(user) })
            }
            "waiting" => Ok(Command::Waiting),
            "accept" => {
                let (name, fingerprint) = (text("name"), text("fingerprint"));
                Ok(Command::Accept { name, fingerprint, user: user() })
            }
            "remove" => Ok(Command::Remove { name: needed("name")?, user: user() }),
            "restore_keys" => Ok(Command::RestoreKeys),
            "adopt_keys" => Ok(Command::AdoptKeys),
            other => Err(format!("this master does not know the question {other:?}")),
        }
    }
}

/// Asks the worker, and waits for the answer.
pub async fn ask(worker: mpsc::Sender<Work>, command: Command) -> Result<Value, String> {
    let (tell, answer) = oneshot::channel();
    let stopped = || "this master shares nothing at the moment: see its log".to_owned();
    worker.send(Work::Command(command, tell)).await.map_err(|_| stopped())?;
    answer.await.map_err(|_| stopped())?
}

impl Worker {
    pub(super) fn command(&mut self, command: Command) -> Result<Value, String> {
        match command {
            Command::Masters => Ok(self.masters().into()),
            Command::Conflicts => Ok(self.conflicts().into()),
            Command::Decisions(wanted) => self.decisions(&wanted).map(Value::from),
            Command::Settle(settlement) => self.settle(&settlement).map(Value::from),
            Command::Undo { wanted, user } => self.undo(&wanted, user).map(Value::from),
            Command::Announce { ids, user } => {
                let now = self.now().steady;
                self.announced.add(ids, &user, now);
                Ok(true.into())
            }
            Command::Waiting => Ok(self.waiting().into()),
            Command::Accept { name, fingerprint, user } => {
                self.accept(name.as_deref(), fingerprint.as_deref(), user).map(Value::from)
            }
            Command::Remove { name, user } => self.remove(&name, user).map(Value::from),
            Command::RestoreKeys => Ok(self.restore_keys().into()),
            Command::AdoptKeys => Ok(self.adopt_keys().into()),
        }
    }

    /// Writes key files that are missing. Returns how many.
    fn restore_keys(&mut self) -> usize {
        if let Err(error) = self.store().prepare() {
            tracing::error!("{}", crate::chain(&error));
        }
        self.look_at_keys();
        let missing = self.missing();
        for id in &missing {
            self.write_entry(id);
            self.vanished.forget(id);
        }
        self.lost = LostKeys::default();
        let actions = self.model.local(Change::LossRestored, self.now());
        self.carry_out(actions);
        missing.len()
    }

    /// Makes deletions of what is lost. Returns how many.
    fn adopt_keys(&mut self) -> usize {
        self.look_at_keys();
        let gone = self.missing().len();
        self.lost = LostKeys::default();
        let actions = self.model.local(Change::LossAdopted, self.now());
        self.carry_out(actions);
        gone
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use value::map;

    use super::*;

    #[test]
    fn the_credential_of_who_asks_is_not_the_key_that_is_asked_about() {
        let wanted = |load: Map| match Command::of(&load, "root", UNIX_EPOCH) {
            Ok(Command::Decisions(wanted)) => wanted.about,
            _ => panic!("no question about decisions"),
        };
        assert_eq!(wanted(map! { "what" => "decisions", "key" => "credential" }), None);
        let about = map! { "what" => "decisions", "key" => "credential", "about" => "web1" };
        assert_eq!(wanted(about).as_deref(), Some("web1"));
    }

    #[test]
    fn decisions_are_undone_only_with_yes_and_never_all_of_them() {
        let undo = |load: Map| Command::of(&load, "root", UNIX_EPOCH);
        let asked = map! { "what" => "undo", "by" => "m2", "since" => "1h" };
        assert!(matches!(undo(asked.clone()), Ok(Command::Undo { user: None, .. })));
        let sure = {
            let mut sure = asked;
            sure.insert("yes", true);
            sure
        };
        assert!(matches!(undo(sure), Ok(Command::Undo { user: Some(_), .. })));
        for missing in [map! { "what" => "undo", "by" => "m2" }, map! { "what" => "undo", "since" => "1h" }] {
            assert!(undo(missing).is_err_and(|reason| reason.contains("by and since")));
        }
    }
}
