//! Presence: which minions are connected to which member.

use std::collections::{BTreeMap, BTreeSet};

use crypto::HashType;
use wire::MinionId;

use crate::message::{Here, HereChange};
use crate::{Digest, Node};

/// The most minions that are taken from another member.
const MAX_MINIONS: usize = 200_000;

/// The sum over the ids of a member's minions: equal for equal sets, whatever the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PresenceSum {
    /// How many there are.
    pub count: u64,
    /// The first 16 bytes of SHA-256 of each id, added up.
    pub sum: u128,
}

impl PresenceSum {
    /// Returns the digest by which members tell whether a copy is right.
    pub fn digest(self) -> Digest {
        Digest::of(&[&self.count.to_be_bytes(), &self.sum.to_be_bytes()])
    }
}

/// A list of connected minions that was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PresenceError {
    /// More than a member can have.
    #[error("more than {MAX_MINIONS} minions")]
    TooMany,
    /// An id that no minion can have. The error does not repeat it.
    #[error("an id that no minion can have")]
    InvalidId,
}

/// Minions with their sum.
#[derive(Clone, Debug, Default)]
struct Minions {
    ids: BTreeSet<String>,
    sum: PresenceSum,
}

impl Minions {
    fn insert(&mut self, id: String) {
        let digest = digest(&id);
        if self.ids.insert(id) {
            self.sum = PresenceSum { count: self.sum.count + 1, sum: self.sum.sum.wrapping_add(digest) };
        }
    }

    fn remove(&mut self, id: &str) {
        if self.ids.remove(id) {
            self.sum = PresenceSum { count: self.sum.count - 1, sum: self.sum.sum.wrapping_sub(digest(id)) };
        }
    }
}

fn digest(id: &str) -> u128 {
    let digest = HashType::Sha256.digest(id.as_bytes());
    digest.iter().take(16).fold(0, |sum, byte| sum << 8 | u128::from(*byte))
}

/// The presence that a member knows: its own minions, and those of each member that is linked.
#[derive(Clone, Debug)]
pub struct Presence {
    me: Node,
    /// The own minions as far as the others have been told.
    told: Minions,
    /// What has changed since: `true` for minions that came.
    changed: BTreeMap<String, bool>,
    others: BTreeMap<Node, Minions>,
}

impl Presence {
    /// Creates the presence of a member without minions or links.
    pub fn new(me: Node) -> Presence {
        Presence { me, told: Minions::default(), changed: BTreeMap::new(), others: BTreeMap::new() }
    }

    /// Returns the own node.
    pub fn me(&self) -> Node {
        self.me
    }

    /// Takes note that a minion is connected to this member.
    pub fn came(&mut self, id: &str) {
        self.change(id, true);
    }

    /// Takes note that a minion has no connection to this member any more.
    pub fn went(&mut self, id: &str) {
        self.change(id, false);
    }

    fn change(&mut self, id: &str, here: bool) {
        if self.told.ids.contains(id) == here {
            // It changed back before anybody was told.
            self.changed.remove(id);
        } else {
            self.changed.insert(id.into(), here);
        }
    }

    /// Returns what all members must be told: nothing, who came, who went, or both. Due 100 ms after the first change.
    pub fn take_changes(&mut self) -> Vec<Here> {
        let changed = std::mem::take(&mut self.changed).into_iter();
        let (came, went): (Vec<_>, Vec<_>) = changed.partition(|(_, here)| *here);
        came.iter().for_each(|(id, _)| self.told.insert(id.clone()));
        went.iter().for_each(|(id, _)| self.told.remove(id));
        let lists = [(HereChange::Came, came), (HereChange::Went, went)].into_iter();
        let list = |(change, ids): (HereChange, Vec<(String, bool)>)| Here {
            change,
            ids: ids.into_iter().map(|(id, _)| id).collect(),
        };
        lists.filter(|(_, ids)| !ids.is_empty()).map(list).collect()
    }

    /// Returns what a member must be told that has just linked or has a wrong copy. Later changes build on it.
    pub fn all(&self) -> Here {
        Here { change: HereChange::All, ids: self.told.ids.iter().cloned().collect() }
    }

    /// Returns the sum of what the others were told. Its digest is sent to them now and then.
    pub fn sum(&self) -> PresenceSum {
        self.told.sum
    }

    /// Takes what a linked member says. Changes before it has named all are passed over.
    pub fn hear(&mut self, from: Node, here: Here) -> Result<(), PresenceError> {
        // All or nothing: half of a list would leave a copy whose sum is never right.
        if here.ids.iter().any(|id| MinionId::new(id).is_err()) {
            return Err(PresenceError::InvalidId);
        }
        // Before the bound is checked, since the new list takes the place of the old one.
        if here.change == HereChange::All {
            self.others.insert(from, Minions::default());
        }
        let Some(minions) = self.others.get_mut(&from) else { return Ok(()) };
        if here.change == HereChange::Went {
            here.ids.iter().for_each(|id| minions.remove(id));
            return Ok(());
        }
        // What was named before stays, with a sum that is not that of the member, so it is asked for all again.
        if minions.ids.len() + here.ids.len() > MAX_MINIONS {
            return Err(PresenceError::TooMany);
        }
        here.ids.into_iter().for_each(|id| minions.insert(id));
        Ok(())
    }

    /// Returns whether the copy of a linked member is right, given the digest that it says. If not, it must be asked for all.
    pub fn agrees(&self, member: Node, digest: Digest) -> bool {
        self.others.get(&member).is_some_and(|minions| minions.sum.digest() == digest)
    }

    /// Takes note that a member is no longer linked: it has nobody. Returns the minions that it had.
    pub fn down(&mut self, member: Node) -> BTreeSet<String> {
        self.others.remove(&member).unwrap_or_default().ids
    }

    /// Returns whether a minion is connected to this member.
    pub fn is_here(&self, id: &str) -> bool {
        self.changed.get(id).copied().unwrap_or_else(|| self.told.ids.contains(id))
    }

    /// Returns the members that a minion is connected to, in order of their nodes.
    pub fn members_of(&self, id: &str) -> Vec<Node> {
        let others = self.others.iter().filter(|(_, minions)| minions.ids.contains(id)).map(|(node, _)| *node);
        let mut members: Vec<Node> = others.collect();
        if self.is_here(id) {
            members.push(self.me);
            members.sort_unstable();
        }
        members
    }

    /// Returns whether a minion is connected to another member.
    pub fn is_elsewhere(&self, id: &str) -> bool {
        self.others.values().any(|minions| minions.ids.contains(id))
    }

    /// Returns whether a minion is connected to a certain other member.
    pub fn is_at(&self, member: Node, id: &str) -> bool {
        self.others.get(&member).is_some_and(|minions| minions.ids.contains(id))
    }

    /// Returns the minions that are connected to any member.
    pub fn union(&self) -> BTreeSet<&str> {
        let own = self.told.ids.iter().filter(|id| self.is_here(id));
        let came = self.changed.iter().filter(|(_, here)| **here).map(|(id, _)| id);
        let others = self.others.values().flat_map(|minions| &minions.ids);
        own.chain(came).chain(others).map(String::as_str).collect()
    }

    /// Returns how many minions each linked member has.
    pub fn counts(&self) -> impl Iterator<Item = (Node, u64)> + '_ {
        self.others.iter().map(|(node, minions)| (*node, minions.sum.count))
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    const ONE: Node = Node([1; 8]);
    const TWO: Node = Node([2; 8]);

    fn here(change: HereChange, ids: &[&str]) -> Here {
        Here { change, ids: ids.iter().map(|id| (*id).to_owned()).collect() }
    }

    #[test]
    fn changes_are_told_once_and_those_that_changed_back_never() {
        let mut presence = Presence::new(ONE);
        presence.came("web1");
        presence.came("web2");
        presence.went("web2");
        assert!(presence.is_here("web1") && !presence.is_here("web2"));
        assert_eq!((presence.sum().count, presence.all()), (0, here(HereChange::All, &[])), "nobody was told yet");
        assert_eq!(presence.take_changes(), [here(HereChange::Came, &["web1"])]);
        assert_eq!(presence.take_changes(), []);
        presence.went("web1");
        presence.came("web3");
        assert!(!presence.is_here("web1"));
        assert_eq!(presence.union().into_iter().collect::<Vec<_>>(), ["web3"]);
        let both = [here(HereChange::Came, &["web3"]), here(HereChange::Went, &["web1"])];
        assert_eq!(presence.take_changes(), both);
    }

    #[test]
    fn a_member_that_is_down_has_nobody() {
        let mut presence = Presence::new(ONE);
        presence.came("db1");
        presence.hear(TWO, here(HereChange::All, &["web1", "db1"])).expect("valid");
        assert_eq!(presence.members_of("db1"), [ONE, TWO]);
        assert_eq!(presence.union().into_iter().collect::<Vec<_>>(), ["db1", "web1"]);
        assert_eq!(presence.counts().collect::<Vec<_>>(), [(TWO, 2)]);
        assert!(presence.is_elsewhere("web1") && presence.is_at(TWO, "web1") && !presence.is_at(ONE, "db1"));
        assert!(presence.down(TWO).contains("web1"));
        assert!(!presence.is_elsewhere("web1"));
        assert_eq!((presence.members_of("web1"), presence.members_of("db1")), (vec![], vec![ONE]));
        presence.hear(TWO, here(HereChange::Came, &["web9"])).expect("valid");
        assert_eq!(presence.members_of("web9"), [], "before it has named all, changes mean nothing");
        assert!(!presence.agrees(TWO, PresenceSum::default().digest()));
    }

    #[test]
    fn lists_that_no_member_can_have_are_refused() {
        let mut presence = Presence::new(ONE);
        assert_eq!(presence.hear(TWO, here(HereChange::All, &["../x"])), Err(PresenceError::InvalidId));
        let many = Here { change: HereChange::All, ids: vec!["web1".to_owned(); MAX_MINIONS + 1] };
        assert_eq!(presence.hear(TWO, many), Err(PresenceError::TooMany));
    }

    /// Changes are lost now and then; the sum shows it, and all are told again.
    #[test]
    fn a_sum_agrees_exactly_when_the_copy_is_right() {
        for seed in 0..100 {
            let mut random = StdRng::seed_from_u64(seed);
            let (mut source, mut copy) = (Presence::new(TWO), Presence::new(ONE));
            copy.hear(TWO, source.all()).expect("valid");
            for _ in 0..100 {
                let id = format!("web{}", random.random_range(0..20));
                if random.random() {
                    source.came(&id)
                } else {
                    source.went(&id)
                }
                if random.random_ratio(1, 3) {
                    let arriving = source.take_changes().into_iter().filter(|_| random.random_ratio(9, 10));
                    arriving.for_each(|here| copy.hear(TWO, here).expect("valid"));
                }
                let right = copy.others[&TWO].ids == source.told.ids;
                assert_eq!(copy.agrees(TWO, source.sum().digest()), right, "seed {seed}");
                if !right && random.random_ratio(1, 5) {
                    copy.hear(TWO, source.all()).expect("valid");
                }
            }
        }
    }
}
