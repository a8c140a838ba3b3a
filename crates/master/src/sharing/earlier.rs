//! Earlier selves of this host: it made a new member key several times before it met another master.
//!
//! Each member key enters itself into the set when the master starts. If the key is replaced before anybody has met it, as on a host
//! that is set up again or copied from an image, its entry would join the set with the host, and somebody would have to remove it.

use std::collections::BTreeSet;
use std::sync::Arc;

use share::{Class, Content, Entry, Key, Node, Record, RecordChange, Records, SignedDecision, Stamp, StoreFailed};
use store::share::ShareFile;
use tracing::info;

use crate::Error;

/// Forgets earlier selves of this host when its master starts, if no other master has met it.
///
/// # Errors
/// When the disk refuses it.
pub fn forget_unmet(records: &mut ShareFile, own: Node) -> Result<(), Error> {
    let last_time = records.last_time();
    let forgotten = forget(records, own, last_time).map_err(|error| Error::NotSharing(error.to_string()))?;
    if !forgotten.is_empty() {
        let names = forgotten.join(", ");
        info!("forgot earlier member keys of this host, which no other master has met: {names}");
    }
    Ok(())
}

/// Removes what earlier selves of this host have decided, if no other master ever knew of one of the members. Key files stay, and
/// are decided about by the present key. Returns the names of the earlier selves.
fn forget(records: &mut impl Records, own: Node, last_time: u64) -> Result<Vec<String>, StoreFailed> {
    let members = entries(records, Class::Members);
    let nodes: BTreeSet<Node> = members.iter().filter_map(|(record, _)| record.key.node()).collect();
    let met = members.iter().any(|(record, entry)| knows_others(entry, record.key.node(), &nodes));
    let earlier: BTreeSet<Node> = nodes.into_iter().filter(|node| *node != own).collect();
    if met || earlier.is_empty() {
        return Ok(Vec::new());
    }
    let names = members.iter().filter(|(record, _)| record.key.node() != Some(own)).map(|(_, entry)| name(entry));
    let names = names.collect();
    let keys = entries(records, Class::Keys);
    let changes =
        members.into_iter().chain(keys).filter_map(|(record, entry)| left(records, &record, &entry, &earlier));
    let changes = changes.collect();
    records.apply(changes, last_time)?;
    Ok(names)
}

fn entries(records: &impl Records, class: Class) -> Vec<(Record, Entry)> {
    let keys = records.items(class, 0..=u32::MAX).into_iter();
    let found = keys.filter_map(|(key, _)| {
        let record = records.get(class, &key)?;
        let Content::Decided(_, entry) = &record.content else { return None };
        let entry = entry.clone();
        Some((record, entry))
    });
    found.collect()
}

/// Returns whether anybody but the member itself has decided about it, now or before.
fn knows_others(entry: &Entry, member: Option<Node>, nodes: &BTreeSet<Node>) -> bool {
    let is_other = |node: &Node| Some(*node) != member;
    let saw = |decision: &SignedDecision, node: Node| decision.replaces.contains(Stamp { time: 0, node });
    entry
        .decisions()
        .iter()
        .any(|one| is_other(&one.stamp.node) || nodes.iter().filter(|node| is_other(node)).any(|node| saw(one, *node)))
}

fn name(entry: &Entry) -> String {
    let visible = entry.visible().and_then(|visible| share::member::Member::unpack(&visible.content).ok());
    visible.map(|member| member.name).unwrap_or_default()
}

/// Returns what makes a record one without the decisions of earlier selves; `None` if it has none.
fn left(records: &impl Records, record: &Record, entry: &Entry, earlier: &BTreeSet<Node>) -> Option<RecordChange> {
    let is_kept = |one: &&Arc<SignedDecision>| !earlier.contains(&one.stamp.node);
    let kept: Vec<Arc<SignedDecision>> = entry.decisions().iter().filter(is_kept).cloned().collect();
    if kept.len() == entry.decisions().len() {
        return None;
    }
    let (class, key): (Class, Key) = (record.class(), record.key.clone());
    if kept.is_empty() {
        return Some(RecordChange::Remove { class, key });
    }
    let arrived = records.arrived(class, &key).unwrap_or_default();
    let record = Record::new(key, record.stamp, Content::Decided(class, Entry::new(kept)));
    Some(RecordChange::Put { record, arrived })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use crypto::MemberKey;
    use share::member::{Member, Rights, Role};
    use share::{By, MemoryRecords, State, Wish};

    use super::*;

    fn node(number: u8) -> Node {
        Node::of_key(&MemberKey::from_random([number; 32]).unwrap().public())
    }

    /// Lets a member decide, as the model does.
    fn decide(records: &mut MemoryRecords, by: u8, class: Class, key: Key, content: Bytes) {
        let signer = MemberKey::from_random([by; 32]).unwrap();
        let before = match records.get(class, &key).map(|record| record.content) {
            Some(Content::Decided(_, entry)) => entry,
            _ => Entry::default(),
        };
        let time = before.latest() + 1;
        let wish = Wish { class, key: key.clone(), state: State::Accepted, content, by: By::Auto };
        let stamp = Stamp { time, node: node(by) };
        let decision = SignedDecision::sign(before.decide(wish, stamp).unwrap(), &signer).unwrap();
        let entry = before.merge(&Entry::new(vec![decision]));
        let record = Record::new(key, stamp, Content::Decided(class, entry));
        records.apply(vec![RecordChange::Put { record, arrived: 1 }], time).unwrap();
    }

    /// Lets a member accept one, which has an address so that accepting it again is news.
    fn accept(records: &mut MemoryRecords, by: u8, member: u8, address: &str) {
        let key = MemberKey::from_random([member; 32]).unwrap().public();
        let (name, addresses) = (format!("m{member}"), vec![address.to_owned()]);
        let content = Member { name, key, addresses, role: Role::Master, may: Rights::ALL, slot: 0 }.pack();
        decide(records, by, Class::Members, Key::of_node(node(member)), content);
    }

    fn count(records: &MemoryRecords, class: Class) -> usize {
        records.all(class).count()
    }

    #[test]
    fn earlier_selves_that_nobody_met_are_forgotten_with_their_decisions() {
        let mut records = MemoryRecords::default();
        for number in [1, 2, 3] {
            accept(&mut records, number, number, "10.0.0.1");
        }
        let key = |id| Key::new(id).unwrap();
        decide(&mut records, 1, Class::Keys, key("web1"), Bytes::from_static(b"key"));
        decide(&mut records, 3, Class::Keys, key("web2"), Bytes::from_static(b"key"));
        assert_eq!(forget(&mut records, node(3), 9).unwrap().len(), 2);
        assert!(records.get(Class::Members, &Key::of_node(node(3))).is_some());
        assert_eq!((count(&records, Class::Members), count(&records, Class::Keys)), (1, 1));
        assert!(records.get(Class::Keys, &key("web1")).is_none(), "its file is decided about once more");
        assert_eq!(forget(&mut records, node(3), 9), Ok(vec![]));
        // A host that starts with a new key has no entry yet.
        assert_eq!(forget(&mut records, node(4), 9), Ok(vec!["m3".to_owned()]));
        assert_eq!((count(&records, Class::Members), count(&records, Class::Keys)), (0, 0));
    }

    #[test]
    fn members_that_others_know_stay() {
        let mut records = MemoryRecords::default();
        accept(&mut records, 1, 1, "10.0.0.1");
        accept(&mut records, 2, 2, "10.0.0.2");
        accept(&mut records, 2, 1, "10.0.0.9");
        assert_eq!(forget(&mut records, node(3), 9), Ok(vec![]));
        // What the other one decided is replaced, and was there.
        accept(&mut records, 1, 1, "10.0.0.7");
        assert_eq!(forget(&mut records, node(3), 9), Ok(vec![]));
        assert_eq!(count(&records, Class::Members), 2);
    }
}
