//! `saltern.settle` and `saltern.undo`: decisions of a person over all that masters decided about keys.

use bytes::Bytes;
use share::{By, Change, Class, Content, Entry, Index as _, Key, Node, Records as _, State};
use tracing::info;
use value::{Map, Value, map};
use wire::MinionId;

use super::super::keys as files;
use super::super::log::{about, word};
use super::super::worker::Worker;
use crate::set_requests::{DecisionFilter, Settlement};

/// How many keys are decided about in one step: each step waits for the disk.
const TOGETHER: usize = 256;

/// A key that would not be as a member decided any more.
struct Undone {
    id: MinionId,
    from: State,
    to: State,
    content: Bytes,
}

/// Returns the public keys that members decided about, each once.
pub(super) fn contents(entry: &Entry) -> Vec<&Bytes> {
    let mut all: Vec<&Bytes> = Vec::new();
    for decision in entry.decisions() {
        if !decision.content.is_empty() && !all.contains(&&decision.content) {
            all.push(&decision.content);
        }
    }
    all
}

/// Returns what is left of an entry without some decisions: the state and the key that count then. Nobody knows what was decided
/// before those, so without any other decision the key waits for one.
fn without(entry: &Entry, undone: impl Fn(&share::SignedDecision) -> bool) -> Option<(State, Bytes)> {
    let left = entry.decisions().iter().filter(|decision| !undone(decision)).cloned().collect();
    let left = Entry::new(left);
    let waits = || contents(entry).first().map(|content| (State::Pending, (*content).clone()));
    left.visible().map(|visible| (visible.state, visible.content.clone())).or_else(waits)
}

impl Worker {
    pub(super) fn settle(&mut self, settlement: &Settlement) -> Result<Map, String> {
        let Settlement { id, key, state, fingerprint, user } = settlement;
        let entry = self.model.entry(Class::Keys, key);
        let content = self.content(id, &entry, *state, fingerprint.as_deref())?;
        let by = By::User(user.clone());
        let change = Change::Key { id: key.clone(), state: *state, public_key: content, by };
        self.decide_over(vec![change]);
        let entry = self.model.entry(Class::Keys, key);
        match entry.visible().filter(|visible| visible.state == *state && entry.conflicts().is_empty()) {
            Some(visible) => {
                let mut shown = self.described(visible);
                shown.remove("class");
                Ok(shown)
            }
            None => Err(format!("the key of {id} could not be decided about: see the log of the master")),
        }
    }

    /// Returns the public key that is meant.
    fn content(&self, id: &MinionId, entry: &Entry, state: State, finger: Option<&str>) -> Result<Bytes, String> {
        let all = contents(entry);
        let finger_of = |content: &Bytes| self.finger(content).unwrap_or_default();
        let plain = |finger: &str| finger.trim().to_lowercase();
        let meant: Vec<&&Bytes> = match finger {
            Some(finger) => all.iter().filter(|content| finger_of(content) == plain(finger)).collect(),
            None => all.iter().collect(),
        };
        let content = match &meant[..] {
            [one] => (**one).clone(),
            [] if entry.decisions().is_empty() => {
                return Err(format!("nobody has decided about the key of {id}: use salt-key"));
            }
            [] => return Err(format!("no member knows such a key of {id}")),
            // All of them go.
            [first, ..] if state == State::Deleted => (**first).clone(),
            _ => {
                let fingers: Vec<String> = all.iter().map(|content| finger_of(content)).collect();
                return Err(format!(
                    "members know {} keys of {id}: add fingerprint= and one of {}",
                    all.len(),
                    fingers.join(", ")
                ));
            }
        };
        match state == State::Deleted || files::is_key(&content) {
            true => Ok(content),
            false => Err(format!("what members know of {id} is not a public key: it can only be deleted")),
        }
    }

    /// Makes decisions that the key files do not say yet, and writes the files.
    fn decide_over(&mut self, changes: Vec<Change>) {
        for some in changes.chunks(TOGETHER) {
            let keys: Vec<Key> = some.iter().filter_map(|change| about(change).cloned()).collect();
            let before = self.model.last_time();
            // The files have to follow, also after a crash.
            self.unwritten.expect_others(true);
            let actions = self.model.local(Change::Together(some.to_vec()), self.now());
            self.carry_out(actions);
            self.log_decided(&keys, before);
            let ids = keys.iter().filter_map(|key| MinionId::new(key.as_str()).ok());
            ids.for_each(|id| self.write_entry(&id));
        }
    }

    pub(super) fn undo(&mut self, filter: &DecisionFilter, user: Option<String>) -> Result<Map, String> {
        let by = self.nodes_called(filter.by.as_deref().unwrap_or_default())?;
        let undone = self.undone(filter, &by);
        let keys: Map = undone
            .iter()
            .map(|one| (one.id.as_str(), map! { "is" => word(one.from), "becomes" => word(one.to) }))
            .collect();
        let members = self.members_decided(filter, &by);
        let mut shown = map! { "keys" => keys };
        if !members.is_empty() {
            // Whoever was removed never comes back, so nothing here is done without a name.
            shown.insert("members_left_as_they_are", members);
        }
        let Some(user) = user else {
            let next = match undone.is_empty() {
                true => "nothing to undo: no such decision counts for a key, or without it the key would be as it is",
                false => "nothing is changed yet: add yes=True to do it",
            };
            shown.insert("next", next);
            return Ok(shown);
        };
        info!("{user} undoes {} decisions of {}", undone.len(), filter.by.as_deref().unwrap_or_default());
        let change = |one: Undone| {
            let id = Key::new(one.id.as_str())?;
            Some(Change::Key { id, state: one.to, public_key: one.content, by: By::User(user.clone()) })
        };
        let changes: Vec<Change> = undone.into_iter().filter_map(change).collect();
        shown.insert("changed", changes.len());
        self.decide_over(changes);
        Ok(shown)
    }

    /// Returns what would become of the keys that members decided about.
    fn undone(&self, filter: &DecisionFilter, by: &[Node]) -> Vec<Undone> {
        let keys = self.model.records().items(Class::Keys, 0..=u32::MAX).into_iter();
        let undone = keys.filter_map(|(key, _)| {
            let entry = self.model.entry(Class::Keys, &key);
            let visible = entry.visible()?;
            let includes = |one: &share::SignedDecision| filter.includes(one, Some(by));
            if filter.about.as_deref().is_some_and(|about| about != key.as_str())
                || !entry.decisions().iter().any(|one| includes(one))
            {
                return None;
            }
            let (to, content) = without(&entry, includes)?;
            let same = to == visible.state && content == visible.content;
            let known = to == State::Deleted || files::is_key(&content);
            let id = MinionId::new(key.as_str()).ok()?;
            (known && !same).then(|| Undone { id, from: visible.state, to, content })
        });
        undone.collect()
    }

    /// Returns what members decided about other members.
    fn members_decided(&self, filter: &DecisionFilter, by: &[Node]) -> Vec<Value> {
        let keys = self.model.records().items(Class::Members, 0..=u32::MAX).into_iter();
        let records = keys.filter_map(|(key, _)| self.model.records().get(Class::Members, &key));
        let mut found = Vec::new();
        for record in records {
            let Content::Decided(_, entry) = &record.content else { continue };
            let others = entry.decisions().iter().filter(|one| one.key.node() != Some(one.stamp.node));
            found.extend(others.filter(|one| filter.includes(one, Some(by))).map(|one| self.described(one).into()));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use crypto::MemberKey;
    use share::{Decision, Seen, SignedDecision, Stamp};
    use std::sync::Arc;

    use super::*;

    fn decided(member: u8, state: State, content: &'static str) -> Arc<SignedDecision> {
        let key = MemberKey::from_random([member; 32]).unwrap();
        let decision = Decision {
            class: Class::Keys,
            key: Key::new("web1").unwrap(),
            stamp: Stamp { time: u64::from(member), node: Node::of_key(&key.public()) },
            state,
            content: Bytes::from_static(content.as_bytes()),
            by: By::Files,
            replaces: Seen::default(),
            follows: Seen::default(),
        };
        SignedDecision::sign(decision, &key).unwrap()
    }

    #[test]
    fn without_a_decision_the_others_count_and_without_any_the_key_waits() {
        let node = |member| decided(member, State::Pending, "").stamp.node;
        let left = |all: Vec<Arc<SignedDecision>>, member| {
            without(&Entry::new(all), |one| one.stamp.node == node(member))
                .map(|(state, content)| (word(state), content))
        };
        let content = Bytes::from_static(b"key");
        let (accepted, deleted) = (decided(1, State::Accepted, "key"), decided(2, State::Deleted, "key"));
        assert_eq!(left(vec![accepted.clone(), deleted.clone()], 2), Some(("accepted", content.clone())));
        assert_eq!(left(vec![accepted.clone(), deleted.clone()], 1), Some(("deleted", content.clone())));
        assert_eq!(left(vec![deleted], 2), Some(("pending", content)));
        assert_eq!(left(vec![decided(2, State::Deleted, "")], 2), None, "nobody knows the key");
    }

    #[test]
    fn what_a_key_can_become_is_one_of_three() {
        let new = |id, state| Settlement::new(id, state, None, "root".into()).map(|new| new.state);
        assert_eq!(new("web1", "rejected"), Ok(State::Rejected));
        assert!(new("web1", "pending").is_err_and(|reason| reason.contains("accepted, rejected or deleted")));
        assert!(new("../web1", "deleted").is_err());
    }
}
