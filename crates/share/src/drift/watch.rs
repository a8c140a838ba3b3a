//! Decides when a difference is reported: it must last, for members do not change at the same moment.

use std::collections::{BTreeMap, BTreeSet};

use super::Kind;
use crate::message::NamedDigest;
use crate::{Digest, Moment, Node};

/// How long a difference lasts before it is reported, in milliseconds.
const PATIENCE: u64 = 60_000;

/// A difference between this member and another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberDifference {
    /// What differs.
    pub kind: Kind,
    /// The other member.
    pub node: Node,
    /// Since when, by the wall clock.
    pub since: u64,
    /// It was reported.
    pub reported: bool,
}

/// What somebody must hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriftReport {
    /// These members differ from this one.
    Differs {
        /// In what.
        kind: Kind,
        /// Which ones.
        members: Vec<Node>,
        /// Since when the first of them does, by the wall clock.
        since: u64,
    },
    /// All members that are known are equal again.
    Over(Kind),
}

/// Compares the digests of this member with those of the others.
#[derive(Debug, Default)]
pub struct DriftWatch {
    own: BTreeMap<Kind, Digest>,
    heard: BTreeMap<Node, BTreeMap<Kind, Digest>>,
    since: BTreeMap<(Kind, Node), Moment>,
    reported: BTreeMap<Kind, BTreeSet<Node>>,
    /// How much longer than others a kind may differ.
    more_patience: BTreeMap<Kind, u64>,
}

impl DriftWatch {
    /// Sets by how much longer than others a kind may differ, in milliseconds: each member fetches repositories at its own times.
    pub fn allow(&mut self, kind: Kind, more: u64) {
        self.more_patience.insert(kind, more);
    }

    /// Takes a digest of this member. Returns whether it is another one than before.
    pub fn own(&mut self, kind: Kind, digest: Digest, now: Moment) -> bool {
        let changed = self.own.insert(kind, digest) != Some(digest);
        self.compare(now);
        changed
    }

    /// Returns all digests of this member, as the others are told.
    pub fn own_digests(&self) -> Vec<NamedDigest> {
        let digest = |(kind, digest): (&Kind, &Digest)| NamedDigest {
            kind: kind.name().to_owned(),
            name: String::new(),
            digest: *digest,
        };
        self.own.iter().map(digest).collect()
    }

    /// Takes the digests of another member: those that it does not name it has not made. Returns whether any is new.
    pub fn hear(&mut self, node: Node, digests: &[NamedDigest], now: Moment) -> bool {
        let known = digests.iter().filter(|one| one.name.is_empty());
        let known = known.filter_map(|one| Some((Kind::from_name(&one.kind)?, one.digest)));
        let known: BTreeMap<Kind, Digest> = known.collect();
        if known.is_empty() {
            // They are about something else.
            return false;
        }
        let changed = self.heard.insert(node, known.clone()).is_none_or(|before| before != known);
        self.compare(now);
        changed
    }

    /// Takes note that a member is away. What was reported stays: it did not become equal by that. What was not has to last once
    /// the member is back, which may have been stopped to change it.
    pub fn down(&mut self, node: Node) {
        self.heard.remove(&node);
        let reported = &self.reported;
        self.since.retain(|(kind, other), _| {
            *other != node || reported.get(kind).is_some_and(|members| members.contains(&node))
        });
    }

    /// Forgets all that are no members any more.
    pub fn retain(&mut self, is_member: impl Fn(Node) -> bool) {
        self.heard.retain(|node, _| is_member(*node));
        self.since.retain(|(_, node), _| is_member(*node));
    }

    fn compare(&mut self, now: Moment) {
        for (node, heard) in &self.heard {
            for kind in Kind::ALL {
                let differs = match (self.own.get(&kind), heard.get(&kind)) {
                    (Some(own), Some(other)) => own != other,
                    // One of them does not say.
                    _ => false,
                };
                match differs {
                    // The first moment stays, although the difference may have become another one: somebody has not finished.
                    true => drop(self.since.entry((kind, *node)).or_insert(now)),
                    false => drop(self.since.remove(&(kind, *node))),
                }
            }
        }
    }

    fn due(&self, kind: Kind, since: Moment) -> u64 {
        since.steady + PATIENCE + self.more_patience.get(&kind).copied().unwrap_or(0)
    }

    /// Returns what somebody must hear now.
    pub fn tick(&mut self, now: Moment) -> Vec<DriftReport> {
        let mut reports = Vec::new();
        for kind in Kind::ALL {
            let lasting: Vec<(Node, Moment)> =
                self.of_kind(kind).filter(|(_, since)| self.due(kind, *since) <= now.steady).collect();
            let members: BTreeSet<Node> = lasting.iter().map(|(node, _)| *node).collect();
            let before = self.reported.get(&kind);
            // Reported again when other members differ than before, not at each look.
            if before.map_or(members.is_empty(), |before| *before == members) {
                continue;
            }
            match lasting.iter().map(|(_, since)| since.wall).min() {
                Some(since) => {
                    reports.push(DriftReport::Differs { kind, members: members.iter().copied().collect(), since });
                    self.reported.insert(kind, members);
                }
                None => {
                    reports.push(DriftReport::Over(kind));
                    self.reported.remove(&kind);
                }
            }
        }
        reports
    }

    /// Returns when [`DriftWatch::tick`] has something to report, if nothing changes until then, by the steady clock.
    pub fn next(&self) -> Option<u64> {
        let waits = |(kind, node): &(Kind, Node)| !self.reported.get(kind).is_some_and(|told| told.contains(node));
        let waiting = self.since.iter().filter(|(which, _)| waits(which));
        waiting.map(|((kind, _), since)| self.due(*kind, *since)).min()
    }

    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = (Node, Moment)> {
        let (first, last) = ((kind, Node([0; 8])), (kind, Node([255; 8])));
        self.since.range(first..=last).map(|((_, node), since)| (*node, *since))
    }

    /// Returns all differences that are known now, reported or not.
    pub fn differences(&self) -> Vec<MemberDifference> {
        let is_reported = |kind: Kind, node: Node| self.reported.get(&kind).is_some_and(|told| told.contains(&node));
        let all = self.since.iter().map(|((kind, node), since)| MemberDifference {
            kind: *kind,
            node: *node,
            since: since.wall,
            reported: is_reported(*kind, *node),
        });
        all.collect()
    }

    /// Returns the members whose digests are known.
    pub fn heard(&self) -> BTreeSet<Node> {
        self.heard.keys().copied().collect()
    }

    /// Takes note that this member cannot make a digest. Returns whether it had one.
    pub fn unknown(&mut self, kind: Kind) -> bool {
        self.since.retain(|(which, _), _| *which != kind);
        self.own.remove(&kind).is_some()
    }

    /// Returns whether this member has made the digest of a kind.
    pub fn knows(&self, kind: Kind) -> bool {
        self.own.contains_key(&kind)
    }
}
