//! Answers what programs on this host ask a master that shares.
//!
//! `masters` lists who is in the set, `membership` takes masters in and out, `decisions` shows what was decided about keys,
//! `settle_and_undo` decides over it, and `leases` shows who does what the set does once.

mod decisions;
mod leases;
mod masters;
mod membership;
mod settle_and_undo;

use share::member::Right;
use share::{Change, Class, Key};
use value::{Map, Value};
use wire::MinionId;

use super::worker::{LostKeys, Worker};
use crate::set_requests::SetRequest;

/// What programs that decide about keys are told.
const NO_DECISION: &str = "this master has no right to decide about keys, such as a witness or a reader (cluster_role): do it on another master";

/// What programs that remove members are told.
const NO_MEMBERS: &str = "this master has no right to decide about members, such as a witness or a reader (cluster_role): do it on another master";

impl Worker {
    pub(super) fn command(&mut self, request: SetRequest) -> Result<Value, String> {
        match request {
            SetRequest::Masters(reader) => Ok(self.masters(reader).into()),
            SetRequest::Conflicts => Ok(self.conflicts().into()),
            SetRequest::Decisions(filter) => self.decisions(&filter).map(Value::from),
            SetRequest::Settle(_) | SetRequest::Undo { .. } | SetRequest::AdoptKeys if !self.may(Right::Keys) => {
                Err(NO_DECISION.to_owned())
            }
            SetRequest::Settle(settlement) => self.settle(&settlement).map(Value::from),
            SetRequest::Undo { filter, user } => self.undo(&filter, user).map(Value::from),
            SetRequest::Announce { ids, user } => {
                let now = self.now().steady;
                self.announced.add(ids, &user, now);
                Ok(true.into())
            }
            SetRequest::Confirm { ids, deleted } => Ok(self.confirm(&ids, deleted).into()),
            SetRequest::TokensChanged => Ok(self.look_at_tokens().into()),
            SetRequest::DataChanged(ids) => self.data_changed(&ids).map(Value::from),
            SetRequest::Waiting => Ok(self.waiting().into()),
            SetRequest::Who(minion) => Ok(self.who(&minion).into()),
            SetRequest::Connected => {
                Ok(Value::List(self.shared.connected_anywhere().iter().map(Value::from).collect()))
            }
            SetRequest::Leases => Ok(self.leases().into()),
            SetRequest::ForgetVoters { user } => self.forget_voters(user).map(Value::from),
            SetRequest::GoOnOnce { name, fence } => self.go_on_named(&name, fence).map(Value::from),
            SetRequest::EndOnce { name, fence } => Ok(self.end_named(&name, fence).into()),
            // It waits for its turn, and is answered then.
            SetRequest::BeginOnce { .. } => Err("this question is answered later".to_owned()),
            SetRequest::Accept { name, fingerprint, user } => {
                self.accept(name.as_deref(), fingerprint.as_deref(), user).map(Value::from)
            }
            SetRequest::Remove { .. } if !self.may(Right::Members) => Err(NO_MEMBERS.to_owned()),
            SetRequest::Remove { name, user } => self.remove(&name, user).map(Value::from),
            // Answered elsewhere, when other members have answered.
            SetRequest::Drift(_) | SetRequest::DriftOverview => {
                Err("this question takes a while, and was not passed on".to_owned())
            }
            SetRequest::RestoreKeys => Ok(self.restore_keys().into()),
            SetRequest::AdoptKeys => Ok(self.adopt_keys().into()),
        }
    }

    fn may(&self, right: Right) -> bool {
        self.members.may(self.model.node(), right)
    }

    /// Decides by the files of keys that somebody has just changed, as the report of the kernel would have it done a moment later.
    /// Returns the ids of which nothing could be stored, each with the reason.
    fn confirm(&mut self, ids: &[MinionId], deleted: bool) -> Map {
        if !self.may(Right::Keys) {
            // Its files are written again as the others decided.
            ids.iter().for_each(|id| self.changed_key(id));
            self.flush();
            for id in ids {
                let Some(key) = Key::new(id.as_str()) else { continue };
                if self.model.entry(Class::Keys, &key).present().is_some() {
                    self.vanished.forget(id);
                    self.write_entry(id);
                }
            }
            return ids.iter().map(|id| (id.as_str(), NO_DECISION)).collect();
        }
        for id in ids {
            self.not_stored.remove(id);
            self.changed_key(id);
            if deleted {
                self.deleted(id);
            }
        }
        self.flush();
        let refused = ids.iter().filter_map(|id| Some((id.as_str(), self.not_stored.get(id)?.1.as_str())));
        refused.collect()
    }

    /// Returns the names of the masters that a minion is connected to.
    fn who(&self, minion: &str) -> Vec<Value> {
        self.fleet.members_of(minion).into_iter().map(|node| self.members.called(node).into()).collect()
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
        self.note_lost(&[]);
        self.lost = LostKeys::default();
        let actions = self.model.local(Change::LossRestored, self.now());
        self.carry_out(actions);
        missing.len()
    }

    /// Makes deletions of what is lost. Returns how many.
    fn adopt_keys(&mut self) -> usize {
        self.look_at_keys();
        let gone = self.missing().len();
        self.note_lost(&[]);
        self.lost = LostKeys::default();
        let actions = self.model.local(Change::LossAdopted, self.now());
        self.carry_out(actions);
        gone
    }
}
