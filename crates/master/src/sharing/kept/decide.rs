//! What the worker decides about what is kept: what is to be kept, what counts of what is there, and what takes its place.

use std::collections::{BTreeMap, HashMap};

use share::member::{Member, Right, Rights};
use share::{
    Change, Class, Content, Digest, Index as _, ItemHash, KeptRecord, KeptVerdict, Key, Node, Record, Records as _,
    State,
};
use tracing::{debug, info};

use super::super::worker::Worker;
use super::seal::packed;
use super::{Found, KEPT, KeptWork, Noted, Replacement};

/// The members as they are known, and what was decided about each.
type MembersByNode = BTreeMap<Node, (Member, State)>;

impl Worker {
    /// Takes note of a decision that this member may have made.
    pub(in crate::sharing) fn note_unkept(&self, record: &Record) {
        let Some(unkept) = &self.unkept else { return };
        let (own, class) = (self.model.node(), record.class());
        // Who decided keeps it. What the others miss by that they find when they start.
        if let Content::Decided(_, entry) = &record.content
            && KEPT.contains(&class)
            && entry.decisions().iter().any(|decision| decision.stamp.node == own)
        {
            unkept.note(class, &record.key);
        }
    }

    /// Takes note of what may have been decided here about members, which were others `before`.
    pub(in crate::sharing) fn note_unkept_members(&self, before: &MembersByNode, now: &MembersByNode) {
        let Some(unkept) = &self.unkept else { return };
        for (node, member) in now.iter().filter(|(node, member)| before.get(node) != Some(member)) {
            let key = Key::of_node(*node);
            let Some(record) = self.model.records().get(Class::Members, &key) else { continue };
            self.note_unkept(&record);
            let is_own = |content: &Content| match content {
                Content::Decided(_, entry) => entry.visible().is_some_and(|one| one.stamp.node == self.model.node()),
                _ => false,
            };
            if is_own(&record.content) && before.get(node).is_some_and(|before| has_lost_rights(member, before)) {
                unkept.compare_again();
            }
        }
    }

    /// Takes note of what may have been decided here about the key of a minion.
    pub(in crate::sharing) fn note_unkept_key(&self, key: &Key) {
        if self.unkept.is_some()
            && let Some(record) = self.model.records().get(Class::Keys, key)
        {
            self.note_unkept(&record);
        }
    }

    /// Takes note that a deletion has expired, so that it does not come back from where it is kept.
    pub(in crate::sharing) fn note_forgotten(&self, id: &Key, digest: Digest) {
        if let Some(unkept) = &self.unkept {
            unkept.note_forgotten(Class::Keys, id, digest);
        }
    }

    /// Does what the task asks that keeps decisions.
    pub(in crate::sharing) fn work_kept(&mut self, work: KeptWork) {
        match work {
            KeptWork::Take(class, records, done) => {
                self.take_kept(class, records);
                // The task may have ended.
                let _ = done.send(());
            }
            KeptWork::Compare(kept, done) => {
                self.compare_kept(&kept);
                let _ = done.send(());
            }
            KeptWork::Settle(found, answer) => {
                let _ = answer.send(self.settle_kept(found));
            }
        }
    }

    /// Takes note of what is not kept, or only with the signature of a member by whose word it does not count.
    fn compare_kept(&self, kept: &HashMap<u128, Node>) {
        let Some(unkept) = &self.unkept else { return };
        for class in KEPT {
            let right = Right::of_class(class);
            for (key, digest) in self.model.records().items(class, 0..=u32::MAX) {
                let writer = kept.get(&ItemHash::of(class, &key, digest).0);
                if !writer.is_some_and(|writer| self.members.may(*writer, right)) {
                    unkept.note(class, &key);
                }
            }
        }
    }

    /// Takes what counts of what is there, and decides what takes its place.
    fn settle_kept(&mut self, all: Vec<Found>) -> Vec<(Found, Replacement)> {
        for class in KEPT {
            let there = all.iter().filter(|found| found.noted.class == class).filter_map(|found| found.kept.clone());
            self.take_kept(class, there.collect());
        }
        let now = self.now();
        let mut replaced = Vec::new();
        for found in all {
            let Noted { class, key, forgotten } = &found.noted;
            match self.model.kept_verdict(*class, key, found.kept.as_ref(), *forgotten, now) {
                KeptVerdict::Leave => {}
                KeptVerdict::Remove => replaced.push((found, Replacement::Nothing)),
                KeptVerdict::Replace { record, age, at } => match packed(record, age, at) {
                    Some(message) => replaced.push((found, Replacement::Value(message))),
                    None => debug!("what was decided about {class} {key} is too long to be kept in JetStream"),
                },
            }
        }
        replaced
    }

    fn take_kept(&mut self, class: Class, records: Vec<KeptRecord>) {
        let is_news = |kept: &KeptRecord| {
            let known = self.model.records().get(class, &kept.record.key);
            known.is_none_or(|known| known.digest != kept.record.digest)
        };
        let mut news: Vec<KeptRecord> = records.into_iter().filter(is_news).collect();
        let now = self.now();
        for expired in news.extract_if(.., |kept| self.model.is_kept_expired(kept, now)) {
            // It was kept while this master, or JetStream, was away when the others forgot it.
            if let Some(unkept) = &self.unkept {
                unkept.note(class, &expired.record.key);
            }
        }
        if news.is_empty() {
            return;
        }
        info!("JetStream keeps {} decisions about {class} that this master does not know", news.len());
        self.unwritten.expect_others(true);
        let actions = self.model.local(Change::Kept(news), self.now());
        self.carry_out(actions);
        self.renew_members();
    }
}

/// Returns whether a member has lost a right that what it had kept needs.
fn has_lost_rights((member, state): &(Member, State), before: &(Member, State)) -> bool {
    let rights = |member: &Member, state: State| if state == State::Accepted { member.rights() } else { Rights::NONE };
    let (now, before) = (rights(member, *state), rights(&before.0, before.1));
    KEPT.into_iter().map(Right::of_class).any(|right| before.contains(right) && !now.contains(right))
}

#[cfg(test)]
mod tests {
    use crypto::MemberKey;
    use share::member::Role;

    use super::*;

    #[test]
    fn who_is_demoted_or_removed_has_lost_rights() {
        let member = |may: Rights| Member {
            name: "m1".to_owned(),
            key: MemberKey::from_random([1; 32]).unwrap().public(),
            addresses: Vec::new(),
            role: Role::Master,
            may,
            slot: 1,
        };
        let before = (member(Rights::ALL), State::Accepted);
        assert!(!has_lost_rights(&before, &before));
        assert!(has_lost_rights(&(member(Rights::ALL), State::Deleted), &before));
        assert!(has_lost_rights(&(member(Rights::ALL.without(&[Right::Keys])), State::Accepted), &before));
        assert!(!has_lost_rights(&(member(Rights::ALL.without(&[Right::Jobs])), State::Accepted), &before));
        assert!(!has_lost_rights(&before, &(member(Rights::NONE), State::Accepted)));
    }
}
