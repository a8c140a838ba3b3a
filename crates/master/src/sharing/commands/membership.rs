//! `saltern.waiting`, `saltern.accept`, `saltern.remove`: taking masters into the set, and out of it.

use std::collections::BTreeMap;

use peers::credentials::KeyFingerprint;
use peers::status::WaitingMember;
use share::{By, Change, Class, Index as _, Node, State};
use tracing::info;
use value::{Map, Value, map};

use super::super::members;
use super::super::worker::Worker;
use crate::set_requests::times;

/// How many ids of keys an answer names.
const MOST_NAMED: usize = 20;

impl Worker {
    fn all_waiting(&self) -> Vec<WaitingMember> {
        self.links.as_ref().map(|links| links.waiting()).unwrap_or_default()
    }

    /// Returns the masters that could not prove that they belong to the set: of those with one name each.
    pub(super) fn waiting(&self) -> Map {
        let mut all = Map::new();
        for one in self.all_waiting() {
            let (name, fingerprint) = (&one.newcomer.name, one.newcomer.fingerprint());
            let shown = map! {
                "address" => one.address.map_or_else(|| "on the bus".to_owned(), |address| address.to_string()), "fingerprint" => fingerprint.as_str(),
                "since" => times::local_time_of(one.since), "version" => one.info.version.as_str(),
            };
            let key = match all.contains_key(name) {
                true => format!("{name} ({:?})", one.newcomer.node),
                false => name.clone(),
            };
            all.insert(key, shown);
        }
        all
    }

    pub(super) fn accept(
        &mut self,
        name: Option<&str>,
        fingerprint: Option<&str>,
        user: String,
    ) -> Result<Map, String> {
        let one = chosen(self.all_waiting(), name, fingerprint)?;
        let name = one.newcomer.name.clone();
        let taken = self.members.accepted(&name);
        if let Some(other) = taken.iter().find(|node| **node != one.newcomer.node) {
            return Err(format!(
                "the name {name:?} is in use by the member {other:?}: remove that one before, or give the new master another id"
            ));
        }
        let (member, now) = (self.with_slot(members::member(&one.newcomer)), self.now());
        let node = member.node();
        info!("{user} accepts the master {name} ({node:?})");
        let actions = self.model.local(Change::Member(member, State::Accepted, By::User(user)), now);
        self.carry_out(actions);
        self.renew_members();
        match self.members.all().get(&node) {
            Some((_, State::Accepted)) => Ok(map! {
                "accepted" => name.as_str(), "node" => format!("{node:?}"), "fingerprint" => one.newcomer.fingerprint(),
                "next" => format!("on {name}, unless it is done: salt-run saltern.accept {}", self.settings.name),
            }),
            _ => Err(format!("{name} could not be accepted: see the log of the master")),
        }
    }

    pub(super) fn remove(&mut self, name: &str, user: String) -> Result<Map, String> {
        let node = self.member_called(name)?;
        let called = self.members.called(node);
        if node == self.model.node() {
            return Err(format!("{called} is this master: remove it on another one"));
        }
        let Some((member, _)) = self.members.all().remove(&node) else {
            return Err(self.nobody_called(name));
        };
        // Nobody would hear of it, and this master would refuse the others once it is set up again.
        if self.belonging.is_removed() {
            return Err(format!(
                "this master was removed from the set, so it cannot remove {called}: `salt-run saltern.masters` says what to do"
            ));
        }
        let accepted = self.accepted_by(node);
        info!("{user} removes the master {called} from the set");
        let now = self.now();
        let actions = self.model.local(Change::Member(member, State::Deleted, By::User(user)), now);
        self.carry_out(actions);
        self.renew_members();
        if self.members.all().get(&node).is_none_or(|(_, state)| *state != State::Deleted) {
            return Err(format!("{called} could not be removed: see the log of the master"));
        }
        let proof = match self.settings.has_secret {
            true => "cluster_secret",
            false => "the master key (master.pem) and the signing key, or set a cluster_secret,",
        };
        let voters = self.voters_to_forget(node);
        let first: Vec<Value> = accepted.iter().take(MOST_NAMED).map(|id| id.as_str().into()).collect();
        let mut removed = map! {
            "removed" => called, "node" => format!("{node:?}"),
            "accepted_keys" => map! { "count" => accepted.len(), "first" => first },
            "next" => format!(
                "stop that master and take it out of 'master' of its minions, which obey it as long as it has a key pair that they \
                 know, and out of 'cluster_peers'. Change {proof} on all masters that are left: who has it comes back with a new \
                 member key. Look through the keys that the removed master accepted, if you do not trust it any more"
            ),
        };
        if let Some(voters) = voters {
            removed.insert("voters", voters);
        }
        Ok(removed)
    }

    /// Returns the error for a name that no member has, with the names that there are: often only the domain is missing.
    pub(super) fn nobody_called(&self, name: &str) -> String {
        let known = self.members.all();
        let present = known.iter().filter(|(_, (_, state))| *state == State::Accepted);
        let names = present.take(MOST_NAMED).map(|(node, _)| self.members.called(*node));
        format!("no member of the set is called {name:?}; the members are {}", listed(names))
    }

    /// Returns the member that is meant by a name or a node.
    fn member_called(&self, name: &str) -> Result<Node, String> {
        let (named, known) = (self.members.accepted(name), self.members.all());
        match &named[..] {
            [node] => Ok(*node),
            [] => {
                let removed = known.iter().any(|(node, (member, state))| {
                    *state == State::Deleted && (member.name == name || format!("{node:?}") == name)
                });
                Err(match removed {
                    true => format!("{name} is removed already"),
                    false => self.nobody_called(name),
                })
            }
            several => Err(format!(
                "{} members are called {name:?}: name one of the nodes {} (salt-run saltern.masters shows which is which)",
                several.len(),
                listed(several.iter().map(|node| format!("{node:?}")))
            )),
        }
    }

    /// Returns the ids whose key counts because a member accepted it.
    fn accepted_by(&self, node: Node) -> Vec<String> {
        let keys = self.model.records().items(Class::Keys, 0..=u32::MAX).into_iter();
        let accepted = keys.filter(|(key, _)| {
            let entry = self.model.entry(Class::Keys, key);
            entry.visible().is_some_and(|visible| visible.state == State::Accepted && visible.stamp.node == node)
        });
        accepted.map(|(key, _)| key.to_string()).collect()
    }
}

/// Returns the one that is meant by a name, a fingerprint or both.
fn chosen(waiting: Vec<WaitingMember>, name: Option<&str>, fingerprint: Option<&str>) -> Result<WaitingMember, String> {
    let read = |text: &str| text.parse::<KeyFingerprint>();
    // A fingerprint in place of the name is clear as well: no name is that long and has only hex digits.
    let (name, fingerprint) = match (name, fingerprint) {
        (Some(text), None) if read(text).is_ok() => (None, Some(text)),
        other => other,
    };
    let wanted = fingerprint.map(read).transpose().map_err(|error| error.to_string())?;
    let meant = |one: &WaitingMember| {
        name.is_none_or(|name| one.newcomer.name == name)
            && wanted.is_none_or(|wanted| KeyFingerprint::of(&one.newcomer.key) == wanted)
    };
    if name.is_none() && wanted.is_none() {
        return Err("a name or a fingerprint is needed: salt-run saltern.waiting shows them".to_owned());
    }
    let mut meant: BTreeMap<Node, WaitingMember> =
        waiting.into_iter().filter(meant).map(|one| (one.newcomer.node, one)).collect();
    match (meant.len(), meant.pop_first()) {
        (1, Some((_, one))) => Ok(one),
        (_, None) => Err("no such master waits: salt-run saltern.waiting shows those that do".to_owned()),
        (count, Some((_, first))) => {
            let name = &first.newcomer.name;
            let all = std::iter::once(&first).chain(meant.values()).map(|one| one.newcomer.fingerprint());
            Err(format!("{count} masters with the name {name:?} wait: add fingerprint= and one of {}", listed(all)))
        }
    }
}

fn listed(all: impl Iterator<Item = String>) -> String {
    all.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use peers::members::Newcomer;
    use peers::status::PeerInfo;
    use share::member::Role;

    use super::*;

    fn waiting(name: &str, key: u8) -> WaitingMember {
        let (name, role) = (name.to_owned(), Role::Master);
        let info = PeerInfo {
            name: name.clone(),
            version: String::new(),
            boot: 1,
            role,
            addresses: vec![],
            master_key: None,
            sign_key: None,
            report: None,
        };
        let newcomer = Newcomer { node: Node([key; 8]), name, key: [key; 32], addresses: vec![], role };
        WaitingMember { newcomer, info, address: Some([10, 0, 0, key].into()), since: UNIX_EPOCH }
    }

    #[test]
    fn a_master_is_chosen_by_its_name_unless_two_have_it() {
        let all = || vec![waiting("m2", 2), waiting("m2", 3), waiting("m4", 4)];
        let node = |name, fingerprint| chosen(all(), name, fingerprint).map(|one| one.newcomer.node);
        assert_eq!(node(Some("m4"), None), Ok(Node([4; 8])));
        let three = waiting("m2", 3).newcomer.fingerprint();
        let reason = node(Some("m2"), None).unwrap_err();
        assert!(reason.contains("2 masters") && reason.contains(&three), "{reason}");
        let bare = three.replace(':', "").to_uppercase();
        for (name, fingerprint) in [
            (Some("m2"), Some(&three[..])),
            (None, Some(&three[..])),
            (Some(&three[..]), None),
            (Some(&bare[..]), None),
        ] {
            assert_eq!(node(name, fingerprint), Ok(Node([3; 8])));
        }
        assert!(node(Some("m4"), Some(&three)).is_err(), "that is another one");
        assert!(node(Some("m4"), Some("00")).is_err_and(|reason| reason.contains("64 hex digits")));
        assert!(node(None, None).is_err());
    }
}
