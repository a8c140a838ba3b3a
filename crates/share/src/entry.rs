//! Entries: everything that counts of what was decided about one key.
//!
//! Merging two copies of an entry keeps the decisions of both and drops those that another one replaces. The result does not
//! depend on who merges what first, so all copies become equal without anybody in charge.

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;

use crate::{By, Class, Decision, Digest, Key, Seen, SignedDecision, Stamp, State};

/// The decisions about one key that no other one replaces. Usually one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry(Vec<Arc<SignedDecision>>);

/// What a member wants to decide about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// [`Class::Keys`] or [`Class::Members`].
    pub class: Class,
    /// The minion id, or the node of the member.
    pub key: Key,
    /// The decided state.
    pub state: State,
    /// The public key of the minion, or what the set knows of the member.
    pub content: Bytes,
    /// Who or what decided.
    pub by: By,
}

impl Entry {
    /// The maximum number of decisions that stand beside each other. Honest members come nowhere near it: each replaces its own.
    pub const MAX_DECISIONS: usize = 64;

    /// Returns the entry of these decisions about one key.
    pub fn new(decisions: Vec<Arc<SignedDecision>>) -> Entry {
        let mut all = decisions;
        all.sort_by(|a, b| a.order(b));
        all.dedup();
        if all.len() > 1 {
            // Against all, not only those that stay, so that it does not matter in which order they are looked at.
            let kept: Vec<bool> = all.iter().map(|one| !all.iter().any(|other| other.covers(one))).collect();
            let mut kept = kept.into_iter();
            all.retain(|_| kept.next().unwrap_or(true));
        }
        if all.len() > Entry::MAX_DECISIONS {
            // What is obeyed first stays, so the bound can be used to make an entry stricter but not laxer.
            all.sort_by(|a, b| precedence(a, b));
            all.truncate(Entry::MAX_DECISIONS);
            all.sort_by(|a, b| a.order(b));
        }
        Entry(all)
    }

    /// Returns what two copies make together.
    pub fn merge(&self, other: &Entry) -> Entry {
        if self == other {
            return self.clone();
        }
        Entry::new(self.0.iter().chain(&other.0).cloned().collect())
    }

    /// Returns the decisions, in the order of their stamps.
    pub fn decisions(&self) -> &[Arc<SignedDecision>] {
        &self.0
    }

    /// Returns the decision that is obeyed.
    ///
    /// It is the first by precedence: the safest state, then a person's word, then the earlier stamp. A deletion gives way to
    /// what was decided by itself after it, such as a new registration.
    pub fn visible(&self) -> Option<&SignedDecision> {
        let first = self.0.iter().min_by(|a, b| precedence(a, b))?;
        if first.state == State::Deleted {
            let deletions = || self.0.iter().filter(|decision| decision.state == State::Deleted);
            let follows = |one: &&Arc<SignedDecision>| {
                // It must follow all deletions: a registration that saw one of two says nothing against the other.
                one.state != State::Deleted && deletions().all(|deletion| one.follows.contains(deletion.stamp))
            };
            if let Some(following) = self.0.iter().filter(follows).min_by(|a, b| precedence(a, b)) {
                return Some(following);
            }
        }
        Some(first)
    }

    /// Returns the state and the content that are obeyed; `None` if nothing is known or the key is deleted.
    pub fn present(&self) -> Option<(State, &Bytes)> {
        let visible = self.visible().filter(|visible| visible.state != State::Deleted)?;
        Some((visible.state, &visible.content))
    }

    /// Returns the decisions that somebody has to look at: they contradict the one that is obeyed, and neither replaces the other.
    pub fn conflicts(&self) -> Vec<&SignedDecision> {
        let Some(visible) = self.visible() else { return Vec::new() };
        let contradicts = |one: &&SignedDecision| {
            let same_key = one.content == visible.content;
            // A minion that registers at a master which does not know it says nothing about what others decided.
            let registration = one.state == State::Pending && !one.by.is_person() && same_key;
            let followed = one.state == State::Deleted && visible.follows.contains(one.stamp);
            let removed = one.is_removal() && visible.is_removal();
            !registration && !followed && !removed && (one.state != visible.state || !same_key)
        };
        self.0.iter().map(|one| &**one).filter(contradicts).collect()
    }

    /// Returns the key that stands beside the one that is obeyed and becomes the denied key of the id.
    pub fn denied(&self) -> Option<&Bytes> {
        let (_, content) = self.present()?;
        // Salt has one denied key for each id, so one is chosen, and the same on all masters.
        let others = self.0.iter().filter(|one| one.state != State::Deleted && one.content != *content);
        others.min_by(|a, b| precedence(a, b)).map(|one| &one.content)
    }

    /// Returns whether all that is left says that the key is deleted.
    pub fn is_tombstone(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|decision| decision.state == State::Deleted)
    }

    /// Returns whether nothing is left of what was decided.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns from which time on nothing counts that the member decides whom this entry is about.
    pub fn removed_at(&self) -> Option<u64> {
        self.0.iter().filter(|decision| decision.is_removal()).map(|removal| removal.stamp.time).min()
    }

    /// Returns the latest time in the entry.
    pub fn latest(&self) -> u64 {
        self.0.iter().map(|decision| decision.stamp.time).max().unwrap_or(0)
    }

    /// Returns the decision that fulfils a wish; `None` if it would change nothing.
    pub fn decide(&self, wish: Wish, stamp: Stamp) -> Option<Decision> {
        if self.is_idle(&wish) {
            return None;
        }
        let (mut replaces, mut follows) = (Seen::default(), Seen::default());
        for decision in &self.0 {
            replaces.add(decision.stamp);
            // What those replaced as well: a member that missed them in between must not see the oldest come back.
            replaces.extend(&decision.replaces);
        }
        let mut beside = Seen::default();
        self.0.iter().for_each(|decision| beside.add(decision.stamp));
        replaces.limit(&beside);
        // A minion registers again within seconds after its deletion. Only a person may take a deletion back, and somebody has to
        // look at what people decided beside it.
        if !wish.by.is_person() {
            let is_deletion = |decision: &&Arc<SignedDecision>| decision.state == State::Deleted;
            for deletion in self.0.iter().filter(is_deletion) {
                replaces.cut(deletion.stamp);
                follows.add(deletion.stamp);
            }
            if wish.class == Class::Keys && self.0.iter().any(|decision| is_deletion(&decision)) {
                self.0.iter().filter(|decision| decision.by.is_person()).for_each(|one| replaces.cut(one.stamp));
            }
        }
        let Wish { class, key, state, content, by } = wish;
        Some(Decision { class, key, stamp, state, content, by, replaces, follows })
    }

    /// Returns whether a wish says what is so already.
    fn is_idle(&self, wish: &Wish) -> bool {
        let Some(visible) = self.visible() else { return wish.state == State::Deleted };
        let same = visible.state == wish.state && visible.content == wish.content;
        let gone = visible.state == State::Deleted && wish.state == State::Deleted;
        match wish.by.is_person() {
            // A person who says it once more settles what else stands there.
            true if wish.class == Class::Members && gone => self.is_tombstone(),
            true => (same || gone) && self.0.len() == 1,
            false => same || gone || (wish.state == State::Pending && visible.state != State::Deleted),
        }
    }

    /// Returns the digest, which is equal exactly when two entries are.
    pub fn digest(&self) -> Digest {
        let pieces: Vec<&[u8]> =
            self.0.iter().flat_map(|decision| [&decision.packed()[..], &decision.signature()[..]]).collect();
        Digest::of(&pieces)
    }
}

fn precedence(a: &SignedDecision, b: &SignedDecision) -> Ordering {
    a.precedence(b).then_with(|| a.order(b))
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;
