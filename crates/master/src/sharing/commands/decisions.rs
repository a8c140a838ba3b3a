//! `saltern.decisions` and `saltern.conflicts`: what was decided, by whom and when.

use crypto::{HashType, pem_finger};
use share::{By, Class, Content, Entry, Index as _, Node, Records as _, SignedDecision, State};
use value::{Map, Value, map};

use super::super::log::word;
use super::super::worker::Worker;
use crate::set_requests::{DecisionFilter, times};

/// The maximum number of decisions in an answer.
const MOST_LISTED: usize = 10_000;

impl Worker {
    /// Returns the decisions that stand against each other, by minion, and how to settle them.
    pub(super) fn conflicts(&self) -> Map {
        let mut all = Map::new();
        for (key, _) in self.model.records().items(Class::Keys, 0..=u32::MAX) {
            let entry = self.model.entry(Class::Keys, &key);
            if entry.conflicts().is_empty() {
                continue;
            }
            let visible = entry.visible();
            let shown = entry.decisions().iter().map(|decision| {
                let mut shown = self.described(decision);
                shown.insert("obeyed", visible.is_some_and(|visible| visible == &**decision));
                Value::from(shown)
            });
            let shown = map! { "decisions" => shown.collect::<Vec<_>>(), "settle" => self.ways(key.as_str(), &entry) };
            all.insert(key.as_str(), shown);
        }
        all
    }

    /// Returns the commands by which a conflict can be settled: one for each outcome that some member filter.
    fn ways(&self, id: &str, entry: &Entry) -> Vec<Value> {
        let keys = super::settle_and_undo::contents(entry);
        let mut ways: Vec<String> = Vec::new();
        for decision in entry.decisions() {
            let finger = self.finger(&decision.content).filter(|_| keys.len() > 1);
            let way = match (decision.state, finger) {
                (State::Deleted, _) => format!("salt-run saltern.settle {id} deleted"),
                // Who only saw it waiting wanted nothing.
                (State::Pending, _) if entry.decisions().iter().any(|one| one.state == State::Accepted) => continue,
                (State::Rejected, finger) => settling(id, "rejected", finger),
                (State::Accepted | State::Pending, finger) => settling(id, "accepted", finger),
            };
            if !ways.contains(&way) {
                ways.push(way);
            }
        }
        ways.into_iter().map(Value::from).collect()
    }

    pub(super) fn decisions(&self, filter: &DecisionFilter) -> Result<Vec<Value>, String> {
        let by = filter.by.as_deref().map(|name| self.nodes_called(name)).transpose()?;
        let mut found = Vec::new();
        for class in [Class::Members, Class::Keys] {
            for (key, _) in self.model.records().items(class, 0..=u32::MAX) {
                if filter.about.as_deref().is_some_and(|about| !self.is_about(about, class, key.as_str())) {
                    continue;
                }
                let Some(record) = self.model.records().get(class, &key) else { continue };
                let Content::Decided(_, entry) = &record.content else { continue };
                let visible = entry.visible();
                let included = entry.decisions().iter().filter(|one| filter.includes(one, by.as_deref()));
                found.extend(included.map(|decision| {
                    let mut shown = self.described(decision);
                    let counts = |visible: &SignedDecision| {
                        visible.state == decision.state && visible.content == decision.content
                    };
                    if class == Class::Keys {
                        shown.insert("obeyed", visible.is_some_and(counts));
                    }
                    (decision.stamp, shown)
                }));
            }
        }
        found.sort_by_key(|(stamp, _)| *stamp);
        let older = found.len().saturating_sub(MOST_LISTED);
        Ok(found.into_iter().skip(older).map(|(_, shown)| shown.into()).collect())
    }

    /// Returns whether decisions about a key are about what somebody calls so: a minion, or a member by its name or node.
    fn is_about(&self, about: &str, class: Class, key: &str) -> bool {
        let named = |node: Node| self.members.is_called(node, about);
        about == key || class == Class::Members && share::Key::new(key).and_then(|key| key.node()).is_some_and(named)
    }

    pub(super) fn described(&self, decision: &SignedDecision) -> Map {
        let by = match &decision.by {
            By::User(user) => user.as_str(),
            By::Files => "files",
            By::Auto => "auto",
        };
        let key = match decision.key.node().filter(|_| decision.class == Class::Members) {
            Some(node) => self.members.called(node),
            None => decision.key.to_string(),
        };
        let mut shown = map! {
            "class" => decision.class.name(), "key" => key, "state" => word(decision.state),
            "master" => self.members.called(decision.stamp.node), "by" => by,
            "at" => times::local_time(decision.stamp.time >> 16),
        };
        if decision.class == Class::Keys
            && let Some(finger) = self.finger(&decision.content)
        {
            shown.insert("fingerprint", finger);
        }
        shown
    }

    /// Returns the fingerprint of a public key, as `salt-key -f` shows it.
    pub(in super::super) fn finger(&self, content: &[u8]) -> Option<String> {
        let kind: HashType = self.shared.stores.config.keys.hash_type.parse().ok()?;
        (!content.is_empty()).then(|| pem_finger(content, kind))
    }

    /// Returns the nodes that somebody calls so: by their name, also of members that were removed, or by the node itself.
    pub(super) fn nodes_called(&self, name: &str) -> Result<Vec<Node>, String> {
        let nodes: Vec<Node> =
            self.members.all().into_keys().filter(|node| self.members.is_called(*node, name)).collect();
        if nodes.is_empty() { Err(self.nobody_called(name)) } else { Ok(nodes) }
    }
}

fn settling(id: &str, state: &str, finger: Option<String>) -> String {
    let finger = finger.map_or_else(String::new, |finger| format!(" fingerprint={finger}"));
    format!("salt-run saltern.settle {id} {state}{finger}")
}
