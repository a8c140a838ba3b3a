//! What the worker decides about what is kept: what is to be kept, what counts of what is there, and what takes its place.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crypto::MemberPublicKey;
use share::member::{Member, Right, Rights};
use share::{
    Change, Class, Content, Digest, Index as _, ItemHash, KeptRecord, KeptVerdict, Key, Node, Record, Records as _,
    State,
};
use tracing::{debug, info, warn};

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
                let news = self.take_kept(class, records);
                if news > 0 {
                    info!("JetStream keeps {news} decisions about {class} that this master does not know");
                }
                // The task may have ended.
                let _ = done.send(());
            }
            KeptWork::Compare(kept, done) => {
                self.compare_kept(&kept);
                let _ = done.send(());
            }
            KeptWork::Skipped(class, count) => {
                warn!("{}", skipped(class, count, self.members.knows_others(self.model.node())));
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
        // All is compared again when this master belongs to the set.
        if !self.belonging.may_keep() {
            return Vec::new();
        }
        let (now, knows_others) = (self.now(), self.members.knows_others(self.model.node()));
        let members = self.members.all();
        let mut replaced = Vec::new();
        for found in all {
            if found.is_unreadable() && !knows_others {
                // It may be this master whose secret or keys differ.
                continue;
            }
            if let Some(kept) = &found.unchecked
                && is_of_other_member(kept, self.model.node(), &members)
            {
                self.warn_of_other_proof(kept.writer);
                continue;
            }
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

    fn warn_of_other_proof(&mut self, writer: Node) {
        let called = self.members.called(writer);
        self.warn_of_member(&format!(
            "this master cannot check what the master {called} keeps in JetStream, and leaves it there: compare the cluster_secret of \
             both, or their keys"
        ));
    }

    /// Takes what counts of what is kept. Returns how many records say something else than those here, or are not here.
    fn take_kept(&mut self, class: Class, records: Vec<KeptRecord>) -> usize {
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
        let (news, left_out) = match class {
            Class::Members => {
                let (own, mut are_there) = (self.model.node(), self.fleet.linked());
                // A reinstalled master that keeps its name must still learn its old member record from KEEP.
                are_there.extend(self.members.knows_others(own).then_some(own));
                without_namesakes(news, &self.members.all(), &are_there)
            }
            _ => (news, Vec::new()),
        };
        if !left_out.is_empty() {
            debug!("JetStream keeps members whose names others have, and they are not taken: {}", left_out.join(", "));
        }
        if news.is_empty() {
            return 0;
        }
        let count = news.len();
        self.unwritten.expect_others(true);
        let actions = self.model.local(Change::Kept(news), self.now());
        self.carry_out(actions);
        self.renew_members();
        count
    }
}

/// Returns what is said of values that cannot be read. A master that knows no other member may be the one that is wrong.
fn skipped(class: Class, count: usize, knows_others: bool) -> String {
    let values = match count {
        1 => format!("1 value about {class} that JetStream keeps is damaged or was"),
        _ => format!("{count} values about {class} that JetStream keeps are damaged or were"),
    };
    let more = match knows_others {
        true => "",
        false => {
            ". No member has let this master in yet: its own cluster_secret or keys may differ from those of the set"
        }
    };
    format!("{values} not made by a master of this set{more}")
}

/// Returns whether another member than `own`, with the right, has signed a value whose code is wrong here. One of the two has a wrong
/// secret, and nobody knows which: whoever replaced the value could make it unreadable for all others.
fn is_of_other_member(kept: &KeptRecord, own: Node, members: &MembersByNode) -> bool {
    let right = Right::of_class(kept.record.class());
    kept.writer != own
        && members.get(&kept.writer).is_some_and(|(member, state)| {
            let is_signed = |key: MemberPublicKey| key.verify(&kept.signed, &kept.signature);
            *state == State::Accepted && member.rights().contains(right) && member.public_key().is_some_and(is_signed)
        })
}

/// Leaves out members that are not known here and have the name of one of these, which are there: a master that was refused for its
/// name may have been kept. Returns the others, and the names of those that were left out.
fn without_namesakes(
    news: Vec<KeptRecord>,
    known: &MembersByNode,
    are_there: &[Node],
) -> (Vec<KeptRecord>, Vec<String>) {
    let named = |kept: &KeptRecord| match &kept.record.content {
        Content::Decided(Class::Members, entry) => {
            let visible = entry.visible().filter(|visible| visible.state == State::Accepted)?;
            let member = Member::unpack(&visible.content).ok()?;
            (!known.contains_key(&member.node())).then_some(member.name)
        }
        _ => None,
    };
    let accepted = are_there.iter().filter_map(|node| known.get(node)).filter(|(_, state)| *state == State::Accepted);
    let taken: BTreeSet<&str> = accepted.map(|(member, _)| member.name.as_str()).collect();
    let (mut left, mut left_out) = (Vec::new(), Vec::new());
    for kept in news {
        match named(&kept).filter(|name| taken.contains(name.as_str())) {
            Some(name) => left_out.push(name),
            None => left.push(kept),
        }
    }
    (left, left_out)
}

/// Returns whether a member has lost a right that what it had kept needs.
fn has_lost_rights((member, state): &(Member, State), before: &(Member, State)) -> bool {
    let rights = |member: &Member, state: State| if state == State::Accepted { member.rights() } else { Rights::NONE };
    let (now, before) = (rights(member, *state), rights(&before.0, before.1));
    KEPT.into_iter().map(Right::of_class).any(|right| before.contains(right) && !now.contains(right))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use crypto::MemberKey;
    use share::member::Role;
    use share::{By, Entry, SignedDecision, Stamp, Wish};

    use super::*;

    #[test]
    fn what_cannot_be_read_is_counted_and_a_newcomer_may_be_the_wrong_one() {
        let one = skipped(Class::Members, 1, true);
        assert!(one.starts_with("1 value about members that JetStream keeps is damaged or was not"), "{one}");
        let two = skipped(Class::Keys, 2, false);
        assert!(two.starts_with("2 values about keys that JetStream keeps are damaged or were not"), "{two}");
        assert!(two.contains("its own cluster_secret") && !one.contains("cluster_secret"), "{two}");
    }

    #[test]
    fn a_value_with_a_wrong_code_is_left_alone_only_if_another_member_has_signed_it() {
        let (writer, own) = (named(3, "m3"), named(1, "m1"));
        let signed = Bytes::from_static(b"what was kept");
        let signature = MemberKey::from_random([3; 32]).unwrap().sign(&signed).unwrap();
        let kept = KeptRecord { writer: writer.node(), signed, signature, ..kept(&own, State::Accepted) };
        let among = |members: &[(&Member, State)]| -> MembersByNode {
            members.iter().map(|(member, state)| (member.node(), ((*member).clone(), *state))).collect()
        };
        let accepted = among(&[(&own, State::Accepted), (&writer, State::Accepted)]);
        assert!(is_of_other_member(&kept, own.node(), &accepted));
        assert!(!is_of_other_member(&kept, writer.node(), &accepted), "it may renew its own");
        assert!(!is_of_other_member(&kept, own.node(), &among(&[(&own, State::Accepted)])), "a stranger");
        let removed = among(&[(&own, State::Accepted), (&writer, State::Deleted)]);
        assert!(!is_of_other_member(&kept, own.node(), &removed));
        let reader = Member { role: Role::Reader, ..writer.clone() };
        assert!(!is_of_other_member(&kept, own.node(), &among(&[(&reader, State::Accepted)])), "it has not the right");
        let damaged = KeptRecord { signed: Bytes::from_static(b"something else"), ..kept };
        assert!(!is_of_other_member(&damaged, own.node(), &accepted));
    }

    fn named(number: u8, name: &str) -> Member {
        let key = MemberKey::from_random([number; 32]).unwrap().public();
        let (name, addresses) = (name.to_owned(), Vec::new());
        Member { name, key, addresses, role: Role::Master, may: Rights::ALL, slot: 1 }
    }

    fn kept(member: &Member, state: State) -> KeptRecord {
        let signer = MemberKey::from_random([9; 32]).unwrap();
        let (key, node) = (Key::of_node(member.node()), Node::of_key(&signer.public()));
        let wish = Wish { class: Class::Members, key: key.clone(), state, content: member.pack(), by: By::Auto };
        let stamp = Stamp { time: 1 << 40, node };
        let decision = SignedDecision::sign(Entry::default().decide(wish, stamp).unwrap(), &signer).unwrap();
        let record = Record::new(key, stamp, Content::Decided(Class::Members, Entry::new(vec![decision])));
        KeptRecord { record, writer: node, signed: Bytes::new(), signature: [0; 64], age: 0, at: 0 }
    }

    #[test]
    fn no_member_is_taken_that_has_the_name_of_another_one_that_is_there() {
        let (one, ghost, two) = (named(1, "salt1"), named(2, "salt1"), named(3, "salt2"));
        let left = |news: &[(&Member, State)], known: &[&Member], are_there: &[&Member]| {
            let news = news.iter().map(|(member, state)| kept(member, *state)).collect();
            let known = known.iter().map(|one| (one.node(), ((*one).clone(), State::Accepted))).collect();
            let are_there: Vec<Node> = are_there.iter().map(|one| one.node()).collect();
            let (left, left_out) = without_namesakes(news, &known, &are_there);
            (left.into_iter().filter_map(|kept| kept.record.key.node()).collect::<Vec<_>>(), left_out)
        };
        let ghosts = [(&ghost, State::Accepted), (&two, State::Accepted)];
        assert_eq!(left(&ghosts, &[&one], &[&one]), (vec![two.node()], vec!["salt1".to_owned()]));
        assert_eq!(left(&ghosts, &[&one], &[]).0.len(), 2, "the one with its name may be gone");
        assert_eq!(left(&ghosts, &[&one, &ghost], &[&one]).0.len(), 2, "it is known");
    }

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
